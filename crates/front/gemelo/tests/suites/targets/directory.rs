//! A directory with pools and servers, which is removed at the end of the test.

use crate::common::{Ran, gemelo};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_device::{Export, ExportTable};
use gemelo_format::DedupMode;
use gemelo_nbd::server::{ListenAddress, Listener, Server, ServerConfig};
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;

pub(crate) struct TestDirectory(TempDir);

impl TestDirectory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Makes a pool, and in it the volume `disk`; the name of that as a target.
    pub(crate) fn volume(&self, pool: &str, size_bytes: u64, mode: DedupMode) -> String {
        let directory = self.path(pool);
        let options = PoolOptions { capacity_bytes: 1 << 30, ..PoolOptions::default() };
        Pool::create(&directory, &options).unwrap();
        let pool = open(&directory);
        pool.create_volume("disk", size_bytes, mode).unwrap();
        pool.close().unwrap();
        format!("pool:{}/disk", directory.display())
    }
}

pub(crate) fn open(directory: &Path) -> Pool {
    Pool::open(directory, Tuning::default(), Arc::new(SystemClock::new())).unwrap()
}

/// Runs gemelo with these words.
pub(crate) fn run(words: &str, more: &[&str]) -> Ran {
    let words: Vec<&str> = words.split_whitespace().chain(more.iter().copied()).collect();
    gemelo(&words)
}

/// Runs gemelo, which has to succeed; its result as JSON.
pub(crate) fn json(words: &str, more: &[&str]) -> serde_json::Value {
    let ran = run(words, &[more, &["--json", "-"]].concat());
    assert_eq!(ran.status, 0, "{words} {more:?}: {}{}", ran.out, ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

pub(crate) fn refused(words: &str, more: &[&str], part: &str) {
    failed(2, words, more, part);
}

pub(crate) fn in_use(words: &str, more: &[&str], part: &str) {
    failed(3, words, more, part);
}

fn failed(status: i32, words: &str, more: &[&str], part: &str) {
    let ran = run(words, more);
    assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{words} {more:?}: {}", ran.err);
    assert!(ran.err.contains(part), "{words} {more:?}: {}", ran.err);
}

/// A server of this program over the volume `disk` of a pool.
pub(crate) struct OwnServer {
    stop: StopFlag,
    serving: Option<JoinHandle<()>>,
    pub(crate) pool: Option<Pool>,
}

impl OwnServer {
    pub(crate) fn start(directory: &Path, socket: &Path, read_only: bool) -> Self {
        let pool = open(directory);
        let table = ExportTable::new();
        let mut export = Export::new("disk", Arc::new(pool.volume("disk").unwrap()));
        export.read_only = read_only;
        table.insert(export);
        let server = Server::new(Arc::new(table), ServerConfig::default(), Arc::new(Silent));
        let listener = Listener::bind(&ListenAddress::Unix(socket.to_owned())).unwrap();
        let stop = StopFlag::new();
        let stopped = stop.clone();
        let serving = std::thread::spawn(move || server.serve(vec![listener], &stopped).unwrap());
        Self { stop, serving: Some(serving), pool: Some(pool) }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// Another server, ended with the test.
pub(crate) struct OtherServer(Child);

impl OtherServer {
    /// Starts a program, and waits until it listens; `None`, said by name, if it is not installed.
    pub(crate) fn start(program: &str, arguments: &[&str], socket: &Path) -> Option<Self> {
        let started = Command::new(program).args(arguments).stderr(Stdio::null()).spawn();
        let Ok(child) = started else {
            gemelo_tools::missing(program);
            return None;
        };
        let server = Self(child);
        gemelo_tools::wait_until(&format!("{program} listens"), || socket.exists());
        Some(server)
    }
}

impl Drop for OtherServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
