//! Targets by the user's own commands, with programs that the test makes up.

use super::*;

/// A target whose commands write their names to a log. `mount` fails if the file `broken` exists.
const PLAN: &str = r#"
[campaign]
name = "x"
repetitions = 1
warm-up-runs = 0

[[target]]
name = "mine"
[target.commands]
check = "test -d ."
make = "echo make >> log; touch $WORK/disk; sleep 1000 & "
unmake = "echo unmake >> log; rm -f $WORK/disk"
mount = "echo mount >> log; mkdir -p $PLACE; if test -e broken; then echo no disk >&2; false; fi"
unmount = "echo unmount >> log; rm -rf $PLACE"
space = "echo space >> log; echo data_bytes=$(cat $PLACE/* 2>/dev/null | wc -c); echo metadata_bytes=1"
settle = "echo settle >> log; echo short > $PLACE/file"

[[workload]]
name = "w"
command = "echo load >> $RESULTS/../../../log; echo a long text > $PLACE/file"
"#;

fn log(place: &Place) -> Vec<String> {
    fs::read_to_string(place.path("log")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_user_run_in_order_and_their_processes_end() {
    let place = Place::with(PLAN);
    assert_eq!(place.run().unwrap().done, 1);
    let expected =
        ["make", "mount", "space", "load", "space", "settle", "space", "unmount", "unmake"];
    assert_eq!(log(&place), expected);
    let record = place.records().remove(0);
    assert_eq!(record.space["after"].data_bytes, 12);
    assert_eq!(record.space["settled"].data_bytes, 6);
    assert_eq!(record.figures.value("space/data_bytes"), Some(6.0));
    assert_eq!(leftovers(&place), [""; 0]);
}

#[test]
fn what_was_made_is_given_back_although_mounting_fails() {
    let place = Place::with(PLAN);
    fs::write(place.path("broken"), "").unwrap();
    let summary = place.run().unwrap();
    assert_eq!((summary.done, summary.failed.len(), summary.left.len()), (0, 1, 0));
    assert_eq!(log(&place), ["make", "mount", "unmount", "unmake"]);
    let reason = &summary.failed[0].1;
    assert!(reason.ends_with("no disk"), "{reason}");
    assert_eq!(leftovers(&place), [""; 0]);
}
