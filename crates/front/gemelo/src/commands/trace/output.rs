//! The file of a trace that is being written. It is compressed if its name says so, and gets its
//! name only when it is complete.

use crate::files::NewFile;
use anyhow::Context as _;
use std::io::{self, Write};
use std::path::Path;

/// A compression level that is as fast as the writing of a trace.
const ZSTD_LEVEL: i32 = 3;

/// A trace file that is being written.
pub(super) enum TraceFile {
    Plain(NewFile),
    Gzip(flate2::write::GzEncoder<NewFile>),
    Zstd(zstd::stream::write::Encoder<'static, NewFile>),
}

impl TraceFile {
    /// Creates a file. It is compressed with gzip if its name ends in `.gz`, and with zstd if it
    /// ends in `.zst`. `-` is standard output.
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

    /// Completes the compression and gives the file its name.
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
