//! A file that several readers read in pieces at once. Its holes are found without reading.

use super::PIECE_BYTES;
use crate::file_ref::FileRef;
use crate::set::locked;
use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A part of a file, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Data { start: u64, end: u64 },
    Hole { start: u64, end: u64 },
}

#[derive(Debug)]
struct Cursor {
    next: u64,
    /// The end of the data around `next`, as far as it is known.
    data_end: u64,
}

#[derive(Debug)]
pub(crate) struct LargeFile {
    pub(super) fd: OwnedFd,
    pub(super) file: FileRef,
    pub(super) size_bytes: u64,
    stat: Stat,
    /// The least common multiple of all block sizes.
    common_bytes: u64,
    piece_bytes: u64,
    cursor: Mutex<Cursor>,
    told: AtomicBool,
}

impl LargeFile {
    pub(super) fn new(
        fd: OwnedFd,
        file: FileRef,
        size_bytes: u64,
        stat: Stat,
        common_bytes: u64,
    ) -> Self {
        let is_sparse = is_sparse(&stat);
        let cursor = Cursor { next: 0, data_end: if is_sparse { 0 } else { size_bytes } };
        let piece_bytes = (PIECE_BYTES / common_bytes).max(1) * common_bytes;
        let (cursor, told) = (Mutex::new(cursor), AtomicBool::new(false));
        Self { fd, file, size_bytes, stat, common_bytes, piece_bytes, cursor, told }
    }

    /// Returns the next piece. Every piece consists of whole blocks of every size, except at the
    /// file's end.
    pub(super) fn next_piece(&self) -> Option<Piece> {
        let mut cursor = locked(&self.cursor);
        if cursor.next >= self.size_bytes {
            return None;
        }
        if cursor.next >= cursor.data_end {
            let (data_start, data_end) = self.data_after(cursor.next);
            cursor.data_end = data_end;
            if data_start > cursor.next {
                let start = std::mem::replace(&mut cursor.next, data_start);
                return Some(Piece::Hole { start, end: data_start });
            }
        }
        let start = cursor.next;
        let end = start.saturating_add(self.piece_bytes).min(cursor.data_end);
        cursor.next = end;
        Some(Piece::Data { start, end })
    }

    /// Returns the next range of data at or after `from`, widened to whole blocks. If the file
    /// system does not report holes, the rest of the file is data.
    fn data_after(&self, from: u64) -> (u64, u64) {
        let size = self.size_bytes;
        let data = match rustix::fs::seek(&self.fd, SeekFrom::Data(from)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return (size, size),
            Err(_) => return (from, size),
        };
        let start = (data / self.common_bytes * self.common_bytes).clamp(from, size);
        let hole = rustix::fs::seek(&self.fd, SeekFrom::Hole(data)).unwrap_or(size);
        let end = hole.div_ceil(self.common_bytes).saturating_mul(self.common_bytes).min(size);
        // A file that changes during the scan must not stop the cursor.
        if end > start { (start, end) } else { (from, size) }
    }

    /// Ends the file: no more pieces are handed out.
    pub(super) fn end(&self) {
        locked(&self.cursor).next = self.size_bytes;
    }

    /// Returns whether this is the first report about the file. Each file counts once, as changed
    /// or as unreadable.
    pub(super) fn tell_once(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the file has changed since it was opened.
    pub(super) fn has_changed(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|now| {
            (now.st_size, now.st_mtime, now.st_mtime_nsec)
                != (self.stat.st_size, self.stat.st_mtime, self.stat.st_mtime_nsec)
        })
    }
}

/// Returns whether a file occupies less space than its size. This is also true of files that the
/// file system compresses; the file system is then asked for holes without need.
pub(super) fn is_sparse(stat: &Stat) -> bool {
    let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    is_file && stat.st_blocks.saturating_mul(512) < stat.st_size
}
