//! A second front end beside NBD, which proves that a server of pools knows none of its protocols.
//!
//! Its protocol is the smallest one: a client sends the name of an export as a line, and the server
//! answers with the size of the export as a line.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use gemelo_base::{FailureKind, Monitor, Recorder, Silent, StopFlag, SystemClock};
use gemelo_device::{
    BlockDevice, ConnectError, DeviceError, Durability, Exports, Extent, FrontEnd, FrontEndError,
    FrontEndStats, Geometry, Listening, Operation, Request, Transfers,
};
use gemelo_format::DedupMode;
use gemelo_serve::{
    PoolAccess, PoolRequest, Purpose, Reply, RequestFailure, ServeOptions, Values, serve,
};
use gemelo_volume::{NewCopy, Pool, PoolOptions, Tuning};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The front end, configured.
#[derive(Clone)]
struct Sizes {
    socket: PathBuf,
    carries_transfers: bool,
    fails: bool,
}

struct ListeningSizes {
    configured: Sizes,
    listener: UnixListener,
    exports: Arc<dyn Exports>,
    accepted: AtomicU64,
}

/// Serves connections that commands hand over.
struct SizeTransfers(Arc<dyn Exports>);

fn answer(stream: &UnixStream, exports: &dyn Exports) {
    let mut name = String::new();
    BufReader::new(stream).read_line(&mut name).unwrap();
    let size = exports.find(name.trim_end()).map(|export| export.geometry().size_bytes);
    let answer = size.map_or("none".to_owned(), |size| size.to_string());
    writeln!(&*stream, "{answer}").unwrap();
}

fn ask(stream: &UnixStream, name: &str) -> String {
    writeln!(&*stream, "{name}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

impl FrontEnd for Sizes {
    fn check(&self) -> Result<(), FrontEndError> {
        match self.socket.parent().is_some_and(Path::is_dir) {
            true => Ok(()),
            false => Err(FrontEndError::refused("no such directory for the socket")),
        }
    }

    fn listen(
        self: Box<Self>,
        exports: Arc<dyn Exports>,
        _monitor: Arc<dyn Monitor>,
    ) -> Result<Arc<dyn Listening>, FrontEndError> {
        let listener = UnixListener::bind(&self.socket).map_err(FrontEndError::refused)?;
        listener.set_nonblocking(true).map_err(FrontEndError::refused)?;
        let accepted = AtomicU64::new(0);
        Ok(Arc::new(ListeningSizes { configured: *self, listener, exports, accepted }))
    }
}

impl Listening for ListeningSizes {
    fn addresses(&self) -> Vec<String> {
        vec![format!("sizes:{}", self.configured.socket.display())]
    }

    fn run(&self, stop: &StopFlag) -> Result<(), FrontEndError> {
        if self.configured.fails {
            return Err(FrontEndError::failed("the line is cut"));
        }
        while !stop.is_raised() {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                    stream.set_nonblocking(false).unwrap();
                    answer(&stream, &*self.exports);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(FrontEndError::failed(error)),
            }
        }
        Ok(())
    }

    fn connections(&self, export: Option<&str>) -> usize {
        usize::from(export == Some("busy"))
    }

    fn disconnect(&self, _export: &str) {}

    fn figures(&self) -> FrontEndStats {
        let accepted = self.accepted.load(Ordering::Relaxed);
        FrontEndStats { accepted, memory_limit_bytes: 4096, ..FrontEndStats::default() }
    }

    fn max_open_files(&self) -> u64 {
        2
    }

    fn transfers(&self, exports: Arc<dyn Exports>) -> Option<Arc<dyn Transfers>> {
        self.configured.carries_transfers.then(|| Arc::new(SizeTransfers(exports)) as _)
    }
}

impl Transfers for SizeTransfers {
    fn adopt(&self, stream: UnixStream, _peer: &str) {
        answer(&stream, &*self.0);
    }

    fn finish(&self) -> Result<(), FrontEndError> {
        Ok(())
    }
}

/// The device that the client's side makes of an answer.
struct Sized(u64);

impl BlockDevice for Sized {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.0,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 4096,
            read_only: true,
        }
    }

    fn execute(&self, _batch: &mut [Request<'_>]) {}

    fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(Vec::new())
    }
}

fn connect(stream: UnixStream, export: &str) -> Result<Arc<dyn BlockDevice>, ConnectError> {
    let answer = ask(&stream, export);
    drop(stream);
    let size = answer.parse().map_err(|_| ConnectError::NoSuchExport)?;
    Ok(Arc::new(Sized(size)))
}

/// A pool in a directory of its own, with the volumes `disk` and `busy` of 8 MiB.
struct TestPool {
    directory: tempfile::TempDir,
}

impl TestPool {
    fn new() -> Self {
        let pool = Self { directory: tempfile::tempdir().unwrap() };
        let options = PoolOptions { capacity_bytes: 64 << 20, ..PoolOptions::default() };
        Pool::create(&pool.path(), &options).unwrap();
        let clock = Arc::new(SystemClock::new());
        let open = Pool::open(&pool.path(), Tuning::default(), clock).unwrap();
        for name in ["disk", "busy"] {
            open.create_volume(name, 8 << 20, DedupMode::Inline).unwrap();
        }
        open.close().unwrap();
        pool
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("pool")
    }

    fn sizes(&self, name: &str) -> Sizes {
        let socket = self.directory.path().join(name);
        Sizes { socket, carries_transfers: false, fails: false }
    }

