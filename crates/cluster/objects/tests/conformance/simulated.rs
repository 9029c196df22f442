//! The simulated store: the common suite, its faults, and that a run repeats.

use crate::suite::{Subject, check};
use gemelo_base::Clock;
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{Guard, LockName, Locks, ObjectError, Objects, Operation, Update};
use std::sync::Mutex;
use std::time::Duration;

#[test]
fn the_simulated_store_keeps_the_promises() {
    let world = World::new(1, Faults::NONE);
    check(&Subject { connect: &|| Box::new(world.client()), clock: &world });
}

#[test]
fn objects_in_files_keep_the_promises_and_are_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let open = || World::in_directory(1, Faults::NONE, directory.path()).unwrap();
    let world = open();
    let instance = world.client().instance();
    check(&Subject { connect: &|| Box::new(world.client()), clock: &world });
    let names = world.client().list("").unwrap();
    drop(world);
    let again = open().client();
    assert_ne!(again.instance(), instance, "a client of another world is another one");
    assert_eq!(again.list("").unwrap(), names);
    let mut bytes = [0; 12];
    assert_eq!(again.read("bytes", 0, &mut bytes).unwrap(), 10);
    assert_eq!(&bytes[..10], b"\x0012\0abxyZ!");
    let key = ["key".to_owned()];
    assert_eq!(again.get_keys("created", &key).unwrap(), [Some(vec![1])]);
    again.remove("created").unwrap();
    assert!(open().client().get_keys("created", &key).is_err());
}

#[test]
fn faults_leave_an_operation_applied_late_or_not_at_all() {
    let timed_out = |faults: Faults| {
        let world = World::new(1, Faults::NONE);
        let client = world.client();
        client.write("object", 0, b"old").unwrap();
        world.set_faults(faults);
        let outcome = client.write("object", 0, b"new");
        assert!(matches!(outcome, Err(ObjectError::TimedOut { .. })), "{outcome:?}");
        world.set_faults(Faults::NONE);
        let mut at_once = [0; 3];
        client.read("object", 0, &mut at_once).unwrap();
        world.sleep_until_ns(world.now_ns() + 10_000_000_000);
        let mut later = [0; 3];
        client.read("object", 0, &mut later).unwrap();
        (at_once, later)
    };
    let lost_reply = Faults { lost_replies: 1000, ..Faults::NONE };
    assert_eq!(timed_out(lost_reply), (*b"new", *b"new"));
    let lost_call = Faults { lost_calls: 1000, ..Faults::NONE };
    assert_eq!(timed_out(lost_call), (*b"old", *b"old"));
    let late = Faults { late_calls: 1000, ..Faults::NONE };
    assert_eq!(timed_out(late), (*b"old", *b"new"));
}

#[test]
fn a_full_store_refuses_to_grow_and_lets_remove() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    client.write("object", 0, &[1; 1000]).unwrap();
    world.set_capacity(1500);
    let outcome = client.write("other", 0, &[1; 1000]);
    assert!(matches!(outcome, Err(ObjectError::Full { .. })), "{outcome:?}");
    let set = vec![("key".into(), vec![1; 1000])];
    let outcome = client.update("keys", &Update { set, ..Update::default() });
    assert!(matches!(outcome, Err(ObjectError::Full { .. })), "{outcome:?}");
    client.remove("object").unwrap();
    client.write("other", 0, &[1; 1000]).unwrap();
}

