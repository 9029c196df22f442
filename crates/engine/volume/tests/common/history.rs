//! The history of the blocks of volumes, and the contents that it allows.
//!
//! Every request has the moments at which it was made and answered, by one clock. Of two requests
//! the first is *before* the second if it was answered before the second was made; others are in no
//! order. Blocks are compared in cells, so that writes of a part are writes of cells.
//!
//! - A cell may show a write if no write that is certain to count comes after it. For a reader
//!   those are the writes answered before the read; after a power cut, those flushed before it.
//! - The cells of a block must show a possible state together: of two writes that both cover two
//!   cells, the cells cannot show one each.
//! - A block may be damaged if rot has destroyed a content that the block may show.
//! - A copy of a volume shows one moment between its beginning and its end.

use super::BLOCK;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a cell.
pub const CELL: usize = 64;
/// Cells of a block.
pub const CELLS: usize = BLOCK / CELL;

/// A moment.
pub type Time = u64;
/// The end of a request that was not answered.
pub const NEVER: Time = Time::MAX;

/// A write of a block, or of a part of it.
#[derive(Debug, Clone)]
pub struct Write {
    pub volume: usize,
    pub block: usize,
    pub cells: Range<usize>,
    /// The content of the whole block. Only the written cells of it count.
    pub content: Arc<[u8]>,
    pub start: Time,
    pub end: Time,
    /// `true` if the write was answered without an error.
    pub is_done: bool,
    /// `true` if the write is durable once it is answered.
    pub is_immediate: bool,
}

/// A request that makes durable all writes answered before it began. Failed flushes are not kept.
#[derive(Debug, Clone, Copy)]
pub struct Flush {
    pub start: Time,
    pub end: Time,
}

/// The result of a read: the contents of consecutive blocks of a volume.
#[derive(Debug, Clone)]
pub struct Read {
    pub volume: usize,
    pub block: usize,
    pub bytes: Vec<u8>,
    pub start: Time,
    pub end: Time,
}

/// A read of a block that failed because the block is damaged.
#[derive(Debug, Clone, Copy)]
pub struct DamagedRead {
    pub volume: usize,
    pub block: usize,
    pub start: Time,
    pub end: Time,
}

/// A content that rot has destroyed in a place of the medium, and the moment of that.
#[derive(Debug, Clone)]
pub struct Rotten {
    pub at: Time,
    pub content: Arc<[u8]>,
}

#[derive(Debug)]
struct Record {
    cells: Range<usize>,
    content: Arc<[u8]>,
    start: Time,
    end: Time,
    /// The moment at which the write was answered without an error.
    done: Time,
    /// The moment from which the write survives a power cut.
    durable: Time,
}

impl Record {
    fn shows(&self, cell: usize, bytes: &[u8]) -> bool {
        self.cells.contains(&cell) && self.content[cell * CELL..(cell + 1) * CELL] == *bytes
    }
}

/// The way in which a state of a volume is observed.
#[derive(Debug, Clone, Copy)]
pub enum View {
    /// By a reader whose request was made and answered at these moments.
    Read { start: Time, end: Time },
    /// After a power cut at this moment.
    Crash { at: Time },
}

impl View {
    /// The moment from which new writes cannot be seen.
    const fn end(self) -> Time {
        match self {
            Self::Read { end, .. } => end,
            Self::Crash { at } => at,
        }
    }

    const fn counts(self, record: &Record) -> bool {
        match self {
            Self::Read { start, .. } => record.done < start,
            Self::Crash { at } => record.durable < at,
        }
    }
}

/// All flushes that succeeded. They tell when a write became durable.
#[derive(Debug, Default)]
pub struct Flushes {
    /// Flushes by their beginning, each with the earliest end of itself and all later ones.
    ends: Vec<(Time, Time)>,
}

impl Flushes {
    pub fn new(flushes: impl Iterator<Item = Flush>) -> Self {
        let mut ends: Vec<(Time, Time)> = flushes.map(|flush| (flush.start, flush.end)).collect();
        ends.sort_unstable();
        for at in (1..ends.len()).rev() {
            ends[at - 1].1 = ends[at - 1].1.min(ends[at].1);
        }
        Self { ends }
    }

    pub fn durable(&self, write: &Write) -> Time {
        if !write.is_done {
            return NEVER;
        }
        if write.is_immediate {
            return write.end;
        }
        let at = self.ends.partition_point(|(start, _)| *start <= write.end);
        self.ends.get(at).map_or(NEVER, |(_, end)| *end)
    }
}

/// The writes to one block. The first of them is its initial content.
#[derive(Debug)]
pub struct BlockHistory {
    records: Vec<Record>,
}

/// The moments at which everything that was seen can have been true at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moments {
    pub first: Time,
    pub last: Time,
}

