//! The level of a campaign was shared with comparisons that no report shows, and a main figure that
//! no run has was accepted.

use crate::common::gemelo;
use std::fs;
use std::path::{Path, PathBuf};

/// A plan of three workloads on two targets. Each workload has its own main figure; its runs tell
/// that one alone, or those of all workloads, with the same values.
fn plan(directory: &Path, name: &str, tells_all: bool) -> PathBuf {
    let mut text = "[campaign]\nname='f'\nrepetitions=5\nwarm-up-runs=0\n\
        [[target]]\nname='a'\ndirectory={}\n[[target]]\nname='b'\ndirectory={}\n"
        .to_owned();
    for workload in ["x", "y", "z"] {
        let told = if tells_all { vec!["x", "y", "z"] } else { vec![workload] };
        let lines = told.iter().map(|figure| {
            format!(
                "case $RESULTS in *-b-r*) echo f/{figure}_ns=$((1060 + SEED*SEED%7*11)) ;; \
                 *) echo f/{figure}_ns=$((1000 + SEED*SEED%5*13)) ;; esac;"
            )
        });
        text += &format!(
            "[[workload]]\nname='{workload}'\nmain-figure='f/{workload}_ns'\n\
             command='''{}'''\n",
            lines.collect::<String>()
        );
    }
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Runs a plan and returns the answer of its report.
fn answer(plan: &Path) -> Vec<String> {
    let out = plan.with_extension("out");
    let (plan, out) = (plan.to_str().unwrap(), out.to_str().unwrap());
    let ran = gemelo(&["campaign", "run", plan, "--out", out]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let report = format!("{out}.md");
    let ran = gemelo(&["report", out, "--output", &report]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let text = fs::read_to_string(report).unwrap();
    text.lines().filter(|line| line.contains("**b**")).map(str::to_owned).collect()
}

#[test]
fn figures_of_other_workloads_do_not_change_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let own = plan(place.path(), "own.toml", false);
    let all = plan(place.path(), "all.toml", true);
    for path in [&own, &all] {
        let ran = gemelo(&["campaign", "run", path.to_str().unwrap(), "--plan"]);
        assert!(ran.out.contains("for 3 comparisons"), "{}", ran.out);
    }
    let found = answer(&own);
    assert!(!found.is_empty());
    assert_eq!(found, answer(&all));
}

#[test]
fn a_run_without_the_main_figure_of_the_plan_has_failed() {
    let place = tempfile::tempdir().unwrap();
    let (path, out) = (place.path().join("plan.toml"), place.path().join("out"));
    let text = "[campaign]\nname='x'\nrepetitions=1\nwarm-up-runs=0\n[[target]]\nname='a'\n\
        directory={}\n[[workload]]\nname='w'\nmain-figure='my/figure'\ncommand='echo my/figrue=1'\n";
    fs::write(&path, text).unwrap();
    let ran = gemelo(&["campaign", "run", path.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.out.contains("does not have the main figure 'my/figure'"), "{}", ran.out);
    assert!(ran.out.contains("my/figrue") && ran.out.contains("0 runs complete"), "{}", ran.out);
}
