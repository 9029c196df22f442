//! A reader: it opens files, reads them, and counts their blocks at all block sizes in one pass.

use super::PIECE_BYTES;
use super::blocks::{BLOCK_BITS, ChunkPlace, SizeCounts, SizeState, SizeWorker};
use super::large::{LargeFile, Piece, is_sparse};
use super::queue::{Queue, Work};
use crate::file_ref::FileRef;
use crate::halt::Halt;
use crate::options::ScanOptions;
use crate::set::{ContentLocation, locked};
use crate::trouble::Troubles;
use crate::walk::{Batch, Mounts, Names, WalkCounts, count};
use gemelo_base::Monitor;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// The most pieces that a reader remembers, to find the place of a content. When the list is full,
/// all buffers are handed over.
const MAX_SPOTS: usize = 4096;

/// The extra bytes of the buffer: one to detect that a file has grown, the others to align the
/// buffer to a page.
const BUFFER_EXTRA_BYTES: usize = 8192;

const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY)
    // A pipe that has replaced a file must not block the reader.
    .union(OFlags::NONBLOCK);

/// The state of a scan that all readers share.
pub(crate) struct Session<'scan> {
    pub(crate) options: &'scan ScanOptions,
    pub(crate) monitor: &'scan dyn Monitor,
    pub(crate) halt: &'scan Halt,
    pub(crate) queue: &'scan Queue<'scan>,
    pub(crate) troubles: &'scan Troubles<'scan>,
    pub(crate) walk: &'scan WalkCounts,
    pub(crate) sizes: &'scan [SizeState],
    /// The files with several hard links that were found, as (file system, inode number).
    pub(crate) links: &'scan Mutex<HashSet<(u64, u64)>>,
    /// The mounts below the paths of the scan.
    pub(crate) mounts: &'scan Mounts,
    /// The bytes of each batch, from which places in the scan are computed.
    pub(crate) batch_bytes: &'scan Mutex<Vec<u64>>,
}

/// The counts of one reader.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReaderCounts {
    pub(crate) files: u64,
    pub(crate) data_bytes: u64,
    pub(crate) hole_bytes: u64,
    pub(crate) hard_links_skipped: u64,
    pub(crate) sizes: Vec<SizeCounts>,
}

/// A piece to which blocks in the routers may belong.
struct RoutedPiece {
    names: Arc<Names>,
    index: usize,
    offset_bytes: u64,
}

pub(crate) struct Worker<'scan> {
    session: &'scan Session<'scan>,
    buffer: Vec<u8>,
    chunk_bytes: u64,
    sizes: Vec<SizeWorker>,
    spots: Vec<RoutedPiece>,
    counted: ReaderCounts,
    advanced_bytes: u64,
}

impl<'scan> Worker<'scan> {
    pub(crate) fn new(session: &'scan Session<'scan>) -> Self {
        let chunk_bytes = session.options.budget().chunk_bytes();
        Self {
            session,
            // The chunk is at most 4 MiB.
            buffer: vec![0; chunk_bytes as usize + BUFFER_EXTRA_BYTES],
            chunk_bytes,
            sizes: session.sizes.iter().map(|_| SizeWorker::new(session.options)).collect(),
            spots: Vec::new(),
            counted: ReaderCounts::default(),
            advanced_bytes: 0,
        }
    }

    /// Works until the queue is empty and the walk has ended.
    pub(crate) fn run(mut self) -> ReaderCounts {
        while let Some(work) = self.session.queue.take() {
            match work {
                Work::Batch(batch) => self.batch(&batch),
                Work::Large(file) => match file.next_piece() {
                    Some(piece) => self.piece(&file, piece),
                    None => self.retire(&file),
                },
            }
            self.session.queue.done();
            self.session.monitor.advance(std::mem::take(&mut self.advanced_bytes));
        }
        self.flush();
        self.counted.sizes = self.sizes.into_iter().map(|size| size.counts).collect();
        self.counted
    }

    fn flush(&mut self) {
        for (size, state) in self.sizes.iter_mut().zip(self.session.sizes) {
            if let Err(error) = size.flush(state) {
                self.session.halt.fail(error);
            }
        }
        self.offer_rises();
        self.spots.clear();
    }

