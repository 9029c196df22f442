//! The file of a trace that is being written. It is compressed if its name says so, and gets its
//! name only when it is complete.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::files::{self, NewFile};
use clap::Args;
use gemelo_base::units::format_line;
use gemelo_trace::{TraceFormat, TraceWriter, WriteError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A compression level that is as fast as the writing of a trace.
const ZSTD_LEVEL: i32 = 3;

/// The options of a command that writes a trace.
#[derive(Debug, Args)]
pub(super) struct TraceOutput {
    /// The file to write, compressed if its name ends in .gz or .zst; - is standard output
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

impl TraceOutput {
    /// Refuses a file that exists, before the work begins.
    pub(super) fn check(&self) -> crate::Result<()> {
        files::check_new(&self.output, self.force)
    }

    pub(super) fn writer(&self, format: TraceFormat) -> crate::Result<TraceWriter<TraceFile>> {
        if !format.can_be_written() {
            return Err(WriteError::ReadOnly { format }.into());
        }
        Ok(TraceWriter::new(format, TraceFile::create(&self.output, self.force)?))
    }

    /// Completes the trace and tells what it holds. An interrupted one gets no name. Returns
    /// whether it is complete.
    pub(super) fn finish(
        &self,
        writer: TraceWriter<TraceFile>,
        is_complete: bool,
        content: &str,
        context: &Context,
    ) -> crate::Result<Outcome> {
        let file = writer.finish()?;
        let to_standard_output = files::is_standard_output(&self.output);
        if is_complete || to_standard_output {
            file.finish()?;
        }
        let output = format_line(&gemelo_base::text_of_name(self.output.as_os_str()));
        match (is_complete, to_standard_output) {
            (true, true) => {}
            (true, false) => context.print(&format!("{output}: {content}\n"))?,
            (false, true) => context.monitor.warn("interrupted: the trace is incomplete"),
            (false, false) => {
                let text = format!("interrupted: {output} is incomplete and was removed");
                context.monitor.warn(&text);
            }
        }
        Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
    }
}

/// A trace file that is being written.
pub(super) enum TraceFile {
    Plain(NewFile),
    Gzip(flate2::write::GzEncoder<NewFile>),
    Zstd(zstd::stream::write::Encoder<'static, NewFile>),
}

impl TraceFile {
    /// Creates a file. It is compressed with gzip if its name ends in `.gz`, and with zstd if it
    /// ends in `.zst`. `-` is standard output.
    pub(super) fn create(path: &Path, force: bool) -> crate::Result<Self> {
        let file = NewFile::create(path, force)?;
        let ending = path.extension().and_then(|ending| ending.to_str());
        Ok(match ending {
            Some("gz") => {
                Self::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::fast()))
            }
            Some("zst") => Self::Zstd(zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?),
            _ => Self::Plain(file),
        })
    }

    /// Completes the compression and gives the file its name.
    pub(super) fn finish(self) -> crate::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(gzip) => gzip.finish().context("cannot write the trace")?,
            Self::Zstd(zstd) => zstd.finish().context("cannot write the trace")?,
        };
        file.finish()
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(gzip) => gzip.write(bytes),
            Self::Zstd(zstd) => zstd.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(gzip) => gzip.flush(),
            Self::Zstd(zstd) => zstd.flush(),
        }
    }
}
