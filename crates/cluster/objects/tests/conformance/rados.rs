//! Ceph: the common suite on a cluster that the test starts, and connections that fail.

use crate::ceph::Ceph;
use crate::suite::{Subject, check};
use gemelo_base::{Clock, SystemClock};
use gemelo_objects::rados::{ConnectError, Rados, RadosOptions};
use gemelo_objects::{Guard, KeyRange, LockName, Locks, ObjectError, Objects, Operation, Update};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

/// Longer than an operation takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn ceph_keeps_the_promises() {
    let Some(ceph) = Ceph::start() else { return };
    let clock = SystemClock::new();
    let connect = || ceph.connect("gemelo", "test", PATIENCE).unwrap();
    check(&Subject { connect: &|| Box::new(connect()), clock: &clock });
    let missing = ceph.connect("nothing", "test", PATIENCE);
    assert!(matches!(missing, Err(ConnectError::NoPool { .. })), "{missing:?}");
    namespaces_are_apart(&ceph);
    keys_and_names_of_others_are_left_out(&ceph);
    a_full_cluster_lets_remove(&ceph, &clock);
    a_stopped_cluster_times_out(&ceph, &clock);
}

/// A full cluster refuses bytes, and lets keys and locks change and objects go: there is room to
/// give something up.
fn a_full_cluster_lets_remove(ceph: &Ceph, clock: &dyn Clock) {
    let client = ceph.connect("gemelo", "full", PATIENCE).unwrap();
    // The limit of the pool stands for the disks, which a test cannot fill.
    let set_most_objects = |number: &str| {
        let conf = ceph.directory().join("ceph.conf");
        let action = ["osd", "pool", "set-quota", "gemelo", "max_objects", number];
        let output = Command::new("ceph").arg("--conf").arg(conf).args(action).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let until = |is_full: bool| {
        let deadline_ns = clock.now_ns() + 60_000_000_000;
        loop {
            let outcome = client.perform("grows", Operation::Append { bytes: &[1; 4096] });
            match outcome {
                Err(ObjectError::Full { .. }) if is_full => return,
                Ok(_) if !is_full => return,
                Ok(_) | Err(ObjectError::Full { .. }) => {}
                other => panic!("{other:?}"),
            }
            assert!(clock.now_ns() < deadline_ns, "the cluster does not become full: {is_full}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    client.write("goes", 0, b"bytes").unwrap();
    let set = vec![("key".to_owned(), vec![1])];
    client.update("keys", &Update { set, ..Update::default() }).unwrap();
    let lock = LockName { object: "keys", name: "lock" };
    client.lock(lock, PATIENCE).unwrap();
    set_most_objects("1");
    until(true);
    client.renew(lock, PATIENCE).unwrap();
    client.unlock(lock).unwrap();
    client.lock(lock, PATIENCE).unwrap();
    let guards = vec![Guard { key: "key".into(), expected: Some(vec![1]) }];
    let set = vec![("key".to_owned(), vec![2])];
    client.update("keys", &Update { guards, set, ..Update::default() }).unwrap();
    client.remove("goes").unwrap();
    set_most_objects("0");
    until(false);
}

/// Keys and names that are no text come from others. They hide nothing that follows.
fn keys_and_names_of_others_are_left_out(ceph: &Ceph) {
    let client = ceph.connect("gemelo", "others", PATIENCE).unwrap();
    let set = ["a", "b", "c"].map(|key| (key.to_owned(), vec![1])).to_vec();
    client.update("keys", &Update { set, ..Update::default() }).unwrap();
    let rados = |arguments: &[&[u8]]| {
        let mut command = Command::new("rados");
        command.arg("--conf").arg(ceph.directory().join("ceph.conf"));
        command.args(["--pool", "gemelo", "--namespace", "others"]);
        let output = command.args(arguments.iter().map(|one| OsStr::from_bytes(one))).output();
        assert!(output.as_ref().unwrap().status.success(), "{output:?}");
    };
    for key in [&b"a\xff"[..], b"a\xff\xff", b"b\xfe", b"\xff"] {
        rados(&[b"setomapval", b"keys", key, b"value"]);
    }
    rados(&[b"create", b"keys\xff"]);
    for limit in [1, 2, 3, 1000] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let range = KeyRange { after: &after, prefix: "", limit };
            let page = client.list_keys("keys", range).unwrap();
            found.extend(page.entries.into_iter().map(|(key, _)| key));
            match found.last() {
                Some(last) if page.has_more => after.clone_from(last),
                _ => break,
            }
        }
        assert_eq!(found, ["a", "b", "c"], "limit {limit}");
    }
    assert_eq!(client.list("").unwrap(), ["keys"]);
}

fn namespaces_are_apart(ceph: &Ceph) {
    let one = ceph.connect("gemelo", "test", PATIENCE).unwrap();
    let other = ceph.connect("gemelo", "other", PATIENCE).unwrap();
    one.write("apart", 0, b"one").unwrap();
    assert!(matches!(other.stat("apart"), Err(ObjectError::NotFound { .. })));
    assert!(other.list("").unwrap().is_empty());
}

/// Stops the OSDs for a while: an update times out, and takes effect at most once.
fn a_stopped_cluster_times_out(ceph: &Ceph, clock: &dyn Clock) {
    let client = ceph.connect("gemelo", "test", Duration::from_secs(2)).unwrap();
    let set = |value: u8| vec![("key".to_owned(), vec![value])];
    client.update("slow", &Update { set: set(1), ..Update::default() }).unwrap();
    let osds = ["osd.0.pid", "osd.1.pid", "osd.2.pid"];
    let signal = |name: &str| {
        for osd in osds {
            let pid = std::fs::read_to_string(ceph.directory().join(osd)).unwrap();
            let status = Command::new("kill").args([name, pid.trim()]).status().unwrap();
            assert!(status.success());
        }
    };
    let guards = vec![Guard { key: "key".into(), expected: Some(vec![1]) }];
    let update = Update { guards, set: set(2), ..Update::default() };
    signal("-STOP");
    let outcome = client.update("slow", &update);
    signal("-CONT");
    assert!(matches!(outcome, Err(ObjectError::TimedOut { .. })), "{outcome:?}");
    let deadline_ns = clock.now_ns() + 30_000_000_000;
    let again = loop {
        match client.update("slow", &update) {
            Err(ObjectError::TimedOut { .. }) if clock.now_ns() < deadline_ns => {}
            outcome => break outcome,
        }
    };
    assert!(matches!(again, Ok(()) | Err(ObjectError::Guard { .. })), "{again:?}");
    assert_eq!(client.get_keys("slow", &["key".into()]).unwrap(), [Some(vec![2])]);
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ceph.conf");
    let connect = || {
        Rados::connect(&RadosOptions {
            configuration: Some(&path),
            user: "admin",
            pool: "gemelo",
            namespace: "",
            timeout: Duration::from_secs(1),
        })
    };
    let without_file = connect();
    if let Err(error @ ConnectError::Library { .. }) = &without_file {
        assert!(error.to_string().contains("librados2"), "{error}");
        gemelo_tools::skip!("{error}");
    }
    assert!(matches!(without_file, Err(ConnectError::Configuration { .. })), "{without_file:?}");
    let auth = "auth_client_required = none\nlog_to_stderr = false\n";
    std::fs::write(&path, format!("[global]\nmon_host = 127.0.0.1:1\n{auth}")).unwrap();
    let refused = connect();
    assert!(matches!(refused, Err(ConnectError::Connect { .. })), "{refused:?}");
}
