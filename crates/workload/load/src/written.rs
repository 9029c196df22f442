//! Computes the distribution of the blocks written, from the number of writes after the run. The
//! run itself counts nothing.

use crate::history::History;
use crate::result::WrittenDistribution;
use gemelo_base::random::mix64;
use gemelo_base::threads::together;
use gemelo_content::{Assignment, BlockContent};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks that are counted: 256 GiB of 4 KiB blocks, which take a core some seconds.
const MAX_COUNTED: u64 = 1 << 26;
/// Shared contents that are counted one by one, in about 100 MB. More contents than these are
/// sampled.
const MAX_CONTENTS: usize = 1 << 22;

/// Hashes content numbers, which need no protection against chosen inputs.
#[derive(Default)]
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = mix64(self.0 ^ value);
    }
}

/// Numbers of copies of shared contents: of all contents, or of those with a low hash, which are a
/// uniform sample.
struct SharedCounts {
    copies: HashMap<u64, u64, BuildHasherDefault<MixHasher>>,
    /// Contents whose hash has at least this number of leading zeros are counted.
    zeros: u32,
    max_contents: usize,
}

impl SharedCounts {
    fn new(max_contents: usize) -> Self {
        Self { copies: HashMap::default(), zeros: 0, max_contents }
    }

    const fn is_sampled(number: u64, zeros: u32) -> bool {
        mix64(number.wrapping_add(1)).leading_zeros() >= zeros
    }

    fn add(&mut self, number: u64, copies: u64) {
        if !Self::is_sampled(number, self.zeros) {
            return;
        }
        *self.copies.entry(number).or_default() += copies;
        while self.copies.len() > self.max_contents && self.zeros < 64 {
            self.zeros += 1;
            let zeros = self.zeros;
            self.copies.retain(|number, _| Self::is_sampled(*number, zeros));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.zeros = self.zeros.max(other.zeros);
        let zeros = self.zeros;
        self.copies.retain(|number, _| Self::is_sampled(*number, zeros));
        for (number, copies) in &other.copies {
            self.add(*number, *copies);
        }
    }
}

/// The writes of one or more processes.
struct WrittenCounts {
    zeros: u64,
    unique: u64,
    shared: SharedCounts,
}

/// Returns the distribution of the blocks that the last job of a history wrote.
pub(crate) fn count(history: &History, assignment: &Assignment) -> Option<WrittenDistribution> {
    count_within(history, assignment, MAX_COUNTED, MAX_CONTENTS)
}

fn count_within(
    history: &History,
    assignment: &Assignment,
    max_counted: u64,
    max_contents: usize,
) -> Option<WrittenDistribution> {
    let blocks: u64 = (0..history.processes).map(|process| history.last_sequences(process).1).sum();
    let max_each = max_counted / u64::from(history.processes.max(1));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU32::new(0);
    let count_some = || {
        let mut counts =
            WrittenCounts { zeros: 0, unique: 0, shared: SharedCounts::new(max_contents) };
        loop {
            let process = next.fetch_add(1, Ordering::Relaxed);
            if process >= history.processes {
                return counts;
            }
            let (first, number) = history.last_sequences(process);
            for sequence in first..first + number.min(max_each) {
                match assignment.content(process, sequence) {
                    BlockContent::Zeros => counts.zeros += 1,
                    BlockContent::Id(id) if id.is_unique() => counts.unique += 1,
                    BlockContent::Id(id) => counts.shared.add(id.number(), 1),
                }
            }
        }
    };
    let mut total = together(threads, count_some).into_iter().reduce(|mut all, some| {
        all.zeros += some.zeros;
        all.unique += some.unique;
        all.shared.merge(&some.shared);
        all
    })?;
    let counted_blocks =
        (0..history.processes).map(|process| history.last_sequences(process).1.min(max_each)).sum();
    (counted_blocks > 0).then(|| to_distribution(&mut total, blocks, counted_blocks))
}

fn to_distribution(
    counts: &mut WrittenCounts,
    blocks: u64,
    counted_blocks: u64,
) -> WrittenDistribution {
    let mut classes: BTreeMap<u64, u64> = BTreeMap::new();
    let scale = 1u64 << counts.shared.zeros.min(63);
    for copies in counts.shared.copies.values() {
        *classes.entry(copies - 1).or_default() += scale;
    }
    *classes.entry(0).or_default() += counts.unique;
    WrittenDistribution {
        blocks,
        counted_blocks,
        sampled_share: 1.0 / scale as f64,
        zero_blocks: counts.zeros,
        distribution: classes
            .into_iter()
            .filter(|(_, contents)| *contents > 0)
            .map(|(d, c)| [d, c])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Segment;
    use crate::job::Populate;
    use gemelo_content::{ContentSpec, Distribution};
    use gemelo_pattern::Pattern;
    use gemelo_target::AtStart;

    fn history(populate: Populate, writes: Vec<u64>) -> History {
        History {
            block_bytes: 4096,
            place_blocks: 1000,
            processes: 2,
            first_process: 0,
            of_host: 0,
            at_start: AtStart::Zeros,
            open: None,
            segments: vec![Segment {
                populate,
                pattern: Pattern::Sequential,
                seed: 1,
                request_blocks: 1,
                writes,
                uncertain: Vec::new(),
            }],
        }
    }

    fn assignment(text: &str) -> Assignment {
        let spec = ContentSpec::new(Distribution::parse(text).unwrap(), 4096, 5);
        Assignment::new(&spec, 2000, 2).unwrap()
    }

    #[test]
    fn a_data_set_has_the_distribution_asked_for() {
        let assignment = assignment("0 70\n2 10\n");
        let expected = vec![[0, 1400], [2, 200]];
        for (populate, writes) in
            [(Populate::None, vec![1000, 1000]), (Populate::Content, vec![0, 0])]
        {
            let found = count(&history(populate, writes), &assignment).unwrap();
            assert_eq!(found.distribution, expected);
            assert_eq!((found.blocks, found.counted_blocks), (2000, 2000));
        }
        assert_eq!(count(&history(Populate::Zero, vec![0, 0]), &assignment), None);
    }

    #[test]
    fn zeros_are_counted_apart() {
        let found = count(
            &history(Populate::None, vec![1000, 1000]),
            &assignment("# zeros 300\n0 70\n2 10\n"),
        );
        let found = found.unwrap();
        assert_eq!((found.zero_blocks, found.distribution), (1500, vec![[0, 350], [2, 50]]));
    }

    #[test]
    fn too_many_contents_are_sampled_and_too_many_blocks_cut() {
        let assignment = assignment("1 1000\n");
        let found =
            count_within(&history(Populate::None, vec![1000, 1000]), &assignment, 2000, 100)
                .unwrap();
        let contents: u64 = found.distribution.iter().map(|[_, contents]| contents).sum();
        assert!(found.sampled_share < 0.2);
        assert!(found.distribution.iter().all(|[duplicates, _]| *duplicates == 1), "{found:?}");
        assert!((600..1500).contains(&contents), "{contents}");
        let cut =
            count_within(&history(Populate::None, vec![1000, 10]), &assignment, 200, 100).unwrap();
        assert_eq!((cut.blocks, cut.counted_blocks), (1010, 110));
    }
}
