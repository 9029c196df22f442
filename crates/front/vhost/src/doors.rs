//! The sockets of exports: one for each, made and removed as exports come and go, and the virtual
//! machine that is connected to it.

use crate::client;
use crate::front_end::Shared;
use crate::guest::Guest;
use gemelo_base::{Clock, SystemClock};
use gemelo_device::{Export, MadeSocket, SocketAccess, listen_at_file};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Virtual machines that wait for a device that another one has.
const QUEUE_LENGTH: i32 = 4;

/// Longest time from the end of a connection to the end of its requests.
const LONGEST_END_NS: u64 = 60_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The socket of an export.
pub(crate) struct Door {
    /// Shared, because a process may have no file left for a copy.
    listener: Arc<UnixListener>,
    path: PathBuf,
    /// Removes the file when it is dropped.
    _made: MadeSocket,
    client: Option<Client>,
}

struct Client {
    guest: Arc<Guest>,
    has_ended: Arc<AtomicBool>,
}

impl Door {
    pub(crate) fn open(path: PathBuf, access: &SocketAccess) -> io::Result<Self> {
        let (listener, made) = listen_at_file(&path, access, QUEUE_LENGTH)?;
        Ok(Self { listener: Arc::new(listener), path, _made: made, client: None })
    }

    /// Returns the listener if no virtual machine is connected.
    pub(crate) fn free_listener(&self) -> Option<&Arc<UnixListener>> {
        self.client.is_none().then_some(&self.listener)
    }

    pub(crate) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Starts the thread of the virtual machine that waits.
    pub(crate) fn admit(&mut self, export: Export, shared: &Arc<Shared>) -> io::Result<()> {
        assert!(self.client.is_none(), "a device has one virtual machine");
        let listener = Arc::clone(&self.listener);
        let guest = Arc::new(Guest::new(export, shared.resources()));
        let has_ended = Arc::new(AtomicBool::new(false));
        let body = {
            let (guest, shared, ended) =
                (Arc::clone(&guest), Arc::clone(shared), Ended(Arc::clone(&has_ended)));
            let path = self.path.clone();
            move || {
                serve(&shared, guest, &listener, &path);
                // The thread has no part of the device any more.
                drop(ended);
            }
        };
        std::thread::Builder::new()
            .name("gemelo-vhost".into())
            .spawn(body)
            .map_err(gemelo_base::threads::refused)?;
        self.client = Some(Client { guest, has_ended });
        Ok(())
    }

    /// Forgets the virtual machine if it has left, and tells it of the size of its device if not.
    pub(crate) fn look(&mut self) {
        self.client.take_if(|client| client.has_ended());
        self.client.iter().for_each(|client| client.guest.tell_size());
    }

    /// Ends the connection, without a wait.
    pub(crate) fn end_connection(&self) {
        self.client.iter().for_each(|client| client.guest.end_connection());
    }

    /// Ends the connection, and waits until the requests in execution have ended and are flushed.
    /// Returns `false` if that takes too long from the origin of `clock` on: a virtual machine that
    /// shares memory of a file system of its own can delay all that touches it.
    #[must_use]
    pub(crate) fn close(mut self, clock: &SystemClock) -> bool {
        let Some(client) = self.client.take() else { return true };
        while !client.has_ended() && clock.now_ns() < LONGEST_END_NS {
            // A connection that is about to begin has no end yet.
            client.guest.end_connection();
            gemelo_base::pause(LOOK_EVERY);
        }
        client.has_ended()
    }
}

impl Client {
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// Serves a virtual machine until it leaves, and reports its end.
#[expect(clippy::needless_pass_by_value, reason = "the device is given up at the end")]
fn serve(shared: &Shared, guest: Arc<Guest>, listener: &UnixListener, path: &Path) {
    shared.count_accepted();
    let attached = || {
        if shared.is_stopping() {
            guest.end_connection();
        }
    };
    let served = client::serve(&guest, listener, attached);
    shared.tell_end(path, served, guest.requests());
}

/// Notes the end of a thread, also of one that panics.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The sockets by the names of their exports.
pub(crate) type Doors = BTreeMap<String, Door>;
