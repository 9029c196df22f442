//! A flush of a member: its contents and its commit are on their way to the store together.

use crate::domain::{BLOCKS, Domain, expect, write_all};
use gemelo_objects::{Operation, Request};
use gemelo_place::Use;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lets a list of writes go only when one to the other disk is there as well.
#[derive(Default)]
struct Meeting {
    disks: Mutex<BTreeSet<String>>,
    lists: Mutex<Vec<usize>>,
    arrived: Condvar,
}

impl Meeting {
    fn attend(&self, requests: &[Request<'_>]) {
        let writes = requests.iter().filter(|request| {
            matches!(request.operation, Operation::Write { .. })
                && (request.object.starts_with("data.") || request.object.starts_with("meta."))
        });
        let names: Vec<&str> = writes.map(|request| request.object).collect();
        let Some(name) = names.first() else { return };
        self.lists.lock().push(names.len());
        let mut disks = self.disks.lock();
        disks.insert(name[..4].to_owned());
        self.arrived.notify_all();
        let deadline = Instant::now() + Duration::from_secs(60);
        while disks.len() < 2 {
            let late = self.arrived.wait_until(&mut disks, deadline).timed_out();
            assert!(!late, "{name} is written alone");
        }
    }
}

#[test]
fn a_flush_is_one_round_trip_of_one_write_of_contents_and_one_of_both_copies_of_the_commit() {
    let domain = Domain::new();
    let process = domain.process();
    process.filled("one", 1..=1).close().unwrap();
    let placed = process.open("one", Use::Hold, true).unwrap();
    let meeting = Arc::new(Meeting::default());
    let attending = Arc::clone(&meeting);
    *process.store.watcher.lock() = Some(Arc::new(move |list| attending.attend(list)));
    write_all(&placed, 100);
    placed.pool().flush().unwrap();
    *process.store.watcher.lock() = None;
    let lists = meeting.lists.lock().clone();
    assert_eq!(lists, [1, 1], "writes of each disk");
    expect(&placed, 100..100 + BLOCKS);
    placed.close().unwrap();
}
