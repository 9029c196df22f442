//! vhost-user-blk as a front end of a server of exports: a directory with a socket for each export.

use crate::client::{ADMIT_PAUSE, ClientError};
use crate::doors::{Door, Doors};
use crate::guest::Resources;
use gemelo_base::ShowPath as _;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_device::{
    Exports, FrontEnd, FrontEndError, FrontEndStats, Helpers, Listening, Memory, SocketAccess,
    Transfers,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time after which the list of exports and the stop flag are looked at again.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Most threads beside those of queues. They execute requests that complete later.
const MAX_HELPERS: usize = 128;

/// Most reports about virtual machines in a minute.
const MAX_REPORTS: u64 = 20;
const MINUTE_NS: u64 = 60_000_000_000;

/// Files that a connection has open: itself three times, the channel for notices twice, four for
/// each of 16 queues, the memory of the guest, and the region for requests in flight.
const FILES_OF_CLIENT: u64 = 3 + 2 + 4 * 16 + 32 + 1;

/// The report on a virtual machine whose requests do not end with its connection.
const NOT_ENDED: &str = "requests of a virtual machine do not end";

/// Ending of the names of sockets.
const ENDING: &str = ".sock";

/// Longest path of a socket: 108 bytes with the zero at its end (unix(7)). Programs that connect
/// have the same limit, so there is no way around it.
const MAX_PATH_BYTES: usize = 107;

/// vhost-user-blk with its directory.
#[derive(Debug)]
pub struct VhostFrontEnd {
    /// An existing directory for the sockets. The socket of the export `disk` is `disk.sock`.
    pub directory: PathBuf,
    /// Permissions of the sockets.
    pub socket_access: SocketAccess,
    /// The memory for the data of the requests of all virtual machines.
    pub memory: Memory,
    /// `true` if every change has to be durable before it is acknowledged.
    pub write_through: bool,
    /// `true` to log each virtual machine that connects and leaves.
    pub log_connections: bool,
}

impl VhostFrontEnd {
    fn path_of(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}{ENDING}"))
    }

    fn length_of_path(&self, name: &str) -> usize {
        self.path_of(name).as_os_str().len()
    }

    /// Returns the reason why no socket in the directory can have the name of this export.
    fn unservable(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            return Some("its name cannot be a part of a path: rename it".to_owned());
        }
        let length = self.length_of_path(name);
        (length > MAX_PATH_BYTES).then(|| {
            format!(
                "the path of its socket would have {length} bytes, and the system takes \
                 {MAX_PATH_BYTES}: rename it, or give a directory with a shorter path"
            )
        })
    }
}

impl FrontEnd for VhostFrontEnd {
    fn check(&self) -> Result<(), FrontEndError> {
        let directory = &self.directory;
        let is_directory = std::fs::metadata(directory)
            .map_err(|error| FrontEndError::refused(format!("{}: {error}", directory.shown())))?
            .is_dir();
        if !is_directory {
            let text = format!("{}: not a directory, and sockets need one", directory.shown());
            return Err(FrontEndError::refused(text));
        }
        // The shortest name of a volume.
        let shortest = self.length_of_path("v");
        if shortest > MAX_PATH_BYTES {
            let text = format!(
                "{}: too long for the paths of sockets, which have up to {MAX_PATH_BYTES} bytes: \
                 give a directory with a shorter path",
                directory.shown()
            );
            return Err(FrontEndError::refused(text));
        }
        Ok(())
    }

    fn listen(
        self: Box<Self>,
        exports: Arc<dyn Exports>,
        monitor: Arc<dyn Monitor>,
    ) -> Result<Arc<dyn Listening>, FrontEndError> {
        let shared = Arc::new(Shared {
            configured: *self,
            helpers: Arc::new(Helpers::new(MAX_HELPERS)),
            monitor,
            clock: SystemClock::new(),
            reports: Mutex::default(),
            accepted: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        });
        let listening =
            VhostListening { shared, exports, doors: Mutex::default(), closing: Mutex::default() };
        let mut doors = listening.lock();
        for name in listening.exports.names() {
            // Such a volume is left out alone. Following the exports warns of it.
            if listening.shared.configured.unservable(&name).is_some() {
                continue;
            }
            let door = listening.shared.open(&name).map_err(|error| {
                let path = listening.shared.path_of(&name);
                let text = format!("cannot listen at {}: {error}", path.shown());
                match error.kind() {
                    io::ErrorKind::AddrInUse => FrontEndError::InUse(text.into()),
                    _ => FrontEndError::refused(text),
                }
            })?;
            doors.insert(name, door);
        }
        drop(doors);
        Ok(Arc::new(listening))
    }
}

