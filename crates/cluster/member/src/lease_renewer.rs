//! The threads that renew the lease of a member, and that end the process when it is over.

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
        let stop = StopFlag::new();
        let mut renewer = Self { stop: stop.clone(), threads: Vec::new() };
        let (renewed, renewing) = (Arc::clone(&held_lease), stop.clone());
        let renew = move || {
            while wait(&renewing, RENEWED_EVERY) {
                renewed.renew();
            }
        };
        let thread = std::thread::Builder::new().name("gemelo-lease".into());
        renewer.threads.push(thread.spawn(renew)?);
        let watch = move || {
            while wait(&stop, LOOKED_EVERY) {
                match held_lease.lease_state().check() {
                    Ok(()) | Err(Ended::Released) => {}
                    // The caller, which is opening the pool, gets the error and may try again.
                    Err(_) if !held_lease.is_in_use() => {}
                    Err(why) => {
                        if let Some(call) = ON_LOSS.get() {
                            call(&why);
                        }
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("gemelo-watch-lease".into());
        renewer.threads.push(thread.spawn(watch)?);
        Ok(renewer)
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
