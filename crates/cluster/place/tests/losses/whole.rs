//! A whole ledger that was put back as it was a moment ago: it agrees with itself and has the right
//! mark, so it is only found when the index names a block that it does not know.

use crate::base::{BLOCK, Base, Process, content, new_world, read, write};
use crate::snapshot::{Snapshot, contents, put, take};
use gemelo_base::StopFlag;
use gemelo_domain::{Client, Finding};
use gemelo_objects::Objects;
use gemelo_place::{DomainCheck, Use};
use gemelo_volume::StopReason;
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);

/// Replaces the ledger of the first member.
fn put_back(store: &dyn Objects, ledger: &Snapshot) {
    for name in store.list("ledger.00000001").unwrap() {
        store.remove(&name).unwrap();
    }
    put(store, ledger);
}

#[test]
fn an_entry_of_the_index_without_a_record_stops_the_member() {
    let base = Base::simulated(None);
    let world = new_world();
    let connect = || -> Arc<dyn Client> { Arc::new(world.client()) };
    put(&*connect(), &base.now);
    let process = Process::new(connect()).unwrap();
    let one = process.open("one", Use::Hold, false).unwrap();
    let mut ledger = take(&*process.store);
    ledger.retain(|name, _| name.starts_with("ledger.00000001"));
    for (lbn, id) in (70..78).zip(7001..) {
        write(&one, "vm", lbn, id).unwrap();
    }
    one.share(&StopFlag::new()).unwrap();
    one.close().unwrap();
    put_back(&*process.store, &ledger);
    let before = contents(&take(&*process.store), BLOCK);

    let found = DomainCheck::run(&process.client, Duration::ZERO).unwrap().findings;
    assert!(found.list.iter().any(|one| matches!(one, Finding::NotKept { .. })), "{found:?}");
    let one = process.open("one", Use::Hold, false).unwrap();
    for _ in 0..2 {
        let error = one.share(&StopFlag::new()).unwrap_err();
        let mut text = error.to_string();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            text += &format!(": {next}");
            cause = next;
        }
        assert!(text.contains("its ledger has no such record"), "{text}");
    }
    let reason = one.pool().stopped().unwrap();
    assert!(matches!(reason, StopReason::Owner { .. }), "{reason}");
    assert!(write(&one, "vm", 80, 7100).is_err(), "it takes no changes");
    (70..78)
        .zip(7001..)
        .for_each(|(lbn, id)| assert!(read(&one, "vm", lbn).unwrap() == content(id)));
    let _ = one.close();
    let after = contents(&take(&*process.store), BLOCK);
    let blocks = base.images.values().flat_map(|blocks| blocks.values().copied());
    for id in blocks.chain(7001..7009) {
        let content = content(id);
        assert_eq!(before.contains(&content), after.contains(&content), "content {id}");
    }

    world_repaired(&process);
    let one = process.open("one", Use::Hold, false).unwrap();
    one.share(&StopFlag::new()).unwrap();
    (70..78)
        .zip(7001..)
        .for_each(|(lbn, id)| assert!(read(&one, "vm", lbn).unwrap() == content(id)));
    one.close().unwrap();
}

fn world_repaired(process: &Process) {
    let (check, repaired) = DomainCheck::repair(&process.client, LEASE).unwrap();
    assert!(check.findings.are_none(), "{check:?}");
    assert_eq!(repaired.ledgers, 1);
}
