//! Reads a trace file as lines or fixed-size records: opens, decompresses and buffers it.

use crate::TraceError;
use memchr::memchr;
use std::fs::File;
use std::io::{Chain, Cursor, Read};
use std::path::{Path, PathBuf};

/// Bytes read at a time: large enough to hide the cost of system calls, small enough for hundreds
/// of open files.
const BUFFER_BYTES: usize = 256 << 10;
/// Longest line. A write of 64 MiB with an MD5 for every 512 bytes has 4 MiB of hashes.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes that suffice to recognise the compression.
const MAGIC_BYTES: usize = 4;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Offset and value of the magic of a tar archive.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");

/// The number with which each event of blktrace begins, without its lowest byte, the version.
const BLKTRACE_MAGIC: u32 = 0x6561_7400;

/// A buffered, decompressed file.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Bounds of the bytes in the buffer that were not taken yet.
    start: usize,
    end: usize,
    is_at_end: bool,
    /// Lines or records taken so far.
    pub(crate) taken: u64,
}

type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

impl Input {
    /// Opens a file, or standard input for `-`, and decompresses it if it is compressed.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let at = |action| move |source| TraceError::Io { action, path: path.to_owned(), source };
        if path.as_os_str() == "-" {
            return Self::new(path, std::io::stdin());
        }
        let file = File::open(path).map_err(at(TraceError::OPEN))?;
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(at(TraceError::OPEN)(std::io::Error::from(
                std::io::ErrorKind::IsADirectory,
            )));
        }
        Self::new(path, file)
    }

    pub(crate) fn new<R: Read + Send + 'static>(
        path: &Path,
        mut source: R,
    ) -> Result<Self, TraceError> {
        let error = |source| TraceError::Io { action: "read", path: path.to_owned(), source };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut source).take(MAGIC_BYTES as u64).read_to_end(&mut magic).map_err(error)?;
        let is_gzip = magic.starts_with(&GZIP);
        let is_zstd = magic.starts_with(&ZSTD);
        let whole: Whole<R> = Cursor::new(magic).chain(source);
        let source: Box<dyn Read + Send> = if is_gzip {
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else if is_zstd {
            Box::new(zstd::stream::read::Decoder::new(whole).map_err(error)?)
        } else {
            Box::new(whole)
        };
        let mut input = Self {
            path: path.to_owned(),
            source,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            is_at_end: false,
            taken: 0,
        };
        while !input.is_at_end && input.end < input.buffer.len() {
            input.fill()?;
        }
        let (at, magic) = TAR_MAGIC;
        if input.head().get(at..).is_some_and(|head| head.starts_with(magic)) {
            return Err(TraceError::Archive { path: path.to_owned() });
        }
        if is_blktrace(input.head()) {
            return Err(TraceError::Blktrace { path: path.to_owned() });
        }
        Ok(input)
    }

    /// Returns the start of the file, if nothing was taken yet.
    pub(crate) fn head(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads more bytes into the buffer. It first moves the remaining bytes to the front.
    fn fill(&mut self) -> Result<(), TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        loop {
            match self.source.read(free) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(TraceError::Io { action: "read", path: self.path.clone(), source });
                }
            }
            return Ok(());
        }
    }

    /// Returns the next line without its line end, or `None` at the end of the file.
    #[inline]
    pub(crate) fn line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let mut searched = 0;
        loop {
            let head = self.buffer.get(self.start + searched..self.end).unwrap_or_default();
            if let Some(found) = memchr(b'\n', head) {
                let from = self.start;
                let to = from + searched + found;
                self.start = to + 1;
                self.taken += 1;
                return Ok(self.buffer.get(from..to).map(without_return));
            }
            searched = self.end - self.start;
            if self.is_at_end {
                if searched == 0 {
                    return Ok(None);
                }
                let from = self.start;
                self.start = self.end;
                self.taken += 1;
                return Ok(self.buffer.get(from..self.end).map(without_return));
            }
            if searched > MAX_LINE_BYTES {
                let (path, line) = (self.path.clone(), self.taken + 1);
                return Err(TraceError::TooLong { path, line, max_bytes: MAX_LINE_BYTES });
            }
            self.fill()?;
        }
    }

    /// Returns the next `bytes` bytes, fewer at the end of the file, or `None` after it.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<Option<&[u8]>, TraceError> {
        while self.end - self.start < bytes && !self.is_at_end {
            self.fill()?;
        }
        let from = self.start;
        let to = self.end.min(from + bytes);
        self.start = to;
        self.taken += 1;
        Ok(self.buffer.get(from..to).filter(|found| !found.is_empty()))
    }
}

