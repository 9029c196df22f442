//! Rights that a server has until it opens its drivers, and that a ring keeps.
//!
//! The kernel wants the right to administer the system for each command to a driver of disks. A
//! server that is not root has it only until its drivers are open: a ring for each of them keeps
//! it, and takes one kind of command to one file from then on. The process gives it up.

use gemelo_base::{Clock as _, SystemClock};
use io_uring::register::Restriction;
use io_uring::{IoUring, cqueue, squeue, types};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Entries of the ring. One command is begun at a time.
const RING_ENTRIES: u32 = 4;

/// The file of the commands among the files of the ring.
pub(crate) const COMMAND_FILE: types::Fixed = types::Fixed(0);

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// A ring that has the rights of the process that made it.
pub(crate) struct RightsRing {
    state: Mutex<RingState>,
    /// The rights with which commands run.
    personality: u16,
}

struct RingState {
    ring: Ring,
    /// Commands that were begun.
    begun: u64,
    /// Commands whose end nobody waited for, by their devices.
    hanging: BTreeMap<u32, u64>,
}

impl RightsRing {
    /// Makes a ring that takes nothing but commands of this code to this file.
    pub(crate) fn new(file: impl AsFd, code: u8) -> io::Result<Self> {
        let ring = Ring::builder().setup_r_disabled().build(RING_ENTRIES)?;
        let submitter = ring.submitter();
        submitter.register_files(&[file.as_fd().as_raw_fd()])?;
        let personality = submitter.register_personality()?;
        submitter.register_restrictions(&mut [
            Restriction::sqe_op(code),
            Restriction::sqe_flags_required(squeue::Flags::FIXED_FILE.bits()),
        ])?;
        submitter.register_enable_rings()?;
        let state = RingState { ring, begun: 0, hanging: BTreeMap::new() };
        Ok(Self { state: Mutex::new(state), personality })
    }

    /// Runs a command and waits for its end. Returns its result.
    ///
    /// # Safety
    /// The memory that the command names must be valid until this returns.
    pub(crate) unsafe fn run(&self, command: squeue::Entry128) -> Result<i32, Errno> {
        let mut state = self.lock();
        // SAFETY: the caller keeps the memory valid until this function returns, and it returns
        // when the command is complete.
        let number = unsafe { state.begin(command.personality(self.personality)) }?;
        loop {
            if let Some(result) = state.wait(number, None) {
                return result;
            }
        }
    }

    /// Runs a command about a device that names no memory, and waits so long for its end. A command
    /// that does not end is [`Errno::TIMEDOUT`], and so is each later one about its device while it
    /// lasts: the kernel would add a thread that waits to each of them.
    pub(crate) fn run_bounded(
        &self,
        device: u32,
        command: squeue::Entry128,
        patience: Duration,
    ) -> Result<i32, Errno> {
        let mut state = self.lock();
        if let Some(&earlier) = state.hanging.get(&device)
            && state.wait(earlier, Some(Duration::ZERO)).is_none()
        {
            return Err(Errno::TIMEDOUT);
        }
        state.hanging.remove(&device);
        // SAFETY: the command names no memory.
        let number = unsafe { state.begin(command.personality(self.personality)) }?;
        let ended = state.wait(number, Some(patience));
        ended.unwrap_or_else(|| {
            state.hanging.insert(device, number);
            Err(Errno::TIMEDOUT)
        })
    }

    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RingState {
    /// Gives the kernel a command. Returns its number.
    ///
    /// # Safety
    /// The memory that the command names must be valid until its end.
    unsafe fn begin(&mut self, command: squeue::Entry128) -> Result<u64, Errno> {
        self.begun += 1;
        // SAFETY: as the caller promises.
        let pushed = unsafe { self.ring.submission().push(&command.user_data(self.begun)) };
        pushed.map_err(|_full| Errno::BUSY)?;
        Ok(self.begun)
    }

    /// Waits for the end of a command, at most so long if there is a limit. Ends of others that
    /// were given up are forgotten, but for the fact.
    fn wait(&mut self, number: u64, limit: Option<Duration>) -> Option<Result<i32, Errno>> {
        let clock = SystemClock::new();
        loop {
            while let Some(done) = self.ring.completion().next() {
                let result = done.result();
                if done.user_data() == number {
                    let error = |result: i32| Errno::from_raw_os_error(result.saturating_neg());
                    return Some(if result < 0 { Err(error(result)) } else { Ok(result) });
                }
                self.hanging.retain(|_, hanging| *hanging != done.user_data());
            }
            let left =
                limit.map(|limit| limit.saturating_sub(Duration::from_nanos(clock.now_ns())));
            let submitter = self.ring.submitter();
            let entered = match left {
                None => submitter.submit_and_wait(1),
                Some(Duration::ZERO) => return None,
                Some(left) => {
                    let left = types::Timespec::from(left);
                    submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&left))
                }
            };
            if let Err(error) = entered
                && !matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::INTR | Errno::AGAIN | Errno::TIME)
                )
            {
                // The kernel may still work on the command, and its memory must stay: wait.
                gemelo_base::pause(Duration::from_millis(1));
            }
        }
    }
}

/// Gives the rights to administer the system and its resources up, unless this process is root.
pub(crate) fn give_up_rights() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RESOURCE);
    }
    Ok(set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::opcode;
    use rustix::event::{EventfdFlags, eventfd};

    /// A look at a notice, in place of a command that the kernel does not end.
    fn look() -> squeue::Entry128 {
        const READABLE: u32 = 1;
        opcode::PollAdd::new(COMMAND_FILE, READABLE).build().into()
    }

    #[test]
    fn a_command_that_does_not_end_is_begun_once() {
        let Ok(notice) = eventfd(0, EventfdFlags::CLOEXEC) else { panic!("no notice") };
        let ring = RightsRing::new(&notice, opcode::PollAdd::CODE).unwrap();
        let soon = Duration::from_millis(20);
        assert_eq!(ring.run_bounded(3, look(), soon), Err(Errno::TIMEDOUT));
        let begun = ring.lock().begun;
        assert_eq!(ring.run_bounded(3, look(), Duration::from_secs(60)), Err(Errno::TIMEDOUT));
        assert_eq!(ring.lock().begun, begun, "a device that hangs gets no second command");
        assert_eq!(ring.run_bounded(4, look(), soon), Err(Errno::TIMEDOUT), "another device may");
        assert_eq!(ring.lock().begun, begun + 1);
        rustix::io::write(&notice, &1u64.to_ne_bytes()).unwrap();
        // SAFETY: the command names no memory.
        assert_eq!(unsafe { ring.run(look()) }, Ok(1), "ends of others are not taken for its own");
        assert_eq!(ring.run_bounded(3, look(), soon), Ok(1), "the device works again");
        assert!(!ring.lock().hanging.contains_key(&3));
    }
}
