//! The ring of a queue's last tag, by whose end a server lets the driver know that it ends.
//!
//! 1. A ring that has commands of a queue ends: the driver starts no further request of the queue.
//! 2. It waits until the server has answered the requests that it has started.
//! 3. It gives all commands back, with `ENODEV`. The next server gets what comes from now on.
//!
//! Linux 6.12 loses a request that it is about to tell of by the ring that ends: the disk hangs.
//! So the last tag has a ring of its own, which ends first, while the other one serves. No request
//! has this tag after udev's rule has made `nr_requests` one less than the depth.
//!
//! Without the rule, requests have it. The driver (of Linux 6.12) tells of several requests in one
//! piece of work, that of the ring of the first one. It leaves the notes for another ring in a list
//! that is only looked at when that ring completes something. So [`LastTag::look`] has this ring
//! complete something after each piece of work of the other one.

use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The longest time in milliseconds until the driver knows. Linux before 6.7 learns it from the end
/// of the thread alone.
const PATIENCE_MS: i64 = 1000;

/// The ring of the last tag of a queue.
pub(crate) struct LastTag {
    /// [`None`] after its end.
    ring: Option<IoUring>,
    /// Readable when the ring has told of something.
    notice: OwnedFd,
    is_in_kernel: bool,
}

impl LastTag {
    pub(crate) fn open() -> io::Result<Self> {
        let ring = IoUring::new(2)?;
        let notice = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(notice.as_raw_fd())?;
        Ok(Self { ring: Some(ring), notice, is_in_kernel: false })
    }

    /// Returns what is readable when there is something to take.
    pub(crate) fn notice(&self) -> BorrowedFd<'_> {
        self.notice.as_fd()
    }

    /// Returns whether the kernel has a command of the tag.
    pub(crate) const fn is_in_kernel(&self) -> bool {
        self.is_in_kernel
    }

    /// Gives the kernel a command of the tag, unless the ring has ended.
    ///
    /// # Safety
    /// The memory that the command names must be valid until the ring has told of its end.
    pub(crate) unsafe fn give(&mut self, command: &squeue::Entry) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        // SAFETY: as the caller promises.
        unsafe { ring.submission().push(command) }.map_err(io::Error::other)?;
        ring.submit()?;
        self.is_in_kernel = true;
        Ok(())
    }

    /// Has the kernel look at the list of the ring. The ring tells if there was something.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let Some(ring) = self.ring.as_mut().filter(|_| self.is_in_kernel) else { return Ok(()) };
        let nothing = opcode::Nop::new().build().flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the command names no memory.
        unsafe { ring.submission().push(&nothing) }.map_err(io::Error::other)?;
        ring.submit().map(|_| ())
    }

    /// Takes the result of the command, if it has come.
    pub(crate) fn take(&mut self) -> Option<i32> {
        // It only says that the ring is to be looked at.
        let _ = rustix::io::read(&self.notice, &mut [0; 8]);
        let result = self.ring.as_mut()?.completion().next()?.result();
        self.is_in_kernel = false;
        Some(result)
    }

    /// Ends the ring, and waits until the driver has taken the command back.
    pub(crate) fn end(&mut self) {
        let Some(ring) = self.ring.take() else { return };
        // A notice of before does not count.
        let _ = rustix::io::read(&self.notice, &mut [0; 8]);
        drop(ring);
        if !std::mem::take(&mut self.is_in_kernel) {
            return;
        }
        let patience = rustix::event::Timespec {
            tv_sec: PATIENCE_MS / 1000,
            tv_nsec: PATIENCE_MS % 1000 * 1_000_000,
        };
        let mut notice = [PollFd::new(&self.notice, PollFlags::IN)];
        // A ring that tells of nothing has told late: nothing more can be done here.
        while poll(&mut notice, Some(&patience)) == Err(Errno::INTR) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::{opcode, types};

    /// A look at a notice that does not come, in place of a command of a queue.
    fn look(at: &OwnedFd) -> squeue::Entry {
        opcode::PollAdd::new(types::Fd(at.as_raw_fd()), u32::from(PollFlags::IN.bits())).build()
    }

    #[test]
    fn a_ring_tells_by_its_notice() {
        let file = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut last = LastTag::open().unwrap();
        // SAFETY: the command names no memory.
        unsafe { last.give(&look(&file)) }.unwrap();
        assert!(last.is_in_kernel());
        assert_eq!(last.take(), None);
        rustix::io::write(&file, &1u64.to_ne_bytes()).unwrap();
        let mut notice = [PollFd::new(&last.notice, PollFlags::IN)];
        assert_eq!(poll(&mut notice, None), Ok(1));
        assert_eq!(last.take(), Some(i32::from(PollFlags::IN.bits())));
        assert!(!last.is_in_kernel());
    }

    #[test]
    fn a_look_is_no_result() {
        let file = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut last = LastTag::open().unwrap();
        last.look().unwrap();
        // SAFETY: the command names no memory.
        unsafe { last.give(&look(&file)) }.unwrap();
        (0..9).for_each(|_| last.look().unwrap());
        assert!(last.is_in_kernel());
        let told = |last: &LastTag, within_s| {
            let within = rustix::event::Timespec { tv_sec: within_s, tv_nsec: 0 };
            poll(&mut [PollFd::new(&last.notice, PollFlags::IN)], Some(&within))
        };
        assert_eq!(told(&last, 0), Ok(0), "there is nothing to take");
        assert_eq!(last.take(), None);
        rustix::io::write(&file, &1u64.to_ne_bytes()).unwrap();
        last.look().unwrap();
        assert_eq!(told(&last, 60), Ok(1));
        assert_eq!(last.take(), Some(i32::from(PollFlags::IN.bits())));
    }

    #[test]
    fn nothing_is_given_to_a_ring_that_has_ended() {
        let file = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut last = LastTag::open().unwrap();
        last.end();
        // SAFETY: the command names no memory.
        unsafe { last.give(&look(&file)) }.unwrap();
        assert!(!last.is_in_kernel());
        assert_eq!(last.take(), None);
    }
}
