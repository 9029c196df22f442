//! The nature of contents: the savings of LZ4 and zstd, and the byte entropy, measured on a sample
//! of distinct contents.
//!
//! The bytes of sampled contents are kept while reading. They are measured once at the end, when
//! the contents of the sample are final.

use crate::fingerprint::ScanFingerprint;
use crate::levels::{LevelSample, highest_low};
use crate::set::locked;
use gemelo_base::StopFlag;
use gemelo_base::threads::together;
use gemelo_format::Compression;
use gemelo_store::{Codec, packed_blocks};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The most contents of a sample, and the most bytes of all its contents together.
const MAX_CONTENTS: u64 = 4096;
const MAX_BYTES: u64 = 16 << 20;

/// The contents that are measured after a stop, so that what was read has a prediction. They are a
/// sample as well, because they are in the order of fingerprints.
const FEWEST_CONTENTS: usize = 256;

/// The compression level of zstd: 1 is fast enough for primary storage.
const ZSTD_LEVEL: i32 = 1;

/// The measurements of one content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nature {
    /// The size after LZ4 compression, in bytes. It exceeds the content's size if LZ4 saves
    /// nothing.
    pub(crate) lz4_bytes: u32,
    /// The size after compression by zstd level 1, in bytes.
    pub(crate) zstd_bytes: u32,
    /// The order-0 entropy, in bits a byte.
    pub(crate) entropy_bits: f64,
}

/// Returns the most contents of a sample for blocks of this size.
pub(crate) fn max_contents(block_bytes: u32) -> u64 {
    (MAX_BYTES / u64::from(block_bytes.max(1))).min(MAX_CONTENTS)
}

/// Collects the bytes of sampled contents from many threads.
pub(crate) struct NatureSampler {
    highest_low: AtomicU64,
    held: Mutex<LevelSample<Box<[u8]>>>,
}

/// The sample after measuring: its level, and its contents in ascending order.
pub(crate) struct NatureSample {
    pub(crate) level: u32,
    pub(crate) contents: Vec<(ScanFingerprint, Nature)>,
    /// For each compression, the blocks that a pool takes for a block of distinct contents.
    pub(crate) stored_shares: Vec<f64>,
}

impl NatureSampler {
    pub(crate) fn new(max_contents: u64) -> Self {
        Self {
            highest_low: AtomicU64::new(u64::MAX),
            held: Mutex::new(LevelSample::new(max_contents, |_| 1)),
        }
    }

    /// Returns the highest last 64 bits of a fingerprint in the sample.
    #[inline]
    pub(crate) fn highest_low(&self) -> u64 {
        self.highest_low.load(Ordering::Relaxed)
    }

    /// Adds a content to the sample. The bytes are copied only if the content is new.
    pub(crate) fn offer(&self, fingerprint: ScanFingerprint, content: &[u8]) {
        let mut held = locked(&self.held);
        held.insert(fingerprint, || content.into());
        self.highest_low.store(highest_low(held.level()), Ordering::Relaxed);
    }

    /// Measures the sampled contents on several threads. After a stop, contents that were not yet
    /// measured are left out, except for the first [`FEWEST_CONTENTS`].
    ///
    /// For each compression, it is also predicted how many blocks a pool takes for the contents.
    pub(crate) fn measure(
        self,
        threads: usize,
        (block_bytes, compressions): (u32, &[Compression]),
        stop: &StopFlag,
    ) -> NatureSample {
        let held = self.held.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let level = held.level();
        let contents = held.into_sorted();
        let next = AtomicUsize::new(0);
        let measure_some = || {
            let mut measure = Measure::new((block_bytes, compressions));
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((fingerprint, content)) = contents.get(number) else { break };
                if stop.is_raised() && number >= FEWEST_CONTENTS {
                    break;
                }
                let nature = measure.nature_of(content);
                done.extend(nature.map(|nature| (*fingerprint, nature, measure.forms_of(content))));
            }
            done
        };
        let mut measured: Vec<_> = together(threads, measure_some).into_iter().flatten().collect();
        measured.sort_unstable_by_key(|(fingerprint, ..)| *fingerprint);
        let share = |number: usize| {
            let forms = measured.iter().filter_map(|(_, _, forms)| forms.get(number).copied());
            let blocks = packed_blocks(block_bytes as usize, forms);
            blocks as f64 / measured.len().max(1) as f64
        };
        let stored_shares = (0..compressions.len()).map(share).collect();
        let contents = measured.iter().map(|(fingerprint, nature, _)| (*fingerprint, *nature));
        NatureSample { level, contents: contents.collect(), stored_shares }
    }
}

/// The bytes of a content in a pool with each of several compressions; [`None`] for one that fills
/// its block.
type Forms = Vec<Option<usize>>;

/// The compressors with their working memory.
struct Measure {
    zstd: Option<zstd::bulk::Compressor<'static>>,
    output: Vec<u8>,
    /// A codec for each compression, as a pool has one.
    codecs: Vec<(Codec, Compression)>,
    /// A short content, filled up with zeros as a volume does.
    block: Vec<u8>,
}

