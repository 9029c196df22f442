//! What was done to the blocks of volumes and when, and what they may hold because of it.
//!
//! Every request has the moments when it was made and when it was answered, by one clock. Of two
//! requests the first is *before* the second if it was answered before the second was made; others
//! are in no order. Blocks are looked at in cells, so that writes of a part are writes of cells.
//!
//! - A cell may show a write if no write that is certain to count comes after it: for a reader those
//!   that were answered before the read, after a power cut those that were flushed before it.
//! - What the cells of a block show has to be possible at once: of two writes that both cover both
//!   of two cells, these cannot show one each.
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
/// Of what was not answered.
pub const NEVER: Time = Time::MAX;

/// A write of a block, or of a part of it.
#[derive(Debug, Clone)]
pub struct Write {
    pub volume: usize,
    pub block: usize,
    pub cells: Range<usize>,
    /// The whole block; of it the cells count.
    pub content: Arc<[u8]>,
    pub start: Time,
    pub end: Time,
    /// It was answered without an error.
    pub is_done: bool,
    /// It is durable once it is done.
    pub is_immediate: bool,
}

/// Something that makes durable what was answered before it began. Those that failed are not kept.
#[derive(Debug, Clone, Copy)]
pub struct Flush {
    pub start: Time,
    pub end: Time,
}

/// What somebody read: the blocks of a volume from one on.
#[derive(Debug, Clone)]
pub struct Read {
    pub volume: usize,
    pub block: usize,
    pub bytes: Vec<u8>,
    pub start: Time,
    pub end: Time,
}

#[derive(Debug)]
struct Record {
    cells: Range<usize>,
    content: Arc<[u8]>,
    start: Time,
    end: Time,
    /// When it was answered without an error.
    done: Time,
    /// When it was certain to survive a power cut.
    durable: Time,
}

impl Record {
    fn shows(&self, cell: usize, bytes: &[u8]) -> bool {
        self.cells.contains(&cell) && self.content[cell * CELL..(cell + 1) * CELL] == *bytes
    }
}

/// How a state of a volume is looked at.
#[derive(Debug, Clone, Copy)]
pub enum View {
    /// By somebody who asked and was answered then.
    Read { start: Time, end: Time },
    /// After a power cut at that moment.
    Crash { at: Time },
}

impl View {
    /// From when on writes cannot be seen.
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

/// All flushes that succeeded, to be asked when a write was durable.
#[derive(Debug, Default)]
pub struct Flushes {
    /// By their beginning; each with the earliest end of it and those after it.
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

/// The writes to one block, the first of which is what it held in the beginning.
#[derive(Debug)]
pub struct BlockHistory {
    records: Vec<Record>,
}

/// Moments at which all that was seen was so.
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
    /// A block that held this, durably, from a moment on.
    pub fn new(content: Arc<[u8]>, since: Time) -> Self {
        let first = Record {
            cells: 0..CELLS,
            content,
            start: since,
            end: since,
            done: since,
            durable: since,
        };
        Self { records: vec![first] }
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

    /// Writes of a cell that were answered before this are not seen.
    fn floor(&self, cell: usize, view: View) -> Time {
        let counting = self.records.iter().filter(|r| r.cells.contains(&cell) && view.counts(r));
        counting.map(|record| record.start).max().unwrap_or(0)
    }

    fn candidates(&self, cell: usize, bytes: &[u8], view: View) -> Vec<&Record> {
        let floor = self.floor(cell, view);
        let is_seen = |record: &&Record| record.start < view.end() && record.end >= floor;
        self.records.iter().filter(|record| record.shows(cell, bytes)).filter(is_seen).collect()
    }

    /// Whether the block may hold this; if so, when it did.
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

    /// When a cell can have shown one of these.
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

/// Whether two cells of a block can show these two writes at once.
fn can_show(a: &Record, b: &Record, cell_of_a: usize, cell_of_b: usize) -> bool {
    if std::ptr::eq(a, b) {
        return true;
    }
    let b_was_overwritten = b.cells.contains(&cell_of_a);
    let a_was_overwritten = a.cells.contains(&cell_of_b);
    match (a_was_overwritten, b_was_overwritten) {
        (true, true) => false,
        // Then b came before a, or the other way round, unless the clock says that it did not.
        (false, true) => a.end >= b.start,
        (true, false) => b.end >= a.start,
        (false, false) => true,
    }
}
