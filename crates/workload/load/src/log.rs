//! The log of every operation of a run: a compact binary file, written by its own thread.
//!
//! All numbers are little-endian. A header of 32 bytes holds the magic `gemelog1`, the size of an
//! operation in bytes (u32), the number of processes (u32) and 16 zero bytes. Chunks follow. A
//! chunk holds the number of its records (u32), the process that made them (u32), the xxh3-64 of
//! the records (u64), and the records of 24 bytes each:
//!
//! | bytes | field |
//! |---|---|
//! | 0-7 | start of the operation, nanoseconds since the run began (u64) |
//! | 8-15 | number of the place, in units of an operation (u63); the top bit is 1 for a write |
//! | 16-19 | service time in nanoseconds, at most 2^32 - 1 (u32) |
//! | 20-23 | delay of the start after the due time, in nanoseconds; 0 in a closed loop (u32) |
//!
//! The records of a process are in order of completion. The last chunk has no records. A file
//! without this chunk was cut short.

use crate::operations::Kind;
use crossbeam_channel::{Receiver, Sender, bounded};
use gemelo_base::Classified;
use std::io::{self, Read, Write};
use thiserror::Error;
use twox_hash::XxHash3_64;

const MAGIC: &[u8; 8] = b"gemelog1";
const HEADER_BYTES: usize = 32;
const CHUNK_HEADER_BYTES: usize = 16;
const RECORD_BYTES: usize = 24;
/// Records that a process gathers before it sends them to the writer: 192 KiB.
const CHUNK_RECORDS: usize = 8192;
/// Chunks that were sent and not yet written. A process waits when there are more: it delays
/// operations rather than lose records.
const MAX_WAITING_CHUNKS: usize = 64;
const WRITE_BIT: u64 = 1 << 63;
/// Process number of the last chunk, which has no records.
const END_PROCESS: u32 = u32::MAX;

/// The sender of one process's records.
pub(crate) struct LogSender {
    process: u32,
    chunk: Vec<u8>,
    chunks: Sender<(u32, Vec<u8>)>,
}

impl LogSender {
    #[inline]
    pub(crate) fn record(
        &mut self,
        kind: Kind,
        block: u64,
        start_ns: u64,
        service_ns: u64,
        waited_ns: u64,
    ) {
        let short = |time_ns: u64| u32::try_from(time_ns).unwrap_or(u32::MAX).to_le_bytes();
        let target = if kind == Kind::Write { block | WRITE_BIT } else { block };
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&start_ns.to_le_bytes());
        record[8..16].copy_from_slice(&target.to_le_bytes());
        record[16..20].copy_from_slice(&short(service_ns));
        record[20..].copy_from_slice(&short(waited_ns));
        self.chunk.extend_from_slice(&record);
        if self.chunk.len() >= CHUNK_RECORDS * RECORD_BYTES {
            self.hand_over();
        }
    }

    /// Costs one allocation and one lock every 8192 operations.
    #[cold]
    fn hand_over(&mut self) {
        let full =
            std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_RECORDS * RECORD_BYTES));
        // The writer ends only after all senders are gone, so sending cannot fail.
        let _ = self.chunks.send((self.process, full));
    }
}

impl Drop for LogSender {
    fn drop(&mut self) {
        if !self.chunk.is_empty() {
            self.hand_over();
        }
    }
}

/// The receiver of all records, which writes them to a file.
pub(crate) struct LogWriter {
    chunks: Receiver<(u32, Vec<u8>)>,
    sender: Sender<(u32, Vec<u8>)>,
}

impl LogWriter {
    pub(crate) fn new() -> Self {
        let (sender, chunks) = bounded(MAX_WAITING_CHUNKS);
        Self { chunks, sender }
    }

    pub(crate) fn sender(&self, process: u32) -> LogSender {
        LogSender {
            process,
            chunk: Vec::with_capacity(CHUNK_RECORDS * RECORD_BYTES),
            chunks: self.sender.clone(),
        }
    }

    /// Writes chunks until the last sender is gone. After an error it still receives chunks, so
    /// that no process blocks.
    pub(crate) fn write(
        self,
        out: &mut dyn Write,
        block_bytes: usize,
        processes: u32,
    ) -> io::Result<()> {
        drop(self.sender);
        let mut outcome = write_header(out, block_bytes, processes);
        for (process, records) in self.chunks {
            if outcome.is_ok() {
                outcome = write_chunk(out, process, &records);
            }
        }
        outcome.and_then(|()| write_chunk(out, END_PROCESS, &[])).and_then(|()| out.flush())
    }
}

fn write_header(out: &mut dyn Write, block_bytes: usize, processes: u32) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&u32::try_from(block_bytes).unwrap_or(u32::MAX).to_le_bytes());
    header[12..16].copy_from_slice(&processes.to_le_bytes());
    out.write_all(&header)
}

fn write_chunk(out: &mut dyn Write, process: u32, records: &[u8]) -> io::Result<()> {
    let count = u32::try_from(records.len() / RECORD_BYTES).unwrap_or(u32::MAX);
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&process.to_le_bytes())?;
    out.write_all(&XxHash3_64::oneshot(records).to_le_bytes())?;
    out.write_all(records)
}

