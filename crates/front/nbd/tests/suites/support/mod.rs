//! A server for tests, and the programs that tests need.

#[path = "../../doubles/gated.rs"]
pub(crate) mod gated;
#[path = "../../doubles/memory.rs"]
pub(crate) mod memory;
pub(crate) mod raw;

use gemelo_base::{Recorder, StopFlag};
use gemelo_device::{BlockDevice, Export, ExportTable};
use gemelo_nbd::client::{Client, NbdUri, ServerAddress};
use gemelo_nbd::server::{ListenAddress, Listener, ServeError, Server, ServerConfig};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server with a unix socket in a directory of its own.
pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) table: Arc<ExportTable>,
    pub(crate) heard: Arc<Recorder>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) addresses: Vec<ListenAddress>,
    stop: StopFlag,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
}

impl TestServer {
    /// Exports one device as `disk`.
    pub(crate) fn of(device: Arc<dyn BlockDevice>) -> Self {
        Self::start(vec![Export::new("disk", device)], ServerConfig::default(), &[])
    }

    pub(crate) fn start(
        exports: Vec<Export>,
        config: ServerConfig,
        more: &[ListenAddress],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let table = Arc::new(ExportTable::new());
        for export in exports {
            table.insert(export);
        }
        let heard = Arc::new(Recorder::new());
        let server = Server::new(Arc::clone(&table) as _, config, Arc::clone(&heard) as _);
        let mut wanted = vec![ListenAddress::Unix(directory.path().join("socket"))];
        wanted.extend_from_slice(more);
        let listeners: Vec<_> =
            wanted.iter().map(|address| Listener::bind(address).unwrap()).collect();
        let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
        let stop = StopFlag::new();
        let serving = {
            let (server, stop) = (server.clone(), stop.clone());
            std::thread::spawn(move || server.serve(listeners, &stop))
        };
        Self { server, table, heard, directory, addresses, stop, serving: Some(serving) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn uri_of(&self, name: &str) -> NbdUri {
        NbdUri { server: ServerAddress::Unix(self.socket()), name: name.to_owned(), tls: None }
    }

    pub(crate) fn uri(&self) -> String {
        self.uri_of("disk").to_string()
    }

    pub(crate) fn client(&self, depth: usize) -> Client {
        Client::connect(&self.uri_of("disk"), depth, PATIENCE).unwrap()
    }

    /// Asks the server to stop and waits until it has stopped.
    pub(crate) fn stop(&mut self) -> Result<(), ServeError> {
        self.stop.raise();
        self.serving.take().unwrap().join().unwrap()
    }

    pub(crate) fn raise_stop(&self) {
        self.stop.raise();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// Waits until the condition is true.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Finds a program that a test needs. Without it the test prints a line and ends. With
/// `GEMELO_REQUIRE_TOOLS` set, on machines where everything must be installed, it fails.
pub(crate) fn tool(name: &str) -> Option<Command> {
    let found = paths_of(name).into_iter().next();
    if found.is_none() {
        missing(name);
    }
    found.map(Command::new)
}

/// Finds a Python with the binding of libnbd. If several are installed, the system's has it.
pub(crate) fn python_with_libnbd() -> Option<Command> {
    let has_it = |path: &PathBuf| {
        Command::new(path).args(["-c", "import nbd"]).output().unwrap().status.success()
    };
    let found = paths_of("python3").into_iter().find(has_it);
    if found.is_none() {
        missing("python3-libnbd");
    }
    found.map(Command::new)
}

fn paths_of(name: &str) -> Vec<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .map(|directory| directory.join(name))
        .filter(|path| path.exists())
        .collect()
}

fn missing(name: &str) {
    assert!(std::env::var_os("GEMELO_REQUIRE_TOOLS").is_none(), "{name} is not installed");
    eprintln!("not tested: {name} is not installed");
}

/// Runs a program that must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", all_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn all_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Returns bytes that differ from place to place and depend only on the seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = gemelo_base::random::Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
