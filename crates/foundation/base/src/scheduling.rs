//! The scheduling of threads that work in the background.

use std::mem::{MaybeUninit, size_of};

/// The longest slice that Linux grants, in nanoseconds: 100 ms.
const LONGEST_SLICE_NS: u64 = 100_000_000;
/// The nice value of a thread that uses spare time. It gets a tenth of the time of another thread
/// that competes with it.
const SPARE_NICE: i32 = 10;

/// Lets other threads that become ready interrupt the calling thread, for the rest of its life. It
/// gets the same share of the processors as before, only later.
///
/// Since version 6.12, Linux runs the thread whose slice ends first among those that have not had
/// their share. A thread with the longest slice is the last of them. Other systems and versions
/// ignore the request, and nothing depends on it.
pub fn let_others_interrupt() {
    schedule(None);
}

/// Has the calling thread use time that others leave, for the rest of its life. While others need
/// all of it, it still gets a small share, so that nobody waits for ever for a lock that it holds.
///
/// A thread that is interrupted by [`let_others_interrupt`] has a share of its own, and runs
/// although others are ready if it has had less. This one has nearly always had its share.
pub fn use_spare_time() {
    schedule(Some(SPARE_NICE));
}

/// Sets the scheduling of the calling thread, unless the user has chosen one for the process. Its
/// nice value stays, or becomes at least this one.
fn schedule(min_nice: Option<i32>) {
    let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `size` bytes into the structure, which has that many. All
    // of its fields are integers, so zeros are valid where the kernel writes nothing.
    let mut attributes = unsafe {
        let got = libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), size, 0);
        if got != 0 {
            return;
        }
        attributes.assume_init()
    };
    if i32::try_from(attributes.sched_policy) != Ok(libc::SCHED_OTHER) {
        return;
    }
    attributes.size = u32::try_from(size).unwrap_or(0);
    attributes.sched_policy = libc::SCHED_BATCH.cast_unsigned();
    attributes.sched_flags = 0;
    attributes.sched_nice =
        min_nice.map_or(attributes.sched_nice, |least| attributes.sched_nice.max(least));
    attributes.sched_runtime = LONGEST_SLICE_NS;
    // SAFETY: the kernel reads the structure, whose size is in its first field.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy and the nice value of the calling thread, by the fields of `/proc`.
    fn policy_and_nice() -> (String, String) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The fields are numbered from the state, which is the third one.
        (fields[41 - 3].to_owned(), fields[19 - 3].to_owned())
    }

    #[test]
    fn a_thread_is_scheduled_behind_others_and_its_parent_as_before() {
        let before = policy_and_nice();
        let is_usual = before.0 == libc::SCHED_OTHER.to_string();
        let scheduled = |schedule: fn()| {
            let thread = std::thread::spawn(move || {
                schedule();
                policy_and_nice()
            });
            thread.join().unwrap()
        };
        let batch = if is_usual { libc::SCHED_BATCH.to_string() } else { before.0.clone() };
        assert_eq!(scheduled(let_others_interrupt), (batch.clone(), before.1.clone()));
        let (policy, nice) = scheduled(use_spare_time);
        assert_eq!(policy, batch);
        assert!(!is_usual || nice.parse::<i32>().unwrap() >= SPARE_NICE);
        assert_eq!(policy_and_nice(), before);
    }
}
