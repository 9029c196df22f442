//! The threads that renew the lease of a member, look after the fences of earlier clients, and end
//! the process when the lease is over.

use crate::lease_state::Ended;
use crate::service::HeldLease;
use gemelo_base::StopFlag;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two renewals. A lease lasts for several, so that one may fail.
const RENEWED_EVERY: Duration = Duration::from_secs(1);
/// Interval between two looks at the lease and at the flag.
const LOOKED_EVERY: Duration = Duration::from_millis(20);

/// The reaction of a process that may not act for a member any more. It does not return if it ends
/// the process.
type OnLoss = Box<dyn Fn(&Ended) + Send + Sync>;

static ON_LOSS: OnceLock<OnLoss> = OnceLock::new();

/// Sets what happens when this process may not act any more for a member that is in use. Requests
/// to the member fail in any case. A program should end at once: threads may wait for a store that
/// does not answer. The first call counts.
pub fn on_loss(call: impl Fn(&Ended) + Send + Sync + 'static) {
    // A later call changes nothing, as documented.
    let _ = ON_LOSS.set(Box::new(call));
}

/// The threads, until the value is dropped.
pub(crate) struct LeaseRenewer {
    stop: StopFlag,
    threads: Vec<JoinHandle<()>>,
}

impl LeaseRenewer {
    pub(crate) fn start(held_lease: Arc<HeldLease>) -> io::Result<Self> {
        let mut renewer = Self { stop: StopFlag::new(), threads: Vec::new() };
        let renewed = Arc::clone(&held_lease);
        renewer.repeat("gemelo-lease", RENEWED_EVERY, move || {
            renewed.renew();
            true
        })?;
        let fenced = Arc::clone(&held_lease);
        renewer.repeat("gemelo-fences", RENEWED_EVERY, move || {
            fenced.tend_fences();
            true
        })?;
        renewer.repeat("gemelo-watch-lease", LOOKED_EVERY, move || is_kept(&held_lease))?;
        Ok(renewer)
    }

    /// Starts a thread that calls a function at an interval, until it returns `false`.
    fn repeat(
        &mut self,
        name: &str,
        interval: Duration,
        mut call: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<()> {
        let stop = self.stop.clone();
        let thread = std::thread::Builder::new().name(name.into());
        self.threads.push(thread.spawn(move || while wait(&stop, interval) && call() {})?);
        Ok(())
    }
}

/// Returns whether the lease is to be watched on. A loss of a member that is in use is reported.
fn is_kept(held_lease: &HeldLease) -> bool {
    match held_lease.lease_state().check() {
        Ok(()) | Err(Ended::Released) => true,
        // The caller, which is opening the pool, gets the error and may try again.
        Err(_) if !held_lease.is_in_use() => true,
        Err(why) => {
            if let Some(call) = ON_LOSS.get() {
                call(&why);
            }
            false
        }
    }
}

/// Waits, and returns whether the flag is still down.
fn wait(stop: &StopFlag, span: Duration) -> bool {
    let mut rest = span;
    while !stop.is_raised() && !rest.is_zero() {
        let step = rest.min(LOOKED_EVERY);
        gemelo_base::pause(step);
        rest -= step;
    }
    !stop.is_raised()
}

impl Drop for LeaseRenewer {
    /// Waits for the threads: a thread that uses librados while the process exits would crash it.
    fn drop(&mut self) {
        self.stop.raise();
        for thread in self.threads.drain(..) {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
