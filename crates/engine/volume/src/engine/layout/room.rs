//! Room for blocks in a row: finds runs of free PBNs, and leaves the last free space alone.

use super::Mover;
use crate::engine::data::{DataPath, RunSearch, Taken};
use crate::error::Result;
use gemelo_format::{Compression, Pbn};

/// The part of the data store that stays free for writes: a sixteenth.
const KEPT_PART: u64 = 16;

/// The place of the search for runs of free PBNs.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The PBN at which the next search begins, so that what is moved together lies together.
    next: u64,
    /// `true` if no run was found that takes a whole chunk, so that only short ones are looked for.
    only_short: bool,
}

/// PBNs that were allocated to a chunk.
pub(super) struct Places<'e> {
    pub(super) pbns: Vec<Pbn>,
    pub(super) taken: Vec<Taken<'e>>,
}

impl Room {
    /// Looks for long runs again, because blocks may have been freed meanwhile.
    pub(super) const fn forget(&mut self) {
        self.only_short = false;
    }

    /// Takes PBNs for contents in one run if there is one, or else in runs of at least `least`
    /// PBNs. Where contents share blocks, the store lays them side by side.
    pub(super) fn take<'e>(
        &mut self,
        mover: &'e Mover,
        (contents, compression): (&[&[u8]], Compression),
        least: usize,
    ) -> Result<Option<Places<'e>>> {
        let data_blocks = mover.log.read().backend().totals().data_blocks;
        let kept = data_blocks / KEPT_PART;
        if !mover.data.is_packed() {
            return Ok(self.take_runs(mover, (contents.len(), least), kept));
        }
        if mover.data.free_blocks() < kept + contents.len() as u64 {
            return Ok(None);
        }
        let taken = mover.data.take(contents, compression, &[])?;
        Ok(taken.map(|(pbns, taken)| Places { pbns, taken: vec![taken] }))
    }

    fn take_runs<'e>(
        &mut self,
        mover: &'e Mover,
        (count, least): (usize, usize),
        kept: u64,
    ) -> Option<Places<'e>> {
        let count = u32::try_from(count).ok()?;
        if !self.only_short {
            if let Some((pbns, taken)) = self.search(&mover.data, (count, count), kept) {
                return Some(Places { pbns, taken: vec![taken] });
            }
            self.only_short = true;
        }
        let least = u32::try_from(least).ok()?;
        let mut places = Places { pbns: Vec::new(), taken: Vec::new() };
        let mut left = count;
        while left > 0 {
            let Some((pbns, taken)) = self.search(&mover.data, (least.min(left), left), kept)
            else {
                mover.data.give_back(places.pbns);
                return None;
            };
            left -= pbns.len() as u32;
            places.pbns.extend(pbns);
            places.taken.push(taken);
        }
        Some(places)
    }

    /// Searches the whole store once, from the place of the last run on. Writers get the lock of
    /// the free PBNs in between.
    fn search<'e>(
        &mut self,
        data: &'e DataPath,
        lengths: (u32, u32),
        kept: u64,
    ) -> Option<(Vec<Pbn>, Taken<'e>)> {
        let began = self.next;
        let mut has_wrapped = false;
        loop {
            match data.take_run(self.next, lengths, kept) {
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
