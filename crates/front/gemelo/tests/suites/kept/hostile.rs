//! Hostile forms of each kept pool: fields of its structs are changed, and checksums made right.
//! The commands that open a pool say a word then. None of them panics, hangs, or takes more memory
//! than it may.
//!
//! `GEMELO_FUZZ_ROUNDS` sets the number of rounds with several changed fields, from the seed
//! `GEMELO_FUZZ_FIRST` on; each field is changed alone as well then.
//! `crates/front/fuzzing/tests/forged.rs` has many more forms, and opens them in one process.

use crate::served::TestPool;
use gemelo_device::{Durability, Operation, Request};
use gemelo_fuzzing::{ForgedPool, field_inputs, forged_input, kept_pools};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Of the inputs that change one field, one in so many is taken.
const APART: usize = 5;
/// The longest time of a command; most take a twentieth of a second.
const LONGEST: Duration = Duration::from_secs(30);
/// Most memory of a command. The cache, the write buffer and the memory of clients are 576 MiB by
/// default; the program and the metadata of such a pool take less than the rest.
const MAX_MEMORY_KB: i64 = (256 + 64 + 256 + 64) << 10;
/// Bytes of the memory of a client.
const READ_BYTES: usize = 160 << 10;
/// Statuses of a program that contradicts itself, and of one that panics.
const DEFECTS: [i32; 2] = [70, 101];

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Fails unless a command that ended has said a word, and took no more than it may.
fn expect_a_word(words: &[&str], output: &Output, began: Instant) {
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let status = output.status.code();
    assert!(status.is_some_and(|status| !DEFECTS.contains(&status)), "{words:?}: {said}");
    assert!(status == Some(0) || !said.trim().is_empty(), "{words:?} says nothing");
    assert!(!said.contains("panicked"), "{words:?}: {said}");
    assert!(began.elapsed() < LONGEST, "{words:?}: {:?}", began.elapsed());
    let memory_kb = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    assert!(memory_kb < MAX_MEMORY_KB, "{words:?}: {memory_kb} KiB");
}

fn say(words: &[&str]) {
    let began = Instant::now();
    let output = command(words).output().unwrap();
    expect_a_word(words, &output, began);
}

/// Serves a pool to a client of each of these volumes, if that is possible.
fn serve(pool: &TestPool, volumes: &[&str]) {
    let (began, path, socket) = (Instant::now(), pool.path(), pool.file("socket"));
    let listen = format!("unix:{socket}");
    let words = ["serve", &path, "--listen", &listen];
    let mut server = command(&words).spawn().unwrap();
    let mut said = [0; 4096];
    if server.stdout.as_mut().unwrap().read(&mut said).unwrap() > 0 {
        volumes.iter().for_each(|volume| use_volume(Path::new(&socket), volume));
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM);
    }
    expect_a_word(&words, &server.wait_with_output().unwrap(), began);
}

/// Reads and writes a volume, as far as its server lets a client.
fn use_volume(socket: &Path, name: &str) {
    let Ok(stream) = UnixStream::connect(socket) else { return };
    let Ok(device) = gemelo_nbd::client::connect_device(stream, name) else { return };
    let mut buffer = vec![0; READ_BYTES];
    let data = [7; 4096];
    let write = Operation::Write { offset: 0, data: &data, durability: Durability::Immediate };
    for operation in [Operation::Read { offset: 0, buffer: &mut buffer }, write] {
        device.execute(&mut [Request { operation, outcome: Ok(()) }]);
    }
}

/// Runs the commands on a form of a pool. A repair begins with the pool as it was.
fn run_all(form: &ForgedPool) {
    let pool = TestPool { directory: tempfile::tempdir().unwrap() };
    let (path, out) = (pool.path(), pool.file("out"));
    fs::create_dir(&path).unwrap();
    let renew = || form.write_to(Path::new(&path)).unwrap();
    renew();
    say(&["pool", "stat", &path]);
    say(&["pool", "check", &path, "--data"]);
    let volumes = ["inline", "snapshot", "offline"];
    for volume in volumes {
        say(&["volume", "export", &pool.volume(volume), &out, "--salvage", "--force"]);
    }
    serve(&pool, &volumes);
    renew();
    say(&["pool", "check", &path, "--data", "--repair", "--force"]);
    serve(&pool, &volumes);
    say(&["pool", "stat", &path]);
}

/// Each pool has other fields changed one by one, so that together they are of all structs.
#[test]
fn commands_say_a_word_about_hostile_forms_of_kept_pools() {
    let rounds = setting("GEMELO_FUZZ_ROUNDS");
    let first = setting("GEMELO_FUZZ_FIRST").unwrap_or(0);
    let apart = if rounds.is_some() { 1 } else { APART };
    let pools = kept_pools();
    assert!(pools > 0, "tar and zstd unpack the pools");
    for pool in 0..pools {
        let fields = field_inputs(pool).into_iter().enumerate();
        for (number, input) in fields.skip(pool * apart).step_by(pools * apart) {
            eprintln!("pool {pool}, field {number}");
            run_all(&ForgedPool::of_kept(&input).unwrap());
        }
        for round in first..first + rounds.unwrap_or(0) {
            eprintln!("pool {pool}, GEMELO_FUZZ_FIRST={round}");
            run_all(&ForgedPool::of_kept(&forged_input(pool, round)).unwrap());
        }
    }
}
