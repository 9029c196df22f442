//! Copying the map of a volume piece by piece, while the volume is served.
//!
//! The copy is what the source was at one instant, that of the change *begin*. From then on a
//! change of the source first copies the pieces that it touches, unless they are copied already;
//! the command copies the others in their order. Both are ordinary changes *copy* in the journal. A
//! crash in between leaves a hidden volume, which is cleared.

mod carry_out;

use gemelo_format::{Lbn, VolumeId};
use std::collections::BTreeSet;
use std::ops::Range;

/// LBNs that are copied before one of them is changed. They are few, because the writer waits.
const PIECE_BLOCKS: u64 = 32;
/// A copy that is being made.
pub(super) struct Copying {
    source: VolumeId,
    volume: VolumeId,
    /// All LBNs before it are copied. A multiple of a piece.
    cursor: u64,
    /// Pieces from the cursor on that were copied before a change of them.
    early: BTreeSet<u64>,
    /// A block has as many references as can be counted, so the copy cannot be completed.
    is_saturated: bool,
}

impl Copying {
    const fn new(source: VolumeId, volume: VolumeId) -> Self {
        Self { source, volume, cursor: 0, early: BTreeSet::new(), is_saturated: false }
    }

    /// The LBNs of all pieces in this range that are not copied yet, neighbours in one.
    fn left(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let mut left: Vec<(u64, u64)> = Vec::new();
        for piece in (first.max(self.cursor) / PIECE_BLOCKS)..end.div_ceil(PIECE_BLOCKS) {
            if self.early.contains(&piece) {
                continue;
            }
            let (start, after) = (piece * PIECE_BLOCKS, (piece + 1) * PIECE_BLOCKS);
            match left.last_mut() {
                Some(last) if last.1 == start => last.1 = after,
                _ => left.push((start, after)),
            }
        }
        left
    }

    /// All before this LBN is copied.
    fn advance(&mut self, cursor: u64) {
        debug_assert!(
            cursor > self.cursor && cursor.is_multiple_of(PIECE_BLOCKS),
            "copied in order"
        );
        self.cursor = cursor;
        while self.early.first().is_some_and(|piece| piece * PIECE_BLOCKS < cursor) {
            self.early.pop_first();
        }
    }
}

/// The pieces that these LBNs are in. Several in a row that are in one piece give it once.
fn pieces_of(lbns: impl Iterator<Item = Lbn>) -> impl Iterator<Item = Range<u64>> {
    let mut last = None;
    lbns.filter_map(move |lbn| {
        let piece = lbn.0 / PIECE_BLOCKS;
        let is_new = last.replace(piece) != Some(piece);
        is_new.then_some(piece * PIECE_BLOCKS..(piece + 1) * PIECE_BLOCKS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_one_piece_are_read_ahead_once() {
        let lbns = [0, 1, PIECE_BLOCKS - 1, PIECE_BLOCKS, 5 * PIECE_BLOCKS + 7, 2].map(Lbn);
        let starts: Vec<u64> = pieces_of(lbns.into_iter())
            .inspect(|piece| assert_eq!(piece.end - piece.start, PIECE_BLOCKS))
            .map(|piece| piece.start)
            .collect();
        assert_eq!(starts, [0, PIECE_BLOCKS, 5 * PIECE_BLOCKS, 0]);
    }

    #[test]
    fn each_piece_is_copied_once() {
        let mut copying = Copying::new(VolumeId(1), VolumeId(2));
        let piece = PIECE_BLOCKS;
        assert_eq!(copying.left(piece + 3, piece + 4), [(piece, 2 * piece)]);
        copying.early.extend([1, 4]);
        assert_eq!(
            copying.left(0, 6 * piece),
            [(0, piece), (2 * piece, 4 * piece), (5 * piece, 6 * piece)]
        );
        copying.advance(3 * piece);
        assert_eq!(copying.early, BTreeSet::from([4]));
        assert_eq!(copying.left(0, 5 * piece), [(3 * piece, 4 * piece)]);
    }
}
