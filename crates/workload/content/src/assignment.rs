//! The assignment of contents to writes. It is computed from the position of a write, so nothing is
//! stored per block or per content.

use crate::distribution::RankedContent;
use crate::layout::Layout;
use crate::{
    AssignmentMode, BlockContent, ContentError, ContentId, ContentSpec, Distribution,
    ScaledDistribution,
};
use gemelo_base::random::{mix_pair, mix64};

/// The number of a shared content holds the content's index within its class below this bit, and
/// the class from this bit on.
const CLASS_SHIFT: u32 = 43;

/// The most classes whose index has room there.
const MAX_CLASSES: usize = 1 << (63 - CLASS_SHIFT);
/// The number of a shared content that is private to a host holds the number of the host, counted
/// from 1, from this bit on.
const HOST_SHIFT: u32 = 33;

/// The serial of a unique content from a host's own data set has this bit.
const PRIVATE_SERIAL: u64 = ContentId::SERIALS >> 1;

/// The draws, the layout and the bytes of one seed use different keys, so they do not correlate.
const DRAW_KEY: u64 = 0x6472_6177;
const LAYOUT_KEY: u64 = 0x6c61_796f;

/// The processes of a job that runs on several hosts, and those of them that this assignment is
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processes {
    /// The number of the process that callers call process 0.
    pub first: u32,
    /// The number of processes on each host.
    pub of_host: u32,
    /// The number of all processes.
    pub all: u32,
}

impl Processes {
    /// Returns the processes of a job on one host.
    #[must_use]
    pub const fn of_one_host(processes: u32) -> Self {
        Self { first: 0, of_host: processes, all: processes }
    }
}

/// The content of each write of a job.
///
/// In exact mode, the writes of all processes together form data sets ("epochs") of a given number
/// of blocks. Every data set carries the distribution. Process p of P writes the p-th of P equal
/// parts of each data set, in order. Shared contents are the same in every epoch; unique contents
/// are new in every epoch.
///
/// With a private share, that share of the blocks of each process comes from data sets of its host
/// alone. They carry the distribution as well, and no other host has their contents.
#[derive(Debug, Clone)]
pub struct Assignment {
    source: Source,
    private: Option<Private>,
    first_process: u32,
    seed: u64,
}

#[derive(Debug, Clone)]
enum Source {
    Exact(Exact),
    Sampled(Cumulative),
}

/// Data sets that carry the distribution exactly.
#[derive(Debug, Clone)]
struct Exact {
    scaled: ScaledDistribution,
    layout: Layout,
    processes: u64,
}

/// The data sets of one host, and the turns in which they alternate with the common one.
#[derive(Debug, Clone)]
struct Private {
    sets: Exact,
    /// The blocks of one process in one data set of the job.
    part_blocks: u64,
    /// Those of them that are private, spread evenly.
    private_blocks: u64,
    processes_of_host: u32,
}

impl Exact {
    fn new(spec: &ContentSpec, blocks: u64, processes: u32) -> Result<Self, ContentError> {
        Ok(Self {
            scaled: ScaledDistribution::new(&spec.distribution, blocks)
                .map_err(|source| ContentError::Scale { blocks, source })?,
            layout: Layout::new(
                blocks,
                spec.duplicate_distance,
                mix_pair(spec.assignment_seed, LAYOUT_KEY),
            ),
            processes: u64::from(processes),
        })
    }

    /// Returns the content of write number `sequence` of a process as the serial of a unique one,
    /// or as a class and a number.
    #[inline]
    fn content(&self, process: u32, sequence: u64) -> RankedContent {
        let blocks = self.scaled.blocks();
        let first = part_start(blocks, self.processes, u64::from(process));
        let size = part_start(blocks, self.processes, u64::from(process) + 1) - first;
        let (epoch, place) =
            if sequence < size { (0, sequence) } else { (sequence / size, sequence % size) };
        match self.scaled.at_rank(self.layout.rank(epoch, first + place)) {
            RankedContent::Unique(number) => {
                RankedContent::Unique(epoch.wrapping_mul(self.scaled.unique()).wrapping_add(number))
            }
            other => other,
        }
    }
}

