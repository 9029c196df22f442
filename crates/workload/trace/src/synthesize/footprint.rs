//! Computes the size of a region in which a number of accesses with a pattern touches a given
//! number of places.

use gemelo_pattern::Pattern;

/// Halvings of the interval that contains the size, enough for 64 bits.
const BISECTIONS: u32 = 64;

/// Returns the number of places of which `accesses` accesses touch `touched` on average. The
/// accesses to a place are nearly Poisson for uniform patterns and hot spots. Other patterns get
/// `touched` places, some of which they may not touch.
pub(super) fn places_for(pattern: Pattern, accesses: u64, touched: u64) -> u64 {
    let touched = touched.clamp(1, accesses.max(1));
    let (hot_accesses, hot_places) = match pattern {
        Pattern::Uniform => (1.0, 1.0),
        Pattern::Hotspot { accesses_percent, blocks_percent } => {
            (accesses_percent / 100.0, blocks_percent / 100.0)
        }
        Pattern::Sequential | Pattern::NuRand { .. } | Pattern::Zipf { .. } => return touched,
    };
    let expected = |places: f64| {
        let part = |accesses_share: f64, places_share: f64| {
            let places = places * places_share;
            if places < 1e-9 {
                return 0.0;
            }
            -places * (-(accesses as f64) * accesses_share / places).exp_m1()
        };
        part(hot_accesses, hot_places) + part(1.0 - hot_accesses, 1.0 - hot_places)
    };
    let goal = touched as f64;
    let (mut low, mut high) = (goal, goal * 2.0);
    // If nearly every access has to touch a new place, the region has to be far larger than the
    // trace.
    let most = goal * 1e4;
    while expected(high) < goal && high < most {
        high *= 2.0;
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if expected(middle) < goal { low = middle } else { high = middle }
    }
    high.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_pattern::Positions;

    #[test]
    fn regions_are_as_large_as_they_have_to_be() {
        for (text, accesses, touched) in [
            ("uniform", 100_000, 40_000),
            ("uniform", 100_000, 2_000),
            ("hotspot:80/20", 100_000, 30_000),
            ("hotspot:90/10", 200_000, 5_000),
        ] {
            let pattern: Pattern = text.parse().unwrap();
            let places = places_for(pattern, accesses, touched);
            let mut positions = Positions::new(pattern, places, 5, 0);
            let found: std::collections::HashSet<u64> =
                (0..accesses).map(|_| positions.next_block()).collect();
            let off = found.len() as f64 / touched as f64 - 1.0;
            assert!(off.abs() < 0.01, "{text}: {} of {touched}", found.len());
        }
        assert_eq!(places_for(Pattern::Sequential, 100, 50), 50);
        assert!(places_for(Pattern::Uniform, 100, 100) > 100_000);
    }
}