/// One operation of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord {
    /// Process that performed the operation.
    pub process: u32,
    /// `true` if the operation wrote, `false` if it read.
    pub is_write: bool,
    /// Block number in the process's place.
    pub block: u64,
    /// Start of the operation, since the run began.
    pub start_ns: u64,
    /// Time from the start of the operation to its completion.
    pub service_ns: u32,
    /// Delay of the start after the due time; 0 in a closed loop.
    pub waited_ns: u32,
}

/// The reason why a log cannot be read.
#[derive(Debug, Error, Classified)]
pub enum LogError {
    /// Reading the file failed.
    #[kind(source)]
    #[error("cannot read the log")]
    Read(#[from] io::Error),
    /// The file does not begin with the magic of a log.
    #[kind(BadInput)]
    #[error("not a log of operations: it does not begin with the header of one")]
    Magic,
    /// The last chunk is missing.
    #[kind(Damaged)]
    #[error(
        "the log ends after {chunks} chunks without its end mark: the file was cut short, and \
         later operations are missing"
    )]
    Cut {
        /// Complete chunks in the file.
        chunks: u64,
    },
    /// A chunk has too many records or a wrong checksum.
    #[kind(Damaged)]
    #[error("chunk {chunk} of the log is damaged: its checksum or its length is wrong")]
    Damaged {
        /// Number of the damaged chunk, counted from 0.
        chunk: u64,
    },
}

/// Calls `each` for every operation of a log. Returns the block size and the number of processes.
///
/// # Errors
/// Fails if the log cannot be read, is damaged or was cut short. `each` was called for the records
/// before that.
pub fn read_log(
    from: &mut dyn Read,
    mut each: impl FnMut(LogRecord),
) -> Result<(u32, u32), LogError> {
    let mut header = [0; HEADER_BYTES];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(LogError::Magic),
        read => read?,
    }
    if header[..8] != MAGIC[..] {
        return Err(LogError::Magic);
    }
    let mut chunk = 0;
    loop {
        let (process, records) = read_chunk(from, chunk)?;
        if process == END_PROCESS && records.is_empty() {
            break;
        }
        records.chunks_exact(RECORD_BYTES).for_each(|record| each(decode(process, record)));
        chunk += 1;
    }
    Ok((word(&header, 8), word(&header, 12)))
}

fn read_chunk(from: &mut dyn Read, chunk: u64) -> Result<(u32, Vec<u8>), LogError> {
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => LogError::Cut { chunks: chunk },
        _ => LogError::Read(error),
    };
    let mut header = [0; CHUNK_HEADER_BYTES];
    from.read_exact(&mut header).map_err(cut)?;
    let count = word(&header, 0) as usize;
    if count > CHUNK_RECORDS {
        return Err(LogError::Damaged { chunk });
    }
    let mut records = vec![0; count * RECORD_BYTES];
    from.read_exact(&mut records).map_err(cut)?;
    if XxHash3_64::oneshot(&records) != long(&header, 8) {
        return Err(LogError::Damaged { chunk });
    }
    Ok((word(&header, 4), records))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn decode(process: u32, record: &[u8]) -> LogRecord {
    let target = long(record, 8);
    LogRecord {
        process,
        is_write: target & WRITE_BIT != 0,
        block: target & !WRITE_BIT,
        start_ns: long(record, 0),
        service_ns: word(record, 16),
        waited_ns: word(record, 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(operations: u64) -> Vec<u8> {
        let writer = LogWriter::new();
        let mut sender = writer.sender(3);
        std::thread::scope(|scope| {
            let mut out = Vec::new();
            let written = scope.spawn(move || writer.write(&mut out, 4096, 4).map(|()| out));
            for n in 0..operations {
                let kind = if n % 3 == 0 { Kind::Write } else { Kind::Read };
                sender.record(kind, n, n * 10, n + (1 << 40), 7);
            }
            drop(sender);
            written.join().unwrap().unwrap()
        })
    }

    #[test]
    fn every_operation_is_read_back() {
        let bytes = log(20_000);
        let mut records = Vec::new();
        assert_eq!(
            read_log(&mut bytes.as_slice(), |record| records.push(record)).unwrap(),
            (4096, 4)
        );
        assert_eq!(records.len(), 20_000);
        let expected = LogRecord {
            process: 3,
            is_write: true,
            block: 12_345,
            start_ns: 123_450,
            service_ns: u32::MAX,
            waited_ns: 7,
        };
        assert_eq!(records[12_345], expected);
    }

    #[test]
    fn damage_is_found_wherever_it_is() {
        let bytes = log(100);
        assert!(matches!(read_log(&mut &b"x"[..], |_| ()), Err(LogError::Magic)));
        for place in (0..8).chain(HEADER_BYTES..bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            let mut processes = Vec::new();
            let outcome =
                read_log(&mut damaged.as_slice(), |record| processes.push(record.process));
            // The checksum of a chunk does not cover its process number.
            assert!(outcome.is_err() || processes != [3; 100], "byte {place}");
        }
        // The log may also be cut at the end of a chunk.
        for length in HEADER_BYTES..bytes.len() {
            let mut records = 0;
            let outcome = read_log(&mut &bytes[..length], |_| records += 1);
            assert!(matches!(outcome, Err(LogError::Cut { .. })), "{length}");
            assert!(records == 0 || length >= bytes.len() - CHUNK_HEADER_BYTES, "{length}");
        }
    }
}
