//! The fuzz target for vhost-user: a queue in the memory of a guest.

use gemelo_device::{BlockDevice, DeviceError, Export, Extent, Geometry, Operation, Request};
use std::sync::Arc;

/// A device of zeros that checks what the front end asks of it.
struct Zeros;

const SIZE_BYTES: u64 = 1 << 20;

impl BlockDevice for Zeros {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: SIZE_BYTES,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 1 << 25,
            read_only: false,
        }
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        for request in batch {
            let (offset, length) = match &mut request.operation {
                Operation::Read { offset, buffer } => {
                    buffer.fill(0);
                    (*offset, buffer.len() as u64)
                }
                Operation::Write { offset, data, .. } => (*offset, data.len() as u64),
                Operation::WriteZeroes { offset, length, .. }
                | Operation::Trim { offset, length, .. } => (*offset, *length),
                Operation::Flush => (0, 0),
            };
            let end = offset.checked_add(length);
            assert!(end.is_some_and(|end| end <= SIZE_BYTES), "{:?}", request.operation);
        }
    }

    fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(Vec::new())
    }
}

/// Serves the queue of a guest whose memory begins with these bytes.
pub(crate) fn queue(bytes: &[u8]) {
    gemelo_vhost::fuzz_queue(&Export::new("fuzzed", Arc::new(Zeros)), bytes);
}

/// Returns memory with one request of each type.
pub(crate) fn queue_seeds() -> Vec<Vec<u8>> {
    [0u32, 1, 4, 8, 11, 13].map(|kind| memory(kind, kind == 0 || kind == 8)).to_vec()
}

fn memory(kind: u32, is_read: bool) -> Vec<u8> {
    let mut memory = vec![0; 0x800];
    let mut put = |place: usize, bytes: &[u8]| {
        for (to, from) in memory.iter_mut().skip(place).zip(bytes) {
            *to = *from;
        }
    };
    let mut descriptor = |number: usize, address: u64, bytes: u32, flags: u16| {
        put(16 * number, &address.to_le_bytes());
        put(16 * number + 8, &bytes.to_le_bytes());
        put(16 * number + 12, &flags.to_le_bytes());
        put(16 * number + 14, &(number as u16 + 1).to_le_bytes());
    };
    let data_bytes = if kind >= 11 { 16 } else { 512 };
    descriptor(0, 0x400, 16, 1);
    descriptor(1, 0x500, data_bytes, if is_read { 3 } else { 1 });
    descriptor(2, 0x410, 1, 2);
    put(0x102, &1u16.to_le_bytes());
    put(0x400, &kind.to_le_bytes());
    put(0x508, &8u32.to_le_bytes());
    memory
}