/// The state that the threads of all virtual machines share.
pub(crate) struct Shared {
    configured: VhostFrontEnd,
    helpers: Arc<Helpers>,
    monitor: Arc<dyn Monitor>,
    clock: SystemClock,
    reports: Mutex<Reports>,
    accepted: AtomicU64,
    broken: AtomicU64,
    is_stopping: AtomicBool,
}

/// The reports of a minute.
#[derive(Default)]
struct Reports {
    minute: u64,
    told: u64,
}

impl Shared {
    /// Returns the resources of a virtual machine.
    pub(crate) fn resources(&self) -> Resources {
        Resources {
            memory: self.configured.memory.clone(),
            helpers: Arc::clone(&self.helpers),
            write_through: self.configured.write_through,
        }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.configured.path_of(name)
    }

    fn open(&self, name: &str) -> io::Result<Door> {
        Door::open(self.path_of(name), &self.configured.socket_access)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(crate) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports how the connection of a virtual machine ended.
    pub(crate) fn tell_end(&self, path: &Path, served: Result<(), ClientError>, requests: u64) {
        let path = path.shown();
        match served {
            Ok(()) if self.configured.log_connections => {
                self.tell(|monitor| {
                    monitor.log(&format!("{path}: the client left after {requests} requests"));
                });
            }
            Ok(()) => {}
            Err(error) => {
                self.broken.fetch_add(1, Ordering::Relaxed);
                let cause = std::error::Error::source(&error);
                let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                self.tell(|monitor| monitor.warn(&format!("{path}: {error}{cause}")));
            }
        }
    }

    /// Reports something, unless much was reported in this minute.
    fn tell(&self, report: impl FnOnce(&dyn Monitor)) {
        let minute = self.clock.now_ns() / MINUTE_NS;
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.minute != minute {
            *reports = Reports { minute, told: 0 };
        }
        reports.told += 1;
        if reports.told <= MAX_REPORTS {
            report(&*self.monitor);
        }
    }
}

struct VhostListening {
    shared: Arc<Shared>,
    exports: Arc<dyn Exports>,
    doors: Mutex<Doors>,
    /// Exports whose sockets are being closed. None of them is opened again before that has ended,
    /// because the file is still there.
    closing: Mutex<BTreeSet<String>>,
}

impl VhostListening {
    fn lock(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the sockets of new exports, closes those of removed ones, and forgets virtual machines
    /// that have left.
    fn follow_exports(&self, refused: &mut BTreeSet<String>) {
        let names: BTreeSet<String> = self.exports.names().into_iter().collect();
        let doors = self.lock();
        let gone: Vec<String> =
            doors.keys().filter(|name| !names.contains(*name)).cloned().collect();
        drop(doors);
        gone.iter().for_each(|name| self.close(name));
        let mut doors = self.lock();
        refused.retain(|name| names.contains(name));
        for name in names {
            if doors.contains_key(&name)
                || refused.contains(&name)
                || self.closing().contains(&name)
            {
                continue;
            }
            if let Some(reason) = self.shared.configured.unservable(&name) {
                // Once for each name, so the limit of reports is for others.
                let text = format!("volume '{name}' is not served by vhost-user: {reason}");
                self.shared.monitor.warn(&text);
                refused.insert(name);
                continue;
            }
            match self.shared.open(&name) {
                Ok(door) => {
                    doors.insert(name, door);
                }
                Err(error) => {
                    let path = self.shared.path_of(&name);
                    self.shared.tell(|monitor| {
                        monitor.warn(&format!("cannot listen at {}: {error}", path.shown()));
                    });
                    refused.insert(name);
                }
            }
        }
        doors.values_mut().for_each(Door::look);
    }

    /// Closes the socket of an export, if it has one.
    fn close(&self, name: &str) {
        let mut doors = self.lock();
        let Some(door) = doors.remove(name) else { return };
        self.closing().insert(name.to_owned());
        drop(doors);
        let has_ended = door.close(&SystemClock::new());
        self.closing().remove(name);
        if !has_ended {
            self.shared.tell(|monitor| monitor.warn(&format!("{name}: {NOT_ENDED}")));
        }
    }

    /// Lets the virtual machine in that waits for an export.
    fn admit(&self, name: &str) {
        let Some(export) = self.exports.find(name) else { return };
        let mut doors = self.lock();
        let Some(door) = doors.get_mut(name).filter(|door| !door.has_client()) else { return };
        if let Err(error) = door.admit(export, &self.shared) {
            self.shared.tell(|monitor| monitor.warn(&format!("{name}: no client: {error}")));
            drop(doors);
            gemelo_base::pause(ADMIT_PAUSE);
        } else if self.shared.configured.log_connections {
            let path = self.shared.path_of(name);
            self.shared.tell(|monitor| monitor.log(&format!("{}: a client", path.shown())));
        }
    }

    /// Lets virtual machines in until `stop` is raised.
    fn serve(&self, stop: &StopFlag) -> io::Result<()> {
        let mut refused = BTreeSet::new();
        while !stop.is_raised() {
            self.follow_exports(&mut refused);
            self.wait()?.iter().for_each(|name| self.admit(name));
        }
        Ok(())
    }

    /// Waits for virtual machines. Returns the names of the exports at whose sockets one waits.
    fn wait(&self) -> io::Result<Vec<String>> {
        let mut listeners = Vec::new();
        for (name, door) in &*self.lock() {
            if let Some(listener) = door.free_listener() {
                listeners.push((name.clone(), Arc::clone(listener)));
            }
        }
        let mut waited_for: Vec<_> =
            listeners.iter().map(|(_, listener)| PollFd::new(listener, PollFlags::IN)).collect();
        match poll(&mut waited_for, Some(&LOOK_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready: Vec<bool> =
            waited_for.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect();
        let ready = listeners.into_iter().zip(is_ready).filter(|(_, is_ready)| *is_ready);
        Ok(ready.map(|((name, _), _)| name).collect())
    }
}

impl Listening for VhostListening {
    fn addresses(&self) -> Vec<String> {
        vec![format!("vhost-user:{}", self.shared.configured.directory.shown())]
    }

    fn run(&self, stop: &StopFlag) -> Result<(), FrontEndError> {
        let served = self.serve(stop);
        self.shared.is_stopping.store(true, Ordering::Release);
        let doors = std::mem::take(&mut *self.lock());
        // They end side by side: a service manager does not wait for one after the other.
        doors.values().for_each(Door::end_connection);
        let clock = SystemClock::new();
        let ended: Vec<bool> = doors.into_values().map(|door| door.close(&clock)).collect();
        if !ended.into_iter().all(|has_ended| has_ended) {
            return Err(FrontEndError::failed(NOT_ENDED));
        }
        served.map_err(FrontEndError::failed)
    }

    fn connections(&self, export: Option<&str>) -> usize {
        let doors = self.lock();
        let counted = doors.iter().filter(|(name, _)| export.is_none_or(|wanted| wanted == *name));
        counted.filter(|(_, door)| door.has_client()).count()
    }

    fn disconnect(&self, export: &str) {
        self.close(export);
    }

    fn figures(&self) -> FrontEndStats {
        FrontEndStats {
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            refused: 0,
            broken: self.shared.broken.load(Ordering::Relaxed),
            memory_bytes: self.shared.configured.memory.used_bytes() as u64,
            memory_limit_bytes: self.shared.configured.memory.limit_bytes() as u64,
        }
    }

    fn max_open_files(&self) -> u64 {
        self.lock().len() as u64 * (1 + FILES_OF_CLIENT)
    }

    /// The protocol needs shared memory.
    fn transfers(&self, _exports: Arc<dyn Exports>) -> Option<Arc<dyn Transfers>> {
        None
    }
}
