//! Pipes whose other side may let this program wait for ever: a stop ends the wait.

use gemelo_base::StopFlag;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// Interval at which the stop flag is checked.
const STOP_CHECKED_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// A pipe that can be written takes so many bytes without a wait (`PIPE_BUF`, pipe(7)).
const PIPE_BYTES: usize = 4096;

/// A pipe, a socket or a file that is read or written. It is not buffered.
pub(crate) struct Pipe<F> {
    file: F,
    stop: StopFlag,
    /// Most bytes of a write.
    most_bytes: usize,
}

impl<F: AsFd> Pipe<F> {
    pub(crate) fn new(file: F, stop: &StopFlag) -> Self {
        let is_file = fstat(&file).is_ok_and(|status| {
            matches!(
                FileType::from_raw_mode(status.st_mode),
                FileType::RegularFile | FileType::BlockDevice
            )
        });
        let most_bytes = if is_file { usize::MAX } else { PIPE_BYTES };
        Self { file, stop: stop.clone(), most_bytes }
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
        self.wait(PollFlags::OUT)?;
        Ok(rustix::io::write(&self.file, bytes.get(..self.most_bytes).unwrap_or(bytes))?)
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
        let stop = StopFlag::new();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| Pipe::new(&full, &stop).write_all(&vec![7; 4 << 20]));
            let reading = scope.spawn(|| Pipe::new(&empty, &stop).read_exact(&mut [0; 9]));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!writing.is_finished() && !reading.is_finished());
            stop.raise();
            let began = Instant::now();
            for waiting in [writing, reading] {
                let error = waiting.join().unwrap().unwrap_err();
                assert_eq!(error.to_string(), "stopped before the end");
            }
            assert!(began.elapsed() < Duration::from_secs(2));
        });
    }

    #[test]
    fn bytes_arrive_and_the_end_is_seen() {
        let (read, write) = io::pipe().unwrap();
        let (stop, bytes) = (StopFlag::new(), vec![7; (1 << 20) + 5]);
        let (mut input, mut got) = (Pipe::new(read, &stop), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| Pipe::new(write, &stop).write_all(&bytes).unwrap());
            input.read_to_end(&mut got).unwrap();
        });
        assert!(got == bytes);
        let (read, write) = io::pipe().unwrap();
        drop(read);
        let error = Pipe::new(write, &stop).write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
