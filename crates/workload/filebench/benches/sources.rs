//! Measures the cost of each method of filling a buffer and the homogeneity of its data. It prints
//! them beside the figures of the report on entropy sources for Filebench (Al-Rfou', Patwardhan,
//! Bhagavatula 2010): `cargo bench -p gemelo-filebench`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may fail")]

use gemelo_filebench::sources::{METHODS, SourceSpec, Surroundings, open};
use std::time::Instant;

/// Size of the report's buffer in bytes.
const REPORT_BYTES: usize = 256 << 20;
const REPORT_BITS: f64 = 7.84;
/// Seconds on the report's machine (2.8 GHz Xeon) and the measured entropy. For pages the report
/// gives only the cost relative to `contiguous`.
const REPORT: [(&str, Option<f64>, Option<f64>); 5] = [
    ("search", Some(43.03), Some(7.840_002)),
    ("contiguous", Some(1.92), Some(7.84)),
    ("permuted", Some(38.32), Some(7.84)),
    ("permuted-pages", None, None),
    ("lookup", Some(5.95), Some(7.839_916)),
];
/// Number of rounds, whose median is printed.
const ROUNDS: usize = 3;

fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let share = |count: &u32| f64::from(*count) / bytes.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

fn main() {
    println!(
        "one thread, a buffer of 256 MiB, entropy {REPORT_BITS} bits a byte; medians of {ROUNDS} \
         rounds"
    );
    println!(
        "{:<16} {:>8} {:>10} {:>8} {:>10} {:>8} {:>8}",
        "method", "s", "report's s", "entropy", "report's", "least", "largest"
    );
    let mut buffer = vec![0; REPORT_BYTES];
    for (method, _) in METHODS {
        let spec =
            SourceSpec::parse(&format!("entro,entropy={REPORT_BITS},method={method}")).unwrap();
        let none = |_: &str| Err(String::new());
        let around = Surroundings { seed: 1, run_id: 1, data_bytes: 1 << 30, distributions: &none };
        let mut stream = open(&spec, &around).unwrap().stream(0);
        let mut seconds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let begin = Instant::now();
                stream.fill(&mut buffer);
                begin.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let pages: Vec<f64> = buffer.chunks(4096).map(entropy).collect();
        // The entropy of a page of one symbol is 0, which rounding must not make negative.
        let least = pages.iter().copied().fold(f64::INFINITY, f64::min).max(0.0);
        let largest = pages.iter().copied().fold(0.0, f64::max);
        let report = REPORT.iter().find(|(name, _, _)| *name == method);
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        println!(
            "{method:<16} {:>8.3} {:>10} {:>8.5} {:>10} {least:>8.3} {largest:>8.3}",
            seconds[ROUNDS / 2],
            shown(report.and_then(|row| row.1), 2),
            entropy(&buffer),
            shown(report.and_then(|row| row.2), 6),
        );
    }
}
