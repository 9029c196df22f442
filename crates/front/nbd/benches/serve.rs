//! Compares this server with `nbdkit memory` and `nbdkit file`, over a device in memory and over a
//! file: 4 KiB random reads and writes by `fio --ioengine=nbd` on one connection, in alternation.
//! It prints the medians of both, their ratio, and the processor time of each server per request.
//! On a machine with other load, the processor time says more.
//!
//! `cargo bench -p gemelo-nbd --bench serve [-- --busy-wait-us N] [--seconds N] [--rounds N]
//! [--directory DIR] [--only memory|file]`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints its results, and panics if it cannot continue"
)]

#[path = "../tests/doubles/file.rs"]
mod file;
#[path = "../tests/doubles/memory.rs"]
#[expect(dead_code, reason = "the tests use the rest of the module")]
mod memory;

use gemelo_base::{Silent, StopFlag};
use gemelo_device::{BlockDevice, Export, ExportTable};
use gemelo_nbd::server::{ListenAddress, Listener, Server, ServerConfig};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 1 << 30;

struct Options {
    busy_wait: Duration,
    seconds: u64,
    rounds: usize,
    directory: PathBuf,
    only: Option<String>,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number =
        |name: &str, usual: u64| value(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let usual_us = ServerConfig::default().busy_wait.as_micros() as u64;
    Options {
        busy_wait: Duration::from_micros(number("--busy-wait-us", usual_us)),
        seconds: number("--seconds", 2),
        rounds: number("--rounds", 3) as usize,
        directory: value("--directory").map_or_else(std::env::temp_dir, PathBuf::from),
        only: value("--only").cloned(),
    }
}

/// Figures of a server: requests per second, and microseconds of processor time per request.
#[derive(Default)]
struct Stats {
    per_s: Vec<f64>,
    cpu_us: Vec<f64>,
}

impl Stats {
    fn measure(&mut self, socket: &Path, process: u32, kind: &str, depth: u32, seconds: u64) {
        let before_us = cpu_us(process);
        let per_s = fio(socket, kind, depth, seconds);
        self.per_s.push(per_s);
        self.cpu_us.push((cpu_us(process) - before_us) / (per_s * seconds as f64));
    }
}

/// Returns the processor time that a process has used, from /proc.
fn cpu_us(process: u32) -> f64 {
    const TICK_US: f64 = 10_000.0;
    let stat =
        std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    // The times are fields 14 and 15 of the line. Two fields precede the bracket.
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>()
        * TICK_US
}

/// Returns the number of requests per second.
fn fio(socket: &Path, kind: &str, depth: u32, seconds: u64) -> f64 {
    let output = Command::new("fio")
        .args([
            "--name=bench",
            "--ioengine=nbd",
            "--bs=4k",
            "--time_based",
            "--size=1g",
            "--minimal",
        ])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .args([
            format!("--rw={kind}"),
            format!("--iodepth={depth}"),
            format!("--runtime={seconds}"),
        ])
        .output()
        .expect("fio runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let fields: Vec<&str> = text.trim().split(';').collect();
    // Fields 8 and 49 of the terse format are the rates of reads and writes.
    let rate =
        |field: usize| fields.get(field - 1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    f64::max(rate(8), rate(49))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn nbdkit(socket: &Path, arguments: &[&str]) -> Child {
    let child = Command::new("nbdkit").arg("-f").arg("-U").arg(socket).args(arguments).spawn();
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    child.expect("nbdkit runs")
}

fn compare(name: &str, device: Arc<dyn BlockDevice>, peer: &[&str], options: &Options) {
    let directory = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    let table = ExportTable::new();
    table.insert(Export::new("disk", device));
    let config = ServerConfig { busy_wait: options.busy_wait, ..ServerConfig::default() };
    let server = Server::new(Arc::new(table), config, Arc::new(Silent));
    let listener = Listener::bind(&ListenAddress::Unix(ours.clone())).expect("a socket");
    let stop = StopFlag::new();
    let serving = {
        let (server, stop) = (server.clone(), stop.clone());
        std::thread::spawn(move || server.serve(vec![listener], &stop))
    };
    let mut child = nbdkit(&theirs, peer);

    for kind in ["randwrite", "randread"] {
        for depth in [32, 1] {
            let before = server.counts();
            let (mut own, mut other) = (Stats::default(), Stats::default());
            for _ in 0..options.rounds {
                own.measure(&ours, std::process::id(), kind, depth, options.seconds);
                other.measure(&theirs, child.id(), kind, depth, options.seconds);
            }
            let after = server.counts();
            let per_batch =
                (after.requests - before.requests) as f64 / (after.batches - before.batches) as f64;
            let (own_per_s, other_per_s) = (median(&mut own.per_s), median(&mut other.per_s));
            println!(
                "{name:6} {kind:9} depth {depth:2}: gemelo {own_per_s:7.0}/s {:5.2} us  nbdkit {other_per_s:7.0}/s {:5.2} us  \
                 ratio {:.2}  {per_batch:4.1} requests a batch",
                median(&mut own.cpu_us),
                median(&mut other.cpu_us),
                own_per_s / other_per_s
            );
        }
    }
    stop.raise();
    let _ = serving.join();
    let _ = child.kill();
    let _ = child.wait();
}

fn main() {
    let options = options();
    println!(
        "busy wait {:?}, {} rounds of {} s, medians",
        options.busy_wait, options.rounds, options.seconds
    );
    let is_wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    if is_wanted("memory") {
        let memory = Arc::new(memory::MemoryDevice::new(SIZE_BYTES));
        compare("memory", memory, &["memory", "1G"], &options);
    }
    if is_wanted("file") {
        compare_files(&options);
    }
}

fn compare_files(options: &Options) {
    let directory = tempfile::tempdir_in(&options.directory).expect("a directory");
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    for path in [&ours, &theirs] {
        let block: Vec<u8> = (0..1 << 20)
            .map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut file = std::fs::File::create(path).expect("a file");
        for _ in 0..SIZE_BYTES >> 20 {
            std::io::Write::write_all(&mut file, &block).expect("space for two files of 1 GiB");
        }
    }
    let device = Arc::new(file::FileDevice::open(&ours).expect("the file"));
    compare("file", device, &["file", theirs.to_str().expect("a plain path")], options);
}
