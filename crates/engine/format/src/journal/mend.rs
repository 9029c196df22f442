//! Putting a commit together from the intact pages of both copies.

use crate::{COMMIT_HEADER_BYTES, CommitHeader, PAGE_BYTES, PoolSeed};

/// Most pages in which two copies may differ. Each mix of them is tried, so this bounds the work to
/// 256 checksums of a commit.
const MAX_DIFFERENT_PAGES: u32 = 8;

/// Finds the payload that a header names among the mixes of two copies of its commit: of each page
/// in which the copies differ, either may be the intact one. A torn commit that is found so may be
/// replayed, because the contents that it refers to were synced before it was written.
pub(super) fn mend_payload(
    header: &CommitHeader,
    seed: PoolSeed,
    mut mix: Vec<u8>,
    mut other: Vec<u8>,
) -> Option<Vec<u8>> {
    let pairs = mix.chunks(PAGE_BYTES).zip(other.chunks(PAGE_BYTES));
    let different: Vec<usize> =
        pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(page, _)| page).collect();
    // With one page the two mixes are the copies themselves.
    let count =
        u32::try_from(different.len()).ok().filter(|n| (2..=MAX_DIFFERENT_PAGES).contains(n))?;
    let end = COMMIT_HEADER_BYTES + usize::try_from(header.payload_bytes).ok()?;
    // A Gray code exchanges one page in each step and comes by every mix.
    for step in 1..1usize << count {
        let page = *different.get(step.trailing_zeros() as usize)?;
        let bytes = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        mix.get_mut(bytes.clone())?.swap_with_slice(other.get_mut(bytes)?);
        let payload = mix.get(COMMIT_HEADER_BYTES..end)?;
        if header.fits(payload, seed) {
            return Some(payload.to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommitOrder, NewCommit, build_commit};

    /// Two copies of a commit of 20 pages, and its header.
    fn copies() -> (CommitHeader, PoolSeed, Vec<u8>) {
        let seed = PoolSeed { seed: 7, words: crate::WordForm::Narrow };
        let mut commit = vec![0; COMMIT_HEADER_BYTES];
        commit.extend((0..19 * PAGE_BYTES + 500).map(|at| (at % 251) as u8));
        let order = CommitOrder::AfterContents;
        build_commit(&mut commit, NewCommit { number: 5, generation: 2, order }, seed);
        let header = CommitHeader::decode(&commit[..PAGE_BYTES], seed).unwrap();
        (header, seed, commit)
    }

    fn damage(copy: &[u8], pages: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut copy = copy.to_vec();
        pages.for_each(|page| copy[page * PAGE_BYTES + 77] ^= 1);
        copy
    }

    #[test]
    fn copies_damaged_at_different_pages_make_a_whole_commit() {
        let (header, seed, commit) = copies();
        let payload = &commit[COMMIT_HEADER_BYTES..COMMIT_HEADER_BYTES + 19 * PAGE_BYTES + 500];
        for split in 1..8 {
            let first = damage(&commit, (0..8).filter(|page| page % 8 < split));
            let second = damage(&commit, (0..8).filter(|page| page % 8 >= split));
            let mended = mend_payload(&header, seed, first, second);
            assert_eq!(mended.as_deref(), Some(payload), "{split} pages");
        }
    }

    #[test]
    fn a_page_damaged_in_both_copies_and_too_many_pages_are_not_mended() {
        let (header, seed, commit) = copies();
        let first = damage(&commit, [3, 5].into_iter());
        let mut second = damage(&commit, [5, 7].into_iter());
        second[5 * PAGE_BYTES] ^= 4;
        assert_eq!(mend_payload(&header, seed, first, second), None);
        let (first, second) = (damage(&commit, 0..5), damage(&commit, 5..9));
        assert_eq!(mend_payload(&header, seed, first, second), None, "nine pages differ");
    }
}
