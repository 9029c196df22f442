//! Sorted runs of counted contents in an unlinked temporary file, and their readers.

use super::table::Counted;
use crate::fingerprint::ScanFingerprint;
use rustix::io::{pread, pwrite};
use std::fs::File;
use std::io;
use std::path::Path;

/// The bytes of a content in a run: fingerprint, copies and length.
const RECORD_BYTES: usize = 16 + 8 + 4;

/// The bytes that are written at once: enough for a disk to be fast, and little beside any memory
/// limit.
const WRITE_BYTES: usize = 1 << 18;

/// The most and the fewest bytes that are read ahead in each run during a merge.
const MAX_READ_BYTES: usize = 1 << 18;
const MIN_READ_BYTES: usize = 1 << 12;

/// The range of a run in the file, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    start: u64,
    end: u64,
}

/// A temporary file without a name. It disappears when the process ends, even if the process is
/// killed.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: File,
    length_bytes: u64,
}

impl SpillFile {
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(directory)?, length_bytes: 0 })
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Appends a run of contents, which must be in ascending order.
    pub(super) fn append(&mut self, contents: impl Iterator<Item = Counted>) -> io::Result<Run> {
        let start = self.length_bytes;
        let mut buffer = Vec::with_capacity(WRITE_BYTES + RECORD_BYTES);
        let mut end = start;
        for content in contents {
            buffer.extend_from_slice(&content.fingerprint.to_bytes());
            buffer.extend_from_slice(&content.copies.to_le_bytes());
            buffer.extend_from_slice(&content.length_bytes.to_le_bytes());
            if buffer.len() >= WRITE_BYTES {
                end = self.write(&mut buffer, end)?;
            }
        }
        end = self.write(&mut buffer, end)?;
        self.length_bytes = end;
        Ok(Run { start, end })
    }

    fn write(&self, buffer: &mut Vec<u8>, mut at: u64) -> io::Result<u64> {
        let mut rest = buffer.as_slice();
        while !rest.is_empty() {
            let written = pwrite(&self.file, rest, at)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += written as u64;
            rest = rest.get(written..).unwrap_or_default();
        }
        buffer.clear();
        Ok(at)
    }

    /// Returns the bytes to read ahead in each of `runs`, so that all runs together stay within
    /// `memory_bytes`.
    pub(super) fn read_bytes(runs: usize, memory_bytes: u64) -> usize {
        let share = usize::try_from(memory_bytes).unwrap_or(usize::MAX) / runs.max(1);
        share.clamp(MIN_READ_BYTES, MAX_READ_BYTES)
    }

    pub(super) fn reader(&self, run: Run, read_bytes: usize) -> RunReader<'_> {
        let records = (read_bytes / RECORD_BYTES).max(1);
        RunReader {
            file: &self.file,
            run,
            buffer: Vec::new(),
            next: 0,
            read_bytes: records * RECORD_BYTES,
        }
    }
}

/// Reads a run from its start.
pub(super) struct RunReader<'file> {
    file: &'file File,
    run: Run,
    buffer: Vec<u8>,
    next: usize,
    read_bytes: usize,
}

impl RunReader<'_> {
    /// Returns the next content; `None` at the end of the run.
    pub(super) fn next(&mut self) -> io::Result<Option<Counted>> {
        if self.next >= self.buffer.len() && !self.fill()? {
            return Ok(None);
        }
        let record = self.buffer.get(self.next..).and_then(<[u8]>::first_chunk::<RECORD_BYTES>);
        let Some(record) = record else { return Err(self.cut_off()) };
        self.next += RECORD_BYTES;
        Ok(decode(record))
    }

    /// The temporary file has no name, so nobody but this process should have cut it.
    fn cut_off(&self) -> io::Error {
        let text = format!(
            "the temporary file ends at byte {}, before the end of a run at byte {}",
            self.run.start, self.run.end
        );
        io::Error::new(io::ErrorKind::UnexpectedEof, text)
    }

    fn fill(&mut self) -> io::Result<bool> {
        let wanted = (self.run.end - self.run.start).min(self.read_bytes as u64) as usize;
        self.buffer.resize(wanted, 0);
        self.next = 0;
        let mut filled = 0;
        while let Some(rest) = self.buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = pread(self.file, rest, self.run.start)?;
            if read == 0 {
                return Err(self.cut_off());
            }
            filled += read;
            self.run.start += read as u64;
        }
        Ok(wanted > 0)
    }
}

fn decode(record: &[u8; RECORD_BYTES]) -> Option<Counted> {
    let (fingerprint, rest) = record.split_first_chunk::<16>()?;
    let (copies, rest) = rest.split_first_chunk::<8>()?;
    Some(Counted {
        fingerprint: ScanFingerprint::from_bytes(*fingerprint),
        copies: u64::from_le_bytes(*copies),
        length_bytes: u32::from_le_bytes(*rest.first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_share_the_memory_for_reading_ahead_within_bounds() {
        let share = |runs, memory_bytes| SpillFile::read_bytes(runs, memory_bytes);
        assert_eq!(share(10, 1_000_000), 100_000);
        assert_eq!((share(1, 1 << 30), share(0, 1 << 30)), (MAX_READ_BYTES, MAX_READ_BYTES));
        assert_eq!((share(1000, 1000), share(5, 0)), (MIN_READ_BYTES, MIN_READ_BYTES));
    }
}