impl Moments {
    pub fn and(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}

impl BlockHistory {
    /// Makes the history of a block that durably had this content from a moment on.
    pub fn new(content: Arc<[u8]>, since: Time) -> Self {
        Self::of_one(vec![content], since)
    }

    /// Makes the history of a block that durably had one of these contents from a moment on.
    pub fn of_one(contents: Vec<Arc<[u8]>>, since: Time) -> Self {
        let record = |content| Record {
            cells: 0..CELLS,
            content,
            start: since,
            end: since,
            done: since,
            durable: since,
        };
        Self { records: contents.into_iter().map(record).collect() }
    }

    pub fn add(&mut self, write: &Write, flushes: &Flushes) {
        self.records.push(Record {
            cells: write.cells.clone(),
            content: Arc::clone(&write.content),
            start: write.start,
            end: write.end,
            done: if write.is_done { write.end } else { NEVER },
            durable: flushes.durable(write),
        });
    }

    /// Drops writes that no view from this moment on can show.
    pub fn forget(&mut self, at: Time) {
        let view = View::Crash { at };
        for cell in 0..CELLS {
            let floor = self.floor(cell, view);
            for record in &mut self.records {
                if record.end < floor && record.cells.start == cell {
                    record.cells.start += 1;
                }
            }
        }
        self.records.retain(|record| !record.cells.is_empty());
    }

    /// The moment before which an answered write of a cell is no longer seen.
    fn floor(&self, cell: usize, view: View) -> Time {
        let counting = self.records.iter().filter(|r| r.cells.contains(&cell) && view.counts(r));
        counting.map(|record| record.start).max().unwrap_or(0)
    }

    fn candidates(&self, cell: usize, bytes: &[u8], view: View) -> Vec<&Record> {
        let floor = self.floor(cell, view);
        let is_seen = |record: &&Record| record.start < view.end() && record.end >= floor;
        self.records.iter().filter(|record| record.shows(cell, bytes)).filter(is_seen).collect()
    }

    /// Returns the moments at which the block can have had this content, or an error if there are
    /// none.
    pub fn explain(&self, content: &[u8], view: View) -> Result<Moments, String> {
        let mut cells: Vec<Vec<&Record>> = Vec::with_capacity(CELLS);
        for (cell, bytes) in content.chunks(CELL).enumerate() {
            let candidates = self.candidates(cell, bytes, view);
            if candidates.is_empty() {
                return Err(self.describe(cell, bytes, view));
            }
            cells.push(candidates);
        }
        for (at, one) in cells.iter().enumerate() {
            for (to, other) in cells.iter().enumerate().skip(at + 1) {
                let fits = |a: &&Record| other.iter().any(|b| can_show(a, b, at, to));
                if !one.iter().any(fits) {
                    return Err(format!("cells {at} and {to} show writes that exclude each other"));
                }
            }
        }
        let all = Moments { first: 0, last: NEVER };
        let moments = cells.iter().enumerate().map(|(cell, seen)| self.moments(cell, seen));
        Ok(moments.fold(all, Moments::and))
    }

    /// The moments at which a cell can have shown one of these writes.
    fn moments(&self, cell: usize, seen: &[&Record]) -> Moments {
        let next = |record: &Record| {
            let after =
                self.records.iter().filter(|r| r.cells.contains(&cell) && r.start > record.end);
            after.map(|record| record.done).min().unwrap_or(NEVER)
        };
        Moments {
            first: seen.iter().map(|record| record.start).min().unwrap_or(0),
            last: seen.iter().map(|record| next(record)).max().unwrap_or(NEVER),
        }
    }

    fn describe(&self, cell: usize, bytes: &[u8], view: View) -> String {
        let floor = self.floor(cell, view);
        let tell = |record: &Record| {
            let Record { cells, start, end, durable, .. } = record;
            let is_equal = if record.shows(cell, bytes) { " = what is seen" } else { "" };
            format!("cells {cells:?} from {start} to {end}, durable {durable}{is_equal}")
        };
        let text: Vec<String> = self.records.iter().map(tell).collect();
        let start = &bytes[..8];
        format!(
            "cell {cell} ({start:02x?}..) as {view:?}; nothing answered before {floor} counts:\n  {}",
            text.join("\n  ")
        )
    }
}

/// Returns whether two cells of a block can show these two writes at once.
fn can_show(a: &Record, b: &Record, cell_of_a: usize, cell_of_b: usize) -> bool {
    if std::ptr::eq(a, b) {
        return true;
    }
    let b_was_overwritten = b.cells.contains(&cell_of_a);
    let a_was_overwritten = a.cells.contains(&cell_of_b);
    match (a_was_overwritten, b_was_overwritten) {
        (true, true) => false,
        // Either b came before a, or a before b, unless the clock excludes it.
        (false, true) => a.end >= b.start,
        (true, false) => b.end >= a.start,
        (false, false) => true,
    }
}
