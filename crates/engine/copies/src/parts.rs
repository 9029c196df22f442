//! Reads what is sent, part by part, in a thread of its own: while one part is hashed and passed
//! on, the disk reads the next ones.

use crate::giving_way::GivingWay;
use crate::send::SendError;
use crate::stream::ASKED_BYTES;
use gemelo_base::locks::Mutex;
use gemelo_base::{Clock, StopFlag};
use gemelo_format::{Lbn, MapEntry};
use gemelo_volume::{Outgoing, SentContent};
use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Parts that are read before they are taken, but for the one that is being read.
const PARTS_AHEAD: usize = 2;
/// Comparisons for one part, of some milliseconds each. Where few blocks differ, one finds few.
const MAX_COMPARISONS: usize = 16;

/// Blocks that differ, of up to a MiB.
pub(crate) struct Part {
    /// The blocks in order, each with its content; [`None`] for zeros.
    pub(crate) blocks: Vec<(u64, Option<SentContent>)>,
}

impl Part {
    /// The number of blocks that are not zeros.
    pub(crate) fn contents(&self) -> u64 {
        self.blocks.iter().filter(|(_, content)| content.is_some()).count() as u64
    }
}

/// Reads parts in order.
pub(crate) struct PartReader<'o> {
    outgoing: &'o Outgoing,
    pace: GivingWay<'o>,
    stop: &'o StopFlag,
    /// Everything before it was compared.
    next: Lbn,
    blocks: u64,
    /// `true` if contents are sent in the form in which they are stored.
    keeps_forms: bool,
    /// Entries that differ, of which no part has been made.
    entries: VecDeque<(Lbn, MapEntry)>,
}

impl<'o> PartReader<'o> {
    /// Reads from a block on, up to a number of blocks; with the forms of contents if they are
    /// sent.
    pub(crate) fn new(
        outgoing: &'o Outgoing,
        (first, blocks): (u64, u64),
        keeps_forms: bool,
        (clock, stop): (&'o dyn Clock, &'o StopFlag),
    ) -> Self {
        let pace = GivingWay::new(clock, outgoing.traffic());
        let (next, entries) = (Lbn(first), VecDeque::new());
        Self { outgoing, pace, stop, next, blocks, keeps_forms, entries }
    }

    /// Reads the next part, and gives way to clients. Returns [`None`] at the end.
    fn read(&mut self) -> Result<Option<Part>, SendError> {
        if self.stop.is_raised() {
            return Err(SendError::Interrupted);
        }
        let began_ns = self.pace.now_ns();
        let part = self.read_now();
        self.pace.rest_after(began_ns, self.outgoing.traffic(), self.stop);
        part
    }

    fn read_now(&mut self) -> Result<Option<Part>, SendError> {
        if self.entries.is_empty() && self.next.0 >= self.blocks {
            return Ok(None);
        }
        let most = (ASKED_BYTES / self.outgoing.block_bytes() as usize).max(1);
        for _ in 0..MAX_COMPARISONS {
            if self.entries.len() >= most || self.next.0 >= self.blocks {
                break;
            }
            let found = self.outgoing.differences(self.next)?;
            assert!(found.end > self.next, "each comparison goes on");
            self.entries.extend(found.entries.iter().map(|one| (one.lbn, one.own)));
            self.next = found.end;
        }
        let some: Vec<_> = self.entries.drain(..most.min(self.entries.len())).collect();
        let mut blocks = with_contents(self.outgoing, &some)?;
        let contents = blocks.iter_mut().filter_map(|(_, content)| content.as_mut());
        contents.filter(|_| !self.keeps_forms).for_each(|content| content.form = None);
        Ok(Some(Part { blocks }))
    }

    /// As [`GivingWay::rested_ns`].
    pub(crate) const fn rested_ns(&self) -> u64 {
        self.pace.rested_ns()
    }
}

fn with_contents(
    outgoing: &Outgoing,
    entries: &[(Lbn, MapEntry)],
) -> Result<Vec<(u64, Option<SentContent>)>, SendError> {
    let is_stored = |own: &MapEntry| *own != MapEntry::Unmapped;
    let stored: Vec<Lbn> =
        entries.iter().filter(|(_, own)| is_stored(own)).map(|(lbn, _)| *lbn).collect();
    let mut contents = outgoing.contents(&stored)?.into_iter();
    let content_of = |(lbn, own): &(Lbn, MapEntry)| {
        (lbn.0, is_stored(own).then(|| contents.next()).flatten().flatten())
    };
    Ok(entries.iter().map(content_of).collect())
}

/// Gives the parts in order, and [`None`] at the end.
pub(crate) type NextPart<'n> = &'n mut dyn FnMut() -> Result<Option<Part>, SendError>;

/// Does `work` with a function that gives the parts in order, and [`None`] at the end. They are
/// read ahead, unless the system refuses a thread.
pub(crate) fn with_parts<T>(
    reader: &Mutex<PartReader<'_>>,
    work: impl FnOnce(NextPart<'_>) -> T,
) -> T {
    thread::scope(|scope| {
        let (give, take) = sync_channel(PARTS_AHEAD);
        let read_ahead = move || {
            let mut reader = reader.lock();
            loop {
                let part = reader.read();
                let is_last = !matches!(part, Ok(Some(_)));
                // Nobody takes it after a failure of the other side.
                if give.send(part).is_err() || is_last {
                    return;
                }
            }
        };
        // Without a thread, its end of the channel is gone, and the parts are read here.
        let _ = thread::Builder::new().name("gemelo-send".into()).spawn_scoped(scope, read_ahead);
        work(&mut || take.recv().unwrap_or_else(|_| reader.lock().read()))
    })
}
