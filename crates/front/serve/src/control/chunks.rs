//! Bytes of a stream on the control socket: chunks with a length of 4 bytes before each, and one
//! without bytes at the end. A peer may take long, so nothing has a time limit but the stop flag.

use gemelo_base::StopFlag;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Interval at which the stop flag is checked.
const STOP_CHECKED_EVERY: Duration = Duration::from_millis(100);
/// Most bytes of a chunk.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// One direction of a connection that carries chunks.
pub(super) struct Chunks<'s> {
    stream: &'s UnixStream,
    stop: &'s StopFlag,
    /// Bytes of the present chunk that were not read yet.
    left: usize,
    is_at_end: bool,
}

impl<'s> Chunks<'s> {
    pub(super) fn new(stream: &'s UnixStream, stop: &'s StopFlag) -> io::Result<Self> {
        stream.set_read_timeout(Some(STOP_CHECKED_EVERY))?;
        stream.set_write_timeout(Some(STOP_CHECKED_EVERY))?;
        Ok(Self { stream, stop, left: 0, is_at_end: false })
    }

    /// Sends the end.
    pub(super) fn end(&self) -> io::Result<()> {
        self.send(&0u32.to_le_bytes())
    }

    fn patiently(&self, mut what: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        loop {
            if self.stop.is_raised() {
                return Err(io::Error::other("stopped before the end"));
            }
            match what() {
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
                other => return other,
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (mut stream, now) = (self.stream, rest);
            let sent = self.patiently(|| stream.write(now))?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn fill(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let mut stream = self.stream;
            match self.patiently(|| stream.read(rest))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => done += count,
            }
        }
        Ok(())
    }
}

impl Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = bytes.get(..MAX_CHUNK_BYTES).unwrap_or(bytes);
        if !chunk.is_empty() {
            self.send(&(chunk.len() as u32).to_le_bytes())?;
            self.send(chunk)?;
        }
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_at_end {
            let mut length = [0; 4];
            self.fill(&mut length)?;
            self.left = u32::from_le_bytes(length) as usize;
            self.is_at_end = self.left == 0;
        }
        let most = buffer.len().min(self.left);
        let part = buffer.get_mut(..most).unwrap_or_default();
        self.fill(part)?;
        self.left -= most;
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_arrive_in_order_and_end_and_what_follows_is_left() {
        let (one, other) = UnixStream::pair().unwrap();
        let (stop, bytes) = (StopFlag::new(), vec![7; 3 * MAX_CHUNK_BYTES + 5]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut chunks = Chunks::new(&one, &stop).unwrap();
                chunks.write_all(&bytes).unwrap();
                chunks.end().unwrap();
                (&one).write_all(b"more").unwrap();
            });
            let (mut chunks, mut read) = (Chunks::new(&other, &stop).unwrap(), Vec::new());
            chunks.read_to_end(&mut read).unwrap();
            assert!(read == bytes);
            assert_eq!(chunks.read(&mut [0; 9]).unwrap(), 0);
        });
        let mut more = [0; 4];
        (&other).read_exact(&mut more).unwrap();
        assert_eq!(&more, b"more");
    }

    #[test]
    fn a_connection_that_ends_without_the_end_and_a_stop_are_errors() {
        let (one, other) = UnixStream::pair().unwrap();
        let stop = StopFlag::new();
        Chunks::new(&one, &stop).unwrap().write_all(b"some").unwrap();
        drop(one);
        let mut chunks = Chunks::new(&other, &stop).unwrap();
        let error = chunks.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let (_silent, other) = UnixStream::pair().unwrap();
        stop.raise();
        let error = Chunks::new(&other, &stop).unwrap().read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "stopped before the end");
    }
}
