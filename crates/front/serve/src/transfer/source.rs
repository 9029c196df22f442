//! Imports a volume from a file, a device or an image, which any thread reads at any place, or from
//! a stream, in order.

use super::pieces::Pieces;
use super::{PIECE_BYTES, Tally, TransferError, Transferred, first_error, run_workers, runs};
use gemelo_base::{Monitor, StopFlag, Unit, read_exact_at};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use parking_lot::Mutex;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// The source of an import.
pub enum Source {
    /// A file or device, and its length in bytes. Its holes are skipped.
    File(File, u64),
    /// An image, which a program shows as a device. What reads as zeros is skipped.
    Image(Arc<dyn BlockDevice>),
    /// A stream, which is read to its end.
    Stream(Box<dyn Read + Send>),
}

/// The unread rest of a source.
enum Rest {
    File { file: Arc<File>, length: u64, next: u64, has_holes: bool },
    Image { image: Arc<dyn BlockDevice>, pieces: Pieces },
    Stream { stream: Box<dyn Read + Send>, next: u64 },
}

/// Where any thread reads a piece.
enum ReadFrom {
    File(Arc<File>),
    Image(Arc<dyn BlockDevice>),
}

impl ReadFrom {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => read_exact_at(file, buffer, offset),
            Self::Image(image) => {
                let operation = Operation::Read { offset, buffer };
                let mut batch = vec![Request { operation, outcome: Ok(()) }];
                image.execute(&mut batch);
                first_error(batch).map_or(Ok(()), |(_, error)| Err(io::Error::other(error)))
            }
        }
    }
}

/// A piece of the source.
struct SourcePiece {
    offset: u64,
    /// What to read; [`None`] if the bytes are in the buffer.
    to_read: Option<(ReadFrom, usize)>,
    /// Bytes since the end of the piece before, for progress.
    passed: u64,
}

impl Rest {
    /// Returns the next piece that is no hole.
    fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<SourcePiece>> {
        match self {
            Self::File { file, length, next, has_holes } => {
                let before = *next;
                let start =
                    if *has_holes { next_data(file, before, has_holes)? } else { Some(before) };
                let Some(start) = start.filter(|start| start < length) else {
                    check_length(file, *length)?;
                    *next = *length;
                    return Ok(None);
                };
                // Pieces begin at multiples of their length, and thus of every block size.
                let offset = (start / PIECE_BYTES as u64 * PIECE_BYTES as u64).max(before);
                let bytes = (*length - offset).min(PIECE_BYTES as u64);
                *next = offset + bytes;
                let to_read = Some((ReadFrom::File(Arc::clone(file)), bytes as usize));
                Ok(Some(SourcePiece { offset, to_read, passed: offset + bytes - before }))
            }
            Self::Image { image, pieces } => {
                let before = pieces.position();
                loop {
                    let next = pieces.next(&**image).map_err(|(_, e)| io::Error::other(e))?;
                    let Some(piece) = next else { return Ok(None) };
                    if !piece.is_hole {
                        let image = ReadFrom::Image(Arc::clone(image));
                        let to_read = Some((image, piece.length as usize));
                        let passed = pieces.position() - before;
                        return Ok(Some(SourcePiece { offset: piece.offset, to_read, passed }));
                    }
                }
            }
            Self::Stream { stream, next } => {
                buffer.clear();
                stream.take(PIECE_BYTES as u64).read_to_end(buffer)?;
                let offset = *next;
                let passed = buffer.len() as u64;
                *next += passed;
                Ok((passed > 0).then_some(SourcePiece { offset, to_read: None, passed }))
            }
        }
    }

    /// Returns the end of the last piece.
    const fn position(&self) -> u64 {
        match self {
            Self::File { next, .. } | Self::Stream { next, .. } => *next,
            Self::Image { pieces, .. } => pieces.position(),
        }
    }
}

/// Returns the next place that is no hole, and [`None`] if only a hole is left. Clears `has_holes`
/// if the file cannot tell.
fn next_data(file: &File, from: u64, has_holes: &mut bool) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => Ok(Some(start)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::NOTTY | Errno::OPNOTSUPP) => {
            *has_holes = false;
            Ok(Some(from))
        }
        Err(error) => Err(error.into()),
    }
}

