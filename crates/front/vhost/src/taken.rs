//! Requests that are taken out of a queue to be executed together.

use crate::batch::{BATCH_BYTES, MAX_REQUESTS, room_bytes};
use crate::chain::Chain;
use crate::inflight::Tracker;
use crate::request::{Breach, GuestRequest};
use gemelo_device::{Buffer, Geometry};
use vm_memory::GuestMemoryMmap;

/// A batch under construction.
pub(crate) struct Taken<'a> {
    pub(crate) memory: &'a GuestMemoryMmap,
    pub(crate) geometry: &'a Geometry,
    /// The table of descriptors, and their number.
    pub(crate) table: (u64, u16),
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) used_bytes: usize,
    pub(crate) requests: Vec<GuestRequest>,
}

impl Taken<'_> {
    pub(crate) fn is_full(&self) -> bool {
        self.requests.len() >= MAX_REQUESTS || self.used_bytes >= BATCH_BYTES
    }

    /// Adds a request. Returns `false` if there is no room for it.
    pub(crate) fn add(&mut self, head: u16, tracker: Option<&mut Tracker>) -> Result<bool, Breach> {
        let chain = Chain::read(self.memory, self.table, head)?;
        let request = GuestRequest::parse(self.memory, (head, chain), self.geometry)?;
        let wanted = self.used_bytes + room_bytes(request.data_bytes());
        let has_room = wanted <= self.buffer.len() || grow(self.buffer, wanted);
        if !self.requests.is_empty() && !has_room {
            return Ok(false);
        }
        if let Some(tracker) = tracker {
            tracker.begin(head)?;
        }
        self.used_bytes = wanted;
        self.requests.push(request);
        Ok(true)
    }
}

/// Grows a buffer for this many bytes, up to the size of a batch. Returns whether they fit.
pub(crate) fn grow(buffer: &mut Buffer, bytes: usize) -> bool {
    let wanted = bytes.next_power_of_two().min(BATCH_BYTES);
    buffer.grow(wanted, 0) && bytes <= wanted
}