#[test]
fn a_dead_client_sends_nothing_and_a_client_cut_off_gets_no_answer() {
    let world = World::new(1, Faults::NONE);
    let (one, two) = (world.client(), world.client());
    one.write("object", 0, b"old").unwrap();
    world.cut_off(&one.instance(), 0..world.now_ns() + 1);
    assert!(matches!(one.stat("object"), Err(ObjectError::TimedOut { .. })));
    assert_eq!(one.stat("object").unwrap(), 3);
    world.kill_at(&one.instance(), world.now_ns());
    assert!(matches!(one.write("object", 0, b"new"), Err(ObjectError::Io { .. })));
    let mut bytes = [0; 3];
    two.read("object", 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
}

/// A call that was sent before its sender was fenced is applied by a server that does not know of
/// the fence yet, and by none that answered a client that knows it.
#[test]
fn a_late_call_of_a_fenced_client_is_stopped_once_its_server_knows() {
    let late_write = |fencer_reads_first: bool| {
        let world = World::new(1, Faults::NONE);
        let (one, two) = (world.client(), world.client());
        one.write("object", 0, b"old").unwrap();
        world.set_faults(Faults { late_calls: 1000, ..Faults::NONE });
        one.write("object", 0, b"new").unwrap_err();
        world.set_faults(Faults::NONE);
        two.fence(&one.instance(), gemelo_objects::Fenced::Lost).unwrap();
        if fencer_reads_first {
            two.stat("object").unwrap();
        }
        world.sleep_until_ns(world.now_ns() + 10_000_000_000);
        let mut bytes = [0; 3];
        two.read("object", 0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(late_write(true), *b"old");
    assert_eq!(late_write(false), *b"new");
}

/// Lets three clients append to one object and count in one key, and returns the history.
fn history(seed: u64) -> (Vec<u8>, Option<Vec<u8>>, u64) {
    let world = World::new(seed, Faults::FREQUENT);
    let clients = [world.client(), world.client(), world.client()];
    world.set_faults(Faults::NONE);
    let set = vec![("count".to_owned(), vec![1])];
    clients[0].update("counter", &Update { set, ..Update::default() }).unwrap();
    world.set_faults(Faults::FREQUENT);
    let successes = Mutex::new(0u8);
    let work = |client: &Client, number: u8| {
        for _ in 0..20 {
            let _ = client.perform("log", Operation::Append { bytes: &[number] });
            if count_up(client) {
                *successes.lock().unwrap() += 1;
            }
            client.clock().sleep_until_ns(client.clock().now_ns() + world.draw(3_000_000));
        }
    };
    world.run(
        clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                let work = &work;
                let run = move || work(client, number as u8);
                (client.instance(), Box::new(run) as Box<dyn FnOnce() + Send>)
            })
            .collect(),
    );
    world.set_faults(Faults::NONE);
    let mut log = vec![0; clients[0].stat("log").unwrap() as usize];
    clients[0].read("log", 0, &mut log).unwrap();
    let count = clients[0].get_keys("counter", &["count".into()]).unwrap().remove(0);
    assert!(count.as_ref().unwrap()[0] > *successes.lock().unwrap(), "no success is lost");
    (log, count, world.now_ns())
}

fn count_up(client: &Client) -> bool {
    let key = ["count".to_owned()];
    let Ok(values) = client.get_keys("counter", &key) else { return false };
    let before = values[0].clone().unwrap();
    let set = vec![(key[0].clone(), vec![before[0] + 1])];
    let guards = vec![Guard { key: key[0].clone(), expected: Some(before) }];
    client.update("counter", &Update { guards, set, ..Update::default() }).is_ok()
}

#[test]
fn a_run_of_several_clients_repeats_exactly() {
    for seed in 0..20 {
        assert_eq!(history(seed), history(seed), "seed {seed}");
    }
    assert_ne!(history(1), history(2));
}

#[test]
fn a_stopped_client_sleeps_through_its_lease() {
    let world = World::new(1, Faults::NONE);
    let (one, two) = (world.client(), world.client());
    let lock = LockName { object: "member", name: "serve" };
    one.lock(lock, Duration::from_secs(5)).unwrap();
    world.stop(&one.instance(), 0..10_000_000_000);
    assert_eq!(two.holder(lock).unwrap().unwrap().instance, one.instance());
    let outcome = one.renew(lock, Duration::from_secs(5));
    assert!(outcome.is_ok(), "the call was sent before the client was stopped: {outcome:?}");
    assert!(world.now_ns() >= 10_000_000_000);
    assert!(matches!(one.renew(lock, Duration::from_secs(5)), Err(ObjectError::NotHeld { .. })));
}
