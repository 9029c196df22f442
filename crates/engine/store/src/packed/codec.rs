//! Compressing contents, and the reverse.

use super::OFFSET_BYTES;
use super::image::split_form;
use super::lz4;
use gemelo_base::locks::Mutex;
use gemelo_format::{Compression, PackedPlace, Pbn, SLOT_HEAD_BYTES};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::cell::RefCell;
use std::ops::Range;

/// After this many contents in a row that did not shrink, only the start of the next ones is tried.
const STREAK: u32 = 32;
/// The part of a content that is its start.
const START_PART: usize = 4;
/// A content is stored compressed if it takes at most this many eighths of a block. A smaller gain
/// would not be worth reading parts of two blocks.
const MAX_EIGHTHS: usize = 7;
/// Levels of Zstandard are small numbers.
const LZ4: u8 = Compression::Lz4.algorithm();

/// Compressed contents of a list, in one piece of memory.
#[derive(Debug, Default)]
pub struct Compressed {
    bytes: Vec<u8>,
    parts: Vec<Option<(u8, Range<usize>)>>,
}

impl Compressed {
    /// Takes contents from the forms that [`super::PackedStore::form_in`] returns for them;
    /// [`None`] if one of these makes no sense.
    #[must_use]
    pub fn of_forms<'f>(forms: impl Iterator<Item = (Pbn, &'f [u8])>) -> Option<Self> {
        let mut compressed = Self::default();
        for (pbn, form) in forms {
            if PackedPlace::of(pbn).is_whole() {
                compressed.parts.push(None);
                continue;
            }
            let (_, form) = form.split_first_chunk::<OFFSET_BYTES>()?;
            let (head, bytes) = split_form(form)?;
            let start = compressed.bytes.len();
            compressed.bytes.extend_from_slice(bytes);
            compressed.parts.push(Some((head.algorithm, start..compressed.bytes.len())));
        }
        Some(compressed)
    }

    /// Bytes that the contents take in blocks of this size.
    #[must_use]
    pub fn stored_bytes(&self, block_bytes: usize) -> u64 {
        let bytes_of = |part: &Option<(u8, Range<usize>)>| match part {
            Some((_, bytes)) => SLOT_HEAD_BYTES + bytes.len(),
            None => block_bytes,
        };
        self.parts.iter().map(|part| bytes_of(part) as u64).sum()
    }

    /// Leaves out the contents for which `keeps` returns `false`. It is called with their numbers.
    pub fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        let mut number = 0..;
        self.parts.retain(|_| number.next().is_some_and(&keeps));
    }

    /// The algorithm and the bytes of each content; [`None`] for one that stays as it is.
    pub fn parts(&self) -> impl Iterator<Item = Option<(u8, &[u8])>> {
        self.parts.iter().map(|part| {
            let (algorithm, range) = part.as_ref()?;
            Some((*algorithm, self.bytes.get(range.clone())?))
        })
    }
}

/// The memory of a compressor, which one thread has at a time.
struct Worker {
    table: CompressTable,
    zstd: Option<(u8, zstd::bulk::Compressor<'static>)>,
    output: Vec<u8>,
    /// Contents in a row that did not shrink. Those of lists that other threads compress at the
    /// same time are not among them: they tell nothing of this list.
    streak: u32,
}

impl Worker {
    fn new(block_bytes: usize) -> Self {
        let bytes = get_maximum_output_size(block_bytes).max(zstd::compress_bound(block_bytes));
        Self { table: CompressTable::default(), zstd: None, output: vec![0; bytes], streak: 0 }
    }

    /// Compresses bytes, and returns the number of those that it takes; [`None`] if that fails.
    fn compress(&mut self, compression: Compression, bytes: &[u8]) -> Option<usize> {
        match compression {
            Compression::Off => None,
            Compression::Lz4 => {
                compress_into_with_table(bytes, &mut self.output, &mut self.table).ok()
            }
            Compression::Zstd(level) => {
                let zstd = match &mut self.zstd {
                    Some((of, zstd)) if *of == level => zstd,
                    zstd => {
                        let fresh = zstd::bulk::Compressor::new(i32::from(level)).ok()?;
                        &mut zstd.insert((level, fresh)).1
                    }
                };
                zstd.compress_to_buffer(bytes, self.output.as_mut_slice()).ok()
            }
        }
    }
}

/// Compresses the contents of a pool, by many threads at once.
pub struct Codec {
    block_bytes: usize,
    /// As many as threads have compressed at once.
    workers: Mutex<Vec<Worker>>,
    /// After this many contents in a row that did not shrink, only the start of the next ones is
    /// tried.
    max_streak: u32,
}

impl Codec {
    /// Makes a codec for contents of this size.
    #[must_use]
    pub const fn new(block_bytes: usize) -> Self {
        Self::with_streak(block_bytes, STREAK)
    }

    /// Makes a codec that tries each content as a whole, whatever became of those before it.
    #[must_use]
    pub const fn thorough(block_bytes: usize) -> Self {
        Self::with_streak(block_bytes, u32::MAX)
    }

    const fn with_streak(block_bytes: usize, max_streak: u32) -> Self {
        Self { block_bytes, workers: Mutex::new(Vec::new()), max_streak }
    }

