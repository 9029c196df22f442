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
pub(crate) use gemelo_tools::{all_of, bytes, python_with_libnbd, run, tool};
use std::path::PathBuf;
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
