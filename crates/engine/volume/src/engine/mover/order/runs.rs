//! Free PBNs in a row for what is moved together. The last free space is left alone.

use crate::engine::data::{DataPath, RunSearch, StoredContents, TakenPbns};
use crate::engine::mover::Mover;
use crate::error::Result;
use gemelo_format::Compression;

/// The part of the data store that stays free for writes: a sixteenth.
const KEPT_PART: u64 = 16;

/// The place of the search for runs of free PBNs.
#[derive(Debug, Default)]
pub(super) struct FreeRuns {
    /// The PBN at which the next search begins, so that what is moved together lies together.
    next: u64,
    /// `true` if no run was found that takes a whole chunk, so that only short ones are looked for.
    only_short: bool,
}

impl FreeRuns {
    /// Looks for long runs again, because blocks may have been freed meanwhile.
    pub(super) const fn forget(&mut self) {
        self.only_short = false;
    }

    /// Stores contents in one run if there is one, or else in runs of at least `least` PBNs. Where
    /// contents share blocks, the store lays them side by side.
    pub(super) fn store<'e>(
        &mut self,
        mover: &'e Mover,
        (contents, compression): (&[&[u8]], Compression),
        least: usize,
    ) -> Result<Option<StoredContents<'e>>> {
        let data_blocks = mover.log.read().backend().totals().data_blocks;
        let (data, kept) = (&mover.data, data_blocks / KEPT_PART);
        if !data.is_packed() {
            let runs = self.take_runs(data, (contents.len(), least), kept);
            return Ok(runs.map(|runs| data.store_in_runs(contents, runs)));
        }
        if data.allocator.free_blocks() < kept + contents.len() as u64 {
            return Ok(None);
        }
        data.store_new(contents, compression, (&[], false))
    }

    fn take_runs<'e>(
        &mut self,
        data: &'e DataPath,
        (count, least): (usize, usize),
        kept: u64,
    ) -> Option<Vec<TakenPbns<'e>>> {
        let count = u32::try_from(count).ok()?;
        if !self.only_short {
            if let Some(run) = self.search(data, (count, count), kept) {
                return Some(vec![run]);
            }
            self.only_short = true;
        }
        let least = u32::try_from(least).ok()?;
        let (mut runs, mut left): (Vec<TakenPbns<'e>>, _) = (Vec::new(), count);
        while left > 0 {
            let Some(run) = self.search(data, (least.min(left), left), kept) else {
                let taken = runs.into_iter().flat_map(|(pbns, _)| pbns);
                data.allocator.give_back(taken.collect());
                return None;
            };
            left -= run.0.len() as u32;
            runs.push(run);
        }
        Some(runs)
    }

    /// Searches the whole store once, from the place of the last run on. Writers get the lock of
    /// the free PBNs in between.
    fn search<'e>(
        &mut self,
        data: &'e DataPath,
        lengths: (u32, u32),
        kept: u64,
    ) -> Option<TakenPbns<'e>> {
        let began = self.next;
        let mut has_wrapped = false;
        loop {
            match data.allocator.take_run(self.next, lengths, kept) {
                RunSearch::Found(pbns, taken) => {
                    self.next = pbns.last().map_or(0, |pbn| pbn.number() + 1);
                    return Some((pbns, taken));
                }
                RunSearch::Full => return None,
                RunSearch::GoOn(next) => self.next = next,
                RunSearch::End => {
                    if has_wrapped {
                        return None;
                    }
                    (self.next, has_wrapped) = (0, true);
                }
            }
            if has_wrapped && self.next > began {
                return None;
            }
        }
    }
}
