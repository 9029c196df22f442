//! A PostgreSQL cluster: its programs, its server process, and the clients that commit to it.

use crate::support::PATIENCE;
use gemelo_tools::{all_of, missing, run, tool};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The user `nobody`, because PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;
const PROGRAMS: [&str; 6] = ["initdb", "postgres", "psql", "pgbench", "pg_amcheck", "pg_checksums"];
/// Small buffers and a short log make PostgreSQL write pages and take checkpoints all the time.
/// Removed log files, instead of reused ones, make the file system trim.
const SETTINGS: [&str; 9] = [
    "listen_addresses=",
    "shared_buffers=4MB",
    "min_wal_size=2MB",
    "max_wal_size=4MB",
    "wal_recycle=off",
    "max_connections=20",
    "log_checkpoints=on",
    "fsync=on",
    "synchronous_commit=on",
];

/// Interval between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// A cluster's files, and how its programs are run. All that is kept lies in `data`.
pub(crate) struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    /// The directory of the socket and of the logs.
    directory: PathBuf,
}

/// The directory of PostgreSQL's programs: in the path, or the newest of Debian's.
pub(crate) fn programs() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
    versions
        .sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    directories.extend(versions.into_iter().rev().map(|version| version.join("bin")));
    let found = directories
        .into_iter()
        .find(|directory| PROGRAMS.iter().all(|name| directory.join(name).exists()));
    if found.is_none() {
        missing("PostgreSQL, with pgbench and pg_amcheck");
    }
    found
}

impl Cluster {
    /// Makes a cluster with checksums in `data`.
    pub(crate) fn create(programs: PathBuf, data: PathBuf, directory: PathBuf) -> Self {
        for directory in [&data, &directory] {
            fs::create_dir_all(directory).unwrap();
            chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let cluster = Self { programs, data, directory };
        // Log segments of 1 MiB allow the short log.
        run(cluster
            .program("initdb")
            .args(["--data-checksums", "--wal-segsize=1", "--no-sync", "--auth=trust"])
            .args(["--username=postgres", "--encoding=UTF8", "--no-locale", "--pgdata"])
            .arg(&cluster.data));
        // One sync of all takes a tenth of the time of a sync of each file.
        run(tool("sync").unwrap().arg("--file-system").arg(&cluster.data));
        cluster
    }

    /// A program, run as a user that PostgreSQL accepts and with nothing from this environment.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.uid(NOBODY).gid(NOBODY).current_dir("/").env_clear();
        command.envs([("LC_ALL", "C"), ("PGUSER", "postgres"), ("PGDATABASE", "postgres")]);
        command.env("PGHOST", &self.directory).stdin(Stdio::null());
        command
    }

    fn log(&self, name: &str) -> File {
        let path = self.directory.join(name);
        File::options().create(true).append(true).open(path).unwrap()
    }

