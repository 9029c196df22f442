//! Hosts that do their tasks.

use super::*;

#[test]
fn all_hosts_start_each_run_at_one_moment_and_tell_their_results_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::new(directory.path(), "x,y,x");
    run.tasks.iter_mut().for_each(|task| task["runs"] = json!(2));
    let finished = run.result().unwrap();
    let hosts: Vec<&str> = finished.iter().map(|one| one.host.as_str()).collect();
    assert_eq!(hosts, ["x", "y", "x"]);
    for (one, task) in finished.iter().zip(&run.tasks) {
        let HostEnd::Done(done) = &one.end else { panic!("{one:?}") };
        assert_eq!((&done.result["of"], done.is_complete), (&task["file"], true));
        assert_eq!(one.delays_ns.len(), 2);
        assert!(one.clock.is_some_and(|clock| clock.round_trip_ns > 0));
    }
    run.assert_gone(&[], &[]);
}

#[test]
fn files_and_warnings_come_with_the_host_that_sends_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Run::new(directory.path(), "x,y");
    // More than one piece.
    let bytes = gemelo_tools::bytes(7, (3 << 20) + 5);
    let sent = directory.path().join("sent");
    fs::write(&sent, &bytes).unwrap();
    run.tasks[1]["sends"] = json!(sent);
    assert_eq!(ends(&run.result().unwrap()), [Ok(true), Ok(true)]);
    let received = run.received.into_inner().unwrap();
    assert!(received.len() > 1 && received.iter().all(|(host, _)| *host == 1));
    let received: Vec<u8> = received.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(received, bytes);
    assert_eq!(run.recorder.warnings(), ["host y: it sends"]);
}