    fn batch(&mut self, batch: &Batch) {
        let mut start_bytes: u64 = 0;
        for index in 0..batch.names.len() {
            if self.session.halt.is_raised() {
                break;
            }
            match self.open(batch, index) {
                Ok(Some((fd, stat, size_bytes))) => {
                    // The threads determine which of several hard links is found first, but places
                    // must not depend on them.
                    let in_locality = !self.has_other_names(&stat);
                    let names = Arc::clone(&batch.names);
                    let file = FileRef {
                        names,
                        index,
                        batch: batch.sequence,
                        start_bytes,
                        in_locality,
                        directory: batch.place.counted_with,
                    };
                    start_bytes =
                        start_bytes.saturating_add(if in_locality { size_bytes } else { 0 });
                    self.file(fd, file, size_bytes, stat);
                }
                Ok(None) => {}
                Err(error) => {
                    self.session.troubles.unreadable(&batch.names.path(index), &error.into());
                }
            }
        }
        let mut all = locked(self.session.batch_bytes);
        let at = batch.sequence as usize;
        if all.len() <= at {
            all.resize(at + 1, 0);
        }
        if let Some(bytes) = all.get_mut(at) {
            *bytes = start_bytes;
        }
    }

    /// Opens a file and finds its size. Returns `None` if the file is not to be read.
    fn open(&mut self, batch: &Batch, index: usize) -> Result<Option<(OwnedFd, Stat, u64)>, Errno> {
        let Some(name) = batch.names.get(index) else { return Ok(None) };
        let fd = match &batch.place.directory {
            Some(directory) => {
                rustix::fs::openat(directory, name, FILE_FLAGS | OFlags::NOFOLLOW, Mode::empty())?
            }
            None => rustix::fs::openat(CWD, name, FILE_FLAGS, Mode::empty())?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        let size_bytes = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
            FileType::BlockDevice if batch.place.directory.is_none() => {
                rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0))?
            }
            _ => {
                count(&self.session.walk.special);
                return Ok(None);
            }
        };
        if batch.place.device.is_some_and(|device| device != stat.st_dev) {
            count(&self.session.walk.other_file_systems);
            return Ok(None);
        }
        if self.has_other_names(&stat) {
            let is_new = locked(self.session.links).insert((stat.st_dev, stat.st_ino));
            if !is_new {
                self.counted.hard_links_skipped += u64::from(stat.st_nlink > 1);
                return Ok(None);
            }
        }
        Ok(Some((fd, stat, size_bytes)))
    }

    /// Returns whether the scan can meet a file by another name, and counts it only once.
    fn has_other_names(&self, stat: &Stat) -> bool {
        self.session.mounts.has_files
            || (stat.st_nlink > 1 && !self.session.options.request().count_hard_links)
    }

    fn file(&mut self, fd: OwnedFd, file: FileRef, size_bytes: u64, stat: Stat) {
        self.counted.files += 1;
        if size_bytes == 0 {
            return;
        }
        let sparse = is_sparse(&stat);
        if !sparse && size_bytes <= PIECE_BYTES {
            match self.read(&fd, &file, (0, size_bytes), size_bytes) {
                Ok(ReadEnd::AsExpected) => {}
                Ok(ReadEnd::Shorter | ReadEnd::Longer) => self.session.troubles.changed(),
                Err(error) => {
                    self.session.troubles.unreadable(&file.names.path(file.index), &error);
                }
            }
            return;
        }
        let common_bytes = self.session.options.common_bytes();
        let large = Arc::new(LargeFile::new(fd, file, size_bytes, stat, common_bytes));
        if size_bytes > PIECE_BYTES {
            return self.session.queue.share(large);
        }
        while let Some(piece) = large.next_piece() {
            self.piece(&large, piece);
        }
        self.retire(&large);
    }

    fn retire(&mut self, large: &Arc<LargeFile>) {
        self.session.queue.retire(large);
        if large.has_changed() && large.tell_once() {
            self.session.troubles.changed();
        }
    }

    fn piece(&mut self, large: &LargeFile, piece: Piece) {
        match piece {
            Piece::Hole { start, end } => self.hole(&large.file, start, end),
            Piece::Data { start, end } => {
                match self.read(&large.fd, &large.file, (start, end), large.size_bytes) {
                    Ok(ReadEnd::AsExpected) => {}
                    Ok(_) if large.tell_once() => self.session.troubles.changed(),
                    Ok(_) => {}
                    Err(error) => {
                        large.end();
                        if large.tell_once() {
                            let path = large.file.names.path(large.file.index);
                            self.session.troubles.unreadable(&path, &error);
                        }
                    }
                }
            }
        }
    }

    fn hole(&mut self, file: &FileRef, start: u64, end: u64) {
        let bytes = end - start;
        self.counted.data_bytes = self.counted.data_bytes.saturating_add(bytes);
        self.counted.hole_bytes = self.counted.hole_bytes.saturating_add(bytes);
        self.advanced_bytes = self.advanced_bytes.saturating_add(bytes);
        for (size, state) in self.sizes.iter_mut().zip(self.session.sizes) {
            size.hole(state.block_bytes, end - start, file.directory);
        }
    }

    /// Reads a part of a file, at most one piece long, and counts its blocks.
    fn read(
        &mut self,
        fd: &OwnedFd,
        file: &FileRef,
        (start, end): (u64, u64),
        size_bytes: u64,
    ) -> io::Result<ReadEnd> {
        if self.spots.len() >= MAX_SPOTS {
            self.flush();
        }
        let spot = self.spots.len() as u32;
        self.spots.push(RoutedPiece {
            names: Arc::clone(&file.names),
            index: file.index,
            offset_bytes: start,
        });
        let mut at = start;
        while at < end && !self.session.halt.is_raised() {
            let wanted = (end - at).min(self.chunk_bytes) as usize;
            // At the end of the file one more byte is requested: it shows without another call if
            // the file has grown.
            let extra = usize::from(at + wanted as u64 == size_bytes);
            let got = self.fill(fd, at, wanted, extra)?;
            let place = ChunkPlace {
                spot,
                offset_in_piece: at - start,
                offset_in_batch: file.start_bytes.saturating_add(at),
                file,
            };
            self.chunk(got.min(wanted), place);
            if got != wanted {
                return Ok(if got < wanted { ReadEnd::Shorter } else { ReadEnd::Longer });
            }
            at += wanted as u64;
        }
        Ok(ReadEnd::AsExpected)
    }

    /// Reads `wanted` bytes and up to `extra` more. Returns less than `wanted` only at the file's
    /// end.
    fn fill(&mut self, fd: &OwnedFd, at: u64, wanted: usize, extra: usize) -> io::Result<usize> {
        let skip = self.buffer.as_ptr().align_offset(4096).min(BUFFER_EXTRA_BYTES / 2);
        let mut filled = 0;
        while filled < wanted {
            let Some(room) = self.buffer.get_mut(skip + filled..skip + wanted + extra) else {
                break;
            };
            match rustix::io::pread(fd, room, at + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    fn chunk(&mut self, length: usize, place: ChunkPlace<'_>) {
        let skip = self.buffer.as_ptr().align_offset(4096).min(BUFFER_EXTRA_BYTES / 2);
        let Some(data) = self.buffer.get(skip..skip + length) else { return };
        self.counted.data_bytes = self.counted.data_bytes.saturating_add(length as u64);
        self.advanced_bytes = self.advanced_bytes.saturating_add(length as u64);
        let mut failed = None;
        for (size, state) in self.sizes.iter_mut().zip(self.session.sizes) {
            if let Err(error) = size.chunk(state, data, &place) {
                failed = Some(error);
            }
        }
        self.offer_rises();
        if let Some(error) = failed {
            // All readers stop, and the counts so far are kept.
            self.session.halt.fail(error);
        }
    }

    /// Offers the contents that have become frequent as candidates, with their places.
    fn offer_rises(&mut self) {
        for (size, state) in self.sizes.iter_mut().zip(self.session.sizes) {
            for rise in size.rises.drain(..) {
                let Some(spot) = self.spots.get((rise.mark >> BLOCK_BITS) as usize) else {
                    continue;
                };
                let block = u64::from(rise.mark & ((1 << BLOCK_BITS) - 1));
                let offset_bytes = spot.offset_bytes + block * u64::from(state.block_bytes);
                let place = place_of(&spot.names, spot.index, offset_bytes);
                state.set.candidates.offer(rise.copies, rise.fingerprint, place);
            }
        }
    }
}

/// The outcome of reading a part of a file.
enum ReadEnd {
    AsExpected,
    /// The file is shorter than when it was opened.
    Shorter,
    /// The file is longer than when it was opened.
    Longer,
}

fn place_of(names: &Names, index: usize, offset_bytes: u64) -> ContentLocation {
    ContentLocation { path: gemelo_base::text_of_name(names.path(index).as_os_str()), offset_bytes }
}