impl Private {
    /// Splits the data sets of a job; `None` if no block is private.
    fn new(
        spec: &ContentSpec,
        blocks: u64,
        processes: Processes,
    ) -> Result<Option<Self>, ContentError> {
        let part_blocks = blocks / u64::from(processes.all);
        let private_blocks = (part_blocks as f64 * spec.private_share).round() as u64;
        if private_blocks == 0 {
            return Ok(None);
        }
        let hosts = processes.all / processes.of_host.max(1);
        if spec.mode == AssignmentMode::Sampled
            || blocks > 1 << HOST_SHIFT
            || u64::from(hosts) >= 1 << (CLASS_SHIFT - HOST_SHIFT)
        {
            return Err(ContentError::PrivateShare);
        }
        let of_host = private_blocks * u64::from(processes.of_host);
        let sets = Exact::new(spec, of_host, processes.of_host)?;
        let processes_of_host = processes.of_host;
        Ok(Some(Self { sets, part_blocks, private_blocks, processes_of_host }))
    }

    /// Returns the number of private writes among the first `sequence` writes of a process.
    #[inline]
    const fn private_before(&self, sequence: u64) -> u64 {
        let (epoch, place) = (sequence / self.part_blocks, sequence % self.part_blocks);
        let within = place as u128 * self.private_blocks as u128 / self.part_blocks as u128;
        epoch * self.private_blocks + within as u64
    }

    /// Returns the content of a write if it is private, and else the number of the write among
    /// those that are not.
    #[inline]
    fn content(&self, process: u32, sequence: u64) -> Result<BlockContent, u64> {
        let before = self.private_before(sequence);
        if self.private_before(sequence + 1) == before {
            return Err(sequence - before);
        }
        let (host, own) = (process / self.processes_of_host, process % self.processes_of_host);
        Ok(match self.sets.content(own, before) {
            RankedContent::Zeros => BlockContent::Zeros,
            RankedContent::Unique(serial) => {
                ContentId::unique(process, PRIVATE_SERIAL | serial).into()
            }
            RankedContent::Duplicated { source, content } => {
                shared(source, (u64::from(host) + 1) << HOST_SHIFT | content).into()
            }
        })
    }
}

impl Assignment {
    /// Creates the assignment for data sets of `blocks` blocks that `processes` processes write.
    ///
    /// # Errors
    /// Fails if a figure of the specification is out of range, if the distribution has more than
    /// 2^20 classes or one of 2^43 contents or more, if `blocks` is 0 or above 2^43, or if
    /// `processes` is 0, above `blocks` or above [`ContentId::PROCESSES`].
    pub fn new(spec: &ContentSpec, blocks: u64, processes: u32) -> Result<Self, ContentError> {
        Self::of_hosts(spec, blocks, Processes::of_one_host(processes))
    }

    /// Creates the assignment of a job that runs on several hosts.
    ///
    /// # Errors
    /// Fails as [`Self::new`] does, and if contents are to be private to hosts in sampled mode, in
    /// data sets above 2^33 blocks, or with more than 1,022 hosts.
    pub fn of_hosts(
        spec: &ContentSpec,
        blocks: u64,
        processes: Processes,
    ) -> Result<Self, ContentError> {
        spec.check()?;
        let all = processes.all;
        if all == 0 || all > ContentId::PROCESSES || u64::from(all) > blocks {
            return Err(ContentError::Range {
                what: "the number of processes",
                value: all.to_string(),
                range: "from 1 to 32768 and at most the number of blocks",
            });
        }
        let classes = spec.distribution.classes();
        if classes.len() > MAX_CLASSES {
            return Err(ContentError::Range {
                what: "the number of classes",
                value: classes.len().to_string(),
                range: "at most 2^20: join classes of many duplicates",
            });
        }
        let contents = classes.iter().map(|class| class.contents);
        if let Some(largest) = contents.max().filter(|contents| *contents >= 1 << CLASS_SHIFT) {
            return Err(ContentError::Range {
                what: "the number of contents in a class",
                value: largest.to_string(),
                range: "below 2^43: scale the distribution down",
            });
        }
        let private = Private::new(spec, blocks, processes)?;
        let private_blocks =
            private.as_ref().map_or(0, |private| private.private_blocks * u64::from(all));
        let source = match spec.mode {
            AssignmentMode::Exact => {
                // If all blocks are private, the common data set has no writes.
                let common = (blocks - private_blocks).max(u64::from(all));
                Source::Exact(Exact::new(spec, common, all)?)
            }
            AssignmentMode::Sampled => Source::Sampled(Cumulative::new(&spec.distribution)),
        };
        Ok(Self { source, private, first_process: processes.first, seed: spec.assignment_seed })
    }

