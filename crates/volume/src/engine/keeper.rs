//! The background: commits at an interval, and checkpoints before the journal is full.

use super::Engine;
use crate::backend::Pressure;
use crate::error::Result;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the keeper looks at the journal when nobody wakes it.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Bell {
    stop: Mutex<bool>,
    rung: Condvar,
}

/// A thread that keeps a pool in shape until it is dropped.
pub(crate) struct Keeper {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it.
    pub(crate) fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let heard = Arc::clone(&bell);
        let thread = std::thread::Builder::new().name("gemelo-keeper".into()).spawn(move || {
            keep(&engine, &heard);
        })?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.bell.stop.lock() = true;
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported, and the pool stays as it is.
            let _ = thread.join();
        }
    }
}

fn keep(engine: &Engine, bell: &Bell) {
    let interval_ns = u64::try_from(engine.tuning.commit_interval.as_nanos()).unwrap_or(u64::MAX);
    // What is left when this fails is cleared at the next opening.
    let _ = engine.clear_left(&|| *bell.stop.lock());
    let mut due_ns = engine.clock.now_ns().saturating_add(interval_ns);
    loop {
        {
            let mut stop = bell.stop.lock();
            if !*stop {
                bell.rung.wait_for(&mut stop, LOOK);
            }
            if *stop {
                return;
            }
        }
        let is_due = engine.clock.now_ns() >= due_ns;
        if is_due {
            due_ns = engine.clock.now_ns().saturating_add(interval_ns);
        }
        // What fails here fails again for whoever flushes, and is told there.
        let _ = look(engine, is_due);
    }
}

fn look(engine: &Engine, is_due: bool) -> Result<()> {
    engine.check_writable()?;
    if is_due {
        engine.flush()?;
        engine.release(&mut Vec::new());
    }
    let is_half_full = {
        let committer = engine.committer.lock();
        committer.journal.used_bytes() > committer.journal.ring_bytes() / 2
    };
    if is_half_full || engine.pressure() >= Pressure::High { engine.checkpoint() } else { Ok(()) }
}
