//! Plans: what ships, what would run, and messages about wrong plans.

use super::{Place, figure, records, run};
use crate::common::gemelo;

/// Tiny parameters of the plan `quick`.
const TINY: [&str; 8] =
    ["--set", "size=4m", "--set", "time=60ms", "--set", "ramp-up=10ms", "--set", "repetitions=1"];

#[test]
fn quick_runs_in_seconds_and_has_the_figures_that_its_claims_name() {
    let place = Place::with("");
    let ran = run("quick", &place.out(), &TINY);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let records = records(&place.out());
    assert_eq!(records.len(), 12);
    assert!(records.iter().all(|record| record["outcome"]["kind"] == "done"));
    let of = |target: &str| {
        let found = records
            .iter()
            .find(|record| record["target"] == target && record["workload"] == "fill");
        found.and_then(|record| figure(record, "space/data_bytes")).unwrap()
    };
    // The file of the directory has every block, and deduplication leaves fewer of them.
    assert!((of("directory") - f64::from(4 << 20)).abs() < 1.0);
    assert!(of("volume-inline") < 0.95 * of("directory"));
    assert!((of("volume-offline") - of("volume-inline")).abs() < 0.05 * of("volume-inline"));
    // One run of each target does not count.
    let warm_up = std::fs::read_dir(place.out().join("warm-up")).unwrap();
    assert_eq!(warm_up.count(), 3);
}

#[test]
fn the_list_and_the_outlook_of_a_plan_agree() {
    let ran = gemelo(&["campaign", "ls"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let quick = ran.out.lines().find(|line| line.starts_with("quick ")).unwrap();
    assert!(quick.contains(" no ") && !quick.contains("unknown"), "{quick}");
    let outlook = gemelo(&["campaign", "run", "quick", "--plan"]);
    let (_, about) = outlook.out.split_once("84 runs after 3 warm-up runs, about ").unwrap();
    let (time, _) = about.split_once(';').unwrap();
    assert!(quick.contains(&format!(" {time} ")), "{time}: {quick}");
    let shorter = gemelo(&["campaign", "run", "quick", "--plan", "--set", "time=100ms"]);
    let (_, about) = shorter.out.split_once("warm-up runs, about ").unwrap();
    assert!(!about.starts_with(time), "{about}");
    assert!(outlook.out.contains("7 repetitions find a difference of 10 % in "), "{}", outlook.out);
}

#[test]
fn the_outlook_says_what_would_run_what_is_left_out_and_how_long_it_takes() {
    let place = Place::with(
        "[campaign]\nname = 'x'\nrepetitions = 2\n\
         [[target]]\nname = 'here'\ndirectory = {}\n\
         [[target]]\nname = 'absent'\ncommands = { check = 'echo no vdo here; exit 1' }\n\
         [[target]]\nname = 'volume'\nvolume = { size = '64m' }\n\
         [[workload]]\nname = 'write'\nbench = { time = '7s' }\n\
         [[workload]]\nname = 'script'\ntar = { tree = '.' }\n",
    );
    let plan = place.plan();
    let ran = gemelo(&["campaign", "run", plan.to_str().unwrap(), "--plan"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for expected in [
        "  absent  left out: no vdo here\n",
        "left out: script is not run on volume, which is a volume in the process of the load\n",
        "write-here-r1\n",
        "script-here-r2\n",
        "6 runs after 2 warm-up runs, about 42.6 s and 2 runs of unknown length; at most 2 of each \
         pair\n",
        "2 repetitions find a difference of 10 % in ",
        "space for one target at a time: at most 128.00 MiB\n",
    ] {
        assert!(ran.out.contains(expected), "{expected}\n{}", ran.out);
    }
    assert!(!place.out().exists());
}

#[test]
fn a_wrong_plan_is_refused_with_its_name_and_the_line() {
    let place = Place::with("[campaign]\nname = 'x'\nrepetition = 3\n");
    let ran = place.run(&[]);
    assert_eq!(ran.status, 2, "{}", ran.err);
    let name = place.plan();
    let told = format!("{}: line 3: the plan 'campaign' has no key 'repetition'", name.display());
    assert!(ran.err.contains(&told), "{}", ran.err);
    assert!(!place.out().exists());
}

#[test]
fn parameters_are_set_and_kept_in_the_copy_of_the_plan() {
    let place = Place::with(
        "[parameters]\nn = 1\n[sets]\nmodes = ['off']\n[campaign]\nname = 'x'\nrepetitions = '{n}'\n\
         [[target]]\nname = 'v-{mode}'\nmatrix = { mode = 'modes' }\nvolume = { mode = '{mode}', size = '8m' }\n\
         [[workload]]\nname = 'w'\nbench = { bytes = '64k' }\n",
    );
    let ran = place.run(&["--set", "n=2", "--set", "modes=inline,offline"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let targets: Vec<_> = place
        .records()
        .iter()
        .map(|record| record["target"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(targets.len(), 4);
    assert!(targets.contains(&"v-inline".to_owned()) && targets.contains(&"v-offline".to_owned()));
    // The copy repeats the campaign without the options.
    let (copy, again) = (place.out().join("plan.toml"), place.path("again"));
    let ran = run(copy.to_str().unwrap(), &again, &[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(records(&again).len(), 4);
    let unknown = place.run(&["--set", "m=2"]);
    assert_eq!(unknown.status, 2);
    assert!(
        unknown.err.contains("the plan has no parameter 'm': it has n, modes"),
        "{}",
        unknown.err
    );
}

#[test]
fn directories_that_do_not_fit_are_refused_and_named() {
    let place = Place::with(
        "[campaign]\nname = 'x'\n[[target]]\nname = 't'\ndirectory = {}\n[[workload]]\nname = 'w'\n\
         bench = { bytes = '64k', file-size = '64k' }\n",
    );
    let directory = place.path("");
    let words = directory.to_str().unwrap();
    for command in ["report", "clean"] {
        let ran = gemelo(&["campaign", command, words]);
        assert_eq!(ran.status, 2, "{}", ran.err);
        let expected = format!("{words} is not the directory of a campaign");
        assert!(ran.err.contains(&expected), "{}", ran.err);
    }
    let ran = run(place.plan().to_str().unwrap(), "/dev/null/x".as_ref(), &[]);
    assert_eq!(ran.status, 2, "{}", ran.err);
    assert!(
        ran.err.contains("cannot create the directory of the campaign, /dev/null/x"),
        "{}",
        ran.err
    );
}
