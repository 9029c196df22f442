//! Flowops that transfer data: read, write, their whole-file, append and asynchronous forms, and
//! copy.

use super::aio::{Job, MAX_UNDER_WAY, submit};
use super::error::WorkloadError;
use super::handles::OpenFile;
use super::memory::random_multiple;
use super::worker::{Done, Flow, Worker};
use crate::flowop::Kind;
use crate::model::Flowop;
use crate::script::MAX_IO_BYTES;
use gemelo_base::Clock;
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Most bytes of one operation of a whole-file flowop without an iosize.
const MAX_WHOLE_FILE_IO: u64 = 16 << 20;
/// Bytes of one operation of copyfile without an iosize.
const COPY_IO: u64 = 1 << 20;

/// Writes the whole buffer at an offset.
pub(super) fn write_at(file: impl AsFd, buffer: &[u8], offset: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < buffer.len() {
        match pwrite(file.as_fd(), &buffer[written..], offset + written as u64)? {
            0 => return Err(Errno::NOSPC),
            count => written += count,
        }
    }
    Ok(())
}

/// Appends the whole buffer at the current end of the file. It takes one system call if the kernel
/// supports appending writes.
fn append_all(file: &OpenFile, buffer: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while written < buffer.len() {
        let rest = &buffer[written..];
        let count = match pwritev2(&file.handle, &[IoSlice::new(rest)], 0, ReadWriteFlags::APPEND) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => pwrite(&file.handle, rest, end_of(file)?)?,
            result => result?,
        };
        if count == 0 {
            return Err(Errno::NOSPC);
        }
        written += count;
    }
    Ok(())
}

fn end_of(file: &OpenFile) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(&file.handle)?.st_size as u64)
}

/// Returns the offset of the next sequential operation.
fn position_of(file: &OpenFile) -> Result<u64, Errno> {
    file.position.map_or_else(|| end_of(file), Ok)
}

/// Reads to the end of the file and returns the number of bytes read.
fn read_all(file: &OpenFile, buffer: &mut [u8]) -> Result<u64, Errno> {
    let mut offset = 0;
    loop {
        let count = pread(&file.handle, &mut *buffer, offset)?;
        offset += count as u64;
        // A read returns fewer bytes than requested only at the end of the file.
        if count < buffer.len() || count == 0 {
            return Ok(offset);
        }
    }
}

impl Worker {
    /// Returns the handle of the flowop and opens a file there if none is open. Returns `None` if
    /// there is no file to open.
    fn ready(&mut self, flowop: &Flowop) -> Result<Option<usize>, WorkloadError> {
        let slot = self.slot(flowop);
        if self.handles.open(slot).is_none() && self.open_in(flowop, slot)? != Flow::Continue {
            return Ok(None);
        }
        Ok(Some(slot))
    }

    /// Returns the bytes of the file on which the flowop works.
    fn working_set(&self, flowop: &Flowop, slot: usize) -> u64 {
        if flowop.working_set > 0 { flowop.working_set } else { self.size_of(slot) }
    }

    /// Returns the planned size of the file of a handle.
    fn size_of(&self, slot: usize) -> u64 {
        let planned =
            |(fileset, file): (usize, usize)| self.shared.filesets[fileset].layout.sizes[file];
        self.handles.file(slot).map_or(0, planned)
    }

    fn fileset_in(&self, slot: usize) -> usize {
        self.handles.file(slot).map_or(0, |(fileset, _)| fileset)
    }

    /// Returns the size of the next operation.
    fn io_size(&mut self, flowop: &Flowop) -> usize {
        flowop.io_size.next_real(&mut self.random).min(MAX_IO_BYTES) as usize
    }

    /// Returns a random offset for an operation of `size` bytes.
    fn offset(&mut self, flowop: &Flowop, slot: usize, size: usize) -> Result<u64, WorkloadError> {
        let working_set = self.working_set(flowop, slot);
        if working_set < size as u64 {
            let what = format!(
                "work on {working_set} bytes in steps of {size}: make the file or workingset larger"
            );
            return Err(self.failure(&flowop.name, &what, None));
        }
        Ok(random_multiple(&mut self.random, working_set, size as u64))
    }

