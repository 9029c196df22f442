//! Reads one trace file as a stream of records.

use crate::error::{Malformed, TraceError};
use crate::format::{Parsed, Parser, recognise};
use crate::input::Input;
use crate::record::{Names, Record};
use crate::trace_format::TraceFormat;
use std::path::Path;

/// Counts of what a file has beside ordinary records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Lines left out because they do not match the format.
    pub malformed: u64,
    /// Operations left out because the trace does not tell their kind.
    pub unknown: u64,
    /// Records with a time before the start of the trace. They have the time of the start.
    pub before_start: u64,
    /// Outputs of blkparse that follow another one in the same file.
    pub further_outputs: u64,
    /// Outputs of blkparse without the event that stands for an operation in their file.
    pub silent_outputs: u64,
}

impl Oddities {
    pub(crate) fn add(&mut self, other: Self) {
        self.malformed += other.malformed;
        self.unknown += other.unknown;
        self.before_start += other.before_start;
        self.further_outputs += other.further_outputs;
        self.silent_outputs += other.silent_outputs;
    }
}

/// An open trace file.
pub(crate) struct Reader {
    input: Input,
    format: TraceFormat,
    parser: Parser,
    record_bytes: Option<usize>,
    skips_malformed: bool,
    skipped: Oddities,
}

/// Bytes of a malformed line that an error shows.
const SHOWN_BYTES: usize = 60;

impl Reader {
    /// Opens a file. Without a format, the content decides.
    pub(crate) fn open(
        path: &Path,
        format: Option<TraceFormat>,
        skips_malformed: bool,
    ) -> Result<Self, TraceError> {
        let input = Input::open(path)?;
        if input.head().is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        let format = format.or_else(|| recognise(input.head()));
        let format = format.ok_or_else(|| TraceError::Unrecognised {
            path: path.to_owned(),
            known: TraceFormat::known(),
        })?;
        let parser = Parser::new(format, input.head());
        let record_bytes = parser.record_bytes();
        Ok(Self {
            input,
            format,
            parser,
            record_bytes,
            skips_malformed,
            skipped: Oddities::default(),
        })
    }

    /// Returns what was found so far beside ordinary records.
    pub(crate) fn oddities(&self) -> Oddities {
        let mut oddities = self.skipped;
        oddities.add(self.parser.oddities());
        oddities
    }

    pub(crate) const fn format(&self) -> TraceFormat {
        self.format
    }

    /// Reads the next record into `record`. Returns `false` at the end.
    #[inline]
    pub(crate) fn next_record(
        &mut self,
        names: &mut Names,
        record: &mut Record,
    ) -> Result<bool, TraceError> {
        loop {
            let number = self.input.taken + 1;
            let line = match self.record_bytes {
                Some(bytes) => self.input.bytes(bytes)?,
                None => self.input.line()?,
            };
            let Some(line) = line else { return Ok(false) };
            if self.record_bytes.is_none() && line.trim_ascii().is_empty() {
                continue;
            }
            match self.parser.parse(line, number, names, record) {
                Ok(Parsed::Record) => return Ok(true),
                Ok(Parsed::Nothing) => {}
                Ok(Parsed::Unknown) => self.skipped.unknown += 1,
                Err(_) if self.skips_malformed => self.skipped.malformed += 1,
                Err(problem) => {
                    let found = shown(line, self.record_bytes.is_some());
                    return Err(self.error(number, problem, found));
                }
            }
        }
    }

    #[cold]
    fn error(&self, line: u64, problem: Malformed, found: String) -> TraceError {
        TraceError::Line {
            path: self.input.path.clone(),
            line,
            problem,
            found,
            format: self.format,
        }
    }
}

#[cold]
fn shown(line: &[u8], is_binary: bool) -> String {
    if is_binary {
        return format!("{} bytes", line.len());
    }
    let cut = line.get(..SHOWN_BYTES).unwrap_or(line);
    let text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if line.len() > SHOWN_BYTES { format!("{text}...") } else { text }
}
