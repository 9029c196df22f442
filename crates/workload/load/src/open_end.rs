//! Checks a place whose last job was killed, so that the number of its writes is not known.
//!
//! The writes of a process follow from its seed, so they can be listed in order without an end. A
//! block is right if it holds its content before the job, that of populating, or that of any write
//! to this block. Which of them is the newest is not checked. Blocks that hold no content at all
//! can be writes that were in flight: as many as these are unknown, and further ones are wrong.

use crate::check::{Checker, WrongBlock};
use crate::contents::Contents;
use crate::history::{Expected, History, OpenEnd};
use crate::job::Populate;
use gemelo_content::{BlockContent, Examination};
use std::collections::TryReserveError;

/// Writes without a match after which no further write is looked at. It takes a second or two.
const MAX_WRITES_WITHOUT_MATCH: u64 = 1 << 25;

/// What the blocks of a process's place hold.
pub(crate) struct Held<'a> {
    pub(crate) process: u32,
    pub(crate) history: &'a History,
    pub(crate) open: OpenEnd,
    /// The content of each block; [`Expected::Unknown`] for none that the program makes.
    pub(crate) held: Vec<Expected>,
}

impl Held<'_> {
    /// Checks all blocks that were read.
    ///
    /// # Errors
    /// Fails if there is not enough memory for a table.
    pub(crate) fn check(
        self,
        contents: &Contents,
        checker: &mut Checker<'_>,
    ) -> Result<(), TryReserveError> {
        let (before, _) = self.history.split_last();
        let at_start = before.table(self.process, &contents.assignment)?;
        let explained = self.explained(&at_start, &before, contents);
        let request_blocks = self.history.segments.last().map_or(1, |last| last.request_blocks);
        let mut in_flight = self.open.in_flight.saturating_mul(request_blocks);
        for (block, held) in self.held.iter().enumerate() {
            let expected = Expected::from_bits(at_start.get(block).copied().unwrap_or_default());
            if explained.get(block).copied().unwrap_or(false) {
                checker.checked += 1;
            } else if expected == Expected::Unknown {
                checker.unknown += 1;
            } else if *held == Expected::Unknown && in_flight > 0 {
                in_flight -= 1;
                checker.unknown += 1;
            } else {
                checker.checked += 1;
                let found = self.examination(*held);
                checker.remember(WrongBlock { block: block as u64, expected, found });
            }
        }
        Ok(())
    }

    const fn examination(&self, held: Expected) -> Examination {
        match held {
            Expected::Content(BlockContent::Zeros) => Examination::Zeros,
            Expected::Content(BlockContent::Id(id)) => Examination::Other(id),
            Expected::Unknown => Examination::Garbage {
                first_difference: 0,
                different_bytes: self.history.block_bytes,
            },
        }
    }

    /// Returns for each block whether a write explains what it holds.
    fn explained(&self, at_start: &[u64], before: &History, contents: &Contents) -> Vec<bool> {
        let Self { process, history, .. } = self;
        let is = |held: &Expected, bits: &u64| *held == Expected::from_bits(*bits);
        let mut explained: Vec<bool> =
            self.held.iter().zip(at_start).map(|(held, bits)| is(held, bits)).collect();
        let mut left = explained.iter().filter(|is_explained| !**is_explained).count();
        let mut explain = |block: u64, expected: Expected| {
            let block = usize::try_from(block).unwrap_or(usize::MAX);
            let (Some(held), Some(known)) = (self.held.get(block), explained.get_mut(block)) else {
                return left;
            };
            if !*known && *held == expected {
                *known = true;
                left -= 1;
            }
            left
        };
        let Some(last) = history.segments.last() else { return explained };
        let mut sequence = before.next_sequence(*process);
        if last.populate != Populate::None {
            for block in 0..history.place_blocks {
                let expected = if last.populate == Populate::Zero {
                    Expected::Content(BlockContent::Zeros)
                } else {
                    sequence += 1;
                    Expected::Content(contents.assignment.content(*process, sequence - 1))
                };
                explain(block, expected);
            }
        }
        let mut requests = history.places(last, *process).writes();
        let (mut write, mut last_match, mut fewest) = (0, 0, u64::MAX);
        while write - last_match <= MAX_WRITES_WITHOUT_MATCH
            && self.open.most_writes.is_none_or(|most| write < most)
        {
            let first = requests.next_block() * last.request_blocks;
            let mut left = 0;
            for block in first..first + last.request_blocks {
                let expected = Expected::Content(contents.assignment.content(*process, sequence));
                left = explain(block, expected) as u64;
                sequence += 1;
            }
            if left == 0 {
                break;
            }
            if left < fewest {
                (fewest, last_match) = (left, write);
            }
            write += 1;
        }
        explained
    }
}
