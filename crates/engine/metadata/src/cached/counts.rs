//! The reference counts on disk: small ones packed by groups of PBNs, large ones by PBN.

use super::pages::Pages;
use super::records::StoredRecords;
use super::stored::Reader;
use crate::error::{MetadataError, Result};
use gemelo_format::{COUNT_PAGE_PBNS, CountAt, MANY, Part};

/// Groups whose counts are read in one list.
const GROUPS_AT_ONCE: usize = 1024;

/// Looks up counts on disk. It keeps the last leaves, so PBNs near each other are fast.
pub(super) struct StoredCounts<'c> {
    small: Reader<'c>,
    many: Reader<'c>,
}

impl<'c> StoredCounts<'c> {
    pub(super) const fn new(pages: &'c Pages, stored: &'c StoredRecords) -> Self {
        Self {
            small: Reader::new(pages, &stored.counts, Part::Counts),
            many: Reader::new(pages, &stored.many, Part::Many),
        }
    }

    /// The count of a PBN, if it is in memory and small.
    pub(super) fn known(&self, pbn: u64) -> Option<u32> {
        let page = self.small.known_leaf(pbn / COUNT_PAGE_PBNS)?;
        let count = page.map_or(0, |page| CountAt::in_page(page, pbn));
        (count != MANY).then_some(count)
    }

    /// The counts of PBNs, in their order. The leaves that are not in the cache are read in lists.
    pub(super) fn get_all(&mut self, pbns: &[u64]) -> Vec<Result<u32>> {
        let mut counts = self.small_counts(pbns);
        let is_many = |count: &Result<u32>| count.as_ref().is_ok_and(|count| *count == MANY);
        let (places, keys): (Vec<usize>, Vec<u64>) = (0..)
            .zip(pbns.iter().zip(&counts))
            .filter(|(_, (_, count))| is_many(count))
            .map(|(place, (pbn, _))| (place, *pbn))
            .unzip();
        for ((place, pbn), count) in places.into_iter().zip(&keys).zip(self.many.get_all(&keys)) {
            counts[place] = count.and_then(|count| large_count(*pbn, count));
        }
        counts
    }

    pub(super) fn get(&mut self, pbn: u64) -> Result<u32> {
        if let Some(count) = self.known(pbn) {
            return Ok(count);
        }
        let at = CountAt::of(pbn);
        match at.get(self.small.get(at.group)?) {
            MANY => large_count(pbn, self.many.get(pbn)?),
            count => Ok(count),
        }
    }

    /// Whether PBNs have references, in their order.
    pub(super) fn are_live(&mut self, pbns: &[u64]) -> Vec<Result<bool>> {
        self.small_counts(pbns).into_iter().map(|count| Ok(count? > 0)).collect()
    }

    /// The counts of PBNs, or [`MANY`] for as many references and more.
    pub(super) fn small_counts(&mut self, pbns: &[u64]) -> Vec<Result<u32>> {
        // Neighbours are in one group.
        let mut groups: Vec<u64> = pbns.iter().map(|pbn| CountAt::of(*pbn).group).collect();
        groups.dedup();
        let mut values = groups.iter().zip(self.small.get_all(&groups));
        let mut last: Option<(&u64, Result<u128>)> = None;
        let count = |pbn: &u64| {
            let at = CountAt::of(*pbn);
            if !matches!(last, Some((group, _)) if *group == at.group) {
                last = values.next();
            }
            match &last {
                Some((_, Ok(counts))) => Ok(at.get(*counts)),
                // The error of the group is that of each of its PBNs.
                _ => Ok(at.get(self.small.get(at.group)?)),
            }
        };
        pbns.iter().map(count).collect()
    }
}

fn large_count(pbn: u64, count: u128) -> Result<u32> {
    match u32::try_from(count) {
        Ok(count) if count >= MANY => Ok(count),
        _ => Err(MetadataError::damaged(format!("block {pbn} has no count of its references"))),
    }
}

/// Changes of the counts on disk: new values by key, in the order of the keys.
#[derive(Default)]
pub(super) struct CountEdits {
    pub(super) small: Vec<(u64, u128)>,
    pub(super) many: Vec<(u64, u128)>,
}

impl CountEdits {
    /// The changes that a checkpoint makes to the counts of the one before it, for these new counts
    /// by PBN, in order.
    pub(super) fn new(
        pages: &Pages,
        before: &StoredRecords,
        counted: &[(u64, u32)],
    ) -> Result<Self> {
        let mut stored = Reader::new(pages, &before.counts, Part::Counts);
        let mut groups: Vec<u64> = counted.iter().map(|(pbn, _)| CountAt::of(*pbn).group).collect();
        groups.dedup();
        let mut counts = counted.iter().copied().peekable();
        let mut edits = Self::default();
        for some in groups.chunks(GROUPS_AT_ONCE) {
            for (group, before) in some.iter().zip(stored.get_all(some)) {
                let before = before?;
                let mut after = before;
                while let Some((pbn, count)) =
                    counts.next_if(|(pbn, _)| CountAt::of(*pbn).group == *group)
                {
                    let at = CountAt::of(pbn);
                    after = at.set(after, count);
                    if count >= MANY {
                        edits.many.push((pbn, u128::from(count)));
                    } else if at.get(before) == MANY {
                        edits.many.push((pbn, 0));
                    }
                }
                if after != before {
                    edits.small.push((*group, after));
                }
            }
        }
        assert!(counts.next().is_none(), "each count is in a group that changes");
        Ok(edits)
    }
}
