//! What each way to fill a buffer costs, and how homogeneous its data is: `cargo bench -p gemelo-filebench`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may fail")]

use gemelo_filebench::sources::{METHODS, SourceSpec, Surroundings, open};
use std::time::Instant;

/// One write of a whole-file flowop.
const BUFFER_BYTES: usize = 1 << 20;
/// Of this many rounds the median counts.
const ROUNDS: usize = 9;

fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let share = |count: &u32| f64::from(*count) / bytes.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

fn main() {
    println!("one thread, buffers of 1 MiB, entropy 4 bits a byte: GB/s, ns a byte, entropy of the buffer,");
    println!("least and largest entropy of its pages of 4 KiB");
    for (method, _) in METHODS {
        let spec = SourceSpec::parse(&format!("entro,entropy=4,method={method}")).unwrap();
        let none = |_: &str| Err(String::new());
        let around = Surroundings { seed: 1, run_id: 1, data_bytes: 1 << 30, distributions: &none };
        let mut stream = open(&spec, &around).unwrap().stream(0);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut seconds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let begin = Instant::now();
                stream.fill(&mut buffer);
                begin.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let median = seconds[ROUNDS / 2];
        let pages: Vec<f64> = buffer.chunks(4096).map(entropy).collect();
        let least = pages.iter().copied().fold(f64::INFINITY, f64::min);
        let most = pages.iter().copied().fold(0.0, f64::max);
        println!(
            "{method:<16} {:>7.2} {:>7.3} {:>7.3} {least:>7.3} {most:>7.3}",
            BUFFER_BYTES as f64 / median / 1e9,
            median * 1e9 / BUFFER_BYTES as f64,
            entropy(&buffer)
        );
    }
}
