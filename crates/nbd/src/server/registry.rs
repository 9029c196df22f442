//! The connections that a server has: how many, to which exports, and how to end them.
//!
//! Each listener has limits of its own, so that clients of one keep nobody out of another. Connections whose client has
//! not chosen an export are limited apart from the others: of too many, the oldest is ended in favour of the newest.

use crate::socket::Socket;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// All connections.
#[derive(Debug)]
pub(super) struct Registry {
    most_connections: usize,
    most_handshakes: usize,
    connections: Mutex<Connections>,
    one_ended: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: BTreeMap<u64, Connection>,
    gates: BTreeMap<usize, Gate>,
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct Gate {
    /// Their clients have not chosen an export. The oldest has the lowest number.
    half_open: BTreeSet<u64>,
    /// How many were half open, and are ending.
    dropped: usize,
    /// How many have chosen an export.
    established: usize,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    gate: usize,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    HalfOpen,
    Dropped,
    /// With the export's name.
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

/// How a connection was let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Under this number, to be given to [`Registry::leave`].
    Entered(u64),
    /// As above, and the oldest half-open connection was ended for it.
    Displacing(u64),
    /// Not at all: there are too many.
    Full,
}

impl Registry {
    /// For each listener, at most this many connections that have chosen an export, and that have not.
    pub(super) fn new(most_connections: usize, most_handshakes: usize) -> Self {
        let (connections, one_ended) = (Mutex::default(), Condvar::new());
        Self { most_connections, most_handshakes, connections, one_ended }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection of the listener with this number.
    pub(super) fn enter(&self, socket: Socket, gate: usize) -> Entry {
        let mut connections = self.lock();
        let Connections { next_id, open, gates } = &mut *connections;
        let place = gates.entry(gate).or_default();
        // Dropped ones end soon. Until they have, they take threads.
        if place.established >= self.most_connections || place.dropped >= self.most_handshakes {
            return Entry::Full;
        }
        let displaced = if place.half_open.len() >= self.most_handshakes {
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
        open.insert(id, Connection { socket, gate, phase: Phase::HalfOpen });
        if is_displacing { Entry::Displacing(id) } else { Entry::Entered(id) }
    }

    /// Takes a connection out.
    pub(super) fn leave(&self, id: u64) {
        let mut connections = self.lock();
        if let Some(Connection { gate, phase, .. }) = connections.open.remove(&id)
            && let Some(gate) = connections.gates.get_mut(&gate)
        {
            match phase {
                Phase::HalfOpen => {
                    gate.half_open.remove(&id);
                }
                Phase::Dropped => gate.dropped -= 1,
                Phase::Established(_) => gate.established -= 1,
            }
        }
        drop(connections);
        self.one_ended.notify_all();
    }

    /// A connection's client has chosen an export; `false` if there are too many that have.
    pub(super) fn establish(&self, id: u64, export: &str) -> bool {
        let mut connections = self.lock();
        let Connections { open, gates, .. } = &mut *connections;
        let Some(connection) = open.get_mut(&id) else { return false };
        let Some(gate) = gates.get_mut(&connection.gate) else { return false };
        match connection.phase {
            Phase::HalfOpen if gate.established < self.most_connections => {
                gate.half_open.remove(&id);
                gate.established += 1;
            }
            // The export was gone when it was looked up again, and another one is chosen.
            Phase::Established(_) => {}
            Phase::HalfOpen | Phase::Dropped => return false,
        }
        connection.phase = Phase::Established(export.to_owned());
        true
    }

    /// How many connections there are, to one export or at all.
    pub(super) fn count(&self, export: Option<&str>) -> usize {
        self.lock().open.values().filter(|connection| connection.has(export)).count()
    }

    /// Has connections end when they have done what arrived: those of one export, or all.
    pub(super) fn drain(&self, export: Option<&str>) {
        for connection in self.lock().open.values().filter(|connection| connection.has(export)) {
            connection.socket.end_receiving();
        }
    }

    /// Ends all connections, done or not.
    pub(super) fn end_all(&self) {
        for connection in self.lock().open.values() {
            connection.socket.end();
        }
    }

    /// Waits until there are no connections, or the time is up; tells how many are left.
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
        assert_eq!(registry.enter(socket(), 0), Entry::Entered(0));
        assert_eq!(registry.enter(socket(), 0), Entry::Entered(1));
        assert!(registry.establish(0, "disk"));
        assert_eq!(registry.enter(socket(), 0), Entry::Entered(2));
        assert_eq!(registry.enter(socket(), 0), Entry::Displacing(3));
        assert!(!registry.establish(1, "disk"), "it was dropped");
        assert_eq!(registry.enter(socket(), 0), Entry::Displacing(4));
        // Two that were dropped have not ended.
        assert_eq!(registry.enter(socket(), 0), Entry::Full);
        assert_eq!(
            registry.enter(socket(), 1),
            Entry::Entered(5),
            "another listener does not notice"
        );
        registry.leave(1);
        assert_eq!(registry.enter(socket(), 0), Entry::Displacing(6));
        assert_eq!((registry.count(Some("disk")), registry.count(None)), (1, 6));
    }

    #[test]
    fn connections_with_an_export_are_limited_by_listener() {
        let registry = Registry::new(1, 9);
        for id in 0..3 {
            assert_eq!(registry.enter(socket(), usize::from(id == 2)), Entry::Entered(id));
        }
        assert!(registry.establish(0, "disk") && registry.establish(0, "other"));
        assert!(!registry.establish(1, "disk"));
        assert!(registry.establish(2, "disk"));
        assert_eq!(registry.enter(socket(), 0), Entry::Full);
        registry.leave(0);
        assert!(registry.establish(1, "disk"));
    }
}
