//! The memory of all connections' buffers: one limit for a whole server, shared fairly.
//!
//! Every connection has a reserved share that it always gets. The rest is shared: a buffer may grow
//! as long as it is not larger than the memory that remains free for all others afterwards. One
//! greedy connection thus gets half of the shared memory, and two get a third each. A small buffer
//! can still grow when large ones cannot. A connection does not wait for memory: it executes its
//! request in pieces of the size that its buffer has.

use memmap2::MmapMut;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size in bytes of the buffer that every connection always has: some dozen small requests.
pub const RESERVED_BUFFER_BYTES: usize = 64 << 10;

/// Reserved share of a connection in bytes: one buffer for receiving and one for replies.
const RESERVED_CONNECTION_BYTES: usize = 2 * RESERVED_BUFFER_BYTES;

/// Usual limit of a server in bytes: a hundred connections with requests of 2 MiB each.
const USUAL_BYTES: usize = 256 << 20;

/// Usual number of connections with a reserved share.
const USUAL_CONNECTIONS: usize = 256;

/// A limit for the buffers of all connections of one or more servers. Clones share one limit.
#[derive(Debug, Clone)]
pub struct Memory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit_bytes: usize,
    /// The limit without the reserved shares.
    shared_bytes: usize,
    /// Bytes granted of the shared memory.
    granted_bytes: AtomicUsize,
    /// Bytes in use of the reserved shares.
    reserved_bytes: AtomicUsize,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(USUAL_BYTES, USUAL_CONNECTIONS)
    }
}

impl Memory {
    /// Makes a limit of `limit_bytes` bytes, with a reserved share for this number of connections.
    #[must_use]
    pub fn new(limit_bytes: usize, connections: usize) -> Self {
        let reserved = connections.saturating_mul(RESERVED_CONNECTION_BYTES);
        let shared_bytes = limit_bytes.saturating_sub(reserved);
        let (granted_bytes, reserved_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { inner: Arc::new(Inner { limit_bytes, shared_bytes, granted_bytes, reserved_bytes }) }
    }

    /// Returns the least limit in bytes for this number of connections. Half of it is reserved for
    /// them.
    #[must_use]
    pub const fn min_bytes(connections: usize) -> usize {
        connections.saturating_mul(2 * RESERVED_CONNECTION_BYTES)
    }

    /// Returns the usual limit in bytes for this number of connections.
    #[must_use]
    pub fn usual_bytes(connections: usize) -> usize {
        USUAL_BYTES.max(Self::min_bytes(connections))
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.inner.limit_bytes
    }

    /// Returns the number of bytes that connections use at present.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        let Inner { granted_bytes, reserved_bytes, .. } = &*self.inner;
        granted_bytes.load(Ordering::Relaxed) + reserved_bytes.load(Ordering::Relaxed)
    }

    /// Returns the count of a buffer of this size: the reserved shares, or the shared memory for a
    /// larger buffer.
    fn account(&self, share: Share, bytes: usize) -> &AtomicUsize {
        if share == Share::Granted || bytes > RESERVED_BUFFER_BYTES {
            &self.inner.granted_bytes
        } else {
            &self.inner.reserved_bytes
        }
    }

    /// Counts a buffer without asking for it: one of a reserved share, or a smaller one in place of
    /// a granted one.
    fn take(&self, share: Share, bytes: usize) {
        self.account(share, bytes).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Grants a buffer of this size if as much memory remains free.
    fn grant(&self, bytes: usize) -> bool {
        let granted = |used: usize| {
            let used = used.checked_add(bytes)?;
            let left = self.inner.shared_bytes.checked_sub(used)?;
            (bytes <= left).then_some(used)
        };
        self.inner.granted_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, granted).is_ok()
    }

    fn give_back(&self, share: Share, bytes: usize) {
        let before = self.account(share, bytes).fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "a buffer gives back what was counted for it");
    }
}

/// The memory that a buffer takes while it is small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// A part of the share that each connection always has.
    Reserved,
    /// A part of the shared memory, which was granted.
    Granted,
}

/// A buffer within a [`Memory`]. It is a memory mapping of its own: the system gets its pages back
/// as soon as it is dropped, and a page takes memory only from its first use on.
#[derive(Debug)]
pub struct Buffer {
    bytes: MmapMut,
    memory: Memory,
    share: Share,
}

impl Buffer {
    /// Makes a buffer of the reserved size.
    ///
    /// # Errors
    /// Fails if the system lacks memory.
    pub fn reserved(memory: &Memory) -> io::Result<Self> {
        let bytes = MmapMut::map_anon(RESERVED_BUFFER_BYTES)?;
        let share = Share::Reserved;
        memory.take(share, RESERVED_BUFFER_BYTES);
        Ok(Self { bytes, memory: memory.clone(), share })
    }

    /// Makes one more buffer of the same size, beside those of the reserved share, if it is
    /// granted.
    #[must_use]
    pub fn granted(memory: &Memory) -> Option<Self> {
        let bytes = MmapMut::map_anon(RESERVED_BUFFER_BYTES).ok()?;
        let is_granted = memory.grant(RESERVED_BUFFER_BYTES);
        is_granted.then(|| Self { bytes, memory: memory.clone(), share: Share::Granted })
    }

