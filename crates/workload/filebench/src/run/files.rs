//! Flowops on whole files and directories: open, create, close, delete, stat, sync, make, remove
//! and list.

use super::error::WorkloadError;
use super::worker::{Done, Flow, Worker};
use crate::model::{Flowop, HandleSlot};
use gemelo_base::Clock;
use gemelo_base::ShowPath as _;
use rustix::fs::{Advice, AtFlags, Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Bytes that listdir counts for an entry in addition to its name: the directory record of the C
/// library.
const ENTRY_RECORD_BYTES: u64 = 279;

/// Files that deletefile checks for one that no thread has open, before it yields to other threads.
const MAX_LOOKS: usize = 256;
/// Longest time for which deletefile searches. It is longer than other threads keep a file open on
/// a busy machine, and short for scripts in which no thread ever closes one.
const MAX_DELETE_WAIT_NS: u64 = 1_000_000_000;

impl Worker {
    /// Returns the number of a file by `indexed=`, if the flowop has this attribute.
    fn indexed(&mut self, flowop: &Flowop, count: usize) -> Option<usize> {
        let quantity = flowop.index.as_ref()?;
        let value = quantity.next_real(&mut self.random).max(0.0);
        // Variables with a mean of at most 1 are shares of the set, as in version 1.4.9. Others are
        // numbers.
        let value = if flowop.index_is_share { value * count as f64 / 2.0 } else { value };
        Some(value as usize % count.max(1))
    }

    /// Picks an existing or a missing file of the flowop's fileset and marks it busy.
    fn pick(
        &mut self,
        flowop: &Flowop,
        exists: bool,
    ) -> Result<Option<(usize, usize)>, WorkloadError> {
        let Some(fileset) = flowop.fileset else {
            return Err(self.failure(
                &flowop.name,
                "work without filesetname= and without an open file",
                None,
            ));
        };
        let index = self.indexed(flowop, self.shared.filesets[fileset].files.len());
        let pool = &self.shared.filesets[fileset].files;
        let stopped = || self.shared.is_stopped();
        let picked = match index {
            Some(index) => pool.pick_from(exists, index, stopped),
            None if exists && flowop.slot == HandleSlot::Rotating => {
                pool.pick_next(true, self.handles.next_file(fileset), stopped)
            }
            None => pool.pick_next(exists, pool.rotor(exists), stopped),
        };
        Ok(picked.map(|file| (fileset, file)))
    }

    /// Picks an existing file that no thread has open. If all files are open, it waits some time
    /// for one to be closed. It does not wait if this thread has all of them open. After that it
    /// picks an open file.
    fn pick_closed(&mut self, flowop: &Flowop) -> Result<Option<(usize, usize)>, WorkloadError> {
        let begin_ns = self.clock.now_ns();
        let mut looks = 0;
        loop {
            let Some((fileset, file)) = self.pick(flowop, true)? else { return Ok(None) };
            let pool = &self.shared.filesets[fileset].files;
            // A file chosen by number is taken as it is.
            if flowop.index.is_some() || pool.opens(file) == 0 {
                return Ok(Some((fileset, file)));
            }
            looks += 1;
            if looks >= pool.len().min(MAX_LOOKS) {
                let own = self.handles.opens_of(fileset);
                let waited_ns = self.clock.now_ns().saturating_sub(begin_ns);
                let in_vain = own as u64 >= pool.existing();
                if in_vain || waited_ns > MAX_DELETE_WAIT_NS || self.shared.is_stopped() {
                    return Ok(Some((fileset, file)));
                }
                looks = 0;
                std::thread::yield_now();
            }
            pool.release(file);
        }
    }

    fn picked_leaf_dir(&mut self, flowop: &Flowop, exists: bool) -> Option<(usize, usize)> {
        let fileset = flowop.fileset?;
        let index = self.indexed(flowop, self.shared.filesets[fileset].leaf_dirs.len());
        let pool = &self.shared.filesets[fileset].leaf_dirs;
        let stopped = || self.shared.is_stopped();
        let picked = match index {
            Some(index) => pool.pick_from(exists, index, stopped),
            None => pool.pick_next(exists, pool.rotor(exists), stopped),
        };
        picked.map(|directory| (fileset, directory))
    }

    /// Returns the flow after a pick found no file: out of files, unless the run has ended.
    fn nothing_picked(&self) -> Flow {
        if self.shared.is_stopped() { Flow::Continue } else { Flow::OutOfFiles }
    }

    fn flags(&self, flowop: &Flowop, fileset: usize) -> OFlags {
        let spec = &self.shared.filesets[fileset].spec;
        let mut flags = OFlags::CLOEXEC
            | match (spec.read_only, spec.write_only) {
                (true, _) => OFlags::RDONLY,
                (_, true) => OFlags::WRONLY,
                _ => OFlags::RDWR,
            };
        if flowop.dsync {
            flags |= OFlags::SYNC;
        }
        if flowop.direct_io {
            flags |= OFlags::DIRECT;
        }
        flags
    }

    /// Opens a file in a handle. The time counts for the flowop.
    fn open_file_in(
        &mut self,
        flowop: &Flowop,
        slot: usize,
        picked: (usize, usize),
        flags: OFlags,
    ) -> Done {
        let (fileset_number, file) = picked;
        let begin_ns = self.clock.now_ns();
        let fileset = &self.shared.filesets[fileset_number];
        let entry = fileset.layout.files[file];
        let creates = flags.contains(OFlags::CREATE);
        let opened = fileset.with_entry(entry, |directory, name| {
            rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o666))
        });
        let handle = match opened {
            Ok(handle) => handle,
            Err(error) => {
                fileset.files.release(file);
                let what = format!("open {}", fileset.path_of(entry).shown());
                return Err(self.failure(&flowop.name, &what, Some(error)));
            }
        };
        if flowop.no_read_ahead {
            // The call is only advice, which a file system may ignore.
            let _ = rustix::fs::fadvise(&handle, 0, None, Advice::Random);
        }
        if creates {
            fileset.files.release_created(file, 1);
        } else {
            fileset.files.release_opened(file);
        }
        self.handles.put(slot, handle, picked);
        if matches!(flowop.kind, crate::Kind::OpenFile | crate::Kind::CreateFile) {
            self.ended(flowop, begin_ns, 0);
        }
        Ok(Flow::Continue)
    }

    /// Opens an existing file for the flowop.
    pub(super) fn open_in(&mut self, flowop: &Flowop, slot: usize) -> Done {
        let Some(picked) = self.pick(flowop, true)? else { return Ok(self.nothing_picked()) };
        let flags = self.flags(flowop, picked.0);
        self.open_file_in(flowop, slot, picked, flags)
    }

    /// Creates and opens a missing file for the flowop.
    pub(super) fn create_in(&mut self, flowop: &Flowop, slot: usize) -> Done {
        let Some(picked) = self.pick(flowop, false)? else { return Ok(self.nothing_picked()) };
        let flags = self.flags(flowop, picked.0) | OFlags::CREATE;
        self.open_file_in(flowop, slot, picked, flags)
    }

    /// Returns the flowop's handle, which must be free. A rotating handle is closed first.
    fn free_slot(&mut self, flowop: &Flowop) -> Result<usize, WorkloadError> {
        let slot = self.slot(flowop);
        if self.handles.open(slot).is_some() {
            if flowop.slot != HandleSlot::Rotating {
                return Err(self.failure(
                    &flowop.name,
                    "open a file: the earlier one in its fd was not closed",
                    None,
                ));
            }
            self.close_slot(slot);
        }
        Ok(slot)
    }

    pub(super) fn open_file(&mut self, flowop: &Flowop) -> Done {
        let slot = self.free_slot(flowop)?;
        self.open_in(flowop, slot)
    }

    pub(super) fn create_file(&mut self, flowop: &Flowop) -> Done {
        let slot = self.free_slot(flowop)?;
        self.create_in(flowop, slot)
    }

    /// Closes the file of a handle. The handle remembers the number of the file.
    pub(super) fn close_slot(&mut self, slot: usize) {
        if let Some((fileset, file)) = self.handles.close(slot) {
            self.shared.filesets[fileset].files.closed(file);
        }
    }

    pub(super) fn close_file(&mut self, flowop: &Flowop) -> Done {
        let slot = self.slot(flowop);
        if self.handles.open(slot).is_none() {
            return Err(self.failure(&flowop.name, "close a file: none is open", None));
        }
        let begin_ns = self.clock.now_ns();
        self.close_slot(slot);
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    /// Deletes the file last opened in `fd=`, or a file that it picks. A file that another thread
    /// has open is kept, and the operation is not counted.
    pub(super) fn delete_file(&mut self, flowop: &Flowop) -> Done {
        let slot = self.slot(flowop);
        let own = if slot > 0 { self.handles.take_file(slot) } else { None };
        let picked = match own {
            Some((fileset, file)) => {
                let shared = std::sync::Arc::clone(&self.shared);
                let pool = &shared.filesets[fileset].files;
                // The file is busy only while another thread opens or deletes it.
                while !pool.latch_existing(file) {
                    if !pool.exists(file) || shared.is_stopped() {
                        self.handles.forget(slot);
                        return Ok(Flow::Continue);
                    }
                    std::thread::yield_now();
                }
                (fileset, file)
            }
            None => match self.pick_closed(flowop)? {
                Some(picked) => picked,
                None => return Ok(self.nothing_picked()),
            },
        };
        let shared = std::sync::Arc::clone(&self.shared);
        let (fileset, file) = (&shared.filesets[picked.0], picked.1);
        let own_opens = u32::from(own.is_some() && self.handles.open(slot).is_some());
        if fileset.files.opens(file) > own_opens {
            fileset.files.release(file);
            if let Some(file) = own {
                self.handles.give_back_file(slot, file);
            }
            return Ok(Flow::Continue);
        }
        let entry = fileset.layout.files[file];
        let begin_ns = self.clock.now_ns();
        let result = fileset.with_entry(entry, |directory, name| {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        });
        if own.is_some() {
            self.handles.forget(slot);
        }
        fileset.files.release_deleted(file);
        if let Err(error) = result {
            let what = format!("delete {}", fileset.path_of(entry).shown());
            return Err(self.failure(&flowop.name, &what, Some(error)));
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn stat_file(&mut self, flowop: &Flowop) -> Done {
        let slot = self.slot(flowop);
        if slot > 0
            && let Some(file) = self.handles.open(slot)
        {
            let begin_ns = self.clock.now_ns();
            let result = rustix::fs::fstat(&file.handle);
            result.map_err(|error| self.failure(&flowop.name, "stat a file", Some(error)))?;
            self.ended(flowop, begin_ns, 0);
            return Ok(Flow::Continue);
        }
        let Some((number, file)) = self.pick(flowop, true)? else {
            return Ok(self.nothing_picked());
        };
        let begin_ns = self.clock.now_ns();
        let fileset = &self.shared.filesets[number];
        let entry = fileset.layout.files[file];
        let result = fileset.with_entry(entry, |directory, name| {
            rustix::fs::statat(directory, name, AtFlags::empty())
        });
        fileset.files.release(file);
        if let Err(error) = result {
            let what = format!("stat {}", fileset.path_of(entry).shown());
            return Err(self.failure(&flowop.name, &what, Some(error)));
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    pub(super) fn fsync(&mut self, flowop: &Flowop) -> Done {
        let slot = self.slot(flowop);
        let begin_ns = self.clock.now_ns();
        let Some(file) = self.handles.open(slot) else {
            return Err(self.failure(&flowop.name, "sync a file: none is open", None));
        };
        let result = rustix::fs::fsync(&file.handle);
        result.map_err(|error| self.failure(&flowop.name, "sync a file", Some(error)))?;
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    /// Syncs every open file of the fileset. Each sync counts as one operation.
    pub(super) fn fsync_set(&mut self, flowop: &Flowop) -> Done {
        for slot in 0..self.handles.len() {
            let belongs =
                self.handles.file(slot).is_some_and(|(fileset, _)| Some(fileset) == flowop.fileset);
            let Some(file) = self.handles.open(slot).filter(|_| belongs) else { continue };
            let begin_ns = self.clock.now_ns();
            let result = rustix::fs::fsync(&file.handle);
            result.map_err(|error| self.failure(&flowop.name, "sync a file", Some(error)))?;
            self.ended(flowop, begin_ns, 0);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn make_dir(&mut self, flowop: &Flowop) -> Done {
        self.change_leaf_dir(flowop, true, |parent, name| {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))
        })
    }

    pub(super) fn remove_dir(&mut self, flowop: &Flowop) -> Done {
        self.change_leaf_dir(flowop, false, |parent, name| {
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
        })
    }

    /// Makes a missing leaf directory, or removes an existing one.
    fn change_leaf_dir(
        &mut self,
        flowop: &Flowop,
        makes: bool,
        act: impl FnOnce(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
    ) -> Done {
        let Some((number, directory)) = self.picked_leaf_dir(flowop, !makes) else {
            return Ok(self.nothing_picked());
        };
        let begin_ns = self.clock.now_ns();
        let fileset = &self.shared.filesets[number];
        let entry = fileset.layout.leaf_dirs[directory];
        if let Err(error) = fileset.with_entry(entry, act) {
            fileset.leaf_dirs.release(directory);
            let verb = if makes { "make" } else { "remove" };
            let what = format!("{verb} {}", fileset.path_of(entry).shown());
            return Err(self.failure(&flowop.name, &what, Some(error)));
        }
        if makes {
            fileset.leaf_dirs.release_created(directory, 0);
        } else {
            fileset.leaf_dirs.release_deleted(directory);
        }
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    /// Reads the entries of the next directory of the fileset.
    pub(super) fn list_dir(&mut self, flowop: &Flowop) -> Done {
        let Some(number) = flowop.fileset else { return Ok(Flow::Continue) };
        let begin_ns = self.clock.now_ns();
        let fileset = &self.shared.filesets[number];
        let directories = fileset.layout.directories.len() as u32;
        let directory =
            fileset.directory_rotor.fetch_add(1, Ordering::Relaxed) % directories.max(1);
        let result = fileset.open_directory(directory).and_then(|handle| {
            self.listing.clear();
            let mut entries = rustix::fs::RawDir::new(handle, self.listing.spare_capacity_mut());
            let mut bytes = 0;
            while let Some(entry) = entries.next() {
                bytes += entry?.file_name().to_bytes().len() as u64 + ENTRY_RECORD_BYTES;
            }
            Ok(bytes)
        });
        let bytes =
            result.map_err(|error| self.failure(&flowop.name, "list a directory", Some(error)))?;
        self.ended(flowop, begin_ns, bytes);
        Ok(Flow::Continue)
    }
}