    /// Serves the pool by these front ends while `act` runs.
    fn serve(
        &self,
        front_ends: Vec<Sizes>,
        act: impl FnOnce(&[String]),
    ) -> Result<(), RequestFailure> {
        let made = move |_: &Values| -> Result<Vec<Box<dyn FrontEnd>>, RequestFailure> {
            Ok(front_ends.iter().map(|one| Box::new(one.clone()) as Box<dyn FrontEnd>).collect())
        };
        let (stop, monitor) = (StopFlag::new(), Arc::new(Recorder::new()));
        let (tell, told) = std::sync::mpsc::channel();
        let (path, flag) = (self.path(), stop.clone());
        let serving = std::thread::spawn(move || {
            let options = ServeOptions { front_ends: Box::new(made), ..ServeOptions::default() };
            serve(&path.as_path().into(), options, monitor, &flag, |addresses| {
                tell.send(addresses.clients.clone()).unwrap();
            })
        });
        if let Ok(addresses) = told.recv() {
            act(&addresses);
            stop.raise();
        }
        serving.join().unwrap()
    }

    fn access(&self) -> PoolAccess {
        PoolAccess::open(&self.path().as_path().into(), Purpose::Look, &Silent, &StopFlag::new())
            .unwrap()
    }
}

fn size_of(address: &str, name: &str) -> String {
    let socket = UnixStream::connect(address.strip_prefix("sizes:").unwrap()).unwrap();
    ask(&socket, name)
}

#[test]
fn two_front_ends_serve_one_pool_and_are_counted_together() {
    let pool = TestPool::new();
    let served = pool.serve(vec![pool.sizes("one"), pool.sizes("other")], |addresses| {
        assert_eq!(addresses.len(), 2);
        for address in addresses {
            assert_eq!(size_of(address, "disk"), "8388608");
            assert_eq!(size_of(address, "nothing"), "none");
        }
        let stat = pool.access().perform(&PoolRequest::Stat, &Silent, &StopFlag::new());
        let Ok(Reply::Stat(report)) = stat else { panic!("{stat:?}") };
        let server = report.server.unwrap();
        assert_eq!((server.accepted_connections, server.memory_limit_bytes), (4, 8192));
        // The volumes are in the order of their names, and each front end has one client of `busy`.
        let clients = report.volumes.iter().map(|volume| volume.connections);
        assert_eq!(clients.collect::<Vec<_>>(), [Some(2), Some(0)]);
    });
    served.unwrap();
}

#[test]
fn a_front_end_carries_the_data_of_volumes_or_says_that_it_cannot() {
    let pool = TestPool::new();
    let without = pool.serve(vec![pool.sizes("one")], |_| {
        let refused = pool.access().device("disk", connect).map(|_| ()).unwrap_err();
        assert!(
            refused.kind == FailureKind::BadInput && refused.text.contains("stop the server"),
            "{refused}"
        );
    });
    without.unwrap();
    let carrying = Sizes { carries_transfers: true, ..pool.sizes("two") };
    let with = pool.serve(vec![pool.sizes("three"), carrying], |_| {
        let device = pool.access().device("disk", connect).unwrap();
        assert_eq!(device.geometry().size_bytes, 8 << 20);
        let refused = pool.access().device("nothing", connect).map(|_| ()).unwrap_err();
        assert!(refused.text.ends_with("there is no volume 'nothing'"), "{refused}");
    });
    with.unwrap();
}

#[test]
fn a_front_end_that_is_refused_or_fails_ends_the_service() {
    let pool = TestPool::new();
    let nowhere = Sizes { socket: pool.path().join("missing/socket"), ..pool.sizes("one") };
    let refused = pool.serve(vec![nowhere], |_| panic!("it is served")).unwrap_err();
    assert!(
        refused.kind == FailureKind::BadInput && refused.text.contains("no such directory"),
        "{refused}"
    );
    let none = pool.serve(Vec::new(), |_| panic!("it is served")).unwrap_err();
    assert!(none.kind == FailureKind::BadInput && none.text.contains("no address"), "{none}");
    // The other front end would serve for ever.
    let failing = Sizes { fails: true, ..pool.sizes("two") };
    let failed = pool.serve(vec![pool.sizes("three"), failing], |_| {
        while pool.path().join("control").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let failed = failed.unwrap_err();
    assert!(failed.kind == FailureKind::Failed && failed.text == "the line is cut", "{failed}");
}

#[test]
fn a_server_tells_the_progress_of_a_stream_by_what_it_sends() {
    let pool = TestPool::new();
    let clock = Arc::new(SystemClock::new());
    let open = Pool::open(&pool.path(), Tuning::default(), clock).unwrap();
    let data: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_le_bytes).collect();
    let durability = Durability::Flushed;
    let operation = Operation::Write { offset: 2 << 20, data: &data, durability };
    let mut batch = vec![Request { operation, outcome: Ok(()) }];
    open.volume("disk").unwrap().execute(&mut batch);
    batch.into_iter().for_each(|request| request.outcome.unwrap());
    open.close().unwrap();
    let served = pool.serve(vec![pool.sizes("one")], |_| {
        let copy = NewCopy { source: "disk".to_owned(), name: "s".to_owned() };
        let request = PoolRequest::SnapshotVolumes { copies: vec![copy] };
        pool.access().perform(&request, &Silent, &StopFlag::new()).unwrap();
        let (recorder, mut stream) = (Recorder::new(), Vec::new());
        let told = (&recorder as &dyn Monitor, &StopFlag::new());
        let sent = pool.access().send(("s", None, None), &mut stream, None, told).unwrap();
        assert_eq!(sent.stream_bytes, stream.len() as u64);
        assert_eq!(recorder.phases(), ["Sending"]);
        assert_eq!((recorder.total(), recorder.advanced()), (1 << 20, 1 << 20));
    });
    served.unwrap();
}