    pub(super) fn read(&mut self, flowop: &Flowop) -> Done {
        let Some(slot) = self.ready(flowop)? else { return Ok(Flow::OutOfFiles) };
        let size = self.io_size(flowop);
        let offset = if flowop.random { Some(self.offset(flowop, slot, size)?) } else { None };
        let start = self.place_in_memory(size);
        let begin_ns = self.clock.now_ns();
        let Some(file) = self.handles.open_mut(slot) else { return Ok(Flow::Continue) };
        let buffer = self.memory.part_mut(start, size);
        let result = match offset {
            Some(offset) => pread(&file.handle, buffer, offset),
            None => position_of(file).and_then(|position| {
                let count = pread(&file.handle, buffer, position)?;
                // After the end of the file, the next read starts at the beginning.
                file.position = Some(if count == 0 { 0 } else { position + count as u64 });
                Ok(count)
            }),
        };
        let count = result.map_err(|error| self.failure(&flowop.name, "read", Some(error)))?;
        self.ended(flowop, begin_ns, count as u64);
        Ok(Flow::Continue)
    }

    pub(super) fn write(&mut self, flowop: &Flowop) -> Done {
        let Some(slot) = self.ready(flowop)? else { return Ok(Flow::OutOfFiles) };
        let size = self.io_size(flowop);
        let offset = if flowop.random { Some(self.offset(flowop, slot, size)?) } else { None };
        let start = self.place_in_memory(size);
        let begin_ns = self.clock.now_ns();
        self.generate(self.fileset_in(slot), start, size);
        let Some(file) = self.handles.open_mut(slot) else { return Ok(Flow::Continue) };
        let buffer = self.memory.part(start, size);
        let result = match offset {
            Some(offset) => write_at(&file.handle, buffer, offset),
            None => position_of(file).and_then(|position| {
                write_at(&file.handle, buffer, position)?;
                file.position = Some(position + size as u64);
                Ok(())
            }),
        };
        result.map_err(|error| self.failure(&flowop.name, "write", Some(error)))?;
        self.ended(flowop, begin_ns, size as u64);
        Ok(Flow::Continue)
    }

    pub(super) fn read_whole_file(&mut self, flowop: &Flowop) -> Done {
        let Some(slot) = self.ready(flowop)? else { return Ok(Flow::OutOfFiles) };
        let size = match self.io_size(flowop) {
            0 => self.working_set(flowop, slot).clamp(1, MAX_WHOLE_FILE_IO) as usize,
            size => size,
        };
        let start = self.place_in_memory(size);
        let begin_ns = self.clock.now_ns();
        let Some(file) = self.handles.open_mut(slot) else { return Ok(Flow::Continue) };
        let result = read_all(file, self.memory.part_mut(start, size));
        file.position = None;
        let bytes = result.map_err(|error| self.failure(&flowop.name, "read", Some(error)))?;
        self.ended(flowop, begin_ns, bytes);
        Ok(Flow::Continue)
    }

    pub(super) fn write_whole_file(&mut self, flowop: &Flowop) -> Done {
        let Some(slot) = self.ready(flowop)? else { return Ok(Flow::OutOfFiles) };
        let from = flowop.source_slot;
        if from != 0 && self.handles.file(from).is_none() {
            return Err(self.failure(
                &flowop.name,
                &format!("write the size of the file in srcfd={from}: no file was opened there"),
                None,
            ));
        }
        // Handle 0 counts as the source if a file was opened there.
        let total = match self.handles.file(from) {
            Some(_) => self.size_of(from),
            None => self.working_set(flowop, slot),
        };
        let size = match self.io_size(flowop) as u64 {
            0 => total.clamp(1, MAX_WHOLE_FILE_IO),
            size => size.min(total.max(1)),
        };
        let start = self.place_in_memory(size as usize);
        let begin_ns = self.clock.now_ns();
        let mut written = 0;
        while written < total {
            let part = (total - written).min(size) as usize;
            self.generate(self.fileset_in(slot), start, part);
            let Some(file) = self.handles.open_mut(slot) else { break };
            let result = position_of(file).and_then(|position| {
                write_at(&file.handle, self.memory.part(start, part), position)?;
                file.position = Some(position + part as u64);
                Ok(())
            });
            result.map_err(|error| self.failure(&flowop.name, "write", Some(error)))?;
            written += part as u64;
        }
        self.ended(flowop, begin_ns, written);
        Ok(Flow::Continue)
    }

