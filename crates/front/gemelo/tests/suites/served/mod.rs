//! Pools for tests, and servers of them.

use super::common::{Ran, gemelo};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pool in a directory of its own.
pub(crate) struct TestPool {
    pub(crate) directory: tempfile::TempDir,
}

impl TestPool {
    /// A small pool, made with these further options.
    pub(crate) fn new(options: &[&str]) -> Self {
        let pool = Self { directory: tempfile::tempdir().unwrap() };
        let path = pool.path();
        done(&[&["pool", "create", &path, "--capacity", "64m"], options].concat());
        pool
    }

    pub(crate) fn path(&self) -> String {
        self.file("pool")
    }

    /// The path of a file beside the pool.
    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// `POOL/NAME`
    pub(crate) fn volume(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// A served pool.
    pub(crate) fn serve(&self, options: &[&str]) -> Served {
        let listen = format!("unix:{}", self.file("socket"));
        let pool = self.path();
        Served::start(&[&["serve", &pool, "--listen", &listen], options].concat())
    }

    pub(crate) fn uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.file("socket"))
    }

    /// Returns the value at these keys in the output of `pool stat --json -`.
    pub(crate) fn stat(&self, pointer: &str) -> serde_json::Value {
        // A full pool warns.
        let Ran { status, out: text, err } = gemelo(&["pool", "stat", &self.path(), "--json", "-"]);
        assert_eq!(status, 0, "{err}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json.pointer(&format!("/result{pointer}"))
            .unwrap_or_else(|| panic!("{pointer} in {text}"))
            .clone()
    }

    /// Fails if a check from outside finds anything.
    pub(crate) fn assert_clean(&self) {
        let text = done(&["pool", "check", &self.path(), "--data"]);
        assert!(text.contains("the pool is what it should be"), "{text}");
    }
}

/// Runs a command that has to succeed silently; gives its output.
pub(crate) fn done(words: &[&str]) -> String {
    let Ran { status, out, err } = gemelo(words);
    assert_eq!((status, err.as_str()), (0, ""), "{words:?}: {out}");
    out
}

/// Runs a command that has to be refused as bad input; returns its message.
pub(crate) fn refused(words: &[&str]) -> String {
    failed(2, words)
}

/// Runs a command that has to find its pool or device in use; returns its message.
pub(crate) fn in_use(words: &[&str]) -> String {
    failed(3, words)
}

fn failed(expected: i32, words: &[&str]) -> String {
    let Ran { status, out, err } = gemelo(words);
    assert_eq!((status, out.as_str()), (expected, ""), "{words:?}: {err}");
    err
}

/// A running server.
pub(crate) struct Served {
    child: Child,
    /// The lines that it printed when it was ready.
    pub(crate) said: Vec<String>,
}

impl Served {
    pub(crate) fn start(words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
        command.args(words);
        Self::spawn_with(command, Stdio::null())
    }

    pub(crate) fn spawn_with(mut command: Command, input: Stdio) -> Self {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut served = Self { child: command.spawn().unwrap(), said: Vec::new() };
        // All lines come at once.
        let mut said = [0; 4096];
        let count = served.child.stdout.as_mut().unwrap().read(&mut said).unwrap();
        assert!(count > 0, "the server ended: {}", errors_of(&mut served.child));
        served.said = String::from_utf8_lossy(&said[..count]).lines().map(str::to_owned).collect();
        served
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM; gives the exit status and what was said on standard error.
    pub(crate) fn stop(mut self) -> (i32, String) {
        signal(&self.child, rustix::process::Signal::TERM);
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> (i32, String) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code().unwrap_or(-1), errors_of(&mut self.child));
            }
            assert!(began.elapsed() < PATIENCE, "the server does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn errors_of(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(err) = child.stderr.as_mut() {
        err.read_to_string(&mut text).unwrap();
    }
    text
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, signal).unwrap();
}

/// Bytes that repeat nowhere.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}

/// A file beside the pool with these parts at these offsets, holes between, and this length.
pub(crate) fn sparse_file(path: &str, length: u64, parts: &[(u64, &[u8])]) -> PathBuf {
    use std::os::unix::fs::FileExt;
    let file = File::create(path).unwrap();
    file.set_len(length).unwrap();
    for (offset, bytes) in parts {
        file.write_all_at(bytes, *offset).unwrap();
    }
    Path::new(path).to_owned()
}

/// Flips a bit of the first stored copy of a content.
pub(crate) fn flip_first(pool: &TestPool, content: &[u8]) {
    let path = pool.file("pool/data");
    let data = fs::read(&path).unwrap();
    let block = data.chunks(content.len()).position(|block| block == content).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&[content[9] ^ 1], (block * content.len() + 9) as u64).unwrap();
}
