//! Measures the records read a second in each format, on one core, from memory-cached files.
//! Reading finds, parses and merges lines. Counting and synthesizing are measured beside it.
//!
//! `cargo bench -p gemelo-trace` prints the median of several rounds, in which all formats take
//! turns.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures, and ends on any error"
)]

use gemelo_trace::{
    MemoryLimit, Merged, Preset, ReadOptions, Record, RecordSource, Statistics, Synthesis,
    TraceFormat, TraceWriter,
};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const RECORDS: u64 = 400_000;
const ROUNDS: usize = 5;

/// Makes a trace of the preset in a format.
fn make(directory: &Path, name: &str, preset: &str, format: TraceFormat) -> PathBuf {
    let spec = Preset::named(preset).unwrap().spec(RECORDS, 1).unwrap();
    let mut synthesis = Synthesis::new(&spec).unwrap();
    let path = directory.join(name);
    let mut writer = TraceWriter::new(format, BufWriter::new(File::create(&path).unwrap()));
    let mut record = Record::new();
    while synthesis.next_record(&mut record).unwrap() {
        writer.write(&record, synthesis.names()).unwrap();
    }
    writer.finish().unwrap().flush().unwrap();
    path
}

fn compressed(path: &Path, name: &str) -> PathBuf {
    let text = std::fs::read(path).unwrap();
    let to = path.with_file_name(name);
    let bytes = if name.ends_with("gz") {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        gzip.finish().unwrap()
    } else {
        zstd::encode_all(&text[..], 3).unwrap()
    };
    std::fs::write(&to, bytes).unwrap();
    to
}

fn read(path: &Path, mut each: impl FnMut(&Record)) -> u64 {
    let mut merged = Merged::open(&[path.to_owned()], ReadOptions::default()).unwrap();
    let mut record = Record::new();
    let mut count = 0;
    while merged.next_record(&mut record).unwrap() {
        each(black_box(&record));
        count += 1;
    }
    count
}

/// Returns the processor time of this thread so far, which other programs on the machine do not
/// change.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

struct Candidate {
    name: String,
    run: Box<dyn FnMut() -> u64>,
    per_s: Vec<f64>,
}

fn candidate(name: impl Into<String>, run: impl FnMut() -> u64 + 'static) -> Candidate {
    Candidate { name: name.into(), run: Box::new(run), per_s: Vec::new() }
}

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let mut candidates = Vec::new();
    for format in TraceFormat::ALL {
        let path = make(directory.path(), format.name(), "mail", format);
        candidates.push(candidate(format!("read {format}"), move || read(&path, |_| {})));
    }
    let homes = make(directory.path(), "homes", "homes", TraceFormat::Fiu);
    candidates.push(candidate("read fiu, a hash every 512 bytes", move || read(&homes, |_| {})));
    let fiu = directory.path().join("fiu");
    for name in ["fiu.gz", "fiu.zst"] {
        let path = compressed(&fiu, name);
        candidates.push(candidate(format!("read {name}"), move || read(&path, |_| {})));
    }
    candidates.push(candidate("read fiu and count (trace stat)", move || {
        let mut statistics = Statistics::new(4096, MemoryLimit(u64::MAX));
        read(&fiu, |record| statistics.add(record).unwrap())
    }));
    let spec = Preset::named("mail").unwrap().spec(RECORDS, 1).unwrap();
    candidates.push(candidate("synthesize fiu, mail preset", move || {
        let mut synthesis = Synthesis::new(&spec).unwrap();
        let mut writer = TraceWriter::new(TraceFormat::Fiu, std::io::sink());
        let mut record = Record::new();
        while synthesis.next_record(&mut record).unwrap() {
            writer.write(&record, synthesis.names()).unwrap();
        }
        writer.records()
    }));
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            let started_ns = processor_ns();
            let records = (candidate.run)();
            candidate.per_s.push(records as f64 / (processor_ns() - started_ns) as f64 * 1e9);
        }
    }
    println!("{:<36} {:>16}", "a second of processor time", "records");
    for candidate in &mut candidates {
        candidate.per_s.sort_by(f64::total_cmp);
        println!("{:<36} {:>16.0}", candidate.name, candidate.per_s[ROUNDS / 2]);
    }
}
