//! Serves a queue in guest memory that a fuzzer has filled.

use crate::batch;
use crate::guest::Guest;
use gemelo_device::{Buffer, Durability, Export, Memory};
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const MEMORY_BYTES: usize = 64 << 10;
const QUEUE_SIZE: u16 = 16;

/// Places in guest memory. The bytes of the fuzzer begin with the table of descriptors.
const DESCRIPTORS: GuestAddress = GuestAddress(0);
const AVAILABLE: GuestAddress = GuestAddress(0x100);
const USED: GuestAddress = GuestAddress(0x180);

/// Most batches: answers may overwrite the queue, so that it never ends.
const MAX_BATCHES: usize = 16;

/// Fills the memory of a guest with these bytes, and serves its queue for a device.
#[doc(hidden)]
pub fn fuzz_queue(export: Export, bytes: &[u8]) {
    // The first error ends the run, as it stops a device.
    let _ = serve(export, bytes);
}

fn serve(export: Export, bytes: &[u8]) -> Option<()> {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).ok()?;
    let filled = bytes.get(..MEMORY_BYTES).unwrap_or(bytes);
    memory.write_slice(filled, DESCRIPTORS).ok()?;
    let mut queue = Queue::new(QUEUE_SIZE).ok()?;
    queue.try_set_size(QUEUE_SIZE).ok()?;
    queue.try_set_desc_table_address(DESCRIPTORS).ok()?;
    queue.try_set_avail_ring_address(AVAILABLE).ok()?;
    queue.try_set_used_ring_address(USED).ok()?;
    queue.set_ready(true);
    let memory_of_buffers = Memory::default();
    let mut buffer = Buffer::reserved(&memory_of_buffers).ok()?;
    let guest = Guest::new(export, false, memory_of_buffers).ok()?;
    for _ in 0..MAX_BATCHES {
        let mut requests = guest.next_requests(&mut queue, &memory, &mut buffer).ok()?;
        if requests.is_empty() {
            return Some(());
        }
        let mode = (&mut buffer, Durability::Flushed);
        let statuses = batch::execute(&mut requests, guest.device(), mode, "fuzzed").ok()?;
        for (request, status) in requests.into_iter().zip(statuses) {
            let head = request.head;
            let bytes = request.answer(status).ok()?;
            queue.add_used(&memory, head, bytes).ok()?;
        }
    }
    Some(())
}
