//! The connections that a server has: how many, to which exports, and how to end them.

use crate::socket::Socket;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    connections: Mutex<Connections>,
    one_ended: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// The export's name, once it is chosen.
    export: Option<String>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, unless there are `most` already. It is taken out when what this gives is dropped.
    pub(crate) fn enter(&self, socket: Socket, most: usize) -> Option<u64> {
        let mut connections = self.lock();
        if connections.open.len() >= most {
            return None;
        }
        let id = connections.next_id;
        connections.next_id += 1;
        connections.open.insert(id, Connection { socket, export: None });
        Some(id)
    }

    /// Takes a connection out.
    pub(crate) fn leave(&self, id: u64) {
        self.lock().open.remove(&id);
        self.one_ended.notify_all();
    }

    /// A connection's export was chosen.
    pub(crate) fn set_export(&self, id: u64, name: &str) {
        if let Some(connection) = self.lock().open.get_mut(&id) {
            connection.export = Some(name.to_owned());
        }
    }

    /// How many connections there are, to one export or at all.
    pub(crate) fn count(&self, export: Option<&str>) -> usize {
        self.lock()
            .open
            .values()
            .filter(|connection| export.is_none() || connection.export.as_deref() == export)
            .count()
    }

    /// Has connections end when they have done what arrived: those of one export, or all.
    pub(crate) fn drain(&self, export: Option<&str>) {
        for connection in self.lock().open.values() {
            if export.is_none() || connection.export.as_deref() == export {
                connection.socket.end_receiving();
            }
        }
    }

    /// Ends all connections, done or not.
    pub(crate) fn end_all(&self) {
        for connection in self.lock().open.values() {
            connection.socket.end();
        }
    }

    /// Waits until there are no connections, or the time is up; tells how many are left.
    pub(crate) fn wait_until_empty(&self, most: Duration) -> usize {
        let connections = self.lock();
        let waited = self.one_ended.wait_timeout_while(connections, most, |all| !all.open.is_empty());
        let (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
        connections.open.len()
    }
}
