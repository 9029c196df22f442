//! The text output of blkparse in its default layout:
//! `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`.
//!
//! Each request has several lines, one for each event. An operation is the event of queueing (`Q`).
//! In traces without such events it is that of issuing (`D`), or else that of completion (`C`).

use super::{Parsed, check_end, device, sectors};
use crate::error::Malformed;
use crate::fields::{Words, seconds_as_ns, whole, whole32};
use crate::record::{Names, Record, TraceOperation};

/// Parses the lines of one file.
#[derive(Debug, Clone)]
pub(crate) struct Blkparse {
    action: &'static [u8],
    /// `true` after the events, where blkparse prints totals.
    in_summary: bool,
}

/// Events that stand for an operation, in order of preference.
const ACTIONS: [&[u8]; 3] = [b"Q", b"D", b"C"];

impl Blkparse {
    pub(crate) fn new(head: &[u8]) -> Self {
        let has = |action: &[u8]| {
            head.split(|byte| *byte == b'\n').any(|line| {
                let mut words = Words::new(line);
                is_device(words.field()) && (0..5).map(|_| words.field()).last() == Some(action)
            })
        };
        let action = ACTIONS.into_iter().find(|action| has(action)).unwrap_or(ACTIONS[0]);
        Self { action, in_summary: false }
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
        if self.in_summary || !is_device(name) {
            self.in_summary |= name.starts_with(b"CPU") || name.starts_with(b"Total");
            let is_known = self.in_summary;
            return if is_known { Ok(Parsed::Nothing) } else { Err(NO_DEVICE) };
        }
        words.field();
        words.field();
        record.time_ns = seconds_as_ns(words.field())
            .ok_or(Malformed::new("time", "seconds, such as 0.000012345"))?;
        record.process =
            whole32(words.field()).ok_or(Malformed::new("process id", "a whole number"))?;
        let (action, kind) = (words.field(), words.field());
        if action != self.action {
            return Ok(Parsed::Nothing);
        }
        let Some(operation) = operation_of(kind) else { return Ok(Parsed::Nothing) };
        record.operation = operation;
        record.device = device(names, name)?;
        read_place(words, names, record)?;
        if record.length_bytes == 0 && record.operation != TraceOperation::Flush {
            return Ok(Parsed::Nothing);
        }
        check_end(record)
    }
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

/// Reads `sector + sectors [process]`, or `[process]` alone for a flush. A write with `F` before
/// its `W` is also a flush if it writes nothing.
#[inline]
fn read_place(
    mut words: Words<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<(), Malformed> {
    let before = words.rest();
    let first = words.field();
    if whole(first).is_some() {
        record.offset_bytes = sectors(whole(first), "sector")?;
        if words.field() != b"+" {
            return Err(Malformed::new("sector", "'sector + sectors'"));
        }
        record.length_bytes = sectors(whole(words.field()), "sectors")?;
        record.command = names.command(command(words.rest()));
    } else if before.is_empty() || before.starts_with(b"[") {
        (record.offset_bytes, record.length_bytes) = (0, 0);
        record.command = names.command(command(before));
    } else {
        return Err(Malformed::new("sector", "a whole number"));
    }
    if record.length_bytes == 0 && record.operation == TraceOperation::Write {
        record.operation = TraceOperation::Flush;
    }
    if record.operation == TraceOperation::Flush {
        record.offset_bytes = 0;
    }
    Ok(())
}

#[inline]
fn command(text: &[u8]) -> &[u8] {
    let inner = text.strip_prefix(b"[").unwrap_or(text);
    let inner = inner.strip_suffix(b"]").unwrap_or(inner);
    // The line of a completion has the error number in this place.
    if whole(inner).is_some() { b"" } else { inner }
}
