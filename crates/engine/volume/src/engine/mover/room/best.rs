//! The choice of the first blocks of a window that are worth emptying, and of the first contents
//! that fill a room.

use gemelo_store::PackedCount;

/// Most map entries that change at once, as many as for a long write: they are in one commit.
const MAX_CHANGES: usize = 1024;

/// The cost of moving a content.
pub(super) struct Cost {
    /// The block in which it begins.
    pub(super) first: u32,
    /// The references that change.
    pub(super) changes: usize,
    /// Its compressed bytes; [`None`] if it fills a block.
    pub(super) bytes: Option<usize>,
}

/// Blocks that are emptied.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Best {
    pub(super) blocks: usize,
    /// Contents that have a part in them.
    pub(super) contents: usize,
    pub(super) saved: u64,
}

/// Returns how many of these blocks to empty, so that the most are saved, and whether there was
/// room for less than all. They are counted in whole blocks, because the last one to which contents
/// are moved is not filled up later. Of two choices the longer one leaves a longer run. In a room
/// of short runs, one that saves nothing is chosen as well if it leaves a longer run.
///
/// The contents, which are in the order of the blocks, all have a part in one of them. The room is
/// given by the lengths of its runs, the longest one first, and by the length of the run that it
/// should have.
pub(super) fn best_part(
    blocks: &[u32],
    contents: &[Cost],
    (block_bytes, runs, goal): (usize, &[u64], u64),
) -> (Best, bool) {
    let longest = runs.first().copied().unwrap_or_default();
    let mut count = PackedCount::new(block_bytes, runs.iter().copied());
    let (mut best, mut changes, mut moved) = (Best::default(), 0, 0);
    let mut contents = contents.iter().peekable();
    for (emptied, last) in (1..).zip(blocks) {
        while let Some(content) = contents.next_if(|content| content.first <= *last) {
            changes += content.changes;
            moved += 1;
            count.add(content.bytes);
        }
        let Some(needed) = count.blocks() else { return (best, true) };
        if changes > MAX_CHANGES {
            break;
        }
        let Some(saved) = (emptied as u64).checked_sub(needed) else { continue };
        let joins_runs = longest < goal && emptied as u64 > longest;
        if joins_runs || saved > 0 && saved >= best.saved {
            best = Best { blocks: emptied, contents: moved, saved };
        }
    }
    (best, false)
}

/// Returns how many contents, in the order of their blocks, fill a room of this many blocks in a
/// row, and how many blocks more are emptied than filled. The last block may be emptied in part:
/// what is free in it adds to what the next contents save.
pub(super) fn filling_part(
    blocks: &[u32],
    contents: &[Cost],
    (block_bytes, room): (usize, u64),
) -> (Best, i64) {
    let mut count = PackedCount::new(block_bytes, std::iter::once(room));
    let (mut changes, mut moved, mut filled) = (0, 0, 0);
    for content in contents {
        changes += content.changes;
        count.add(content.bytes);
        let Some(needed) = count.blocks().filter(|_| changes <= MAX_CHANGES) else {
            break;
        };
        (moved, filled) = (moved + 1, needed);
    }
    let left = contents.get(moved).map(|content| content.first);
    let emptied = left.map_or(blocks.len(), |left| blocks.partition_point(|block| *block < left));
    let gain = emptied as i64 - filled as i64;
    let saved = u64::try_from(gain).unwrap_or(0);
    (Best { blocks: emptied, contents: moved, saved }, gain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents of 2000 bytes in blocks of 4096: two fill one.
    fn best(firsts: &[u32], runs: &[u64]) -> (Best, bool) {
        let blocks: Vec<u32> = (10..20).collect();
        let cost = |first: &u32| Cost { first: *first, changes: 1, bytes: Some(2000) };
        let costs: Vec<Cost> = firsts.iter().map(cost).collect();
        best_part(&blocks, &costs, (4096, runs, 10))
    }

    #[test]
    fn the_longest_part_is_chosen_of_those_that_save_the_most() {
        let full: Vec<u32> = (10..20).flat_map(|block| [block, block]).collect();
        assert_eq!(best(&full, &[20]), (Best::default(), false));
        let mut emptier = full.clone();
        emptier.retain(|block| *block != 12);
        assert_eq!(best(&emptier, &[20]), (Best { blocks: 10, contents: 18, saved: 1 }, false));
        let single: Vec<u32> = (10..20).collect();
        assert_eq!(best(&single, &[20]), (Best { blocks: 10, contents: 10, saved: 5 }, false));
        assert_eq!(best(&single, &[3]), (Best { blocks: 6, contents: 6, saved: 3 }, true));
        assert_eq!(best(&[], &[1]), (Best { blocks: 10, contents: 0, saved: 10 }, false));
    }

    #[test]
    fn short_runs_are_exchanged_for_a_long_one_at_no_gain() {
        let full: Vec<u32> = (10..20).flat_map(|block| [block, block]).collect();
        let whole = Best { blocks: 10, contents: 20, saved: 0 };
        assert_eq!(best(&full, &[5, 5]), (whole, false));
        assert_eq!(best(&full, &[5, 3]), (Best { blocks: 8, contents: 16, saved: 0 }, true));
        assert_eq!(best(&full, &[5]), (Best::default(), true), "it would not be longer");
    }

    #[test]
    fn as_many_contents_are_chosen_as_fill_a_room() {
        let blocks: Vec<u32> = (10..20).collect();
        let cost = |first: u32| Cost { first, changes: 1, bytes: Some(2000) };
        let fill = |firsts: &[u32], room| {
            let costs: Vec<Cost> = firsts.iter().copied().map(cost).collect();
            filling_part(&blocks, &costs, (4096, room))
        };
        let mut emptier: Vec<u32> = (10..20).flat_map(|block| [block, block]).collect();
        assert_eq!(fill(&emptier, 4), (Best { blocks: 4, contents: 8, saved: 0 }, 0));
        emptier.remove(3);
        // Block 14 keeps one of its two contents.
        assert_eq!(fill(&emptier, 4), (Best { blocks: 4, contents: 8, saved: 0 }, 0));
        emptier.remove(4);
        assert_eq!(fill(&emptier, 4), (Best { blocks: 5, contents: 8, saved: 1 }, 1));
        assert_eq!(fill(&[10, 11], 4), (Best { blocks: 10, contents: 2, saved: 9 }, 9));
        assert_eq!(fill(&[10, 10, 10], 1), (Best { blocks: 0, contents: 2, saved: 0 }, -1));
        assert_eq!(fill(&[10], 0), (Best::default(), 0));
    }
}
