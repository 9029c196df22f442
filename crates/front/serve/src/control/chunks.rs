//! Bytes of a stream on the control socket: chunks with a length of 4 bytes before each, and one
//! without bytes at the end. A peer may take long, so nothing has a time limit but the stop flag.
//! For a client that wants to know, there is progress between chunks: a length with the top bit,
//! the total (0 while it is unknown), and what is done of it.

use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval at which the stop flag is checked.
const STOP_CHECKED_EVERY: Duration = Duration::from_millis(100);
/// Most bytes of a chunk.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// The bit of a length that is none: progress follows.
const IS_PROGRESS: u32 = 1 << 31;
/// Interval between two tellings of progress.
const PROGRESS_EVERY_NS: u64 = 100_000_000;

/// Called with the progress of a stream: the total, and what is done of it.
pub(super) type OnProgress<'s> = &'s (dyn Fn(u64, u64) + Sync);

/// One direction of a connection that carries chunks.
pub(super) struct Chunks<'s> {
    stream: &'s UnixStream,
    stop: &'s StopFlag,
    /// Bytes of the present chunk that were not read yet.
    left: usize,
    is_at_end: bool,
    on_progress: Option<OnProgress<'s>>,
}

impl<'s> Chunks<'s> {
    pub(super) fn new(stream: &'s UnixStream, stop: &'s StopFlag) -> io::Result<Self> {
        stream.set_read_timeout(Some(STOP_CHECKED_EVERY))?;
        stream.set_write_timeout(Some(STOP_CHECKED_EVERY))?;
        Ok(Self { stream, stop, left: 0, is_at_end: false, on_progress: None })
    }

    /// Tells the progress that comes between the chunks.
    pub(super) fn telling(self, on_progress: OnProgress<'s>) -> Self {
        Self { on_progress: Some(on_progress), ..self }
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

    fn receive_progress(&self) -> io::Result<()> {
        let (mut total, mut done) = ([0; 8], [0; 8]);
        self.fill(&mut total)?;
        self.fill(&mut done)?;
        if let Some(tell) = self.on_progress {
            tell(u64::from_le_bytes(total), u64::from_le_bytes(done));
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
        while self.left == 0 && !self.is_at_end {
            let mut length = [0; 4];
            self.fill(&mut length)?;
            match u32::from_le_bytes(length) {
                IS_PROGRESS => self.receive_progress()?,
                length => (self.left, self.is_at_end) = (length as usize, length == 0),
            }
        }
        let most = buffer.len().min(self.left);
        let part = buffer.get_mut(..most).unwrap_or_default();
        self.fill(part)?;
        self.left -= most;
        Ok(most)
    }
}

/// Tells the progress of a stream between its chunks, in the thread that sends these.
pub(super) struct ChunkProgress<'s> {
    chunks: &'s Chunks<'s>,
    clock: SystemClock,
    total: AtomicU64,
    done: AtomicU64,
    told_ns: AtomicU64,
}

impl<'s> ChunkProgress<'s> {
    pub(super) fn new(chunks: &'s Chunks<'s>) -> Self {
        let [total, done, told_ns] = [0; 3].map(AtomicU64::new);
        Self { chunks, clock: SystemClock::new(), total, done, told_ns }
    }

    fn tell(&self) {
        let [total, done] = [&self.total, &self.done].map(|value| value.load(Ordering::Relaxed));
        let told = [&IS_PROGRESS.to_le_bytes()[..], &total.to_le_bytes(), &done.to_le_bytes()];
        // A client that is gone is noticed at the next chunk.
        let _ = self.chunks.send(&told.concat());
    }
}

impl Monitor for ChunkProgress<'_> {
    fn begin(&self, _phase: &str, _unit: Unit, total: Option<u64>) {
        self.total.store(total.unwrap_or(0), Ordering::Relaxed);
        self.tell();
    }

    fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
        let now_ns = self.clock.now_ns();
        if now_ns >= self.told_ns.load(Ordering::Relaxed) + PROGRESS_EVERY_NS {
            self.told_ns.store(now_ns, Ordering::Relaxed);
            self.tell();
        }
    }

    fn warn(&self, _message: &str) {}

    fn log(&self, _message: &str) {}

    fn finish(&self) {
        self.tell();
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
    fn progress_comes_between_chunks_and_is_no_part_of_them() {
        let (one, other) = UnixStream::pair().unwrap();
        let (stop, told) = (StopFlag::new(), parking_lot::Mutex::new(Vec::new()));
        let tell = |total, done| told.lock().push((total, done));
        let mut chunks = Chunks::new(&one, &stop).unwrap();
        let beside = Chunks::new(&one, &stop).unwrap();
        let progress = ChunkProgress::new(&beside);
        progress.begin("Sending", Unit::Bytes, Some(900));
        chunks.write_all(b"some ").unwrap();
        progress.advance(300);
        progress.advance(300);
        chunks.write_all(b"bytes").unwrap();
        progress.advance(300);
        progress.finish();
        chunks.end().unwrap();
        let (mut read, mut chunks) =
            (Vec::new(), Chunks::new(&other, &stop).unwrap().telling(&tell));
        chunks.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"some bytes");
        let told = told.into_inner();
        assert_eq!((told.first(), told.last()), (Some(&(900, 0)), Some(&(900, 900))));
        assert!(told.is_sorted() && told.len() <= 4, "{told:?}");
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
