//! The barrier at which all processes of a run start.
//!
//! It counts the processes that did start, and whoever starts them holds it closed. If one cannot
//! be started, the starter is dropped, and none waits for ever for the others.

use crossbeam_channel::{Receiver, Sender, unbounded};
use gemelo_base::Clock;
use std::sync::OnceLock;

/// A barrier at which all processes start. Each reports that it is ready and waits until the
/// starter is dropped.
#[derive(Debug)]
pub struct StartBarrier {
    ready: Sender<()>,
    released: Receiver<()>,
    origin_ns: OnceLock<u64>,
}

/// The starting thread's side of the barrier.
#[derive(Debug)]
pub struct Starter {
    ready: Receiver<()>,
    held: Sender<()>,
}

impl StartBarrier {
    /// Makes a barrier that is closed.
    #[must_use]
    pub fn new() -> (Self, Starter) {
        let (ready, readies) = unbounded();
        let (held, released) = unbounded();
        (Self { ready, released, origin_ns: OnceLock::new() }, Starter { ready: readies, held })
    }

    /// Releases all processes; their time starts now.
    pub fn open(&self, starter: Starter, clock: &dyn Clock) {
        self.origin_ns.get_or_init(|| clock.now_ns());
        drop(starter.held);
    }

    /// Returns the start on the clock, once the barrier was opened.
    #[must_use]
    pub fn origin_ns(&self) -> Option<u64> {
        self.origin_ns.get().copied()
    }

    /// Waits for the start. Returns it, or 0 if the starter was dropped instead.
    pub fn together(&self) -> u64 {
        // The outcomes do not matter: nothing is sent on `held`, which is only dropped.
        let _ = self.ready.send(());
        let _ = self.released.recv();
        self.origin_ns().unwrap_or(0)
    }
}

impl Starter {
    /// Waits until this number of processes is ready.
    pub fn wait_for(&self, processes: u32) {
        self.ready.iter().take(processes as usize).for_each(drop);
    }
}
