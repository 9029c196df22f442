//! Hosts that are refused before any of them has changed anything.

use super::*;
use crate::common::gemelo;

#[test]
fn hosts_that_say_nothing_are_given_up_after_the_time_of_the_user() {
    let place = Place::new();
    let load = ["bench", "--target", &place.text(""), "--host-timeout", "2s"];
    let ran = gemelo(&words(&load, &place.reach_by("x", "sh -c 'exec sleep 60'")));
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("host x: it has said nothing for 2 s"), "{}", ran.err);
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0, "nothing was made");
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
