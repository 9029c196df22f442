//! The text output of blkparse in its default layout:
//! `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`.
//!
//! Each request has several lines, one for each event. An operation is the event of queueing (`Q`).
//! In traces without such events it is that of issuing (`D`), or else that of completion (`C`).
//!
//! After the events come totals. Events after totals begin another output in the same file, whose
//! times begin at 0 again: they are moved to follow the output before.

use super::{Parsed, check_end, device, sectors};
use crate::error::Malformed;
use crate::fields::{Words, seconds_as_ns, whole, whole32};
use crate::reader::Oddities;
use crate::record::{Names, Record, TraceOperation};

/// Parses the lines of one file.
#[derive(Debug, Clone)]
pub(crate) struct Blkparse {
    action: &'static [u8],
    /// `true` after the events, where blkparse prints totals.
    in_summary: bool,
    /// Time that is added to the events of this output.
    shift_ns: u64,
    /// Latest time of all events so far, moved ones included.
    latest_ns: u64,
    /// Operations of this output so far, and whether it had events of any kind.
    operations: u64,
    has_events: bool,
    oddities: Oddities,
}

/// Events that stand for an operation, in order of preference.
const ACTIONS: [&[u8]; 3] = [b"Q", b"D", b"C"];

/// The time that blkparse prints for one nanosecond before the start: it has 64 bits in
/// nanoseconds, of whose seconds 32 bits are printed.
const LAST_WRAPPED_NS: u64 = 1_266_874_889_709_551_615;
/// Longest time before the start that is recognised: an hour.
const MAX_BEFORE_START_NS: u64 = 3_600_000_000_000;

/// Starts of the lines that blkparse prints beside events: totals of a CPU, of a process and of a
/// device.
const SUMMARY: [&[u8]; 13] = [
    b"CPU",
    b"Total (",
    b"Throughput (",
    b"Events (",
    b"Skips: ",
    b"Reads ",
    b"Read ",
    b"Writes ",
    b"IO unplugs:",
    b"PC ",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Completion wait:",
];

impl Blkparse {
    pub(crate) fn new(head: &[u8]) -> Self {
        let has = |action: &[u8]| {
            head.split(|byte| *byte == b'\n').any(|line| {
                let mut words = Words::new(line);
                is_device(words.field()) && (0..5).map(|_| words.field()).last() == Some(action)
            })
        };
        let action = ACTIONS.into_iter().find(|action| has(action)).unwrap_or(ACTIONS[0]);
        Self {
            action,
            in_summary: false,
            shift_ns: 0,
            latest_ns: 0,
            operations: 0,
            has_events: false,
            oddities: Oddities::default(),
        }
    }

    /// Returns what was found so far beside operations.
    pub(crate) fn oddities(&self) -> Oddities {
        let is_silent = self.has_events && self.operations == 0;
        let silent_outputs = self.oddities.silent_outputs + u64::from(is_silent);
        Oddities { silent_outputs, ..self.oddities }
    }

    #[inline]
    pub(crate) fn parse(
        &mut self,
        line: &[u8],
        names: &mut Names,
        record: &mut Record,
    ) -> Result<Parsed, Malformed> {
        let mut words = Words::new(line);
        let name = words.field();
        if !is_device(name) {
            return self.look_at_other(line);
        }
        words.field();
        words.field();
        let time_ns = seconds_as_ns(words.field())
            .ok_or(Malformed::new("time", "seconds, such as 0.000012345"))?;
        record.process =
            whole32(words.field()).ok_or(Malformed::new("process id", "a whole number"))?;
        let is_before_start =
            (LAST_WRAPPED_NS - MAX_BEFORE_START_NS..=LAST_WRAPPED_NS).contains(&time_ns);
        record.time_ns = self.moved_ns(if is_before_start { 0 } else { time_ns })?;
        let (action, kind) = (words.field(), words.field());
        if action != self.action {
            return Ok(Parsed::Nothing);
        }
        let Some(operation) = operation_of(kind) else { return Ok(Parsed::Nothing) };
        record.operation = operation;
        record.device = device(names, name)?;
        if !read_place(words, kind, names, record)? {
            return Ok(Parsed::Nothing);
        }
        let parsed = check_end(record)?;
        self.operations += 1;
        self.oddities.before_start += u64::from(is_before_start);
        Ok(parsed)
    }

    /// Looks at a line that is no event.
    #[cold]
    fn look_at_other(&mut self, line: &[u8]) -> Result<Parsed, Malformed> {
        let text = line.trim_ascii();
        if self.in_summary || text.starts_with(b"Input file ") {
            return Ok(Parsed::Nothing);
        }
        let is_summary =
            SUMMARY.iter().any(|start| text.starts_with(start)) || is_process_name(text);
        if !is_summary {
            return Err(NO_DEVICE);
        }
        self.in_summary = true;
        Ok(Parsed::Nothing)
    }

