//! Exports a volume to a new file, which gets holes, to a device, which gets zeros, or to a stream.

use super::salvage::{BadRanges, is_of_one_block};
use super::{PIECE_BYTES, Tally, TransferError, Transferred, first_error, run_workers, runs};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_device::{BlockDevice, DeviceError, Operation, Request};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes whose extents are requested at once.
const ASKED_BYTES: u64 = 1 << 30;

/// Most extents that are requested at once.
const ASKED_EXTENTS: usize = 4096;
/// Size of the smallest hole that is made, in bytes: a page of most file systems.
const HOLE_BYTES: usize = 4096;

/// The destination of an export.
pub enum Sink {
    /// A new, empty file. Zeros become holes.
    NewFile(File),
    /// A device. Zeros are written, or made by the device.
    Device(File),
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

/// A piece of the volume. A piece that is no hole is at most [`PIECE_BYTES`] long.
struct VolumePiece {
    offset: u64,
    length: u64,
    is_hole: bool,
}

/// Walks over the extents of a volume.
struct Extents {
    next: u64,
    size_bytes: u64,
    /// Lengths of the extents from `next` on, and whether they are zero.
    known: VecDeque<(u64, bool)>,
}

impl Extents {
    fn next(&mut self, device: &dyn BlockDevice) -> Result<Option<VolumePiece>, TransferError> {
        if self.next >= self.size_bytes {
            return Ok(None);
        }
        if self.known.is_empty() {
            let asked = (self.size_bytes - self.next).min(ASKED_BYTES);
            let found = device.extents(self.next, asked, ASKED_EXTENTS).map_err(|source| {
                TransferError::Volume { action: "map", offset: self.next, source }
            })?;
            self.known.extend(found.iter().map(|extent| (extent.length.min(asked), extent.zero)));
        }
        // A device that describes no extents may hold data everywhere.
        let (length, is_hole) =
            self.known.pop_front().unwrap_or((self.size_bytes - self.next, false));
        let offset = self.next;
        let whole = length.min(self.size_bytes - offset);
        let taken = if is_hole { whole } else { whole.min(PIECE_BYTES as u64) };
        if taken < whole {
            self.known.push_front((whole - taken, is_hole));
        }
        self.next += taken;
        Ok(Some(VolumePiece { offset, length: taken, is_hole }))
    }
}

/// Copies a volume to `sink`. Each of `devices` is the same volume and gets a thread; a stream gets
/// one thread. Returns the bytes copied, and the ranges that could not be read. There are none with
/// [`OnBadBlock::Fail`].
///
/// # Errors
/// Fails if the sink or the volume fails. The sink keeps the bytes that were copied.
pub fn export(
    devices: &[Arc<dyn BlockDevice>],
    mut sink: Sink,
    on_bad_block: OnBadBlock,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<(Transferred, BadRanges), TransferError> {
    let Some(first) = devices.first() else { return Ok(Default::default()) };
    let size_bytes = first.geometry().size_bytes;
    monitor.begin("Exporting", Unit::Bytes, Some(size_bytes));
    let outside = |offset| move |source| TransferError::Outside { action: "write", offset, source };
    let extents = Extents { next: 0, size_bytes, known: VecDeque::new() };
    let shared = SharedSink {
        extents: Mutex::new(extents),
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
    extents: Mutex<Extents>,
    tally: Tally,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    failed: StopFlag,
    on_bad_block: OnBadBlock,
    bad: Mutex<BadRanges>,
}

impl SharedSink<'_> {
    fn next(&self, device: &dyn BlockDevice) -> Result<Option<VolumePiece>, TransferError> {
        if self.stop.is_raised() || self.failed.is_raised() {
            return Err(TransferError::Interrupted);
        }
        self.extents.lock().next(device)
    }

    /// Reads a piece into the buffer.
    fn read(
        &self,
        device: &dyn BlockDevice,
        piece: &VolumePiece,
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

fn read_at(device: &dyn BlockDevice, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
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
