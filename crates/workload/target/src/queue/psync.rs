//! A queue that makes one system call after another: `pread`, `pwrite`, `fallocate` and
//! `fdatasync`.

use super::buffers::Buffers;
use super::{
    Completion, IoFailure, OpenPlace, Queue, QueueOptions, TargetOperation, TargetRequest, Wait,
    nothing_moved,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::FileExt;

/// A queue that carries out each request in `submit`.
pub(crate) struct PsyncQueue {
    place: OpenPlace,
    buffers: Buffers,
    finished: Vec<Completion>,
}

impl PsyncQueue {
    pub(crate) fn new(place: OpenPlace, options: &QueueOptions) -> Self {
        Self {
            place,
            buffers: Buffers::new(options.depth, options.buffer_bytes),
            finished: Vec::with_capacity(options.depth),
        }
    }

    #[inline]
    fn carry_out(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        if request.operation == TargetOperation::Sync {
            return self
                .place
                .file
                .sync_data()
                .map_err(|error| self.place.failure(request, 0, error));
        }
        if request.operation == TargetOperation::Trim {
            return self
                .trim(request)
                .map_err(|error| self.place.failure(request, 0, error.into()));
        }
        let mut done = 0;
        while done < request.bytes {
            match self.step(slot, request, done) {
                Ok(0) => {
                    return Err(self.place.failure(
                        request,
                        done,
                        nothing_moved(request.operation),
                    ));
                }
                Ok(moved) => done += moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.place.failure(request, done, error)),
            }
        }
        Ok(())
    }

    /// Frees the range. Storage that cannot free it leaves it unchanged, which a trim allows.
    fn trim(&self, request: TargetRequest) -> Result<(), Errno> {
        let offset = self.place.first_byte + request.offset;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.place.file, flags, offset, request.bytes as u64) {
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS) => Ok(()),
            done => done,
        }
    }

    #[inline]
    fn step(&mut self, slot: usize, request: TargetRequest, done: usize) -> io::Result<usize> {
        let buffer = &mut self.buffers.get_mut(slot)[done..request.bytes];
        let offset = self.place.first_byte + request.offset + done as u64;
        match request.operation {
            TargetOperation::Read => self.place.file.read_at(buffer, offset),
            _ => self.place.file.write_at(buffer, offset),
        }
    }
}

impl Queue for PsyncQueue {
    fn depth(&self) -> usize {
        self.buffers.count()
    }

    #[inline]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    #[inline]
    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        let outcome = self.carry_out(slot, request);
        self.finished.push(Completion { slot, outcome });
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        done.append(&mut self.finished);
        Ok(())
    }
}
