//! The registry of a server's connections: counts them, knows their exports, and ends them.
//!
//! Each listener has limits of its own, so that the clients of one listener cannot exclude those of
//! another. Connections whose client has not selected an export have a separate limit. Beyond it,
//! the oldest of them is ended in favour of the newest.

use crate::socket::Socket;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Registry {
    max_connections: usize,
    max_handshakes: usize,
    connections: Mutex<Connections>,
    one_ended: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: BTreeMap<u64, Connection>,
    listeners: BTreeMap<usize, ListenerConnections>,
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct ListenerConnections {
    /// Connections whose clients have not selected an export. The oldest has the lowest number.
    half_open: BTreeSet<u64>,
    /// Number of half-open connections that were ended and have not left yet.
    dropped: usize,
    /// Number of connections whose clients have selected an export.
    established: usize,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    listener: usize,
    phase: Phase,
    /// `true` if the server ended it with [`Registry::drain`].
    is_drained: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    HalfOpen,
    Dropped,
    /// Holds the name of the export.
    Established(String),
}

impl Connection {
    fn has(&self, export: Option<&str>) -> bool {
        match (export, &self.phase) {
            (None, _) => true,
            (Some(export), Phase::Established(name)) => export == name,
            (Some(_), _) => false,
        }
    }
}

/// The result of registering a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// The connection has this number, which [`Registry::leave`] takes.
    Entered(u64),
    /// The connection has this number, and the oldest half-open connection was ended for it.
    Displacing(u64),
    /// The connection was refused, because there are too many.
    Full,
}

impl Registry {
    /// Makes a registry. Each listener has at most `max_connections` connections that have
    /// selected an export and `max_handshakes` that have not.
    pub(super) fn new(max_connections: usize, max_handshakes: usize) -> Self {
        let (connections, one_ended) = (Mutex::default(), Condvar::new());
        Self { max_connections, max_handshakes, connections, one_ended }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection that `listener` accepted.
    pub(super) fn enter(&self, socket: Socket, listener: usize) -> Registration {
        let mut connections = self.lock();
        let Connections { next_id, open, listeners } = &mut *connections;
        let place = listeners.entry(listener).or_default();
        // Dropped connections end soon, but take threads until then.
        if place.established >= self.max_connections || place.dropped >= self.max_handshakes {
            return Registration::Full;
        }
        let displaced = if place.half_open.len() >= self.max_handshakes {
            place.half_open.pop_first().and_then(|id| open.get_mut(&id))
        } else {
            None
        };
        let is_displacing = displaced.is_some();
        if let Some(displaced) = displaced {
            displaced.phase = Phase::Dropped;
            displaced.socket.end();
            place.dropped += 1;
        }
        let id = *next_id;
        *next_id += 1;
        place.half_open.insert(id);
        open.insert(id, Connection { socket, listener, phase: Phase::HalfOpen, is_drained: false });
        if is_displacing { Registration::Displacing(id) } else { Registration::Entered(id) }
    }

    /// Removes a connection.
    pub(super) fn leave(&self, id: u64) {
        let mut connections = self.lock();
        if let Some(Connection { listener, phase, .. }) = connections.open.remove(&id)
            && let Some(listener) = connections.listeners.get_mut(&listener)
        {
            match phase {
                Phase::HalfOpen => {
                    listener.half_open.remove(&id);
                }
                Phase::Dropped => {
                    assert!(listener.dropped > 0, "a dropped connection was counted");
                    listener.dropped -= 1;
                }
                Phase::Established(_) => {
                    assert!(listener.established > 0, "an established connection was counted");
                    listener.established -= 1;
                }
            }
        }
        drop(connections);
        self.one_ended.notify_all();
    }

    /// Records that the client of a connection has selected an export. Returns `false` if too many
    /// have.
    pub(super) fn establish(&self, id: u64, export: &str) -> bool {
        let mut connections = self.lock();
        let Connections { open, listeners, .. } = &mut *connections;
        let Some(connection) = open.get_mut(&id) else { return false };
        let Some(listener) = listeners.get_mut(&connection.listener) else { return false };
        match connection.phase {
            Phase::HalfOpen if listener.established < self.max_connections => {
                listener.half_open.remove(&id);
                listener.established += 1;
            }
            // The export was gone at the second look-up, and the client selects another one.
            Phase::Established(_) => {}
            Phase::HalfOpen | Phase::Dropped => return false,
        }
        connection.phase = Phase::Established(export.to_owned());
        true
    }

    /// Returns the number of connections to an export, or of all connections.
    pub(super) fn count(&self, export: Option<&str>) -> usize {
        self.lock().open.values().filter(|connection| connection.has(export)).count()
    }

    /// Ends the connections to an export, or all connections, once they have executed the requests
    /// that have arrived.
    pub(super) fn drain(&self, export: Option<&str>) {
        let mut connections = self.lock();
        for connection in connections.open.values_mut().filter(|open| open.has(export)) {
            connection.is_drained = true;
            connection.socket.end_receiving();
        }
    }

    /// Returns whether [`Self::drain`] has ended this connection.
    pub(super) fn is_drained(&self, id: u64) -> bool {
        self.lock().open.get(&id).is_some_and(|connection| connection.is_drained)
    }

    /// Ends all connections at once.
    pub(super) fn end_all(&self) {
        for connection in self.lock().open.values() {
            connection.socket.end();
        }
    }

    /// Waits until there are no connections, or until the time is up. Returns the number of
    /// connections left.
    pub(super) fn wait_until_empty(&self, most: Duration) -> usize {
        let connections = self.lock();
        let waited =
            self.one_ended.wait_timeout_while(connections, most, |all| !all.open.is_empty());
        let (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
        connections.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn socket() -> Socket {
        UnixStream::pair().unwrap().0.into()
    }

    #[test]
    fn of_too_many_half_open_connections_the_oldest_goes() {
        let registry = Registry::new(9, 2);
        assert_eq!(registry.enter(socket(), 0), Registration::Entered(0));
        assert_eq!(registry.enter(socket(), 0), Registration::Entered(1));
        assert!(registry.establish(0, "disk"));
        assert_eq!(registry.enter(socket(), 0), Registration::Entered(2));
        assert_eq!(registry.enter(socket(), 0), Registration::Displacing(3));
        assert!(!registry.establish(1, "disk"), "it was dropped");
        assert_eq!(registry.enter(socket(), 0), Registration::Displacing(4));
        // The two dropped connections have not ended yet.
        assert_eq!(registry.enter(socket(), 0), Registration::Full);
        assert_eq!(
            registry.enter(socket(), 1),
            Registration::Entered(5),
            "another listener does not notice"
        );
        registry.leave(1);
        assert_eq!(registry.enter(socket(), 0), Registration::Displacing(6));
        assert_eq!((registry.count(Some("disk")), registry.count(None)), (1, 6));
    }

    #[test]
    fn connections_with_an_export_are_limited_by_listener() {
        let registry = Registry::new(1, 9);
        for id in 0..3 {
            assert_eq!(registry.enter(socket(), usize::from(id == 2)), Registration::Entered(id));
        }
        assert!(registry.establish(0, "disk") && registry.establish(0, "other"));
        assert!(!registry.establish(1, "disk"));
        assert!(registry.establish(2, "disk"));
        assert_eq!(registry.enter(socket(), 0), Registration::Full);
        registry.leave(0);
        assert!(registry.establish(1, "disk"));
    }
}
