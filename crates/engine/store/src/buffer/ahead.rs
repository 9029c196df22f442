//! Work ahead of need, by a thread that nobody waits for: reserving space, and making memory.

use super::shared::Shared;
use crate::ContentWrite;
use gemelo_base::locks::{Condvar, Mutex};

/// Wakes the thread that works ahead.
#[derive(Default)]
pub(super) struct Ahead {
    call: Mutex<Call>,
    called: Condvar,
}

/// Work that is called for.
#[derive(Clone, Copy, Default)]
struct Call {
    space: bool,
    memory: bool,
    is_ending: bool,
}

impl Shared {
    /// Reserves space for contents, and calls for more if little is left.
    pub(super) fn reserve(&self, writes: &mut [ContentWrite<'_>]) {
        self.store.reserve(writes);
        if self.store.wants_reserve_ahead() {
            self.call(Call { space: true, ..Call::default() });
        }
    }

    /// Calls for memory.
    pub(super) fn call_for_memory(&self) {
        self.call(Call { memory: true, ..Call::default() });
    }

    /// Ends the thread.
    pub(super) fn end_ahead(&self) {
        self.call(Call { is_ending: true, ..Call::default() });
    }

    /// Calls for work ahead of need. Without threads it is done when it is needed.
    fn call(&self, wanted: Call) {
        if !self.has_threads {
            return;
        }
        let mut call = self.ahead.call.lock();
        call.space |= wanted.space;
        call.memory |= wanted.memory;
        call.is_ending |= wanted.is_ending;
        drop(call);
        self.ahead.called.notify_one();
    }

    /// Reserves space and makes memory ahead of need, until the buffer ends.
    pub(super) fn work_ahead(&self) {
        self.make_memory_ahead();
        let mut call = self.ahead.call.lock();
        while !call.is_ending {
            let Call { space, memory, .. } = std::mem::take(&mut *call);
            if !space && !memory {
                self.ahead.called.wait(&mut call);
                continue;
            }
            call.unlocked(|| {
                if memory {
                    self.make_memory_ahead();
                }
                if space {
                    self.store.reserve_ahead();
                }
            });
        }
    }

    fn make_memory_ahead(&self) {
        let mut guarded = self.lock();
        while guarded.state.memory.wants_ahead() && !guarded.is_ending {
            let Some(step) = guarded.state.memory.begin_step() else { return };
            let slots = guarded.unlocked(|| step.make());
            guarded.state.memory.add_step(slots);
            self.settled.notify_all();
        }
    }
}
