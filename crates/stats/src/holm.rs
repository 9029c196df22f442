//! Correction of p-values for many comparisons.

/// Returns the p-values adjusted by Holm's method, in the order of the arguments. If all values
/// below a level are called differences, the probability of one wrong call or more is at most the
/// level, whatever the dependence of the comparisons. Source: Holm, "A simple sequentially
/// rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
///
/// A value that is not a number counts as 1.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = p_values
        .iter()
        .map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) })
        .enumerate()
        .collect();
    order.sort_by(|first, second| first.1.total_cmp(&second.1));
    let mut reached = 0.0_f64;
    let mut adjusted = vec![1.0; p_values.len()];
    for (step, (place, p)) in order.into_iter().enumerate() {
        reached = reached.max((p * (p_values.len() - step) as f64).min(1.0));
        if let Some(entry) = adjusted.get_mut(place) {
            *entry = reached;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_grow_with_the_number_of_comparisons_and_keep_their_order() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (adjusted, expected) in adjusted.iter().zip(expected) {
            assert!((adjusted - expected).abs() < 1e-12, "{adjusted} {expected}");
        }
        assert_eq!(holm(&[f64::NAN, 0.5]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
