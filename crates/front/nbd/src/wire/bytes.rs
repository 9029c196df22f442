//! Reads and writes the protocol's big-endian numbers. The only error is [`Truncated`].

/// The bytes end before the value does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message ends before its last field")]
pub struct Truncated;

/// Reads values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Truncated> {
        let (first, rest) = self.rest.split_at_checked(length).ok_or(Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// A message of fixed size under construction. Its fields are written in order and fill it exactly.
#[derive(Debug)]
pub(crate) struct Fixed<const N: usize> {
    bytes: [u8; N],
    filled: usize,
}

impl<const N: usize> Fixed<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], filled: 0 }
    }

    fn put(mut self, field: &[u8]) -> Self {
        if let Some(place) = self.bytes.get_mut(self.filled..self.filled + field.len()) {
            place.copy_from_slice(field);
        }
        self.filled += field.len();
        self
    }

    #[inline]
    pub(crate) fn u16(self, value: u16) -> Self {
        self.put(&value.to_be_bytes())
    }

    #[inline]
    pub(crate) fn u32(self, value: u32) -> Self {
        self.put(&value.to_be_bytes())
    }

    #[inline]
    pub(crate) fn u64(self, value: u64) -> Self {
        self.put(&value.to_be_bytes())
    }

    #[inline]
    pub(crate) fn finish(self) -> [u8; N] {
        debug_assert_eq!(self.filled, N, "a message's fields fill it");
        self.bytes
    }
}
