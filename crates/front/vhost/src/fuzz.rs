//! Serves a queue in guest memory that a fuzzer has filled.

use crate::batch::Side;
use crate::queue::{QueueSetting, Ring};
use gemelo_device::{Buffer, Durability, Export, Memory, Waiting};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const MEMORY_BYTES: usize = 64 << 10;
const QUEUE_SIZE: u16 = 16;

/// Places in guest memory. The bytes of the fuzzer begin with the table of descriptors.
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x100;
const USED: u64 = 0x180;

/// Most batches: answers may overwrite the queue, so that it never ends.
const MAX_BATCHES: usize = 16;

/// Fills the memory of a guest with these bytes, and serves its queue for a device.
#[doc(hidden)]
pub fn fuzz_queue(export: &Export, bytes: &[u8]) {
    // The first error ends the run, as it stops a device.
    let _ = serve(export, bytes);
}

fn serve(export: &Export, bytes: &[u8]) -> Option<()> {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).ok()?;
    let filled = bytes.get(..MEMORY_BYTES).unwrap_or(bytes);
    memory.write_slice(filled, GuestAddress(DESCRIPTORS)).ok()?;
    let setting = QueueSetting {
        size: QUEUE_SIZE,
        descriptors: DESCRIPTORS,
        available: AVAILABLE,
        used: USED,
        ..QueueSetting::default()
    };
    let mut ring = Ring::open(&memory, &setting, None, None).ok()?;
    let mut buffer = Buffer::reserved(&Memory::default()).ok()?;
    let (device, name, durability) = (&*export.device, "fuzzed", Durability::Flushed);
    let side = Side { device, name, memory: &memory, durability };
    for _ in 0..MAX_BATCHES {
        let requests = ring.take(&memory, &export.geometry(), &mut buffer).ok()?;
        if requests.is_empty() {
            return Some(());
        }
        let statuses = side.execute(&requests, &mut buffer, Waiting::All).ok()?;
        for (request, status) in requests.iter().zip(statuses) {
            ring.answer(&memory, request, status?).ok()?;
        }
    }
    Some(())
}