    fn psql(&self) -> Command {
        let mut command = self.program("psql");
        command.args(["--no-psqlrc", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        command
    }

    /// Runs statements; gives the rows, columns separated by `|`.
    pub(crate) fn sql(&self, statements: &str) -> String {
        run(self.psql().args(["--quiet", "--command", statements])).trim().to_owned()
    }

    /// A number that a query gives.
    pub(crate) fn number(&self, query: &str) -> u64 {
        self.sql(query).parse().unwrap()
    }

    /// The tables of pgbench and of the committers, and what the checks need.
    pub(crate) fn prepare(&self) {
        run(self.program("pgbench").args(["--initialize", "--quiet"]));
        self.sql("CREATE EXTENSION amcheck");
        self.sql(NUMBERED);
    }

    /// Clients that commit pgbench's transactions until the cluster is gone.
    pub(crate) fn load(&self, seed: u64) -> Load {
        let mut command = self.program("pgbench");
        command.args(["--no-vacuum", "--client=4", "--time=3600"]);
        command.arg(format!("--random-seed={seed}"));
        let log = self.log("pgbench.log");
        Load(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// All tables and indexes are whole, and agree.
    pub(crate) fn check_relations(&self) {
        let mut command = self.program("pg_amcheck");
        command.args(["--heapallindexed", "--parent-check", "--rootdescend"]);
        let output = command.output().unwrap();
        let said = all_of(&output);
        assert!(output.status.success() && said.is_empty(), "pg_amcheck: {said}");
    }

    /// Every page has the checksum that was written. The cluster has to be stopped.
    pub(crate) fn check_pages(&self) {
        run(self.program("pg_checksums").arg("--check").arg("--pgdata").arg(&self.data));
    }

    /// Starts the server, which recovers what it finds, and waits until it answers.
    pub(crate) fn start(&self) -> Postmaster {
        // A killed cluster leaves this file. The process that it names has ended, and its number
        // may have been given to another.
        let _ = fs::remove_file(self.data.join("postmaster.pid"));
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.directory);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let log = || self.log("postgres.log");
        let child = command.stdout(log()).stderr(log()).spawn().unwrap();
        let mut postmaster = Postmaster { child, log: self.directory.join("postgres.log") };
        wait_until("PostgreSQL answers", || {
            assert!(postmaster.child.try_wait().unwrap().is_none(), "PostgreSQL does not start");
            self.psql().args(["--command", "SELECT 1"]).output().unwrap().status.success()
        });
        postmaster
    }
}

/// Waits for something that happens soon.
pub(crate) fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// The server of a cluster.
pub(crate) struct Postmaster {
    child: Child,
    log: PathBuf,
}

impl Postmaster {
    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Everything is written and the cluster is marked as stopped.
    pub(crate) fn stop(mut self) {
        self.signal(rustix::process::Signal::INT);
        wait_until("PostgreSQL stops", || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends all its processes without writing anything. It may have ended by itself.
    pub(crate) fn abandon(mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal(rustix::process::Signal::QUIT);
        }
        wait_until("PostgreSQL ends", || self.child.try_wait().unwrap().is_some());
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Its children end when it asks them to, and not when it is killed at once.
            self.signal(rustix::process::Signal::QUIT);
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(PAUSE);
            }
            let _ = (self.child.kill(), self.child.wait());
        }
        if std::thread::panicking() {
            eprintln!("PostgreSQL said:\n{}", last_lines(&self.log, 60));
        }
    }
}

fn last_lines(path: &Path, count: usize) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A running pgbench.
pub(crate) struct Load(Child);

impl Load {
    /// Waits for its end, which only the end of the cluster brings.
    pub(crate) fn wait(mut self) {
        wait_until("pgbench ends", || self.0.try_wait().unwrap().is_some());
        assert!(!self.0.wait().unwrap().success(), "pgbench lost its server");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// A client that commits numbers one after another and notes those that were acknowledged.
pub(crate) struct Committer {
    psql: Child,
    thread: Option<JoinHandle<()>>,
    acknowledged: Arc<AtomicU64>,
}

/// The table of committers. The text shows which row it was written for.
const NUMBERED: &str = "CREATE TABLE numbered \
    (committer int, number bigint, text text, PRIMARY KEY (committer, number))";
/// Of a committer: how many rows, the last number, and how many rows have another's text.
pub(crate) const COMMITTED: &str = "SELECT count(*), coalesce(max(number), 0), \
    count(*) FILTER (WHERE text <> repeat(md5(committer || '/' || number), 8)) FROM numbered";

impl Committer {
    /// Commits the numbers after `last` until the cluster is gone.
    pub(crate) fn start(cluster: &Cluster, committer: u64, last: u64) -> Self {
        let mut command = cluster.psql();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(cluster.log("psql.log"));
        let mut psql = command.spawn().unwrap();
        let mut statements = psql.stdin.take().unwrap();
        let mut answers = BufReader::new(psql.stdout.take().unwrap()).lines();
        let acknowledged = Arc::new(AtomicU64::new(last));
        let note = Arc::clone(&acknowledged);
        let thread = std::thread::spawn(move || {
            for number in last + 1.. {
                let statement = format!(
                    "INSERT INTO numbered VALUES ({committer}, {number}, \
                     repeat(md5('{committer}/{number}'), 8));\n"
                );
                let sent = statements.write_all(statement.as_bytes());
                // The server tells of the end of a statement after it has committed it.
                match (sent, answers.next()) {
                    (Ok(()), Some(Ok(answer))) if answer == "INSERT 0 1" => {
                        note.store(number, Ordering::Release);
                    }
                    _ => return,
                }
            }
        });
        Self { psql, thread: Some(thread), acknowledged }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Waits for its end, which the end of the cluster brings; gives the last number that was
    /// acknowledged.
    pub(crate) fn wait(mut self) -> u64 {
        wait_until("psql ends", || self.psql.try_wait().unwrap().is_some());
        self.thread.take().unwrap().join().unwrap();
        self.acknowledged()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        let _ = (self.psql.kill(), self.psql.wait());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