    /// Returns whether the buffer is larger than the reserved size.
    #[must_use]
    pub fn is_grown(&self) -> bool {
        self.bytes.len() > RESERVED_BUFFER_BYTES
    }

    /// Grows the buffer to this size, and keeps its first `kept` bytes. Returns `false` if that is
    /// not granted.
    pub fn grow(&mut self, bytes: usize, kept: usize) -> bool {
        if bytes <= self.bytes.len() {
            return true;
        }
        if !self.memory.grant(bytes) {
            return false;
        }
        let is_mapped = self.replace(bytes, kept);
        if !is_mapped {
            self.memory.give_back(self.share, bytes);
        }
        is_mapped
    }

    /// Shrinks to the reserved size, and keeps the first `kept` bytes. A buffer in which they would
    /// not fit stays as it is.
    pub fn shrink(&mut self, kept: usize) {
        if self.is_grown() && kept <= RESERVED_BUFFER_BYTES {
            self.memory.take(self.share, RESERVED_BUFFER_BYTES);
            if !self.replace(RESERVED_BUFFER_BYTES, kept) {
                self.memory.give_back(self.share, RESERVED_BUFFER_BYTES);
            }
        }
    }

    /// Replaces the mapping by a new one, whose memory was granted, and returns the memory of the
    /// old one.
    fn replace(&mut self, bytes: usize, kept: usize) -> bool {
        let Ok(mut fresh) = MmapMut::map_anon(bytes) else { return false };
        assert!(kept <= bytes && kept <= self.bytes.len(), "what is kept fits into both buffers");
        if let (Some(to), Some(from)) = (fresh.get_mut(..kept), self.bytes.get(..kept)) {
            to.copy_from_slice(from);
        }
        let old_bytes = self.bytes.len();
        self.bytes = fresh;
        self.memory.give_back(self.share, old_bytes);
        true
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.give_back(self.share, self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserved_share_is_always_there_and_more_is_shared_fairly() {
        let memory = Memory::new(16 << 20, 0);
        let mut greedy: Vec<Buffer> = (0..4).map(|_| Buffer::reserved(&memory).unwrap()).collect();
        let mut largest = Vec::new();
        for buffer in &mut greedy {
            while buffer.grow(buffer.len() * 2, 0) {}
            largest.push(buffer.len());
        }
        // Each buffer could double as long as it left the same amount to the others.
        assert_eq!(largest, [4 << 20, 4 << 20, 2 << 20, 2 << 20]);
        let mut modest = Buffer::reserved(&memory).unwrap();
        assert!(modest.grow(1 << 20, 0), "greedy ones leave something");
        assert!(memory.used_bytes() <= memory.limit_bytes());
        let reserved = Memory::new(16 << 20, 100);
        assert!(
            !Buffer::reserved(&reserved).unwrap().grow(2 << 20, 0),
            "the others' shares are not granted"
        );

        greedy.truncate(1);
        assert!(modest.grow(2 << 20, 0), "what is given back can be had");
        drop((greedy, modest));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_further_buffer_comes_out_of_the_shared_memory_at_each_size() {
        let memory = Memory::new(4 * RESERVED_BUFFER_BYTES, 1);
        let reserved = Buffer::reserved(&memory).unwrap();
        let further = Buffer::granted(&memory).unwrap();
        assert!(Buffer::granted(&memory).is_none(), "half of the shared memory stays free");
        assert_eq!(memory.used_bytes(), 2 * RESERVED_BUFFER_BYTES);
        drop((reserved, further));
        assert_eq!(memory.used_bytes(), 0);

        let memory = Memory::new(8 << 20, 0);
        let mut further = Buffer::granted(&memory).unwrap();
        assert!(further.grow(1 << 20, 0));
        further.shrink(0);
        assert_eq!(memory.inner.granted_bytes.load(Ordering::Relaxed), RESERVED_BUFFER_BYTES);
        drop(further);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn half_of_the_least_limit_is_shared() {
        for connections in [1, 7, 1000] {
            let least = Memory::min_bytes(connections);
            assert_eq!(Memory::new(least, connections).inner.shared_bytes, least / 2);
            assert_eq!(least / 2, connections * RESERVED_CONNECTION_BYTES);
        }
    }

    #[test]
    fn a_buffer_keeps_its_first_bytes_and_gives_back_what_it_has_grown_by() {
        let memory = Memory::new(8 << 20, 0);
        let mut buffer = Buffer::reserved(&memory).unwrap();
        buffer[..3].copy_from_slice(b"abc");
        assert!(buffer.grow(1 << 20, 3));
        assert_eq!(
            (&buffer[..3], buffer.len(), memory.used_bytes()),
            (&b"abc"[..], 1 << 20, 1 << 20)
        );
        buffer.shrink(RESERVED_BUFFER_BYTES + 1);
        assert!(buffer.is_grown(), "what is held does not fit");
        buffer.shrink(3);
        assert_eq!((&buffer[..3], memory.used_bytes()), (&b"abc"[..], RESERVED_BUFFER_BYTES));
        assert!(!buffer.grow(5 << 20, 0), "more than half of all is not granted");
    }
}