/// Fails if a file has become shorter: its missing end is no hole.
fn check_length(file: &File, length: u64) -> io::Result<()> {
    let status = file.metadata()?;
    if status.is_file() && status.len() < length {
        let why = format!("the file has {} bytes now, and had {length}", status.len());
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    Ok(())
}

/// Copies a source to the beginning of a volume, which must read as zeros, and flushes. Each of
/// `devices` is the same volume and gets a thread.
///
/// # Errors
/// Fails if the source or the volume fails, or if the source is longer than the volume. The volume
/// keeps the bytes that were copied.
pub fn import(
    source: Source,
    devices: &[Arc<dyn BlockDevice>],
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Transferred, TransferError> {
    let (rest, total) = match source {
        Source::File(file, length) => {
            (Rest::File { file: Arc::new(file), length, next: 0, has_holes: true }, Some(length))
        }
        Source::Image(image) => {
            let size_bytes = image.geometry().size_bytes;
            (Rest::Image { image, pieces: Pieces::of(size_bytes) }, Some(size_bytes))
        }
        Source::Stream(stream) => (Rest::Stream { stream, next: 0 }, None),
    };
    monitor.begin("Importing", Unit::Bytes, total);
    let shared = SharedSource {
        rest: Mutex::new(rest),
        tally: Tally::default(),
        monitor,
        stop,
        failed: StopFlag::new(),
    };
    run_workers(devices, |device| shared.work(&**device).inspect_err(|_| shared.failed.raise()))?;
    if let Some(device) = devices.first() {
        let mut batch = vec![Request { operation: Operation::Flush, outcome: Ok(()) }];
        device.execute(&mut batch);
        if let Some((offset, source)) = first_error(batch) {
            return Err(TransferError::Volume { action: "flush", offset, source });
        }
    }
    shared.tally.reached(total.unwrap_or_else(|| shared.rest.lock().position()));
    monitor.finish();
    Ok(shared.tally.sum())
}

struct SharedSource<'a> {
    rest: Mutex<Rest>,
    tally: Tally,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    /// Raised when a thread has failed.
    failed: StopFlag,
}

impl SharedSource<'_> {
    fn work(&self, device: &dyn BlockDevice) -> Result<(), TransferError> {
        let mut buffer = Vec::with_capacity(PIECE_BYTES);
        let block_bytes = device.geometry().preferred_block_bytes as usize;
        loop {
            if self.stop.is_raised() || self.failed.is_raised() {
                return Err(TransferError::Interrupted);
            }
            let piece = {
                let mut rest = self.rest.lock();
                let offset = rest.position();
                let outside = |source| TransferError::Outside { action: "read", offset, source };
                rest.next(&mut buffer).map_err(outside)?
            };
            let Some(piece) = piece else { return Ok(()) };
            if let Some((from, bytes)) = &piece.to_read {
                buffer.resize(*bytes, 0);
                from.read(&mut buffer, piece.offset).map_err(|source| TransferError::Outside {
                    action: "read",
                    offset: piece.offset,
                    source,
                })?;
            }
            self.write(device, piece.offset, &buffer, block_bytes)?;
            self.monitor.advance(piece.passed);
        }
    }

    fn write(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        piece: &[u8],
        block_bytes: usize,
    ) -> Result<(), TransferError> {
        let size_bytes = device.geometry().size_bytes;
        if offset + piece.len() as u64 > size_bytes {
            return Err(TransferError::TooLong { size_bytes });
        }
        let mut batch: Vec<Request<'_>> = runs(piece, block_bytes)
            .map(|(at, data)| {
                let durability = Durability::Flushed;
                let operation = Operation::Write { offset: offset + at as u64, data, durability };
                Request { operation, outcome: Ok(()) }
            })
            .collect();
        let copied = runs(piece, block_bytes).map(|(_, data)| data.len() as u64).sum();
        device.execute(&mut batch);
        if let Some((offset, source)) = first_error(batch) {
            return Err(TransferError::Volume { action: "write", offset, source });
        }
        self.tally.copied(copied);
        Ok(())
    }
}
