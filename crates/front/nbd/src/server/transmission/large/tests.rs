//! Tests that pieces cover a request, fit into the buffer, and end at block boundaries.

use super::*;
use crate::server::check::NegotiatedOptions;
use gemelo_device::Geometry;
use proptest::prelude::*;

proptest! {
    #[test]
    fn pieces_cover_a_request_and_end_where_blocks_begin(
        offset in 0u64..1 << 24,
        length in 1usize..8 << 20,
        capacity in 1usize << 16..2 << 20,
        minimum_shift in 0u32..=16,
        preferred_shift in 9u32..=22,
    ) {
        let geometry = Geometry {
            size_bytes: 1 << 30,
            minimum_block_bytes: 1 << minimum_shift,
            preferred_block_bytes: 1 << preferred_shift,
            maximum_request_bytes: 32 << 20,
            read_only: false,
        };
        let agreed = NegotiatedOptions {
            structured_replies: true,
            base_allocation: true,
            since: false,
            zeroes_are_fast: true,
        };
        let rules = Rules::new(agreed, &geometry);
        let minimum = u64::from(rules.sizes.minimum);
        let (mut offset, length) = (offset / minimum * minimum, length.next_multiple_of(minimum as usize));
        let mut left = length;
        while left > 0 {
            let piece = next_piece(offset, left, capacity, &rules);
            prop_assert!(piece.offset == offset && (1..=capacity.min(left)).contains(&piece.bytes));
            offset += piece.bytes as u64;
            left -= piece.bytes;
            prop_assert!(left == 0 || offset % minimum == 0, "a piece that the device refuses");
            let has_preferred_end = u64::from(rules.sizes.preferred) <= capacity as u64 / 2;
            prop_assert!(left == 0 || !has_preferred_end || offset % u64::from(rules.sizes.preferred) == 0);
        }
    }
}
