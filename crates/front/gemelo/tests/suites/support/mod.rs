//! A pool in a directory of its own, `gemelo serve` as a separate process, and the programs that
//! tests run with it.

pub(crate) mod kernel;
pub(crate) mod mount;

use gemelo_base::SystemClock;
use gemelo_format::{DedupMode, FingerprintKind, Policy};
use gemelo_nbd::client::{Client, NbdUri, ServerAddress};
pub(crate) use gemelo_tools::bytes;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MIB: u64 = 1 << 20;

/// A pool of small files.
pub(crate) fn small(capacity_bytes: u64) -> PoolOptions {
    PoolOptions { capacity_bytes, ..PoolOptions::default() }
}

/// Every kind of fingerprint, of policy and of mode, and blocks of several sizes, with a name for
/// messages.
pub(crate) fn kinds(capacity_bytes: u64) -> Vec<(&'static str, PoolOptions, DedupMode)> {
    use FingerprintKind as Kind;
    let of = |block_bytes, fingerprint, policy| PoolOptions {
        block_bytes,
        fingerprint,
        policy,
        ..small(capacity_bytes)
    };
    vec![
        ("blake3", of(4096, Kind::Blake3, Policy::Compact), DedupMode::Inline),
        (
            "xxh3 with comparison, small blocks, dtb",
            of(512, Kind::Xxh3Compare, Policy::Dtb),
            DedupMode::Inline,
        ),
        ("sha256, large blocks, inram", of(65536, Kind::Sha256, Policy::InRam), DedupMode::Inline),
        ("sha1, cbt", of(4096, Kind::Sha1, Policy::Cbt), DedupMode::Inline),
        ("off", of(4096, Kind::Blake3, Policy::Compact), DedupMode::Off),
        ("offline", of(4096, Kind::Blake3, Policy::Cbt), DedupMode::Offline),
    ]
}

/// A pool that lasts as long as the test.
pub(crate) struct TestPool {
    pub(crate) directory: tempfile::TempDir,
}

impl TestPool {
    /// A pool with volumes: their names, sizes and modes.
    pub(crate) fn new(options: &PoolOptions, volumes: &[(&str, u64, DedupMode)]) -> Self {
        let directory = tempfile::Builder::new().prefix("gemelo-").tempdir().unwrap();
        let pool = Self { directory };
        Pool::create(&pool.path(), options).unwrap();
        pool.change(|open| {
            for (name, size_bytes, mode) in volumes {
                open.create_volume(name, *size_bytes, *mode).unwrap();
            }
        });
        pool
    }

    /// Does something to the pool while it is not served.
    pub(crate) fn change(&self, change: impl FnOnce(&Pool)) {
        let open =
            Pool::open(&self.path(), Tuning::default(), Arc::new(SystemClock::new())).unwrap();
        change(&open);
        open.close().unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("pool")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.file("socket")
    }

    /// The URI of a volume, as every program takes it.
    pub(crate) fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.socket().display())
    }

    pub(crate) fn client(&self, volume: &str, depth: usize) -> Client {
        let server = ServerAddress::Unix(self.socket());
        Client::connect(&NbdUri { server, name: volume.to_owned(), tls: None }, depth, PATIENCE)
            .unwrap()
    }

    /// Proves that the pool is what it should be, contents included. Nobody may have it.
    pub(crate) fn check(&self) {
        gemelo_tools::run(
            Command::new(env!("CARGO_BIN_EXE_gemelo"))
                .args(["pool", "check", "--data"])
                .arg(self.path()),
        );
    }

    /// Serves it, and waits until that is so.
    pub(crate) fn serve(&self) -> Served {
        self.serve_with(&[])
    }

    /// Serves it with further options, and waits until that is so.
    pub(crate) fn serve_with(&self, options: &[&str]) -> Served {
        let mut served = Served::start_with(&self.path(), &self.socket(), options);
        served.wait_until_ready();
        served
    }
}

/// A `gemelo serve` of its own.
pub(crate) struct Served {
    child: Child,
    /// Its output on standard error.
    log: PathBuf,
}

impl Served {
    /// Starts it without waiting.
    pub(crate) fn start(pool: &Path, socket: &Path) -> Self {
        Self::start_with(pool, socket, &[])
    }

    fn start_with(pool: &Path, socket: &Path, options: &[&str]) -> Self {
        let log = socket.with_extension("log");
        let child = Command::new(env!("CARGO_BIN_EXE_gemelo"))
            .arg("serve")
            .arg(pool)
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .expect("the binary was built");
        Self { child, log }
    }

    /// Waits until it says that it listens.
    pub(crate) fn wait_until_ready(&mut self) {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening at"), "the server says: '{line}'");
    }

    /// Waits until clients are connected: each has a thread.
    pub(crate) fn wait_for_clients(&self, count: usize) {
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_client = |path: PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "nbd\n")
        };
        let begun = Instant::now();
        while std::fs::read_dir(&tasks)
            .unwrap()
            .filter(|task| is_client(task.as_ref().unwrap().path()))
            .count()
            < count
        {
            assert!(begun.elapsed() < PATIENCE, "no client in time");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process without any warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, as an administrator does; it has to succeed.
    pub(crate) fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "the server said:\n{}",
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

/// A number from the environment, for longer runs; otherwise this one.
pub(crate) fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// A disk image as there are many: stretches of data, of zeros, and of data that was there before.
pub(crate) fn image(seed: u64, length: u64) -> Vec<u8> {
    let mut image = bytes(seed, length as usize);
    let eighth = (length / 8) as usize;
    image[eighth..2 * eighth].fill(0);
    image.copy_within(2 * eighth..3 * eighth, 4 * eighth);
    image[6 * eighth..7 * eighth].fill(0);
    image
}
