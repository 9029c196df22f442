//! Frames of JSON on a socket: sending, receiving, timeouts.

use gemelo_base::{Clock, StopFlag, SystemClock};
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Interval at which a reader checks its stop flag.
const STOP_CHECKED_EVERY: Duration = Duration::from_millis(100);
/// Longest time in which a peer accepts nothing of the bytes that are sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of a frame that are received at once.
const PART_BYTES: usize = 64 << 10;

/// Encodes a value as a frame.
pub(super) fn frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(value)?;
    let length =
        u32::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut frame = Vec::with_capacity(text.len() + 4);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&text);
    Ok(frame)
}

/// A socket on which frames are sent and received.
pub(super) struct Frames {
    stream: UnixStream,
    clock: SystemClock,
}

impl Frames {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let frames = Self { stream, clock: SystemClock::new() };
        frames.set_timeouts()?;
        Ok(frames)
    }

    /// Sets the timeouts of frames, after others were set.
    pub(super) fn set_timeouts(&self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(STOP_CHECKED_EVERY))?;
        self.stream.set_write_timeout(Some(SEND_TIMEOUT))
    }

    /// The socket. All bytes after the last received frame are still in it.
    pub(super) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns the socket, without timeouts. All bytes after the last received frame are still in
    /// it.
    pub(super) fn into_stream(self) -> io::Result<UnixStream> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }

    pub(super) fn send(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.send_bytes(&frame(value)?)
    }

    /// Sends bytes of frames, and waits until the peer has accepted them.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends as many bytes as fit now, without waiting, and returns their number.
    pub(super) fn send_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// Receives a frame of at most `most` bytes. Returns [`None`] if the flag was raised or the
    /// time was up before the whole frame arrived.
    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        most: usize,
        stop: &StopFlag,
        within: Option<Duration>,
    ) -> io::Result<Option<T>> {
        let until_ns = within.map(|within| self.clock.now_ns() + within.as_nanos() as u64);
        let mut length = [0; 4];
        if !self.fill(&mut length, stop, until_ns)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message of {length} bytes exceeds the limit of {most} bytes"),
            ));
        }
        // Memory is allocated for bytes that arrive, not for the length that the peer announces.
        let mut text = Vec::new();
        while text.len() < length {
            let start = text.len();
            text.resize(length.min(start + PART_BYTES), 0);
            let (_, fresh) = text.split_at_mut(start);
            if !self.fill(fresh, stop, until_ns)? {
                return Ok(None);
            }
        }
        Ok(Some(serde_json::from_slice(&text)?))
    }

    fn fill(
        &mut self,
        buffer: &mut [u8],
        stop: &StopFlag,
        until_ns: Option<u64>,
    ) -> io::Result<bool> {
        let mut rest = buffer;
        while !rest.is_empty() {
            if stop.is_raised() || until_ns.is_some_and(|until_ns| self.clock.now_ns() >= until_ns)
            {
                return Ok(false);
            }
            match self.stream.read(rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => rest = rest.split_at_mut(count).1,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_whole_and_nothing_beyond_is_read() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (Frames::new(one).unwrap(), Frames::new(other).unwrap());
        one.send(&"hello").unwrap();
        one.stream.write_all(b"NBD").unwrap();
        let stop = StopFlag::new();
        assert_eq!(other.receive::<String>(99, &stop, None).unwrap().unwrap(), "hello");
        let mut rest = [0; 3];
        other.into_stream().unwrap().read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"NBD");
    }

    #[test]
    fn what_is_too_long_no_json_or_cut_off_is_an_error_and_silence_ends() {
        let stop = StopFlag::new();
        for (bytes, kind) in [
            (&[255, 255, 255, 255][..], io::ErrorKind::InvalidData),
            (&[2, 0, 0, 0, b'{', b'{'], io::ErrorKind::InvalidData),
            (&[9, 0, 0, 0, b'{'], io::ErrorKind::UnexpectedEof),
        ] {
            let (mut one, other) = UnixStream::pair().unwrap();
            one.write_all(bytes).unwrap();
            drop(one);
            let error = Frames::new(other).unwrap().receive::<u32>(99, &stop, None).unwrap_err();
            assert_eq!(error.kind(), kind);
        }
        let (_silent, other) = UnixStream::pair().unwrap();
        let mut other = Frames::new(other).unwrap();
        assert!(other.receive::<u32>(99, &stop, Some(Duration::from_millis(1))).unwrap().is_none());
        stop.raise();
        assert!(other.receive::<u32>(99, &stop, None).unwrap().is_none());
    }
}
