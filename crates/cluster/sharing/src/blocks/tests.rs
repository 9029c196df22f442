//! Tests of the tables of a member's blocks.

use super::*;

/// A round puts the blocks back that it took, after a failure midway. Some of them may be free, and
/// the pool's own: a release would give up what the pool has put there since.
#[test]
fn a_block_that_is_free_does_not_become_due_again() {
    let (mut blocks, one) = (Blocks::default(), Pbn::FIRST);
    blocks.identify(one);
    assert_eq!(blocks.take_candidates(1), [one]);
    blocks.set_kind(one, BlockState::Alone);
    blocks.end_publishing(one);
    assert!(blocks.drop_reference(one));
    assert_eq!(blocks.take_due(1), [one]);
    blocks.put_back_due(one);
    assert_eq!(blocks.take_due(1), [one]);
    blocks.free(one);
    blocks.put_back_due(one);
    assert_eq!(blocks.take_due(1), []);
}
