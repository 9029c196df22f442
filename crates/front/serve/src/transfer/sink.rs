//! Exports a volume to a new file, which gets holes, to a device, which gets zeros, or to a stream.

use super::pieces::{DevicePiece, Pieces};
use super::salvage::{BadRanges, is_of_one_block};
use super::{PIECE_BYTES, Tally, TransferError, Transferred, first_error, run_workers, runs};
use gemelo_base::{Monitor, StopFlag, Unit, is_zero};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Size of the smallest hole that is made, in bytes: a page of most file systems.
const HOLE_BYTES: usize = 4096;

/// The destination of an export.
pub enum Sink {
    /// A new, empty file. Zeros become holes.
    NewFile(File),
    /// A device. Zeros are written, or made by the device.
    Device(File),
    /// A new image, which a program shows as a device that reads as zeros. Zeros are skipped.
    Image(Arc<dyn BlockDevice>),
    /// A stream. It receives all bytes in order.
    Stream(Box<dyn Write + Send>),
}

/// The consequence of a block that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadBlock {
    /// The export fails at the first bad block.
    Fail,
    /// The export has zeros in its place.
    Zeros,
}

/// Returns the length in bytes of an export of a volume of which this length was imported: all
/// of it if something was written behind that since.
pub fn exported_length(device: &dyn BlockDevice, length_bytes: u64, monitor: &dyn Monitor) -> u64 {
    let size_bytes = device.geometry().size_bytes;
    let padding = size_bytes.saturating_sub(length_bytes);
    if padding == 0 || padding > PIECE_BYTES as u64 {
        return size_bytes;
    }
    let mut buffer = vec![0; padding as usize];
    if read_at(device, length_bytes, &mut buffer).is_ok() && is_zero(&buffer) {
        return length_bytes;
    }
    monitor.warn(&format!(
        "{length_bytes} bytes were imported, and there is data behind them: all {size_bytes} are \
         exported"
    ));
    size_bytes
}

/// Copies the first `length_bytes` of a volume to `sink`. Each of `devices` is the same volume and
/// gets a thread; a stream gets one thread. Returns the bytes copied, and the ranges that could not
/// be read. There are none with [`OnBadBlock::Fail`].
///
/// # Errors
/// Fails if the sink or the volume fails. The sink keeps the bytes that were copied.
pub fn export(
    devices: &[Arc<dyn BlockDevice>],
    length_bytes: u64,
    mut sink: Sink,
    on_bad_block: OnBadBlock,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<(Transferred, BadRanges), TransferError> {
    let Some(first) = devices.first() else { return Ok(Default::default()) };
    let size_bytes = first.geometry().size_bytes.min(length_bytes);
    monitor.begin("Exporting", Unit::Bytes, Some(size_bytes));
    let outside = |offset| move |source| TransferError::Outside { action: "write", offset, source };
    let shared = SharedSink {
        pieces: Mutex::new(Pieces::of(size_bytes)),
        tally: Tally::default(),
        monitor,
        stop,
        failed: StopFlag::new(),
        on_bad_block,
        bad: Mutex::default(),
    };
    match &mut sink {
        Sink::NewFile(file) => {
            file.set_len(size_bytes).map_err(outside(size_bytes))?;
            run_workers(devices, |device| shared.to_file(&**device, file, false))?;
            file.sync_all().map_err(outside(size_bytes))?;
        }
        Sink::Device(file) => {
            run_workers(devices, |device| shared.to_file(&**device, file, true))?;
            file.sync_all().map_err(outside(size_bytes))?;
        }
        Sink::Image(image) => {
            let written = |device: &Arc<dyn BlockDevice>| shared.to_image(&**device, &**image);
            run_workers(devices, written)?;
            let flush = Request { operation: Operation::Flush, outcome: Ok(()) };
            execute_outside(&**image, vec![flush])?;
        }
        Sink::Stream(stream) => {
            shared.to_stream(&**first, stream)?;
            stream.flush().map_err(outside(size_bytes))?;
        }
    }
    shared.tally.reached(size_bytes);
    monitor.finish();
    Ok((shared.tally.sum(), shared.bad.into_inner().in_order()))
}

struct SharedSink<'a> {
    pieces: Mutex<Pieces>,
    tally: Tally,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    failed: StopFlag,
    on_bad_block: OnBadBlock,
    bad: Mutex<BadRanges>,
}

