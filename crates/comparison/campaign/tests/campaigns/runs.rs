//! The runs of a campaign: failures, repetitions, resumption, disks that are full.

use super::*;

#[test]
fn a_failing_run_loses_no_other_and_resuming_repeats_it_alone() {
    let place = Place::with(
        "[campaign]\nname = 'x'\nrepetitions = 2\n\
         [[target]]\nname = 'a'\ndirectory = {}\n[[target]]\nname = 'b'\ndirectory = {}\n\
         [[workload]]\nname = 'good'\ncommand = 'echo x/y_bytes=$SEED'\n\
         [[workload]]\nname = 'bad'\ncommand = 'test -e $RESULTS/../../../mended || { echo broken >&2; exit 7; }'\n",
    );
    let summary = place.run().unwrap();
    assert_eq!((summary.done, summary.failed.len()), (4, 4));
    assert_eq!(summary.failed[0].1, "'sh' ended with exit status: 7: broken");
    let warnings = place.recorder.warnings();
    assert!(
        warnings[0].ends_with(" failed: 'sh' ended with exit status: 7: broken"),
        "{warnings:?}"
    );
    assert_eq!(outcomes(&place), (4, 4));
    let records = place.records();
    let good = records.iter().filter_map(|record| record.figures.value("x/y_bytes"));
    // Both targets get the seed of the repetition.
    assert_eq!(good.collect::<Vec<_>>(), [1.0, 1.0, 2.0, 2.0]);
    let first = || place.records().into_iter().find(|record| record.workload == "good");
    let before = first();
    fs::write(place.path("mended"), "").unwrap();
    assert_eq!(place.resume().unwrap().done, 8);
    assert_eq!(outcomes(&place), (8, 0));
    assert_eq!(first(), before, "a complete run was repeated");
}

#[test]
fn a_campaign_is_not_overwritten_and_another_plan_does_not_go_on_with_it() {
    let plan = "[campaign]\nname = 'x'\nrepetitions = 1\n[[target]]\nname = 'a'\ndirectory = {}\n\
        [[workload]]\nname = 'w'\ncommand = 'true'\n";
    let place = Place::with(plan);
    refused(place.resume(), FailureKind::BadInput, "has no campaign");
    place.run().unwrap();
    refused(place.run(), FailureKind::BadInput, "already has a campaign");
    place.set_plan(&plan.replace("'true'", "'exit 0'"));
    refused(place.resume(), FailureKind::BadInput, "another plan");
}

/// Two targets, one with twice the time of the other, and two that differ by chance.
#[test]
fn repetitions_go_on_while_a_comparison_is_undecided_and_end_at_the_limit() {
    let place = Place::with(
        "[campaign]\nname = 'x'\nrepetitions = 3\nmax-repetitions = 6\n\
         [[target]]\nname = 'a'\ndirectory = {}\n[[target]]\nname = 'b'\ndirectory = {}\n\
         [[workload]]\nname = 'noisy'\nmain-figure = 'x/y_ns'\n\
         command = 'case $RESULTS in *-b-r*) echo x/y_ns=$((100 + SEED % 2 * 100)) ;; *) echo x/y_ns=100 ;; esac'\n\
         [[workload]]\nname = 'clear'\nmain-figure = 'x/y_ns'\n\
         command = 'case $RESULTS in *-b-r*) echo x/y_ns=$((200 + SEED)) ;; *) echo x/y_ns=$((100 + SEED)) ;; esac'\n",
    );
    assert_eq!(place.run().unwrap().done, 18);
    let runs = place.record().runs;
    let count = |workload: &str| runs.iter().filter(|run| run.workload == workload).count();
    assert_eq!((count("noisy"), count("clear")), (12, 6));
}

/// 48 runs that fail one by one on a full disk say nothing: the campaign ends with the cause.
#[test]
fn a_campaign_without_space_says_so_before_it_starts_and_ends_when_a_disk_is_full() {
    let plan = |size: &str, command: &str| {
        format!(
            "[campaign]\nname = 'x'\nrepetitions = 9\n[[target]]\nname = 'a'\ndirectory = {{}}\n\
             [[workload]]\nname = 'w'\ndata = '{size}'\ncommand = '{command}'\n"
        )
    };
    let place = Place::with(&plan("9000t", "true"));
    refused(place.run(), FailureKind::Exhausted, "the plan needs 8.79 PiB for one target");
    assert!(!place.out().exists(), "nothing was touched");
    let place = Place::with(&plan("1m", "echo No space left on device >&2; exit 1"));
    refused(place.run(), FailureKind::Exhausted, "a disk is full: run 0001-w-a-r0");
    assert_eq!(leftovers(&place), [""; 0]);
}