    /// Appends the flowop's number of bytes, or a random number below it.
    pub(super) fn append(&mut self, flowop: &Flowop, random_size: bool) -> Done {
        let mut size = self.io_size(flowop);
        if random_size {
            size = self.random.below(size as u64) as usize;
        }
        let Some(slot) = self.ready(flowop)? else { return Ok(Flow::OutOfFiles) };
        let start = self.place_in_memory(size);
        let begin_ns = self.clock.now_ns();
        self.generate(self.fileset_in(slot), start, size);
        if let Some(file) = self.handles.open_mut(slot) {
            file.position = None;
            let result = append_all(file, self.memory.part(start, size));
            result.map_err(|error| self.failure(&flowop.name, "append", Some(error)))?;
        }
        self.ended(flowop, begin_ns, size as u64);
        Ok(Flow::Continue)
    }

    pub(super) fn start_aio(&mut self, flowop: &Flowop) -> Done {
        let Some(slot) = self.ready(flowop)? else { return Ok(Flow::OutOfFiles) };
        let size = self.io_size(flowop);
        let offset = self.offset(flowop, slot, size)?;
        self.wait_for_operations(flowop, MAX_UNDER_WAY - 1)?;
        let begin_ns = self.clock.now_ns();
        let writes = flowop.kind == Kind::AioWrite;
        let mut buffer = self.thread_aio.spare();
        buffer.resize(size);
        if writes {
            let start = self.place_in_memory(size);
            self.generate(self.fileset_in(slot), start, size);
            buffer.bytes_mut().copy_from_slice(self.memory.part(start, size));
        }
        let Some(file) = self.handles.open_mut(slot) else { return Ok(Flow::Continue) };
        if file.aio_handle.is_none() {
            let copy = file.handle.try_clone().map(Arc::new);
            file.aio_handle = copy.ok();
        }
        let (Some(handle), Some(jobs)) = (file.aio_handle.clone(), self.shared.aio.as_ref()) else {
            return Err(self.failure(&flowop.name, "copy a file handle", Some(Errno::MFILE)));
        };
        submit(
            jobs,
            Job { file: handle, buffer, offset, writes, thread_aio: Arc::clone(&self.thread_aio) },
        );
        self.ended(flowop, begin_ns, size as u64);
        Ok(Flow::Continue)
    }

    /// Waits until half of the operations in flight, and at least one, have finished.
    pub(super) fn wait_for_aio(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let under_way = self.thread_aio.under_way();
        self.wait_for_operations(flowop, under_way - (under_way / 2).max(1).min(under_way))?;
        self.ended(flowop, begin_ns, 0);
        Ok(Flow::Continue)
    }

    fn wait_for_operations(&self, flowop: &Flowop, left: u64) -> Result<(), WorkloadError> {
        let stopped = || self.shared.is_stopped();
        let result = self.thread_aio.wait(left, &stopped);
        result.map_err(|error| {
            self.failure(&flowop.name, "do an asynchronous operation", Some(error))
        })
    }

    /// Copies the file open in `srcfd` to the one open in `fd`, or to a new file of the fileset.
    pub(super) fn copy_file(&mut self, flowop: &Flowop) -> Done {
        let begin_ns = self.clock.now_ns();
        let slot = self.slot(flowop);
        let creates = self.handles.open(slot).is_none();
        if creates && self.create_in(flowop, slot)? != Flow::Continue {
            return Ok(Flow::OutOfFiles);
        }
        let size = match self.io_size(flowop) {
            0 => COPY_IO as usize,
            size => size,
        };
        let start = self.place_in_memory(size);
        let (Some(from), Some(to)) =
            (self.handles.open(flowop.source_slot), self.handles.open(slot))
        else {
            let what = format!("copy from srcfd={}: no file is open there", flowop.source_slot);
            return Err(self.failure(&flowop.name, &what, None));
        };
        let mut copied = 0;
        loop {
            let buffer = self.memory.part_mut(start, size);
            let result = pread(&from.handle, &mut *buffer, copied).and_then(|count| {
                write_at(&to.handle, &buffer[..count], copied)?;
                Ok(count)
            });
            let count = result.map_err(|error| self.failure(&flowop.name, "copy", Some(error)))?;
            copied += count as u64;
            if count < size {
                break;
            }
        }
        if creates {
            self.close_slot(slot);
        } else if let Some(file) = self.handles.open_mut(slot) {
            file.position = Some(copied);
        }
        self.ended(flowop, begin_ns, copied);
        Ok(Flow::Continue)
    }
}