impl SharedSink<'_> {
    fn next(&self, device: &dyn BlockDevice) -> Result<Option<DevicePiece>, TransferError> {
        if self.stop.is_raised() || self.failed.is_raised() {
            return Err(TransferError::Interrupted);
        }
        self.pieces.lock().next(device).map_err(|(offset, source)| TransferError::Volume {
            action: "map",
            offset,
            source,
        })
    }

    /// Reads a piece into the buffer.
    fn read(
        &self,
        device: &dyn BlockDevice,
        piece: &DevicePiece,
        buffer: &mut Vec<u8>,
    ) -> Result<(), TransferError> {
        // Only holes are longer than `PIECE_BYTES`.
        buffer.resize(piece.length as usize, 0);
        if read_at(device, piece.offset, buffer).is_ok() {
            return Ok(());
        }
        // The error belongs to the whole piece. Reading block by block finds the bad blocks.
        let block_bytes = (device.geometry().preferred_block_bytes as usize).max(1);
        for (block, offset) in
            buffer.chunks_mut(block_bytes).zip((piece.offset..).step_by(block_bytes))
        {
            let Err(source) = read_at(device, offset, block) else { continue };
            if self.on_bad_block == OnBadBlock::Fail || !is_of_one_block(&source) {
                return Err(TransferError::Volume { action: "read", offset, source });
            }
            block.fill(0);
            self.bad.lock().add(offset, block.len() as u64, &source);
        }
        Ok(())
    }

    fn to_file(
        &self,
        device: &dyn BlockDevice,
        file: &File,
        zeroes: bool,
    ) -> Result<(), TransferError> {
        self.copy_to_file(device, file, zeroes).inspect_err(|_| self.failed.raise())
    }

    fn copy_to_file(
        &self,
        device: &dyn BlockDevice,
        file: &File,
        zeroes: bool,
    ) -> Result<(), TransferError> {
        let mut buffer = Vec::new();
        while let Some(piece) = self.next(device)? {
            let outside =
                |source| TransferError::Outside { action: "write", offset: piece.offset, source };
            if piece.is_hole {
                if zeroes {
                    zero(file, piece.offset, piece.length).map_err(outside)?;
                }
            } else {
                self.read(device, &piece, &mut buffer)?;
                if zeroes {
                    file.write_all_at(&buffer, piece.offset).map_err(outside)?;
                    self.tally.copied(piece.length);
                } else {
                    for (at, run) in runs(&buffer, HOLE_BYTES) {
                        file.write_all_at(run, piece.offset + at as u64).map_err(outside)?;
                        self.tally.copied(run.len() as u64);
                    }
                }
            }
            self.monitor.advance(piece.length);
        }
        Ok(())
    }

    fn to_image(
        &self,
        device: &dyn BlockDevice,
        image: &dyn BlockDevice,
    ) -> Result<(), TransferError> {
        self.copy_to_image(device, image).inspect_err(|_| self.failed.raise())
    }

    fn copy_to_image(
        &self,
        device: &dyn BlockDevice,
        image: &dyn BlockDevice,
    ) -> Result<(), TransferError> {
        let mut buffer = Vec::new();
        while let Some(piece) = self.next(device)? {
            if !piece.is_hole {
                self.read(device, &piece, &mut buffer)?;
                let writes = runs(&buffer, HOLE_BYTES).map(|(at, data)| Request {
                    operation: Operation::Write {
                        offset: piece.offset + at as u64,
                        data,
                        durability: Durability::Flushed,
                    },
                    outcome: Ok(()),
                });
                execute_outside(image, writes.collect())?;
                let copied = runs(&buffer, HOLE_BYTES).map(|(_, run)| run.len() as u64).sum();
                self.tally.copied(copied);
            }
            self.monitor.advance(piece.length);
        }
        Ok(())
    }

    fn to_stream(
        &self,
        device: &dyn BlockDevice,
        stream: &mut (dyn Write + Send),
    ) -> Result<(), TransferError> {
        let mut buffer = Vec::new();
        while let Some(piece) = self.next(device)? {
            let outside =
                |source| TransferError::Outside { action: "write", offset: piece.offset, source };
            if piece.is_hole {
                io::copy(&mut io::Read::take(io::repeat(0), piece.length), stream)
                    .map_err(outside)?;
            } else {
                self.read(device, &piece, &mut buffer)?;
                stream.write_all(&buffer).map_err(outside)?;
                self.tally.copied(piece.length);
            }
            self.monitor.advance(piece.length);
        }
        Ok(())
    }
}

/// Executes writes of an image that is outside of the pool.
fn execute_outside(
    image: &dyn BlockDevice,
    mut batch: Vec<Request<'_>>,
) -> Result<(), TransferError> {
    image.execute(&mut batch);
    first_error(batch).map_or(Ok(()), |(offset, error)| {
        let source = io::Error::other(error);
        Err(TransferError::Outside { action: "write", offset, source })
    })
}

pub(super) fn read_at(
    device: &dyn BlockDevice,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), DeviceError> {
    let mut batch =
        vec![Request { operation: Operation::Read { offset, buffer }, outcome: Ok(()) }];
    device.execute(&mut batch);
    first_error(batch).map_or(Ok(()), |(_, error)| Err(error))
}

/// Makes a range of a device read as zeros.
fn zero(file: &File, offset: u64, length: u64) -> io::Result<()> {
    if fallocate(file, FallocateFlags::ZERO_RANGE, offset, length).is_ok() {
        return Ok(());
    }
    let zeros = vec![0; PIECE_BYTES.min(length as usize)];
    let mut at = 0;
    while at < length {
        let (part, _) = zeros.split_at((length - at).min(zeros.len() as u64) as usize);
        file.write_all_at(part, offset + at)?;
        at += part.len() as u64;
    }
    Ok(())
}
