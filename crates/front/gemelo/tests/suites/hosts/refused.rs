//! Hosts that are refused before any of them has changed anything.

use super::*;
use crate::common::gemelo;

/// Reaches the hosts through this shell script, in which `$real` is the true program.
fn with_script(place: &Place, script: &str) -> (i32, String) {
    let path = place.path("connect");
    std::fs::write(&path, format!("#!/bin/sh\nreal='{PROGRAM} host'\n{script}\n")).unwrap();
    std::fs::create_dir_all(place.path("data")).unwrap();
    let connect = format!("sh {} {{host}}", path.display());
    let load = ["bench", "--file-size", "64k", "--target", &place.text("data")];
    let more = ["--host-timeout", "3s"];
    let reach = place.reach_by("x,y", &connect);
    let ran = gemelo(&words(&[&load[..], &more].concat(), &reach));
    assert_eq!(std::fs::read_dir(place.path("data")).unwrap().count(), 0, "nothing was made");
    (ran.status, ran.err)
}

#[test]
fn a_host_without_this_program_is_named_with_what_it_said() {
    for (script, told) in [
        ("exec /no/such/program", "its connection ended (exit status: 127"),
        ("echo 'Permission denied (publickey).' >&2; exit 255", "Permission denied (publickey)."),
        ("echo Welcome; exec $real", "it sent a line that is no message: 'Welcome'"),
        ("head -c 100000 /dev/zero; sleep 60", "it sent a line without end"),
        ("exec sleep 60", "it has said nothing for 3 s"),
        (
            r#"echo '{"say":"hello","gemelo":"0.0.1","protocol":1,"host":"h"}'; sleep 60"#,
            "it has gemelo 0.0.1 (protocol 1), and this is ",
        ),
        (
            r#"echo '{"say":"pong","number":1,"clock_ns":1,"date_ns":1}'; sleep 60"#,
            "it did not greet first",
        ),
        ("if [ $1 = y ]; then exit 3; fi; exec $real", "host y: its connection ended"),
    ] {
        let (status, err) = with_script(&Place::new(), script);
        assert_eq!(status, 1, "{script}: {err}");
        assert!(err.contains(told), "{script}: {err}");
    }
}

#[test]
fn one_host_that_cannot_do_its_part_keeps_all_from_beginning() {
    let place = Place::new();
    std::fs::create_dir(place.path("x")).unwrap();
    let load = ["bench", "--file-size", "64k", "--target", &place.text("{host}/")];
    let ran = gemelo(&words(&load, &place.reach("x,y")));
    assert_eq!(ran.status, 2, "{}", ran.err);
    assert!(ran.err.contains("host y: ") && ran.err.contains("does not exist"), "{}", ran.err);
    assert_eq!(std::fs::read_dir(place.path("x")).unwrap().count(), 0);
}

#[test]
fn files_of_hosts_must_have_one_size() {
    let place = Place::new();
    for (host, bytes) in [("x", 1 << 20), ("y", 2 << 20)] {
        std::fs::write(place.path(host), vec![0; bytes]).unwrap();
    }
    let load = ["bench", "--force", "--target", &place.text("{host}")];
    let ran = gemelo(&words(&load, &place.reach("x,y")));
    assert_eq!(ran.status, 2, "{}", ran.err);
    assert!(ran.err.contains("give --file-size"), "{}", ran.err);
}

#[test]
fn a_file_that_hosts_share_must_be_there() {
    let place = Place::new();
    let target = place.text("file");
    let load = ["bench", "--file-size", "64k", "--force", "--keep", "--target", &target];
    let ran = gemelo(&words(&load, &place.reach("x,y")));
    assert_eq!(ran.status, 2, "{}", ran.err);
    assert!(ran.err.contains("truncate -s 131072"), "{}", ran.err);
    std::fs::write(&target, vec![0; 131_072]).unwrap();
    let ran = gemelo(&words(&load, &place.reach("x,y")));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let data = std::fs::read(&target).unwrap();
    assert!(data.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
}

#[test]
fn wrong_options_are_refused_before_any_host_is_reached() {
    let options: [(&[&str], &str); 7] = [
        (&["--connect", "ssh"], "--hosts"),
        (&["--hosts", ""], "the list of hosts is empty"),
        (&["--hosts=-oProxyCommand=x"], "is no name of a host"),
        (&["--hosts", "a", "--connect", "x 'y"], "invalid command"),
        (&["--hosts", "a", "--host-timeout", "1s"], "at least 2s"),
        (&["--hosts", "a", "--log", "/tmp/x"], "--log is of one program"),
        (&["--hosts", "a", "--repetitions", "2"], "leave out --hosts"),
    ];
    for (words, told) in options {
        let ran = gemelo(&[&["bench", "--target", "null:"], words].concat());
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(told), "{words:?}: {}", ran.err);
    }
    let ran = gemelo(&["bench", "--target", "pool:/p/v", "--hosts", "a,b"]);
    assert!(ran.err.contains("can be open on one host only"), "{}", ran.err);
    assert_eq!(ran.status, 2);
}
