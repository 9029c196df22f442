//! The source `entro`: data of a chosen byte entropy.

use super::two_symbols::{Filling, METHODS, Method};
use super::{
    DataSource, DataStream, Registration, SourceError, SourceSpec, Surroundings, entropy_of,
};
use gemelo_base::random::{Random, mix_pair};
use gemelo_content::{ContentId, ContentSpec, Distribution, DuplicateClass, Generator, Nature};
use std::sync::Arc;

pub(super) const REGISTRATION: Registration = Registration {
    name: "entro",
    attributes: &[
        ("entropy", "bits a byte, 0.0 to 8.0 [8]"),
        ("method", "gemelo, search, contiguous, permuted, permuted-pages or lookup [gemelo]"),
    ],
    check: |spec| settings(spec).map(|_| ()),
    open,
};

/// Bytes of a block of gemelo's own method. In larger blocks the mark at the start adds less to a
/// small entropy.
const BLOCK_BYTES: usize = 64 << 10;

fn settings(spec: &SourceSpec) -> Result<(f64, Option<Method>), SourceError> {
    let name = spec.get("method").unwrap_or("gemelo");
    if !METHODS.iter().any(|(known, _)| *known == name) {
        let names: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        return Err(SourceError::Value { attribute: "method", value: name.to_owned(), expected });
    }
    Ok((entropy_of(spec)?, Method::named(name)))
}

fn open(spec: &SourceSpec, around: &Surroundings<'_>) -> Result<Box<dyn DataSource>, SourceError> {
    let (entropy_bits, method) = settings(spec)?;
    // An entropy of 0 leaves no room for a mark: all bytes are the frequent symbol.
    let method =
        if entropy_bits == 0.0 { Some(method.unwrap_or(Method::Contiguous)) } else { method };
    Ok(match method {
        Some(method) => {
            let filling = Arc::new(Filling::new(method, entropy_bits));
            Box::new(Classic { filling, seed: mix_pair(around.seed, around.run_id) })
        }
        None => Box::new(Unique::new(Nature { entropy_bits, compressible_share: 0.0 }, around)?),
    })
}

struct Classic {
    filling: Arc<Filling>,
    seed: u64,
}

impl DataSource for Classic {
    fn stream(&self, number: u32) -> Box<dyn DataStream> {
        let random = Random::new(mix_pair(self.seed, u64::from(number)));
        Box::new(ClassicStream { filling: Arc::clone(&self.filling), random })
    }
}

struct ClassicStream {
    filling: Arc<Filling>,
    random: Random,
}

impl DataStream for ClassicStream {
    fn fill(&mut self, buffer: &mut [u8]) {
        self.filling.fill(&mut self.random, buffer);
    }
}

/// Contents of one nature, all of them different.
pub(super) struct Unique {
    generator: Arc<Generator>,
}

impl Unique {
    pub(super) fn new(nature: Nature, around: &Surroundings<'_>) -> Result<Self, SourceError> {
        let unique = Distribution::new([DuplicateClass { duplicates: 0, contents: 1 }]).map_err(
            |error| SourceError::Distribution {
                name: "unique".to_owned(),
                reason: error.to_string(),
            },
        )?;
        let spec = ContentSpec {
            nature,
            run: around.run_id,
            ..ContentSpec::new(unique, BLOCK_BYTES, around.seed)
        };
        Ok(Self { generator: Arc::new(Generator::new(&spec)?) })
    }
}

impl DataSource for Unique {
    fn stream(&self, number: u32) -> Box<dyn DataStream> {
        Box::new(UniqueStream { generator: Arc::clone(&self.generator), number, serial: 0 })
    }

    fn shortfalls(&self) -> Vec<String> {
        self.generator.shortfalls()
    }
}

struct UniqueStream {
    generator: Arc<Generator>,
    number: u32,
    serial: u64,
}

impl DataStream for UniqueStream {
    fn fill(&mut self, buffer: &mut [u8]) {
        for block in buffer.chunks_mut(BLOCK_BYTES) {
            self.generator.fill(ContentId::unique(self.number, self.serial), block);
            self.serial += 1;
        }
    }
}
