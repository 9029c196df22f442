//! Pipes whose other side may let this program wait for ever: a stop ends the wait.

use gemelo_base::StopFlag;
use nix::fcntl::{FcntlArg, fcntl};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fstat};
use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;

/// Interval at which the stop flag is checked.
const STOP_CHECKED_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// What can be written takes so many bytes without a wait (`PIPE_BUF`, pipe(7)).
const SURE_BYTES: usize = 4096;

/// Bytes that a pipe holds, if the system allows it, so that both sides work at the same time.
const PIPE_BYTES: c_int = 1 << 20;

/// A pipe, a socket or a file that is read or written. It is not buffered.
pub(crate) struct Pipe<F> {
    file: F,
    /// The same pipe, opened again so that writes to it never wait, which the processes that share
    /// `file` do not notice; [`None`] where that cannot be.
    own: Option<File>,
    stop: StopFlag,
    /// Most bytes of a write to `file`.
    most_bytes: usize,
}

impl<F: AsFd> Pipe<F> {
    pub(crate) fn new(file: F, stop: &StopFlag) -> Self {
        let kind = fstat(&file).map(|status| FileType::from_raw_mode(status.st_mode));
        let is_file = matches!(kind, Ok(FileType::RegularFile | FileType::BlockDevice));
        let most_bytes = if is_file { usize::MAX } else { SURE_BYTES };
        Self { file, own: None, stop: stop.clone(), most_bytes }
    }

    /// One that is only written.
    pub(crate) fn to(file: F, stop: &StopFlag) -> Self {
        let mut pipe = Self::new(file, stop);
        let is_pipe = fstat(&pipe.file)
            .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo);
        if is_pipe {
            // A pipe that stays small is slower, and no failure.
            let _ = fcntl(&pipe.file, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
            let place = format!("/proc/self/fd/{}", pipe.file.as_fd().as_raw_fd());
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            pipe.own = File::options().write(true).custom_flags(flags).open(place).ok();
        }
        pipe
    }

    /// Waits until it can be read or written, or the other side is gone.
    fn wait(&self, until: PollFlags) -> io::Result<()> {
        loop {
            if self.stop.is_raised() {
                return Err(io::Error::other("stopped before the end"));
            }
            match poll(&mut [PollFd::new(&self.file, until)], Some(&STOP_CHECKED_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                other => return other.map(drop).map_err(io::Error::from),
            }
        }
    }
}

impl<F: AsFd> Read for Pipe<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        Ok(rustix::io::read(&self.file, buffer)?)
    }
}

impl<F: AsFd> Write for Pipe<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait(PollFlags::OUT)?;
            let written = match &self.own {
                Some(own) => rustix::io::write(own, bytes),
                None => {
                    let some = bytes.get(..self.most_bytes).unwrap_or(bytes);
                    rustix::io::write(&self.file, some)
                }
            };
            match written {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_stop_ends_the_wait_for_the_other_side() {
        let ((_read, full), (empty, _write)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let (_other_read, other) = io::pipe().unwrap();
        let stop = StopFlag::new();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| Pipe::to(&full, &stop).write_all(&vec![7; 4 << 20]));
            let shared = scope.spawn(|| Pipe::new(&other, &stop).write_all(&vec![7; 4 << 20]));
            let reading = scope.spawn(|| Pipe::new(&empty, &stop).read_exact(&mut [0; 9]));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!writing.is_finished() && !shared.is_finished() && !reading.is_finished());
            stop.raise();
            let began = Instant::now();
            for waiting in [writing, shared, reading] {
                let error = waiting.join().unwrap().unwrap_err();
                assert_eq!(error.to_string(), "stopped before the end");
            }
            assert!(began.elapsed() < Duration::from_secs(2));
        });
    }

    #[test]
    fn bytes_arrive_and_the_end_is_seen() {
        let (stop, bytes) = (StopFlag::new(), vec![7; (1 << 20) + 5]);
        for make in [Pipe::new, Pipe::to] {
            let (read, write) = io::pipe().unwrap();
            let (mut input, mut got) = (Pipe::new(read, &stop), Vec::new());
            std::thread::scope(|scope| {
                scope.spawn(|| make(write, &stop).write_all(&bytes).unwrap());
                input.read_to_end(&mut got).unwrap();
            });
            assert!(got == bytes);
        }
        let (read, write) = io::pipe().unwrap();
        drop(read);
        let error = Pipe::new(write, &stop).write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
