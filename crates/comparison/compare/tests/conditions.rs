//! Tests of the grammar of conditions: what it reads, and where it finds faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gemelo_compare::{Condition, Expression, Quotient, Relation, Term};
use gemelo_stats::Interval;
use proptest::prelude::*;

fn term(figure: &str, workload: &str, target: &str) -> Term {
    Term { figure: figure.into(), workload: workload.into(), target: target.into() }
}

#[test]
fn all_forms_are_read() {
    let rate = || term("write/operations_per_s", "nurand-write", "volume");
    let other = || term("write/operations_per_s", "nurand-write", "ext4");
    for (text, expression, relation) in [
        (
            "write/operations_per_s[nurand-write, volume] / \
             write/operations_per_s[nurand-write, ext4] >= 1.5",
            Expression::Ratio(Quotient { above: rate(), below: other() }),
            Relation::AtLeast(1.5),
        ),
        (
            "write/operations_per_s[nurand-write,volume]-write/operations_per_s[nurand-write,ext4]<0",
            Expression::Difference(rate(), other()),
            Relation::Below(0.0),
        ),
        (
            "(a/b[c, d] / a/b[c, e]) / (a/b[f, d] / a/b[f, e]) > 1",
            Expression::RatioOfRatios {
                above: Quotient { above: term("a/b", "c", "d"), below: term("a/b", "c", "e") },
                below: Quotient { above: term("a/b", "f", "d"), below: term("a/b", "f", "e") },
            },
            Relation::Above(1.0),
        ),
        (
            " nurand-write.write/latency_p99.9_ns[ suite , gemelo volume ] about 2e6 within 12.5 % ",
            Expression::Mean(term("nurand-write.write/latency_p99.9_ns", "suite", "gemelo volume")),
            Relation::About { value: 2e6, share: 0.125 },
        ),
        ("a/b[c,d]>-1", Expression::Mean(term("a/b", "c", "d")), Relation::Above(-1.0)),
        ("a/b[c,d]<=1", Expression::Mean(term("a/b", "c", "d")), Relation::AtMost(1.0)),
    ] {
        assert_eq!(Condition::parse(text), Ok(Condition { expression, relation }), "{text}");
    }
}

#[test]
fn faults_name_their_column() {
    for (text, column, expected) in [
        ("", 1, "figure"),
        ("write > 1", 7, "'['"),
        ("a[b] > 1", 4, "','"),
        ("a[b,] > 1", 5, "target"),
        ("a[,t] > 1", 3, "workload"),
        ("a[b,t > 1", 10, "']'"),
        ("a[b,t]", 7, "'about'"),
        ("a[b,t] = 1", 8, "'about'"),
        ("a[b,t] >", 9, "number"),
        ("a[b,t] > fast", 10, "number"),
        ("a[b,t] > 1 ms", 12, "end"),
        ("a[b,t] / > 1", 10, "figure"),
        ("a[b,t] about 1", 15, "'within'"),
        ("a[b,t] about 1 within 5", 24, "'%'"),
        ("a[b,t] about 1 within -5%", 23, "zero or more"),
        ("a[b,t] > 1e999", 10, "number"),
        ("ä[b,t] ? 1", 8, "'about'"),
    ] {
        let error = Condition::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{error}");
        assert!(error.expected.contains(expected), "{error}");
        assert!(error.to_string().contains(&format!("column {column}")), "{error}");
    }
    assert!(Condition::parse(&"a".repeat(2000)).is_err());
}

#[test]
fn an_interval_lies_in_a_relation_outside_or_on_both_sides() {
    let interval = |low, high| Interval::new(low, high).unwrap();
    let about = Relation::About { value: 10.0, share: 0.1 };
    for (relation, low, high, expected) in [
        (Relation::AtLeast(1.5), 1.5, 2.0, Some(true)),
        (Relation::Above(1.5), 1.5, 2.0, None),
        (Relation::AtLeast(1.5), 1.0, 1.4, Some(false)),
        (Relation::AtMost(1.5), 1.0, 2.0, None),
        (Relation::Below(1.5), 1.0, 1.4, Some(true)),
        (about, 9.5, 10.5, Some(true)),
        (about, 8.0, 12.0, None),
        (about, 10.5, 12.0, None),
        (about, 12.0, 13.0, Some(false)),
        (Relation::About { value: -10.0, share: 0.1 }, -10.5, -9.5, Some(true)),
    ] {
        assert_eq!(relation.holds_in(interval(low, high)), expected, "{relation:?} {low} {high}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
        let _ = Condition::parse(&text);
    }

    #[test]
    fn pieces_of_conditions_never_panic(
        text in "(a/b|\\[|\\]|,|c|>=|about|within|%|-|/|1|1e3| ){0,14}",
    ) {
        if let Err(error) = Condition::parse(&text) {
            prop_assert!(error.column <= text.chars().count() + 1);
        }
    }
}
