//! Main figures that no run has were accepted, and nothing was compared.

use super::*;

fn plan_of(workload: &str) -> String {
    format!(
        "[campaign]\nname='x'\nrepetitions=1\nwarm-up-runs=0\n[[target]]\nname='a'\ndirectory={{}}\n\
         [[workload]]\nname='w'\n{workload}\n"
    )
}

#[test]
fn a_main_figure_that_cannot_be_is_refused_before_the_runs() {
    for (figure, reason) in [
        ("read/operations_per_s", "no job has the operation read"),
        ("wirte/operations_per_s", "has no figure 'wirte/operations_per_s'"),
    ] {
        let plan = plan_of(&format!("main-figure='{figure}'\nbench={{ file-size = '64k' }}"));
        let error = Plan::read(&plan, Path::new("."), &[]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_run_without_the_main_figure_of_the_plan_has_failed() {
    let place = Place::with(&plan_of("main-figure='my/figure'\ncommand='echo my/figrue=1'"));
    let summary = place.run().unwrap();
    assert_eq!((summary.done, summary.failed.len()), (0, 1));
    let reason = &summary.failed[0].1;
    assert!(reason.contains("does not have the main figure 'my/figure'"), "{reason}");
    assert!(reason.contains("my/figrue"), "{reason}");
}
