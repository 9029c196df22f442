//! A block device on a plain file, with one system call for each request.

use gemelo_device::{BlockDevice, DeviceError, Durability, Extent, Geometry, Operation, Request};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) struct FileDevice {
    file: File,
    size_bytes: u64,
}

impl FileDevice {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let size_bytes = file.metadata()?.len();
        Ok(Self { file, size_bytes })
    }

    fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        Ok(fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            length,
        )?)
    }

    fn one(&self, operation: &mut Operation<'_>) -> io::Result<()> {
        let durability = match operation {
            Operation::Read { offset, buffer } => return self.file.read_exact_at(buffer, *offset),
            Operation::Flush => return self.file.sync_data(),
            Operation::Write { offset, data, durability } => {
                self.file.write_all_at(data, *offset)?;
                *durability
            }
            Operation::WriteZeroes { offset, length, durability, .. }
            | Operation::Trim { offset, length, durability } => {
                self.zero(*offset, *length)?;
                *durability
            }
        };
        if durability == Durability::Immediate { self.file.sync_data() } else { Ok(()) }
    }
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 32 << 20,
            read_only: false,
        }
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        for request in batch {
            request.outcome = self.one(&mut request.operation).map_err(DeviceError::Io);
        }
    }

    fn extents(
        &self,
        _offset: u64,
        length: u64,
        _max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        Ok(vec![Extent { length, allocated: true, zero: false }])
    }
}
