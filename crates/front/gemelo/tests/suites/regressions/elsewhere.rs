//! The tests of defects that are beside the part in which they were: their inputs are disks,
//! objects and clocks that a program cannot be given.

use std::fs;

/// What went wrong, the file of its test below `crates`, and a name that all its tests contain.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("slots of a failed checkpoint were never given back", VOLUME_FAILURES, "takes_no_space"),
    ("work that failed was tried without a pause", VOLUME_FAILURES, "for_ten_minutes_costs_a_few"),
    ("a damaged page was met over and over", VOLUME_FAILURES, "makes_the_pool_refuse_changes"),
    ("a damaged block was examined over and over", VOLUME_FAILURES, "not_examined_over_and_over"),
    ("index, removal and write-out", EACH, "for_ten_minutes"),
    ("sharing and publishing", "cluster/sharing/tests/members/full.rs", "fails_for_ten_minutes"),
    ("leases", SERVING, "renewals_that_fail_are_told_once"),
    ("fences", SERVING, "looks_at_fences_that_fail"),
    ("scrubs", "front/serve/src/scrub/failing.rs", "a_scrub_that_fails_for_ten_minutes"),
    (
        "slots of a root in doubt were given back",
        "engine/volume/tests/suites/roots.rs",
        "keeps_the_slots_of_both",
    ),
    ("impossible values with right checksums", "front/fuzzing/tests/forged.rs", "forged"),
    (
        "pages, counts and fingerprints that lie",
        "engine/volume/tests/suites/forged.rs",
        "is_refused",
    ),
    ("writes to a wrong place", "engine/volume/tests/suites/misdirected.rs", "a_misdirected_write"),
    (
        "a check passed what the engine refused",
        "engine/volume/tests/suites/agree.rs",
        "a_check_passes_what_opens",
    ),
    (
        "a second heal undid what a packer added",
        "engine/store/src/buffer/tests/aside.rs",
        "another_write_has_replaced",
    ),
    (
        "journal data had no bound for each commit",
        "engine/volume/tests/suites/journal_data.rs",
        "commits_carry_16_mib_at_most",
    ),
    ("a lost or old object destroyed intact contents", MATRIX, "takes_nothing_else_with_it"),
    ("the same within one tenure", "cluster/place/tests/losses/in_tenure.rs", "within_a_tenure"),
    (
        "an index entry without a record",
        "cluster/place/tests/losses/whole.rs",
        "without_a_record_stops",
    ),
    ("forged objects of a domain", "cluster/place/tests/losses/forged.rs", "nothing_panics"),
    (
        "a check passed a lost length and a lost seal",
        "cluster/place/tests/members/checks.rs",
        "a_lost_length_of_a_disk",
    ),
    (
        "contents of an unreachable home were called damaged",
        "cluster/place/tests/members/unreachable.rs",
        "not_called_damaged",
    ),
    (
        "a lost member looked like no pool",
        "cluster/place/tests/members/creation.rs",
        "never_created",
    ),
    (
        "reflinks and hard links",
        "workload/scan/tests/behaviour/accounting.rs",
        "reflinked_data_are_duplicates",
    ),
    ("lines of blkparse that are no events", TRACES, "lines_between_events"),
    ("commands and flushes of blkparse", TRACES, "commands_that_pass_through"),
    ("times before the start", TRACES, "times_before_the_start"),
    ("tpcso.f", "workload/filebench/tests/personalities.rs", "oltp_and_tpcso"),
];

const VOLUME_FAILURES: &str = "engine/volume/tests/suites/background_failures.rs";
const EACH: &str = "engine/volume/tests/suites/background_failures/each.rs";
const SERVING: &str = "cluster/member/tests/member/serving.rs";
const MATRIX: &str = "cluster/place/tests/losses/matrix.rs";
const TRACES: &str = "workload/trace/src/format/collections.rs";

#[test]
fn the_tests_that_the_list_names_exist() {
    for (defect, file, name) in ELSEWHERE {
        let path = super::serving::root().join("crates").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let parts = text.split("#[test]\n").skip(1);
        let is_there =
            parts.filter_map(|part| part.split_once('(')).any(|(head, _)| head.contains(name));
        assert!(is_there, "{defect}: {file} has no test with {name} in its name");
    }
}
