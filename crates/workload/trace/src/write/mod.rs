//! Writes records in a format, and counts what the format cannot represent.

mod digits;
mod lines;

use crate::record::{Names, Record};
use crate::trace_format::TraceFormat;
use gemelo_base::Classified;
use gemelo_base::units::{format_count, format_counted};
use lines::Fits;
use serde::Serialize;
use std::io::Write;
use thiserror::Error;

/// The number of records that lost information in a format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Trims and flushes that were left out, because the format has no such operations.
    pub operations: u64,
    /// Records whose hashes were left out.
    pub hashes: u64,
    /// Records whose process was left out.
    pub processes: u64,
    /// Records whose device got another name: a number, or none.
    pub devices: u64,
    /// Records whose time was rounded down to the format's unit.
    pub times: u64,
    /// Records whose place was widened to whole sectors of 512 bytes.
    pub places: u64,
}

impl Loss {
    /// Returns the losses as messages for the user.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let said = [
            (self.operations, "trims and flushes left out"),
            (self.hashes, "records lost the hashes"),
            (self.processes, "records lost the process"),
            (self.devices, "records changed the name of their device"),
            (self.times, "records had their time rounded"),
            (self.places, "records widened to whole sectors"),
        ];
        let in_words = |(count, what): &(u64, &str)| match what.strip_prefix("records") {
            Some(what) => format!("{}{what}", format_counted(*count, "record")),
            None => format!("{} {what}", format_count(*count)),
        };
        said.iter().filter(|(count, _)| *count > 0).map(in_words).collect()
    }
}

/// The reason why a record cannot be written.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum WriteError {
    /// Writing to the output failed.
    #[kind(source)]
    #[error("cannot write the trace")]
    Io(#[from] std::io::Error),
    /// The format requires hashes, and the record has none.
    #[error(
        "{format} traces need hashes, and this trace has none: choose another format, or make a \
         trace with gemelo trace synthesize"
    )]
    NoHashes {
        /// Requested format.
        format: TraceFormat,
    },
    /// The format does not permit hashes of stretches of this length.
    #[error(
        "{format} traces have a hash for every 512 or 4096 bytes, but this trace has one for \
         every {hash_bytes}: choose another format"
    )]
    HashSize {
        /// Requested format.
        format: TraceFormat,
        /// Bytes of data for each hash.
        hash_bytes: u32,
    },
    /// The format can only be read.
    #[error("{format} traces can be read but not written: choose another format")]
    ReadOnly {
        /// Requested format.
        format: TraceFormat,
    },
    /// A number is too large for the format.
    #[error("{value} is too large for {what} in a {format} trace: choose another format")]
    Range {
        /// Requested format.
        format: TraceFormat,
        /// Description of the number.
        what: &'static str,
        /// Value of the number.
        value: u64,
    },
}

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes records in a format.
pub struct TraceWriter<W> {
    format: TraceFormat,
    out: W,
    buffer: Vec<u8>,
    /// Time of the first record, from which fio's iologs count.
    first_ns: Option<u64>,
    last_ns: u64,
    /// Devices that the iolog already adds and opens.
    opened: Vec<bool>,
    serial: u32,
    records: u64,
    loss: Loss,
}

impl<W: Write> TraceWriter<W> {
    /// Creates a writer of a format.
    pub fn new(format: TraceFormat, out: W) -> Self {
        let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
        buffer.extend_from_slice(lines::header(format));
        Self {
            format,
            out,
            buffer,
            first_ns: None,
            last_ns: 0,
            opened: Vec::new(),
            serial: 0,
            records: 0,
            loss: Loss::default(),
        }
    }

    /// Writes a record, or counts it as lost if the format has no such operation.
    ///
    /// # Errors
    /// If writing fails, or the format cannot represent the record.
    #[inline]
    pub fn write(&mut self, record: &Record, names: &Names) -> Result<(), WriteError> {
        if !lines::has_operation(self.format, record.operation) {
            self.loss.operations += 1;
            return Ok(());
        }
        let fits = self.append(record, names)?;
        self.records += 1;
        self.count(record, fits);
        if self.buffer.len() >= BUFFER_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, record: &Record, fits: Fits) {
        let loss = &mut self.loss;
        loss.hashes += u64::from(!record.hashes.is_empty() && !self.format.carries_hashes());
        loss.processes += u64::from(!fits.process && (record.process != 0 || record.command != 0));
        loss.devices += u64::from(!fits.device);
        loss.times += u64::from(!fits.time);
        loss.places += u64::from(!fits.place);
    }

    /// Returns the number of records written so far.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Returns the losses so far.
    #[must_use]
    pub const fn loss(&self) -> Loss {
        self.loss
    }

    /// Writes the remaining records and returns the output.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests;
