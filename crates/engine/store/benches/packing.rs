//! The space that compressed contents of real files take by three ways to pack them.
//!
//! `cargo bench -p gemelo-store --bench packing -- PATH...` takes the blocks of the files below the
//! paths, each content once, in the order of the names. The ways are:
//!
//! - *slots*: those of a packed store, in which a content may go on in the next block;
//! - *bytes*: one after another without any gap, where a map gives each content its place. A place
//!   of 40 bits and a length take [`MAP_BYTES`] in memory, which are shown apart;
//! - *bins*: contents end with their block, as in VDO: the fullest of [`OPEN_BINS`] blocks with
//!   room gets the next content.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and panics on errors"
)]

use gemelo_format::{Compression, PACKED_TABLE_BYTES, SLOT_HEAD_BYTES};
use gemelo_store::{Codec, packed_blocks};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

const BLOCK_BYTES: usize = 4096;
const MAP_BYTES: u64 = 7;
const OPEN_BINS: usize = 16;
/// Most contents of a bin.
const BIN_SLOTS: usize = 14;

/// Returns the regular files below a path, in the order of their names.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let kind = std::fs::symlink_metadata(path).unwrap().file_type();
    if kind.is_file() {
        found.push(path.to_owned());
    } else if kind.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| files(entry, found));
    }
}

/// Calls with each distinct content that is not all zeros.
fn each_content(paths: &[PathBuf], mut each: impl FnMut(&[u8])) {
    let mut seen = HashSet::new();
    for path in paths {
        let mut bytes = std::fs::read(path).unwrap_or_default();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        for content in bytes.chunks_exact(BLOCK_BYTES) {
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            if content.iter().any(|byte| *byte != 0) && seen.insert(hasher.finish()) {
                each(content);
            }
        }
    }
}

/// Returns the blocks of contents that end with their block.
fn bins(lengths: &[Option<usize>]) -> u64 {
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut blocks = 0;
    for length in lengths {
        blocks += u64::from(length.is_none());
        let Some(bytes) = length.map(|length| length + SLOT_HEAD_BYTES) else { continue };
        let fits = |(left, slots): &(usize, usize)| bytes <= *left && *slots < BIN_SLOTS;
        let fullest = open.iter_mut().filter(|bin| fits(bin)).min_by_key(|(left, _)| *left);
        if let Some((left, slots)) = fullest {
            (*left, *slots) = (*left - bytes, *slots + 1);
            continue;
        }
        blocks += 1;
        open.push((BLOCK_BYTES - PACKED_TABLE_BYTES - bytes, 1));
        if open.len() > OPEN_BINS {
            let fullest = (0..open.len()).min_by_key(|at| open[*at].0).unwrap();
            open.swap_remove(fullest);
        }
    }
    blocks
}

fn main() {
    let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    println!("  contents      slots      bytes       bins       map   (blocks of 4 KiB; MB)");
    for path in words {
        let mut paths = Vec::new();
        files(Path::new(&path), &mut paths);
        for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(3)] {
            let codec = Codec::thorough(BLOCK_BYTES);
            let mut lengths = Vec::new();
            each_content(&paths, |content| {
                let compressed = codec.compress(compression, &[content]);
                let part = compressed.parts().next().unwrap();
                lengths.push(part.map(|(_, bytes)| bytes.len()));
            });
            let contents = lengths.len() as u64;
            let slots = packed_blocks(BLOCK_BYTES, lengths.iter().copied());
            let stored = |length: &Option<usize>| {
                length.map_or(BLOCK_BYTES, |length| length + SLOT_HEAD_BYTES) as u64
            };
            let bytes = lengths.iter().map(stored).sum::<u64>().div_ceil(BLOCK_BYTES as u64);
            let bins = bins(&lengths);
            let map = (contents * MAP_BYTES) as f64 / 1e6;
            let more = |blocks: u64| 100.0 * (blocks as f64 / bytes as f64 - 1.0);
            println!(
                "{contents:10} {slots:10} {bytes:10} {bins:10} {map:9.1}   \
                 slots {:+.1} %, bins {:+.1} %   {path}, {compression}",
                more(slots),
                more(bins)
            );
        }
    }
}
