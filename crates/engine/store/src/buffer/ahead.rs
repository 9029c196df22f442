//! Work ahead of need, by a thread that nobody waits for: reserving space, and making memory.

use super::shared::Shared;
use crate::ContentWrite;
use gemelo_base::locks::{Condvar, Mutex};

/// Wakes the thread that works ahead, if there is one. Without it, work is done when it is needed.
pub(super) struct Ahead {
    has_thread: bool,
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

impl Ahead {
    pub(super) fn new(has_thread: bool) -> Self {
        Self { has_thread, call: Mutex::default(), called: Condvar::default() }
    }

    /// Calls for memory.
    pub(super) fn call_for_memory(&self) {
        self.call(Call { memory: true, ..Call::default() });
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.call(Call { is_ending: true, ..Call::default() });
    }

    fn call(&self, wanted: Call) {
        if !self.has_thread {
            return;
        }
        let mut call = self.call.lock();
        call.space |= wanted.space;
        call.memory |= wanted.memory;
        call.is_ending |= wanted.is_ending;
        drop(call);
        self.called.notify_one();
    }
}

/// Reserves space for contents, and calls for more if little is left.
pub(super) fn reserve(shared: &Shared, writes: &mut [ContentWrite<'_>]) {
    shared.store.reserve(writes);
    if shared.store.wants_reserve_ahead() {
        shared.ahead.call(Call { space: true, ..Call::default() });
    }
}

/// Reserves space and makes memory ahead of need, until the buffer ends.
pub(super) fn work_ahead(shared: &Shared) {
    make_memory(shared);
    let mut call = shared.ahead.call.lock();
    while !call.is_ending {
        let Call { space, memory, .. } = std::mem::take(&mut *call);
        if !space && !memory {
            shared.ahead.called.wait(&mut call);
            continue;
        }
        call.unlocked(|| {
            if memory {
                make_memory(shared);
            }
            if space {
                shared.store.reserve_ahead();
            }
        });
    }
}

fn make_memory(shared: &Shared) {
    let mut guarded = shared.lock();
    while guarded.state.memory.wants_ahead() && !guarded.is_ending {
        let Some(step) = guarded.state.memory.begin_step() else { return };
        let slots = guarded.unlocked(|| step.make());
        guarded.state.memory.add_step(slots);
        shared.settled.notify_all();
    }
}
