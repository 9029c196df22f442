//! Rights that a server has until it opens its drivers, and that a ring keeps.
//!
//! The kernel wants the right to administer the system for each command to a driver of disks. A
//! server that is not root has it only until its drivers are open: a ring for each of them keeps
//! it, and takes one kind of command to one file from then on. The process gives it up.

use io_uring::register::Restriction;
use io_uring::{IoUring, cqueue, squeue, types};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};

/// Entries of the ring. One command is in flight at a time.
const RING_ENTRIES: u32 = 4;

/// The file of the commands among the files of the ring.
pub(crate) const COMMAND_FILE: types::Fixed = types::Fixed(0);

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// A ring that has the rights of the process that made it.
pub(crate) struct RightsRing {
    ring: Mutex<Ring>,
    /// The rights with which commands run.
    personality: u16,
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
        Ok(Self { ring: Mutex::new(ring), personality })
    }

    /// Runs a command and waits for its end. Returns its result.
    ///
    /// # Safety
    /// The memory that the command names must be valid until this returns.
    pub(crate) unsafe fn run(&self, command: squeue::Entry128) -> Result<i32, Errno> {
        let entry = command.personality(self.personality);
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller keeps the memory valid until this function returns, and it returns
        // when the command is complete.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            return Err(Errno::BUSY);
        }
        loop {
            let entered = ring.submit_and_wait(1);
            if let Some(done) = ring.completion().next() {
                let result = done.result();
                let is_error = |result: i32| Errno::from_raw_os_error(result.saturating_neg());
                return if result < 0 { Err(is_error(result)) } else { Ok(result) };
            }
            if let Err(error) = entered
                && !matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN))
            {
                // The kernel may still work on the command, and its memory must stay: wait.
                gemelo_base::pause(std::time::Duration::from_millis(1));
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
