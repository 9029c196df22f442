//! The speed at which one core generates contents, beside `memcpy` in the same run.
//!
//! `cargo bench -p gemelo-content` prints the median of several rounds for each candidate. In every
//! round all candidates take turns, so that a change of the machine's speed affects all of them.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and panics on errors"
)]

use gemelo_content::{Assignment, AssignmentMode, ContentSpec, Distribution, Generator, Nature};
use std::hint::black_box;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// The number of blocks between two readings of the clock.
const BATCH: u64 = 4096;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(60);

struct Candidate {
    name: &'static str,
    run_batch: Box<dyn FnMut(u64)>,
    bytes_per_s: Vec<f64>,
}

fn candidate(name: &'static str, run_batch: impl FnMut(u64) + 'static) -> Candidate {
    Candidate { name, run_batch: Box::new(run_batch), bytes_per_s: Vec::new() }
}

fn content(name: &'static str, spec: &ContentSpec) -> Candidate {
    let generator = Generator::new(spec).unwrap();
    let assignment = Assignment::new(spec, 10_000_000, 1).unwrap();
    let mut block = vec![0; BLOCK_BYTES];
    candidate(name, move |start| {
        for sequence in start..start + BATCH {
            generator.fill(assignment.content(0, sequence), &mut block);
            black_box(&block);
        }
    })
}

fn main() {
    let distribution =
        Distribution::parse("0 760000\n1 40000\n2 15000\n4 5000\n9 3000\n49 400\n999 30\n")
            .unwrap();
    let spec = ContentSpec::new(distribution, BLOCK_BYTES, 1);
    let with = |entropy_bits, compressible_share| {
        let nature = Nature { entropy_bits, compressible_share };
        ContentSpec { nature, ..spec.clone() }
    };
    let source = vec![1u8; BLOCK_BYTES];
    let mut copy = vec![0u8; BLOCK_BYTES];
    let assignment = Assignment::new(&spec, 10_000_000, 1).unwrap();
    let mut candidates = [
        candidate("memcpy of a cached block", move |_| {
            for _ in 0..BATCH {
                copy.copy_from_slice(black_box(&source));
                black_box(&copy);
            }
        }),
        candidate("which content (exact), no bytes", move |start| {
            for sequence in start..start + BATCH {
                black_box(assignment.content(0, sequence));
            }
        }),
        content("exact, random bytes", &spec),
        content(
            "sampled, random bytes",
            &ContentSpec { mode: AssignmentMode::Sampled, ..spec.clone() },
        ),
        content("exact, entropy 5 bits", &with(5.0, 0.0)),
        content("exact, compressible 50 %", &with(8.0, 0.5)),
        content(
            "exact, similar 10 % and shifted 10 %",
            &ContentSpec { similar_share: 0.1, shifted_share: 0.1, ..spec.clone() },
        ),
    ];
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            let started = Instant::now();
            let mut blocks = 0;
            while started.elapsed() < ROUND {
                (candidate.run_batch)(blocks);
                blocks += BATCH;
            }
            let bytes = (blocks * BLOCK_BYTES as u64) as f64;
            candidate.bytes_per_s.push(bytes / started.elapsed().as_secs_f64());
        }
    }
    println!("{:<38} {:>10} {:>12}", "one core, blocks of 4 KiB", "GB/s", "ns a block");
    for candidate in &mut candidates {
        candidate.bytes_per_s.sort_by(f64::total_cmp);
        let median = candidate.bytes_per_s[ROUNDS / 2];
        println!(
            "{:<38} {:>10.1} {:>12.0}",
            candidate.name,
            median / 1e9,
            BLOCK_BYTES as f64 / median * 1e9
        );
    }
}
