//! Progress of a request, sent to its client.
//!
//! The work may hold locks while it reports progress, so a report never waits for the client.
//! Messages that do not fit into the socket are kept, up to a limit.

use super::Message;
use super::frame::{Frames, frame};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use parking_lot::Mutex;
use std::io;

/// Interval between two messages of progress.
const PROGRESS_EVERY_NS: u64 = 100_000_000;
/// Most bytes that are kept for a client that accepts nothing. Beyond the limit, amounts of
/// progress are added up, and any other message stops the work.
const MAX_UNSENT_BYTES: usize = 256 << 10;

/// Sends progress to a client. Stops the work if the client has left or the server is closing.
pub(super) struct Notes {
    outbox: Mutex<NoteQueue>,
    clock: SystemClock,
    stop: StopFlag,
    closing: StopFlag,
}

struct NoteQueue {
    frames: Frames,
    /// Frames that were not sent yet. The first may have been sent in part.
    unsent: Vec<u8>,
    /// Time of the last message of progress.
    told_ns: u64,
    /// Amount of progress since that message.
    untold: u64,
}

impl NoteQueue {
    /// Adds the message to the unsent ones, and sends as many bytes as fit now. Returns `false` if
    /// there is no room for the message.
    fn put(&mut self, message: &Message) -> io::Result<bool> {
        let bytes = frame(message)?;
        if self.unsent.len() + bytes.len() > MAX_UNSENT_BYTES {
            let sent = self.frames.send_now(&self.unsent)?;
            self.unsent.drain(..sent);
        }
        if self.unsent.len() + bytes.len() > MAX_UNSENT_BYTES {
            return Ok(false);
        }
        self.unsent.extend_from_slice(&bytes);
        let sent = self.frames.send_now(&self.unsent)?;
        self.unsent.drain(..sent);
        Ok(true)
    }
}

impl Notes {
    pub(super) fn new(frames: Frames, closing: StopFlag) -> Self {
        let outbox = NoteQueue { frames, unsent: Vec::new(), told_ns: 0, untold: 0 };
        Self {
            outbox: Mutex::new(outbox),
            clock: SystemClock::new(),
            stop: StopFlag::new(),
            closing,
        }
    }

    /// Returns the flag that is raised to stop the work.
    pub(super) fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Sends the unsent messages, waits for the client as for a reply, and returns the connection.
    pub(super) fn finish(self) -> io::Result<Frames> {
        let NoteQueue { mut frames, unsent, .. } = self.outbox.into_inner();
        frames.send_bytes(&unsent)?;
        Ok(frames)
    }

    fn send(&self, message: &Message) {
        if self.closing.is_raised() || !self.outbox.lock().put(message).unwrap_or(false) {
            self.stop.raise();
        }
    }
}

impl Monitor for Notes {
    fn begin(&self, phase: &str, unit: Unit, total: Option<u64>) {
        self.send(&Message::Begin { phase: phase.to_owned(), unit: unit.into(), total });
    }

    fn set_total(&self, total: u64) {
        self.send(&Message::Total { total });
    }

    fn advance(&self, amount: u64) {
        let mut outbox = self.outbox.lock();
        outbox.untold += amount;
        let now_ns = self.clock.now_ns();
        if self.closing.is_raised() {
            self.stop.raise();
        } else if now_ns >= outbox.told_ns + PROGRESS_EVERY_NS {
            outbox.told_ns = now_ns;
            let amount = outbox.untold;
            match outbox.put(&Message::Advance { amount }) {
                Ok(true) => outbox.untold = 0,
                Ok(false) => {}
                Err(_) => self.stop.raise(),
            }
        }
    }

    fn warn(&self, message: &str) {
        self.send(&Message::Warn { message: message.to_owned() });
    }

    /// A request has no events to log: the client that waits for it is not a log.
    fn log(&self, _message: &str) {}

    fn finish(&self) {
        self.send(&Message::Finish);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Reply;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    #[test]
    fn a_client_that_takes_nothing_is_not_waited_for_and_hears_all_of_it_later() {
        let (one, other) = UnixStream::pair().unwrap();
        let notes = Notes::new(Frames::new(one).unwrap(), StopFlag::new());
        let begun = Instant::now();
        let long = "x".repeat(4096);
        let fitting = (0..80).take_while(|_| {
            notes.warn(&long);
            !notes.stop().is_raised()
        });
        assert_eq!(fitting.count(), 80, "what fits is kept");
        assert!(begun.elapsed() < Duration::from_secs(2));
        let reader = std::thread::spawn(move || {
            let mut frames = Frames::new(other).unwrap();
            let mut warnings = 0;
            loop {
                match frames.receive::<Message>(1 << 20, &StopFlag::new(), None).unwrap().unwrap() {
                    Message::Warn { message } => warnings += usize::from(message.len() == 4096),
                    Message::Reply(Reply::Done) => return warnings,
                    other => panic!("{other:?}"),
                }
            }
        });
        Notes::finish(notes).unwrap().send(&Message::Reply(Reply::Done)).unwrap();
        assert_eq!(reader.join().unwrap(), 80);
    }

    #[test]
    fn what_does_not_fit_stops_the_work_and_progress_is_added_up() {
        let (one, _other) = UnixStream::pair().unwrap();
        let notes = Notes::new(Frames::new(one).unwrap(), StopFlag::new());
        let long = "x".repeat(64 << 10);
        while !notes.stop().is_raised() {
            notes.warn(&long);
        }
        let (one, _other) = UnixStream::pair().unwrap();
        let notes = Notes::new(Frames::new(one).unwrap(), StopFlag::new());
        notes.outbox.lock().unsent = vec![0; MAX_UNSENT_BYTES + (8 << 20)];
        notes.outbox.lock().told_ns = 0;
        std::thread::sleep(Duration::from_nanos(PROGRESS_EVERY_NS));
        notes.advance(5);
        assert!(!notes.stop().is_raised());
        assert_eq!(notes.outbox.lock().untold, 5);
    }
}
