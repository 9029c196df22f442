//! Tests of the fit: fitted distributions have the requested figures, and impossible figures are
//! refused with the reason.

use super::*;
use proptest::prelude::*;

fn figures(unique: &str, duplicates: &str, mean: &str, ratio: &str) -> SummaryStats {
    SummaryStats {
        unique_share: Figure::parse_percent(unique),
        duplicate_share: Figure::parse_percent(duplicates),
        duplicates_per_content: Figure::parse(mean),
        dedup_ratio: Figure::parse(ratio),
        max_duplicates: None,
        blocks: None,
    }
}

fn share(part: u64, distribution: &Distribution) -> f64 {
    part as f64 / distribution.blocks() as f64
}

#[test]
fn rounded_figures_of_a_paper_agree_to_rounding() {
    let fitted = Distribution::fit(&figures("76", "18", "2.76", "")).unwrap();
    let summary = fitted.summary();
    assert_eq!(summary.blocks, FITTED_BLOCKS);
    assert_eq!(format!("{:.0}", 100.0 * share(summary.unique, &fitted)), "76");
    assert_eq!(format!("{:.0}", 100.0 * share(summary.duplicates, &fitted)), "18");
    assert_eq!(format!("{:.0}", 100.0 * share(summary.distinct_with_duplicates, &fitted)), "6");
    assert_eq!(format!("{:.2}", summary.duplicates_per_duplicated_content()), "2.76");
}

#[test]
fn every_pair_of_figures_is_enough() {
    for (unique, duplicates, mean, ratio) in [
        ("70", "22.5", "", ""),
        ("70", "", "3", ""),
        ("", "22.5", "3", ""),
        ("70", "", "", "1.29032258"),
    ] {
        let fitted = Distribution::fit(&figures(unique, duplicates, mean, ratio)).unwrap();
        let summary = fitted.summary();
        assert!(
            (share(summary.unique, &fitted) - 0.7).abs() < 1e-6,
            "{unique} {duplicates} {mean} {ratio}"
        );
        assert!((summary.duplicates_per_duplicated_content() - 3.0).abs() < 1e-4);
    }
}

#[test]
fn the_most_duplicates_are_met_exactly() {
    let asked = SummaryStats { max_duplicates: Some(30_000), ..figures("76", "18", "", "") };
    assert_eq!(Distribution::fit(&asked).unwrap().summary().max_duplicates, 30_000);
}

#[test]
fn the_ends_are_distributions_too() {
    let unique = Distribution::fit(&figures("100", "", "", "")).unwrap();
    assert_eq!(unique.to_text(), format!("0 {FITTED_BLOCKS}\n"));
    let pairs = SummaryStats { blocks: Some(100), ..figures("0", "50", "", "") };
    assert_eq!(Distribution::fit(&pairs).unwrap().to_text(), "1 50\n");
    let one = SummaryStats { blocks: Some(100), ..figures("0", "99", "", "") };
    assert_eq!(Distribution::fit(&one).unwrap().to_text(), "99 1\n");
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    let most = |most, given: SummaryStats| SummaryStats { max_duplicates: Some(most), ..given };
    let few = |blocks, given: SummaryStats| SummaryStats { blocks: Some(blocks), ..given };
    for (asked, reason) in [
        (figures("76", "", "", ""), "give two of"),
        (figures("", "18", "", "1.22"), "give two of"),
        (figures("76", "18", "9.5", ""), "3.00 duplicates on average, not 9.5"),
        (figures("90", "20", "", ""), "none can be below 0 %"),
        (figures("50", "20", "", ""), "too few for 30.00 %"),
        (figures("50", "50", "", ""), "no content is left"),
        (figures("", "90", "2", ""), "none can be below 0 %"),
        (figures("76", "", "0.5", ""), "cannot be 0.5"),
        (figures("", "18", "2", "0.9"), "at least 1, not 0.9"),
        (figures("76", "18", "", "2.0"), "means 50.00 % duplicates, not 18.00 %"),
        (most(2, figures("76", "18", "", "")), "fewer than"),
        (most(9_000_000, figures("76", "18", "", "")), "leaves 0 of"),
        (most(5, figures("100", "", "", "")), "without duplicates"),
        (few(3, figures("76", "18", "", "")), "too few to hold"),
    ] {
        let error = Distribution::fit(&asked).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(Distribution::fit(&few(1 << 44, figures("76", "18", "", ""))).is_err());
}

#[test]
fn figures_know_their_last_digit() {
    assert_eq!(Figure::parse_percent("76 %"), Some(Figure { value: 0.76, half_unit: 0.005 }));
    for text in ["", ".", "-1", "1e3", "nan", "1.2.3", "+5"] {
        assert_eq!(Figure::parse(text), None, "{text}");
    }
    assert_eq!(Figure::parse_percent("101"), None);
}

proptest! {
    #[test]
    fn no_figures_make_the_fit_panic(
        unique in "[0-9]{0,2}(\\.[0-9]{1,3})?", duplicates in "[0-9]{0,2}(\\.[0-9])?",
        mean in "[0-9]{0,3}(\\.[0-9])?", ratio in "[0-9]{0,2}",
        most in proptest::option::of(0u64..u64::MAX), blocks in 0u64..1 << 44
    ) {
        let asked = SummaryStats {
            max_duplicates: most,
            blocks: Some(blocks),
            ..figures(&unique, &duplicates, &mean, &ratio)
        };
        let _ = Distribution::fit(&asked);
    }
}
