//! The bytes that a client has sent and that were not done yet, cut into requests. A write's data stays where it was
//! received until the device has it.

use crate::wire::{LONGEST_PAYLOAD_BYTES, REQUEST_BYTES, RequestHeader, Truncated, WireError};
use std::ops::Range;

/// The usual size of the buffer: several times what a socket holds, so that one call receives everything, and enough for
/// the requests of usual clients (2 MiB of `qemu-img`). Memory that is never received into is never taken.
const USUAL_BYTES: usize = 5 << 20;

/// Below this room at its end, the buffer's rest moves to the front. It moves anyway if it is short, so that the same
/// few pages, which the processor's caches hold, are used over and over.
const LEAST_ROOM_BYTES: usize = 256 << 10;
const SHORT_REST_BYTES: usize = 64 << 10;

/// What comes next in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole request, and where in the buffer its data is.
    Request(RequestHeader, Range<usize>),
    /// More has to be received first.
    Incomplete,
    /// A write of more data than may be sent; its header only.
    TooLong(RequestHeader),
}

/// A buffer of received bytes.
#[derive(Debug)]
pub(crate) struct Intake {
    buffer: Vec<u8>,
    /// The bytes received and not taken out.
    held: Range<usize>,
    /// How many bytes the incomplete request at the front of them has, at least.
    wanted_bytes: usize,
}

impl Intake {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; USUAL_BYTES], held: 0..0, wanted_bytes: REQUEST_BYTES }
    }

    /// What is at the front. A request stays there until [`Intake::take`], and its data is in [`Intake::all`] until
    /// [`Intake::room`].
    pub(crate) fn peek(&mut self) -> Result<Next, WireError> {
        let rest = self.buffer.get(self.held.clone()).unwrap_or_default();
        let header = match RequestHeader::decode(rest) {
            Ok(header) => header,
            Err(WireError::Truncated(Truncated)) => {
                self.wanted_bytes = REQUEST_BYTES;
                return Ok(Next::Incomplete);
            }
            Err(error) => return Err(error),
        };
        let payload_bytes = header.payload_bytes();
        if payload_bytes > LONGEST_PAYLOAD_BYTES as usize {
            return Ok(Next::TooLong(header));
        }
        let whole_bytes = REQUEST_BYTES + payload_bytes;
        if rest.len() < whole_bytes {
            self.wanted_bytes = whole_bytes;
            return Ok(Next::Incomplete);
        }
        let payload = self.held.start + REQUEST_BYTES..self.held.start + whole_bytes;
        Ok(Next::Request(header, payload))
    }

    /// Takes everything before `end` out: a request whose data ends there.
    pub(crate) fn take(&mut self, end: usize) {
        self.held.start = end.clamp(self.held.start, self.held.end);
    }

    /// All bytes of the buffer, for the ranges of many requests.
    pub(crate) fn all(&self) -> &[u8] {
        &self.buffer
    }

    /// Drops up to so many bytes from the front of those held; tells how many.
    pub(crate) fn discard(&mut self, most: usize) -> usize {
        let dropped = self.held.len().min(most);
        self.held.start += dropped;
        dropped
    }

    /// Where to receive the next bytes: room for at least the rest of the incomplete request.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.held.len() <= SHORT_REST_BYTES
            || self.held.start + self.wanted_bytes > self.buffer.len()
            || self.buffer.len() - self.held.end < LEAST_ROOM_BYTES
        {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        if self.buffer.len() < self.wanted_bytes {
            self.buffer.resize(self.wanted_bytes, 0);
        } else if self.buffer.len() > USUAL_BYTES && self.held.is_empty() {
            // A long request made it grow, and is done.
            self.buffer = vec![0; USUAL_BYTES];
        }
        self.buffer.get_mut(self.held.end..).unwrap_or_default()
    }

    /// So many bytes were received into [`Intake::room`].
    pub(crate) fn received(&mut self, bytes: usize) {
        self.held.end = (self.held.end + bytes).min(self.buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Command;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn write(cookie: u64, length: u32) -> Vec<u8> {
        let header = RequestHeader { flags: 0, command: Command::WRITE, cookie, offset: 0, length };
        let mut bytes = header.encode().to_vec();
        bytes.resize(REQUEST_BYTES + length as usize, cookie as u8);
        bytes
    }

    fn receive(intake: &mut Intake, bytes: &[u8]) -> usize {
        let room = intake.room();
        let fits = room.len().min(bytes.len());
        room[..fits].copy_from_slice(&bytes[..fits]);
        intake.received(fits);
        fits
    }

    #[test]
    fn a_request_longer_than_the_buffer_makes_it_grow_and_shrink() {
        let mut intake = Intake::new();
        let sent = write(7, 8 << 20);
        let mut done = 0;
        while done < sent.len() {
            assert_eq!(intake.peek(), Ok(Next::Incomplete));
            done += receive(&mut intake, &sent[done..]);
        }
        let Ok(Next::Request(_, data)) = intake.peek() else { panic!("the request has arrived") };
        assert_eq!(data.len(), 8 << 20);
        intake.take(data.end);
        assert_eq!(intake.room().len(), USUAL_BYTES);
    }

    #[test]
    fn a_longer_write_than_allowed_is_told_apart() {
        let mut intake = Intake::new();
        let header = RequestHeader {
            flags: 0,
            command: Command::WRITE,
            cookie: 0,
            offset: 0,
            length: LONGEST_PAYLOAD_BYTES + 1,
        };
        receive(&mut intake, &header.encode());
        assert_eq!(intake.peek(), Ok(Next::TooLong(header)));
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        let mut intake = Intake::new();
        receive(&mut intake, &[0x55; 100]);
        assert!(matches!(intake.peek(), Err(WireError::Magic { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// However a stream is cut into pieces, the same requests with the same data come out.
        #[test]
        fn pieces_do_not_matter(lengths in vec(0u32..300_000, 1..30), pieces in vec(1usize..400_000, 1..20)) {
            let stream: Vec<u8> =
                lengths.iter().enumerate().flat_map(|(cookie, length)| write(cookie as u64, *length)).collect();
            let mut intake = Intake::new();
            let mut sent = 0;
            let mut found = 0;
            for piece in pieces.iter().cycle() {
                loop {
                    match intake.peek() {
                        Ok(Next::Request(header, data)) => {
                            prop_assert_eq!(header.cookie, found);
                            prop_assert_eq!(data.len(), lengths[found as usize] as usize);
                            prop_assert!(intake.all()[data.clone()].iter().all(|byte| *byte == found as u8));
                            intake.take(data.end);
                            found += 1;
                        }
                        Ok(Next::Incomplete) => break,
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                if sent == stream.len() {
                    break;
                }
                let end = stream.len().min(sent + piece);
                sent += receive(&mut intake, &stream[sent..end]);
            }
            prop_assert_eq!(found as usize, lengths.len());
            prop_assert!(intake.held.is_empty());
        }
    }
}
