//! Figures of the contents that were written, under the names of the DEDISbench paper's table 1.

use gemelo_load::WrittenDistribution;
use gemelo_record::{Better, Stats};

/// Adds the dedup ratio, the shares of the blocks, and the length of the tail.
pub(crate) fn figures(figures: &mut Stats, written: &WrittenDistribution) {
    let pairs =
        || written.distribution.iter().map(|[duplicates, contents]| (*duplicates, *contents));
    // The numbers of a file may be of any size.
    let contents: f64 = pairs().map(|(_, contents)| contents as f64).sum();
    let mut push = |name: &str, value: f64| {
        figures.push(format!("written/{name}"), value, Better::Neither);
    };
    let with = |wanted: fn(u64) -> bool| -> f64 {
        let wanted = pairs().filter(|(duplicates, _)| wanted(*duplicates));
        wanted.map(|(_, contents)| contents as f64).sum()
    };
    let duplicates: f64 =
        pairs().map(|(duplicates, contents)| duplicates as f64 * contents as f64).sum();
    // Blocks of contents without duplicates, the first blocks of the others, the duplicates and the
    // zeros add up to all blocks. The contents of a sample are counted for all.
    let zeros = written.zero_blocks as f64;
    let blocks = contents + duplicates + zeros;
    let ratio = |logical: f64, physical: f64| if physical > 0.0 { logical / physical } else { 1.0 };
    push("dedup_ratio", ratio(contents + duplicates, contents));
    push("dedup_ratio_with_zeros", ratio(blocks, contents + zeros.min(1.0)));
    push("zeros_share", zeros / blocks);
    push("unique_share", with(|duplicates| duplicates == 0) / blocks);
    push("first_copies_share", with(|duplicates| duplicates > 0) / blocks);
    push("duplicates_share", duplicates / blocks);
    let most =
        pairs().filter(|(_, contents)| *contents > 0).map(|(duplicates, _)| duplicates).max();
    push("max_duplicates", most.unwrap_or(0) as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up_to_one() {
        let written = WrittenDistribution {
            blocks: 100,
            counted_blocks: 100,
            sampled_share: 1.0,
            zero_blocks: 0,
            distribution: vec![[0, 75], [3, 5], [4, 1]],
        };
        let mut all = Stats::default();
        figures(&mut all, &written);
        let value = |name: &str| all.value(&format!("written/{name}")).unwrap();
        assert_eq!(value("unique_share"), 0.75);
        assert_eq!(value("first_copies_share"), 0.06);
        assert_eq!(value("duplicates_share"), 0.19);
        assert_eq!(value("max_duplicates"), 4.0);
        assert_eq!(value("dedup_ratio"), 100.0 / 81.0);
        let zeros = WrittenDistribution { blocks: 200, zero_blocks: 100, ..written.clone() };
        let mut all = Stats::default();
        figures(&mut all, &zeros);
        let value = |name: &str| all.value(&format!("written/{name}")).unwrap();
        assert_eq!((value("zeros_share"), value("unique_share")), (0.5, 0.375));
        assert_eq!(value("dedup_ratio"), 100.0 / 81.0);
        assert_eq!(value("dedup_ratio_with_zeros"), 200.0 / 82.0);
        let distribution = vec![[0, u64::MAX], [u64::MAX, u64::MAX]];
        figures(&mut all, &WrittenDistribution { distribution, ..written });
    }
}
