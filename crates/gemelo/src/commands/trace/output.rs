//! A trace file as it is written: compressed if its name says so, and in its place only once it is complete.

use crate::files::NewFile;
use anyhow::Context as _;
use std::io::{self, Write};
use std::path::Path;

/// A level that keeps up with the writing of a trace.
const ZSTD_LEVEL: i32 = 3;

/// Where a trace is written.
pub(super) enum TraceFile {
    Plain(NewFile),
    Gzip(flate2::write::GzEncoder<NewFile>),
    Zstd(zstd::stream::write::Encoder<'static, NewFile>),
}

impl TraceFile {
    /// A file, gzip if its name ends in `.gz`, zstd if in `.zst`; `-` is standard output.
    pub(super) fn create(path: &Path, force: bool) -> anyhow::Result<Self> {
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

    /// Puts the file into its place.
    pub(super) fn finish(self) -> anyhow::Result<()> {
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
