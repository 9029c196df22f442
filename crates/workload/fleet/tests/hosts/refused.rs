//! Hosts that are refused before any of them has changed anything.

use super::*;
use gemelo_base::{Classified as _, FailureKind};

/// Nothing is left, and nothing was there.
fn assert_untouched(directory: &Path) {
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "something was made");
}

#[test]
fn a_host_without_this_program_is_named_with_what_it_said() {
    let real = far::command();
    for (script, timeout_ms, told) in [
        ("exec /no/such/program", 60_000, "its connection ended (exit status: 127"),
        (
            "echo \"Permission denied (publickey).\" >&2; exit 255",
            60_000,
            "its connection ended (exit status: 255: Permission denied (publickey).)",
        ),
        ("echo Welcome; REAL", 60_000, "it sent a line that is no message: 'Welcome'"),
        ("head -c 100000 /dev/zero; sleep 60", 60_000, "it sent a line without end"),
        ("exec sleep 60", 300, "it has said nothing for 0.3 s"),
        (
            r#"echo "{\"say\":\"hello\",\"gemelo\":\"0.0.1\",\"protocol\":1,\"host\":\"h\"}"; sleep 60"#,
            60_000,
            "it has gemelo 0.0.1 (protocol 1), and this is 1.2.3 (protocol 1): install the same",
        ),
        (
            r#"echo "{\"say\":\"pong\",\"number\":1,\"clock_ns\":1,\"date_ns\":1}"; sleep 60"#,
            60_000,
            "it did not greet first",
        ),
        ("if [ $1 = y ]; then exit 3; fi; REAL", 60_000, "host y: its connection ended"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut run = Run::new(directory.path(), "x,y");
        let connect = by_shell(&script.replace("REAL", &real));
        run.transport = Transport::new(Some(&connect), None).unwrap();
        run.timeout = Duration::from_millis(timeout_ms);
        let error = run.result().unwrap_err();
        assert!(error.to_string().contains(told), "{script}: {error}");
        assert_eq!(error.kind(), FailureKind::Failed, "{script}: {error}");
        assert_untouched(directory.path());
    }
}

#[test]
fn a_transport_that_cannot_be_started_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::new(directory.path(), "x");
    run.transport = Transport::new(Some("/no/such/transport {host}"), None).unwrap();
    assert_eq!(run.result().unwrap_err().to_string(), "cannot start /no/such/transport");
}

#[test]
fn one_host_that_refuses_its_task_keeps_all_from_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::new(directory.path(), "x,y");
    run.tasks[1]["refusal"] = json!("no such data");
    let error = run.result().unwrap_err();
    assert_eq!(error.to_string(), "host y: no such data");
    assert_eq!(error.kind(), FailureKind::BadInput);
    assert_untouched(directory.path());
}

#[test]
fn tasks_that_do_not_fit_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::new(directory.path(), "x,y");
    for (number, task) in run.tasks.iter_mut().enumerate() {
        task["plan"] = json!(number);
    }
    let error = run.result_if(&|plans| {
        assert_eq!(plans, [&json!(0), &json!(1)]);
        Err("one has more than the other".to_owned())
    });
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "one has more than the other");
    assert_eq!(error.kind(), FailureKind::BadInput);
    assert_untouched(directory.path());
}

#[test]
fn a_run_that_is_stopped_before_it_begins_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let run = Run::new(directory.path(), "x,y");
    run.stop.raise();
    assert!(matches!(run.result(), Err(FleetError::Stopped)));
    assert_untouched(directory.path());
}
