//! Traffic of a client with the shared store, by what it is for (DEDIS, table XV).

use gemelo_base::StatTable;
use gemelo_objects::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Traffic of one kind.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(counter)]
pub struct TrafficStat {
    /// Operations of the shared store.
    pub operations: u64,
    /// Bytes of contents, keys and values that were sent.
    pub sent_bytes: u64,
    /// Bytes of contents, keys and values that were received.
    pub received_bytes: u64,
}

/// Traffic since the store was connected, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct StoreTraffic {
    /// The index of contents, its letters and doubts, and the settings of the domain.
    pub index: TrafficStat,
    /// The ledgers of members.
    pub ledger: TrafficStat,
    /// The locks, leases and fences of members.
    pub lease: TrafficStat,
    /// The data disks.
    pub contents: TrafficStat,
    /// The metadata disks.
    pub metadata: TrafficStat,
}

impl StoreTraffic {
    /// Returns each kind with its name.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, &TrafficStat); 5] {
        [
            ("index", &self.index),
            ("ledger", &self.ledger),
            ("lease", &self.lease),
            ("contents", &self.contents),
            ("metadata", &self.metadata),
        ]
    }
}

/// What traffic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Index,
    Ledger,
    Lease,
    Contents,
    Metadata,
}

impl Purpose {
    /// The names of objects begin with what they are for (`docs/internals/domain.md`).
    pub(crate) fn of_object(name: &str) -> Self {
        match name.split('.').next().unwrap_or_default() {
            "ledger" => Self::Ledger,
            "member" => Self::Lease,
            "data" => Self::Contents,
            "meta" => Self::Metadata,
            _ => Self::Index,
        }
    }
}

/// Counters of one kind, which all threads of the client share.
#[derive(Debug, Default)]
struct Counter {
    operations: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

/// The counters of a client.
#[derive(Debug, Default)]
pub struct Traffic {
    counters: [Counter; 5],
}

impl Traffic {
    fn counter(&self, purpose: Purpose) -> &Counter {
        let [index, ledger, lease, contents, metadata] = &self.counters;
        match purpose {
            Purpose::Index => index,
            Purpose::Ledger => ledger,
            Purpose::Lease => lease,
            Purpose::Contents => contents,
            Purpose::Metadata => metadata,
        }
    }

    /// Counts an operation that moves no bytes.
    pub(crate) fn count(&self, purpose: Purpose) {
        self.counter(purpose).operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was executed, also one that failed.
    pub(crate) fn count_request(&self, request: &Request<'_>) {
        let counter = self.counter(Purpose::of_object(request.object));
        let (sent, received) = request.operation.payload_bytes();
        counter.operations.fetch_add(1, Ordering::Relaxed);
        counter.sent_bytes.fetch_add(sent, Ordering::Relaxed);
        counter.received_bytes.fetch_add(received, Ordering::Relaxed);
    }

    /// Returns the figures.
    #[must_use]
    pub fn figures(&self) -> StoreTraffic {
        let of = |purpose| {
            let counter = self.counter(purpose);
            TrafficStat {
                operations: counter.operations.load(Ordering::Relaxed),
                sent_bytes: counter.sent_bytes.load(Ordering::Relaxed),
                received_bytes: counter.received_bytes.load(Ordering::Relaxed),
            }
        };
        StoreTraffic {
            index: of(Purpose::Index),
            ledger: of(Purpose::Ledger),
            lease: of(Purpose::Lease),
            contents: of(Purpose::Contents),
            metadata: of(Purpose::Metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_objects::{Operation, Update};

    #[test]
    fn each_object_counts_for_what_it_is_for() {
        let traffic = Traffic::default();
        let update = Update {
            set: vec![("key".to_owned(), vec![0; 5])],
            remove: vec!["old".to_owned()],
            ..Update::default()
        };
        let keys = ["a".to_owned()];
        let values = vec![Some(vec![0; 7])];
        let requests = [
            ("data.00000001.3", Operation::write(0, &[0; 4096])),
            ("data.00000001.4", Operation::write(4096, &[0; 512])),
            ("meta.00000001.0", Operation::Remove),
            ("index.0101", Operation::Update(&update)),
            ("mail.00000002", Operation::GetKeys { keys: &keys, values }),
            ("ledger.00000001.0000", Operation::Read { offset: 0, buffer: &mut [], filled: 9 }),
        ];
        for (object, operation) in requests {
            traffic.count_request(&Request::new(object, operation));
        }
        traffic.count(Purpose::of_object("member.00000001"));
        let of = |operations, sent_bytes, received_bytes| TrafficStat {
            operations,
            sent_bytes,
            received_bytes,
        };
        let expected = StoreTraffic {
            index: of(2, 3 + 5 + 3 + 1, 7),
            ledger: of(1, 0, 9),
            lease: of(1, 0, 0),
            contents: of(2, 4608, 0),
            metadata: of(1, 0, 0),
        };
        assert_eq!(traffic.figures(), expected);
    }
}
