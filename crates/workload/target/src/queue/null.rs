//! A queue that completes every request at once, which measures the cost of the load generator
//! itself.

use super::buffers::Buffers;
use super::{Completion, IoFailure, Queue, QueueOptions, TargetRequest, Wait};

/// Completes every request at once. A read leaves the buffer unchanged.
pub(crate) struct NullQueue {
    buffers: Buffers,
    finished: Vec<Completion>,
}

impl NullQueue {
    pub(crate) fn new(options: &QueueOptions) -> Self {
        Self {
            buffers: Buffers::new(options.depth, options.buffer_bytes),
            finished: Vec::with_capacity(options.depth),
        }
    }
}

impl Queue for NullQueue {
    fn depth(&self) -> usize {
        self.buffers.count()
    }

    #[inline]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    #[inline]
    fn submit(&mut self, slot: usize, _request: TargetRequest) -> Result<(), Box<IoFailure>> {
        self.finished.push(Completion { slot, outcome: Ok(()) });
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        done.append(&mut self.finished);
        Ok(())
    }
}