impl Measure {
    fn new((block_bytes, compressions): (u32, &[Compression])) -> Self {
        let codec =
            |compression: &Compression| (Codec::thorough(block_bytes as usize), *compression);
        Self {
            zstd: zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
            output: Vec::new(),
            codecs: compressions.iter().map(codec).collect(),
            block: vec![0; block_bytes as usize],
        }
    }

    /// Compresses a content as a pool does, with each compression.
    fn forms_of(&mut self, content: &[u8]) -> Forms {
        let Self { codecs, block, .. } = self;
        let length = content.len().min(block.len());
        let (start, rest) = block.split_at_mut(length);
        start.copy_from_slice(content.get(..start.len()).unwrap_or_default());
        rest.fill(0);
        let form = |(codec, compression): &(Codec, Compression)| {
            let compressed = codec.compress(*compression, &[block]);
            compressed.parts().next().flatten().map(|(_, bytes)| bytes.len())
        };
        codecs.iter().map(form).collect()
    }

    /// Returns `None` only if zstd cannot allocate memory.
    fn nature_of(&mut self, content: &[u8]) -> Option<Nature> {
        let room = zstd::zstd_safe::compress_bound(content.len())
            .max(lz4_flex::block::get_maximum_output_size(content.len()));
        self.output.resize(room, 0);
        let lz4_bytes = lz4_flex::block::compress_into(content, &mut self.output).ok()?;
        let zstd_bytes =
            self.zstd.as_mut()?.compress_to_buffer(content, self.output.as_mut_slice()).ok()?;
        Some(Nature {
            lz4_bytes: u32::try_from(lz4_bytes).ok()?,
            zstd_bytes: u32::try_from(zstd_bytes).ok()?,
            entropy_bits: entropy_bits(content),
        })
    }
}

/// Returns the order-0 entropy (Shannon 1948), in bits a byte; 0 for an empty content.
fn entropy_bits(content: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in content {
        counts[usize::from(*byte)] += 1;
    }
    let length = content.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / length;
            -share * share.log2()
        })
        .sum::<f64>()
        .max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    #[test]
    fn entropy_is_that_of_the_byte_counts() {
        let all: Vec<u8> = (0..=255).collect();
        assert!((entropy_bits(&all) - 8.0).abs() < 1e-12);
        assert_eq!(entropy_bits(&[7; 100]), 0.0);
        assert!((entropy_bits(&[1, 2]) - 1.0).abs() < 1e-12);
        assert_eq!(entropy_bits(&[]), 0.0);
    }

    #[test]
    fn random_bytes_do_not_shrink_and_repeated_ones_do() {
        let mut random = Random::new(1);
        let noise: Vec<u8> = (0..4096).map(|_| random.next_u64() as u8).collect();
        let mut measure = Measure::new((4096, &[]));
        let nature = measure.nature_of(&noise).unwrap();
        assert!(nature.lz4_bytes >= 4096 && nature.zstd_bytes >= 4096 && nature.entropy_bits > 7.9);
        let nature = measure.nature_of(&[b'x'; 4096]).unwrap();
        assert!(nature.lz4_bytes < 50 && nature.zstd_bytes < 50);
    }

    #[test]
    fn the_blocks_of_a_pool_are_predicted_for_each_compression() {
        let sampler = NatureSampler::new(1000);
        let mut random = Random::new(1);
        for number in 0..300u64 {
            let mut content: Vec<u8> = (0..4096).map(|_| random.next_u64() as u8).collect();
            // A third is noise, a third is half noise, and a third is short noise.
            match number % 3 {
                0 => {}
                1 => content[2048..].fill(number as u8),
                _ => content.truncate(1024),
            }
            sampler.offer(crate::ScanFingerprintKind::Xxh3.of(&content), &content);
        }
        let compressions = [Compression::Off, Compression::Lz4, Compression::Zstd(3)];
        let sample = sampler.measure(2, (4096, &compressions), &StopFlag::new());
        let [off, lz4, zstd] = sample.stored_shares[..] else { panic!("one for each") };
        assert_eq!(off, 1.0);
        let expected = (1.0 + 0.5 + 0.25) / 3.0;
        for share in [lz4, zstd] {
            assert!(share > expected && share < expected + 0.02, "{share}");
        }
    }

    #[test]
    fn a_sample_measured_by_many_threads_is_that_of_one() {
        let sample = |threads| {
            let sampler = NatureSampler::new(64);
            for number in 0..1000u64 {
                let content = number.to_le_bytes();
                sampler.offer(crate::ScanFingerprintKind::Xxh3.of(&content), &content);
            }
            sampler.measure(threads, (512, &[]), &StopFlag::new())
        };
        let (one, many) = (sample(1), sample(4));
        assert!((32..=64).contains(&one.contents.len()));
        assert_eq!((one.level, one.contents), (many.level, many.contents));
    }
}