    /// Returns the time of an event in the whole file. An output after the first one begins where
    /// the one before ended, unless its times go on by themselves.
    #[inline]
    fn moved_ns(&mut self, time_ns: u64) -> Result<u64, Malformed> {
        if self.in_summary {
            self.oddities = self.oddities();
            self.oddities.further_outputs += u64::from(self.has_events);
            (self.in_summary, self.operations) = (false, 0);
            self.shift_ns = if time_ns < self.latest_ns { self.latest_ns } else { 0 };
        }
        let moved_ns = time_ns
            .checked_add(self.shift_ns)
            .ok_or(Malformed::new("time", "a time below 2^64 ns, with those of outputs before"))?;
        self.has_events = true;
        self.latest_ns = self.latest_ns.max(moved_ns);
        Ok(moved_ns)
    }
}

/// Returns whether a line is the head of the totals of a process, which `-s` prints before all
/// others: `name (id)`, or `name (id, ...)`.
fn is_process_name(line: &[u8]) -> bool {
    let inner = line.strip_suffix(b")").and_then(|line| {
        let open = line.iter().rposition(|byte| *byte == b'(')?;
        line.get(open + 1..)
    });
    let inner = inner.map(|inner| inner.strip_suffix(b", ...").unwrap_or(inner));
    inner.is_some_and(|inner| whole(inner).is_some())
}

const NO_DEVICE: Malformed = Malformed::new("device", "major,minor");

fn is_device(name: &[u8]) -> bool {
    let comma = name.iter().position(|byte| *byte == b',');
    comma.is_some_and(|comma| {
        let (major, minor) = (name.get(..comma), name.get(comma + 1..));
        major.and_then(whole).is_some() && minor.and_then(whole).is_some()
    })
}

/// Interprets the letters of blkparse's rwbs column: D is a discard, W a write, R a read, and F
/// alone a flush.
#[inline]
fn operation_of(kind: &[u8]) -> Option<TraceOperation> {
    let has = |letter| kind.contains(&letter);
    if has(b'D') {
        Some(TraceOperation::Trim)
    } else if has(b'W') {
        Some(TraceOperation::Write)
    } else if has(b'R') {
        Some(TraceOperation::Read)
    } else if has(b'F') {
        Some(TraceOperation::Flush)
    } else {
        None
    }
}

/// Reads the place of an operation, and its process. Returns `false` for what has no place: SCSI
/// commands that pass through.
///
/// Operations have `sector + sectors [process]`, and with `-t` the time since the last event in
/// parentheses after the place. A flush has `[process]` when it is queued or issued, and
/// `sector [error]` when it completes. A SCSI command has its bytes and its codes,
/// `bytes (hex codes) [process]`.
#[inline]
fn read_place(
    mut words: Words<'_>,
    kind: &[u8],
    names: &mut Names,
    record: &mut Record,
) -> Result<bool, Malformed> {
    let before = words.rest();
    let first = words.field();
    let after = words.rest();
    let sector = whole(first);
    if sector.is_some() && words.field() == b"+" {
        record.offset_bytes = sectors(sector, "sector")?;
        record.length_bytes = sectors(whole(words.field()), "sectors")?;
        record.command = names.command(command(words.rest()));
    } else if sector.is_some() && is_ending(after) {
        (record.offset_bytes, record.length_bytes) = (0, 0);
        record.command = names.command(command(after));
    } else if is_ending(before) {
        (record.offset_bytes, record.length_bytes) = (0, 0);
        record.command = names.command(command(before));
    } else if sector.is_some() {
        return Err(Malformed::new("sector", "'sector + sectors'"));
    } else {
        return Err(Malformed::new("sector", "a whole number"));
    }
    // `F` before the `W` asks for a flush, and `B` was a barrier until Linux 2.6.36.
    let flushes = kind.iter().any(|letter| matches!(letter, b'F' | b'B'));
    if record.length_bytes == 0 && record.operation == TraceOperation::Write && flushes {
        record.operation = TraceOperation::Flush;
    }
    if record.operation == TraceOperation::Flush {
        (record.offset_bytes, record.length_bytes) = (0, 0);
        return Ok(true);
    }
    Ok(record.length_bytes > 0)
}

/// Returns whether a text is what may follow the place: nothing, or something in brackets.
#[inline]
const fn is_ending(text: &[u8]) -> bool {
    matches!(text.first(), None | Some(b'[' | b'('))
}

#[inline]
fn command(text: &[u8]) -> &[u8] {
    let text = match (text.first(), text.iter().position(|byte| *byte == b')')) {
        (Some(b'('), Some(end)) => text.get(end + 1..).unwrap_or_default().trim_ascii(),
        _ => text,
    };
    let inner = text.strip_prefix(b"[").unwrap_or(text);
    let inner = inner.strip_suffix(b"]").unwrap_or(inner);
    // The line of a completion has the error number in this place.
    if whole(inner).is_some() { b"" } else { inner }
}