    /// Compresses the contents of a list that shrink.
    pub fn compress(&self, compression: Compression, contents: &[&[u8]]) -> Compressed {
        if compression == Compression::Off {
            return Compressed { bytes: Vec::new(), parts: vec![None; contents.len()] };
        }
        let mut worker = self.worker();
        let compressed = self.compress_by(&mut worker, compression, contents);
        self.workers.lock().push(worker);
        compressed
    }

    fn worker(&self) -> Worker {
        let worker = self.workers.lock().pop();
        worker.unwrap_or_else(|| Worker::new(self.block_bytes))
    }

    fn compress_by(
        &self,
        worker: &mut Worker,
        compression: Compression,
        contents: &[&[u8]],
    ) -> Compressed {
        let mut compressed = Compressed::default();
        for content in contents {
            let part = self.compress_one(compression, content, worker).map(|length| {
                let start = compressed.bytes.len();
                compressed.bytes.extend_from_slice(worker.output.get(..length).unwrap_or(&[]));
                (compression.algorithm(), start..start + length)
            });
            compressed.parts.push(part);
        }
        assert_eq!(compressed.parts.len(), contents.len(), "each content was tried");
        compressed
    }

    /// Compresses a content if it shrinks enough.
    fn compress_one(
        &self,
        compression: Compression,
        content: &[u8],
        worker: &mut Worker,
    ) -> Option<usize> {
        assert_eq!(content.len(), self.block_bytes, "a whole content is compressed");
        if worker.streak >= self.max_streak {
            let (start, _) = content.split_at(content.len() / START_PART);
            let length = worker.compress(Compression::Lz4, start)?;
            if !shrinks(length, start.len()) {
                return None;
            }
        }
        let length = worker.compress(compression, content);
        let length = length.filter(|length| shrinks(*length, content.len()));
        worker.streak = if length.is_some() { 0 } else { worker.streak.saturating_add(1) };
        length
    }
}

const fn shrinks(length: usize, from: usize) -> bool {
    length <= from / 8 * MAX_EIGHTHS
}

/// Decompresses a content. Returns `false` if the bytes are not those of a content of this length.
#[must_use]
pub fn decompress(algorithm: u8, bytes: &[u8], content: &mut [u8]) -> bool {
    let length = if algorithm == LZ4 {
        lz4::decompress(bytes, content)
    } else if algorithm == Compression::Zstd(1).algorithm() {
        ZSTD.with_borrow_mut(|context| decompress_zstd(context, bytes, content))
    } else {
        None
    };
    length == Some(content.len())
}

thread_local! {
    /// A context of Zstandard takes about 100 KB, so each thread keeps the one that it made.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompress_zstd(
    context: &mut Option<zstd::bulk::Decompressor<'static>>,
    bytes: &[u8],
    content: &mut [u8],
) -> Option<usize> {
    let context = match context {
        Some(context) => context,
        None => context.insert(zstd::bulk::Decompressor::new().ok()?),
    };
    context.decompress_to_buffer(bytes, content).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| random.next_u64() as u8).collect()
    }

    #[test]
    fn contents_come_back_and_those_that_do_not_shrink_are_left_alone() {
        for bytes in [512, 4096, 65536] {
            for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(7)] {
                let (codec, mut random) = (Codec::new(bytes), Random::new(3));
                let noise = noise(&mut random, bytes);
                let half = [&noise[..bytes / 2], &vec![0; bytes / 2]].concat();
                let compressed = codec.compress(compression, &[&half, &noise]);
                let parts: Vec<_> = compressed.parts().collect();
                let (algorithm, form) = parts[0].unwrap();
                assert!(form.len() < bytes * 5 / 8 && parts[1].is_none());
                let mut content = vec![1; bytes];
                assert!(decompress(algorithm, form, &mut content) && content == half);
                assert!(!decompress(algorithm, form, &mut content[1..]));
                assert!(!decompress(algorithm, form, &mut vec![0; bytes + 1]));
                assert!(!decompress(9, form, &mut content));
            }
        }
    }

    #[test]
    fn after_many_contents_that_do_not_shrink_one_that_does_is_still_found() {
        let (codec, mut random) = (Codec::new(4096), Random::new(5));
        let noise = noise(&mut random, 4096);
        let zeros = [vec![7; 2048], noise[..2048].to_vec()].concat();
        for _ in 0..2 * STREAK {
            assert_eq!(codec.compress(Compression::Lz4, &[&noise]).parts().next(), Some(None));
        }
        assert!(codec.compress(Compression::Lz4, &[&zeros]).parts().next().unwrap().is_some());
    }

    #[test]
    fn contents_are_tried_whatever_another_thread_compresses_at_the_same_time() {
        let (codec, mut random) = (Codec::new(4096), Random::new(5));
        let noise = noise(&mut random, 4096);
        let half = [&noise[..2048], &[7; 2048]].concat();
        let list = vec![&noise[..]; 2 * STREAK as usize];
        let mut worker = codec.worker();
        codec.compress_by(&mut worker, Compression::Lz4, &list);
        // The first list goes on meanwhile.
        let second = codec.compress(Compression::Lz4, &[&half]);
        assert!(second.parts().next().unwrap().is_some());
    }
}
