//! The source `duplicates`: contents of a duplicate distribution, with a chosen entropy and
//! compressibility.
//!
//! The blocks of all threads together follow the distribution, because every write takes the next
//! numbers of one sequence.

use super::{
    DataSource, DataStream, Registration, SourceError, SourceSpec, Surroundings, entropy_of,
};
use gemelo_base::units::parse_size;
use gemelo_content::{Assignment, ContentSpec, Generator, Nature};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const REGISTRATION: Registration = Registration {
    name: "duplicates",
    attributes: &[
        ("distribution", "name or file of a distribution"),
        ("seed", "seed of the contents [that of the run]"),
        ("compressibility", "share that LZ4 and zstd -1 save, in percent [0]"),
        ("entropy", "bits a byte, 0.0 to 8.0 [8]"),
        ("blocksize", "size of a block [4k]"),
    ],
    check: |spec| settings(spec).map(|_| ()),
    open,
};

struct Settings<'a> {
    distribution: &'a str,
    seed: Option<u64>,
    nature: Nature,
    block_bytes: usize,
}

fn settings(spec: &SourceSpec) -> Result<Settings<'_>, SourceError> {
    let value = |attribute, value: &str, expected: &str| SourceError::Value {
        attribute,
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    let distribution = spec.get("distribution");
    let distribution =
        distribution.ok_or_else(|| value("distribution", "", "a distribution's name or file"))?;
    let seed = spec
        .get("seed")
        .map(|text| text.parse().map_err(|_| value("seed", text, "a whole number")))
        .transpose()?;
    let size = spec.get("blocksize").unwrap_or("4k");
    let block_bytes = parse_size(size)
        .ok()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| {
            (ContentSpec::MIN_BLOCK_BYTES..=ContentSpec::MAX_BLOCK_BYTES).contains(bytes)
        })
        .ok_or_else(|| value("blocksize", size, "a size from 64 bytes to 16 MiB"))?;
    let nature = Nature {
        entropy_bits: entropy_of(spec)?,
        compressible_share: spec.number("compressibility", 0.0, 0.0..=100.0)? / 100.0,
    };
    Ok(Settings { distribution, seed, nature, block_bytes })
}

fn open(spec: &SourceSpec, around: &Surroundings<'_>) -> Result<Box<dyn DataSource>, SourceError> {
    let settings = settings(spec)?;
    let distribution = (around.distributions)(settings.distribution).map_err(|reason| {
        SourceError::Distribution { name: settings.distribution.to_owned(), reason }
    })?;
    let content = ContentSpec {
        nature: settings.nature,
        run: around.run_id,
        assignment_seed: around.seed,
        ..ContentSpec::new(distribution, settings.block_bytes, settings.seed.unwrap_or(around.seed))
    };
    let blocks = around.data_bytes.div_ceil(settings.block_bytes as u64).max(1);
    Ok(Box::new(Duplicates {
        shared: Arc::new(SharedContents {
            assignment: Assignment::new(&content, blocks, 1)?,
            generator: Generator::new(&content)?,
            block_bytes: settings.block_bytes,
            next: AtomicU64::new(0),
        }),
    }))
}

struct SharedContents {
    assignment: Assignment,
    generator: Generator,
    block_bytes: usize,
    /// Number of the next block, over all threads.
    next: AtomicU64,
}

struct Duplicates {
    shared: Arc<SharedContents>,
}

impl DataSource for Duplicates {
    fn stream(&self, _number: u32) -> Box<dyn DataStream> {
        Box::new(DuplicatesStream { shared: Arc::clone(&self.shared) })
    }

    fn shortfalls(&self) -> Vec<String> {
        self.shared.generator.shortfalls()
    }
}

struct DuplicatesStream {
    shared: Arc<SharedContents>,
}

impl DataStream for DuplicatesStream {
    fn fill(&mut self, buffer: &mut [u8]) {
        let shared = &self.shared;
        let blocks = buffer.len().div_ceil(shared.block_bytes) as u64;
        let first = shared.next.fetch_add(blocks, Ordering::Relaxed);
        for (number, block) in (first..).zip(buffer.chunks_mut(shared.block_bytes)) {
            shared.generator.fill(shared.assignment.content(0, number), block);
        }
    }
}