/// Returns whether a file begins with an event of blktrace, from a host of either byte order.
fn is_blktrace(head: &[u8]) -> bool {
    let Some(first) = head.first_chunk() else { return false };
    [u32::from_le_bytes(*first), u32::from_be_bytes(*first)]
        .iter()
        .any(|magic| magic & !0xff == BLKTRACE_MAGIC)
}

#[inline]
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let mut input = Input::new(Path::new("x"), Cursor::new(bytes)).unwrap();
        let mut found = Vec::new();
        while let Some(line) = input.line().unwrap() {
            found.push(line.to_vec());
        }
        found
    }

    #[test]
    fn lines_come_without_their_ends() {
        assert_eq!(lines(b"a\r\n\nb".to_vec()), [b"a".to_vec(), vec![], b"b".to_vec()]);
        assert!(lines(Vec::new()).is_empty());
    }

    #[test]
    fn lines_longer_than_the_buffer_are_whole() {
        let long = vec![b'x'; BUFFER_BYTES * 3 + 17];
        let text = [&long[..], b"\ny\n"].concat();
        assert_eq!(lines(text), [long, b"y".to_vec()]);
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut input = Input::new(Path::new("zero"), std::io::repeat(b'x')).unwrap();
        assert!(input.line().unwrap_err().to_string().starts_with("zero:1: the line is longer"));
    }

    #[test]
    fn compressed_files_are_read_as_plain_ones() {
        let text = b"one\ntwo\n".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        assert_eq!(lines(gzip.finish().unwrap()).len(), 2000);
        assert_eq!(lines(zstd::encode_all(&text[..], 1).unwrap()).len(), 2000);
        let mut cut = zstd::encode_all(&text[..], 1).unwrap();
        cut.truncate(12);
        assert!(Input::new(Path::new("cut"), Cursor::new(cut)).is_err());
    }

    #[test]
    fn archives_are_told() {
        let mut tar = vec![0u8; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let error = Input::new(Path::new("x.tgz"), Cursor::new(tar)).err().unwrap();
        assert!(error.to_string().contains("tar archive"));
    }

    #[test]
    fn binary_traces_of_blktrace_are_told() {
        for magic in [0x6561_7407u32.to_le_bytes(), 0x6561_7407u32.to_be_bytes()] {
            let event = [&magic[..], &[0; 44]].concat();
            let error = Input::new(Path::new("sda.blktrace.0"), Cursor::new(event)).err().unwrap();
            assert!(error.to_string().contains("blkparse -i sda.blktrace.0"), "{error}");
        }
        assert!(Input::new(Path::new("x"), Cursor::new(b"eat\x07".to_vec())).is_err());
        assert!(Input::new(Path::new("x"), Cursor::new(b"eats".to_vec())).is_err());
        assert!(Input::new(Path::new("x"), Cursor::new(b"eta\n".to_vec())).is_ok());
    }

    #[test]
    fn fixed_records_come_whole_and_the_last_one_short() {
        let mut input = Input::new(Path::new("x"), Cursor::new(vec![7; 25])).unwrap();
        let sizes: Vec<usize> =
            std::iter::from_fn(|| input.bytes(10).unwrap().map(<[u8]>::len)).collect();
        assert_eq!(sizes, [10, 10, 5]);
    }
}
