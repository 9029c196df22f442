//! The threads that renew the lease of a member, look after the fences of earlier clients, and end
//! the process when the lease is over.

use crate::lease_state::Ended;
use crate::service::HeldLease;
use gemelo_base::background::Worker;
use std::io;
use std::sync::{Arc, OnceLock};
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

/// Starts the threads. If one panics, the lease ends.
pub(crate) fn start(held_lease: &Arc<HeldLease>) -> io::Result<Vec<Worker>> {
    let repeat = |name, interval, call: fn(&HeldLease) -> bool| {
        let (called, told) = (Arc::clone(held_lease), Arc::clone(held_lease));
        let told = move |_| told.lease_state().end(Ended::LeaseOver);
        Worker::repeat(name, told, interval, move || call(&called))
    };
    let renew = |held_lease: &HeldLease| {
        held_lease.renew();
        true
    };
    let tend_fences = |held_lease: &HeldLease| {
        held_lease.tend_fences();
        true
    };
    Ok(vec![
        repeat("gemelo-lease", RENEWED_EVERY, renew)?,
        repeat("gemelo-fences", RENEWED_EVERY, tend_fences)?,
        repeat("gemelo-watch-lease", LOOKED_EVERY, is_kept)?,
    ])
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