    /// Returns the content of write number `sequence` of a process. Numbers begin at 0.
    #[inline]
    #[must_use]
    pub fn content(&self, process: u32, sequence: u64) -> BlockContent {
        let process = self.first_process + process;
        let sequence = match &self.private {
            None => sequence,
            Some(private) => match private.content(process, sequence) {
                Ok(content) => return content,
                Err(sequence) => sequence,
            },
        };
        match &self.source {
            Source::Exact(exact) => match exact.content(process, sequence) {
                RankedContent::Zeros => BlockContent::Zeros,
                RankedContent::Unique(serial) => ContentId::unique(process, serial).into(),
                RankedContent::Duplicated { source, content } => shared(source, content).into(),
            },
            Source::Sampled(cumulative) => cumulative.draw(self.seed, process, sequence),
        }
    }

    /// Returns the distribution at the size of one data set; `None` in sampled mode.
    #[must_use]
    pub const fn scaled(&self) -> Option<&ScaledDistribution> {
        match &self.source {
            Source::Exact(exact) => Some(&exact.scaled),
            Source::Sampled(_) => None,
        }
    }
}

/// Returns the first block of a part. If the parts cannot be equal, the first ones are one block
/// longer.
#[inline]
const fn part_start(blocks: u64, parts: u64, part: u64) -> u64 {
    let extra = blocks % parts;
    part * (blocks / parts) + if part < extra { part } else { extra }
}

#[inline]
const fn shared(source: usize, content: u64) -> ContentId {
    ContentId::shared(((source as u64) << CLASS_SHIFT) | content)
}

/// Returns the class of a shared content, counted from the fewest duplicates; `None` for a unique
/// one.
pub(crate) const fn class_of(id: ContentId) -> Option<usize> {
    if id.is_unique() { None } else { Some((id.number() >> CLASS_SHIFT) as usize) }
}

/// The distribution as cumulative block counts, for drawing.
#[derive(Debug, Clone)]
struct Cumulative {
    blocks: u64,
    /// The first block of zeros; all blocks from it on are zeros.
    first_zero: u64,
    /// The first block of each class, and the copies of each of its contents.
    classes: Vec<(u64, u64)>,
}

impl Cumulative {
    fn new(distribution: &Distribution) -> Self {
        let mut first = 0;
        let classes = distribution.classes().iter().map(|class| {
            let start = first;
            first += class.blocks();
            (start, class.copies())
        });
        let classes = classes.collect();
        Self { classes, blocks: distribution.blocks(), first_zero: distribution.counted_blocks() }
    }

    /// Draws one block of the distribution. All blocks are equally likely.
    #[inline]
    fn draw(&self, seed: u64, process: u32, sequence: u64) -> BlockContent {
        let stream = mix_pair(seed ^ DRAW_KEY, u64::from(process));
        let word = mix64(stream ^ mix64(sequence.wrapping_add(1)));
        let block = ((u128::from(word) * u128::from(self.blocks)) >> 64) as u64;
        if block >= self.first_zero {
            return BlockContent::Zeros;
        }
        let source = self.classes.partition_point(|(first, _)| *first <= block).saturating_sub(1);
        match self.classes.get(source) {
            Some((first, copies)) if *copies > 1 => shared(source, (block - first) / copies).into(),
            _ => ContentId::unique(process, sequence).into(),
        }
    }
}

#[cfg(test)]
mod tests;
