//! Writing a stream.

use super::bytes::put_varint;
use super::compressed::CompressedFrame;
use super::record::{Position, Record, Sums, put_plain};
use super::{
    ASK, COMPRESSED, END, FULL_COMPRESSED_BYTES, FULL_PAYLOAD_BYTES, GIVEN_UP, Head, MAGIC,
    RECORDS, Running, VERSION,
};
use crate::exchange::Asked;
use std::io::{self, Write};
use std::ops::Range;

/// Writes a stream, frame by frame.
pub struct StreamWriter<'w> {
    out: &'w mut dyn Write,
    running: Running,
    payload: Vec<u8>,
    at: Position,
    /// The block after the last one that was asked for.
    asked_next: u64,
    /// A frame is written once its payload is this long.
    full_bytes: usize,
    sums: Sums,
}

impl<'w> StreamWriter<'w> {
    /// Writes the head of a stream.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn begin(out: &'w mut dyn Write, head: &Head) -> io::Result<Self> {
        let at = Position { next: 0, block_bytes: head.block_bytes, blocks: head.blocks() };
        let (running, payload) = (Running::default(), Vec::with_capacity(2 * FULL_PAYLOAD_BYTES));
        let (asked_next, sums) = (0, Sums::default());
        // A compressed frame is written by the sender, who knows its earlier contents.
        let full_bytes = if head.has_compressed_frames { usize::MAX } else { FULL_PAYLOAD_BYTES };
        let mut stream = Self { out, running, payload, at, asked_next, full_bytes, sums };
        let description = head.encode();
        stream.write(MAGIC)?;
        stream.write(&VERSION.to_le_bytes())?;
        stream.write(&(description.len() as u32).to_le_bytes())?;
        stream.write(&description)?;
        stream.write_check()?;
        Ok(stream)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.running.add(bytes);
        self.out.write_all(bytes)
    }

    fn write_check(&mut self) -> io::Result<()> {
        self.write(&self.running.check())
    }

    fn write_frame(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        self.write(&[kind])?;
        self.write(&(payload.len() as u32).to_le_bytes())?;
        self.write(payload)?;
        self.write_check()
    }

    /// Adds a record. Records come in the order of their blocks. A list of plain contents has at
    /// most a MiB.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn add(&mut self, record: &Record<'_>) -> io::Result<()> {
        record.put(&mut self.at, &mut self.payload);
        self.sums.add(record, self.at.block_bytes);
        if self.payload.len() >= self.full_bytes { self.write_records() } else { Ok(()) }
    }

    /// Adds a record of contents as they are, of consecutive blocks from `first` on; at most a MiB.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn add_plain(&mut self, first: u64, contents: &[Vec<u8>]) -> io::Result<()> {
        let count = contents.len() as u64;
        self.at.go_to(first, &mut self.payload);
        put_plain(count, contents.iter().map(Vec::as_slice), &mut self.payload);
        self.at.pass(count);
        self.sums.contents += count;
        if self.payload.len() >= self.full_bytes { self.write_records() } else { Ok(()) }
    }

    /// Passes on what was written.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Asks for contents, in the order of their blocks, and passes on all that was written.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn ask(&mut self, asked: &[Asked]) -> io::Result<()> {
        let (mut payload, mut next) = (Vec::new(), self.asked_next);
        for Asked { block, fingerprint } in asked {
            assert!(*block >= next && *block < self.at.blocks, "questions are in order");
            put_varint(&mut payload, block - next);
            payload.extend_from_slice(&fingerprint.to_bytes());
            next = block + 1;
        }
        self.asked_next = next;
        self.write_frame(ASK, &payload)?;
        self.flush()
    }

    /// Notes blocks whose contents the receiver has.
    pub const fn note_known(&mut self, blocks: u64) {
        self.sums.known += blocks;
    }

    /// Returns whether the records should be compressed now: they are written no longer by
    /// themselves if the stream has compressed frames.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.payload.len() >= FULL_COMPRESSED_BYTES
    }

    /// Compresses the records so far as a frame. `earlier` are blocks of the earlier snapshot, in
    /// order, with their contents.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn write_compressed(
        &mut self,
        earlier: (Vec<Range<u64>>, &[u8]),
        level: u8,
    ) -> io::Result<()> {
        if self.payload.is_empty() {
            return Ok(());
        }
        let frame = CompressedFrame::of(&self.payload, earlier, level)?.encode();
        self.payload.clear();
        self.write_frame(COMPRESSED, &frame)
    }

    pub(super) fn write_records(&mut self) -> io::Result<()> {
        if self.payload.is_empty() {
            return Ok(());
        }
        let mut payload = std::mem::take(&mut self.payload);
        let written = self.write_frame(RECORDS, &payload);
        payload.clear();
        self.payload = payload;
        written
    }

    /// Writes the end of the stream. Returns the sums and the bytes of the stream.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn finish(mut self) -> io::Result<(Sums, u64)> {
        self.write_records()?;
        let mut payload = Vec::new();
        self.sums.put(&mut payload);
        payload.extend_from_slice(&self.running.hash());
        self.write_frame(END, &payload)?;
        self.out.flush()?;
        Ok((self.sums, self.running.bytes))
    }

    /// Writes the reason why the stream ends early, so that its reader can tell it.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn give_up(mut self, why: &str) -> io::Result<()> {
        self.write_frame(GIVEN_UP, why.as_bytes())?;
        self.out.flush()
    }
}
