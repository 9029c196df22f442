//! The source `file`: the bytes of a sample file, repeated.

use super::{DataSource, DataStream, Registration, SourceError, SourceSpec};
use gemelo_base::random::mix64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const REGISTRATION: Registration = Registration {
    name: "file",
    attributes: &[("sample", "the file whose bytes are written")],
    check: |spec| path_of(spec).map(|_| ()),
    open: |spec, _| {
        let path = path_of(spec)?;
        let sample_error = |source| SourceError::Sample { path: path.clone(), source };
        let bytes = std::fs::metadata(&path).map_err(sample_error)?.len();
        if bytes == 0 || bytes > MAX_SAMPLE_BYTES {
            return Err(SourceError::SampleSize { path, bytes });
        }
        let sample = std::fs::read(&path).map_err(sample_error)?;
        if sample.is_empty() {
            return Err(SourceError::SampleSize { path, bytes: 0 });
        }
        Ok(Box::new(Sample { bytes: sample.into() }))
    },
};

/// Largest sample, which is kept in memory.
const MAX_SAMPLE_BYTES: u64 = 1 << 30;

fn path_of(spec: &SourceSpec) -> Result<PathBuf, SourceError> {
    let text = spec.get("sample").unwrap_or_default();
    if Path::new(text).is_file() {
        return Ok(PathBuf::from(text));
    }
    let expected = "the path of a file that exists".to_owned();
    Err(SourceError::Value { attribute: "sample", value: text.to_owned(), expected })
}

struct Sample {
    bytes: Arc<[u8]>,
}

impl DataSource for Sample {
    /// Returns a stream. Streams of different threads start at different offsets.
    fn stream(&self, number: u32) -> Box<dyn DataStream> {
        let next = (mix64(u64::from(number)) % self.bytes.len() as u64) as usize;
        Box::new(SampleStream {
            bytes: Arc::clone(&self.bytes),
            next: if number == 0 { 0 } else { next },
        })
    }
}

struct SampleStream {
    bytes: Arc<[u8]>,
    next: usize,
}

impl DataStream for SampleStream {
    fn fill(&mut self, buffer: &mut [u8]) {
        let mut filled = 0;
        while filled < buffer.len() {
            let part = (buffer.len() - filled).min(self.bytes.len() - self.next);
            buffer[filled..filled + part].copy_from_slice(&self.bytes[self.next..self.next + part]);
            filled += part;
            self.next = (self.next + part) % self.bytes.len();
        }
    }
}
