//! The file handles of a thread: those that the script numbers with `fd=`, and the rotating ones.

use crate::model::HandleSlot;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// An open file of a thread.
pub(super) struct OpenFile {
    pub(super) handle: OwnedFd,
    /// Handle for asynchronous operations, which may outlive the thread's own handle.
    pub(super) aio_handle: Option<Arc<OwnedFd>>,
    /// Offset of the next sequential operation; `None` stands for the end of the file.
    pub(super) position: Option<u64>,
}

/// A file as the number of its fileset and its number there.
pub(super) type FileNumber = (usize, usize);

/// A handle for an open file.
#[derive(Default)]
struct Handle {
    open: Option<OpenFile>,
    /// The file that is open, or was last open, here.
    file: Option<FileNumber>,
}

/// The file handles of a thread, by slot.
pub(super) struct Handles {
    handles: Vec<Handle>,
    /// Number of rotating handles, and the one that was taken last.
    rotating: usize,
    rotor: usize,
    /// Number at which `opennext` continues in each fileset.
    next_files: Vec<AtomicU32>,
}

impl Handles {
    pub(super) fn new(fixed: usize, rotating: usize, filesets: usize) -> Self {
        Self {
            handles: (0..fixed.max(rotating)).map(|_| Handle::default()).collect(),
            rotating,
            rotor: 0,
            next_files: (0..filesets).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns the number of the slot. A rotating one is the next in turn.
    #[inline]
    pub(super) fn slot(&mut self, slot: HandleSlot) -> usize {
        match slot {
            HandleSlot::Fixed(slot) => slot,
            HandleSlot::Rotating => {
                if self.rotor == 0 {
                    self.rotor = self.rotating;
                }
                self.rotor -= 1;
                self.rotor
            }
        }
    }

    /// Returns the number at which `opennext` continues in a fileset.
    pub(super) fn next_file(&self, fileset: usize) -> &AtomicU32 {
        &self.next_files[fileset]
    }

    #[inline]
    pub(super) fn open(&self, slot: usize) -> Option<&OpenFile> {
        self.handles[slot].open.as_ref()
    }

    #[inline]
    pub(super) fn open_mut(&mut self, slot: usize) -> Option<&mut OpenFile> {
        self.handles[slot].open.as_mut()
    }

    /// Returns the file that is open, or was last open, in the slot.
    pub(super) fn file(&self, slot: usize) -> Option<FileNumber> {
        self.handles.get(slot).and_then(|handle| handle.file)
    }

    /// Returns the number of open files of a fileset.
    pub(super) fn opens_of(&self, fileset: usize) -> usize {
        let is_open = |handle: &&Handle| {
            handle.open.is_some() && handle.file.is_some_and(|(number, _)| number == fileset)
        };
        self.handles.iter().filter(is_open).count()
    }

    /// Puts a newly opened file into the slot.
    pub(super) fn put(&mut self, slot: usize, handle: OwnedFd, file: FileNumber) {
        let open = OpenFile { handle, aio_handle: None, position: Some(0) };
        self.handles[slot] = Handle { open: Some(open), file: Some(file) };
    }

    /// Closes the slot and returns its file if it was open. The slot remembers the file.
    pub(super) fn close(&mut self, slot: usize) -> Option<FileNumber> {
        let handle = &mut self.handles[slot];
        handle.open.take().and(handle.file)
    }

    /// Takes the number of the slot's file away, so that a deletion can decide what becomes of it.
    pub(super) fn take_file(&mut self, slot: usize) -> Option<FileNumber> {
        self.handles[slot].file.take()
    }

    /// Gives the slot its file back after [`Self::take_file`].
    pub(super) fn give_back_file(&mut self, slot: usize, file: FileNumber) {
        self.handles[slot].file = Some(file);
    }

    /// Closes the slot and forgets its file, which was deleted, and its count of opens with it.
    pub(super) fn forget(&mut self, slot: usize) {
        self.handles[slot] = Handle::default();
    }
}
