//! Messages about wrong plans.

use super::*;

#[test]
fn wrong_plans_are_refused_with_the_line_and_the_similar_name() {
    let head = "[campaign]\nname = 'x'\n[[target]]\nname = 't'\ndirectory = {}\n[[workload]]\n";
    for (plan, expected) in [
        (
            "[campaign]\nname = 'x'\nrepetition = 3\n".to_owned(),
            "line 3: the plan 'campaign' has no key 'repetition'; a similar key is 'repetitions'",
        ),
        (
            format!("{head}name = 'w'\nbench = {{ patern = 'nurand' }}\n"),
            "line 8: the job has no key 'patern'; a similar key is 'pattern'",
        ),
        (
            format!("{head}name = 'w'\nbench = {{ time = 'soon' }}\n"),
            "line 8: invalid value 'soon' for '--time <DURATION>'",
        ),
        (
            format!("{head}name = 'w'\nbench = {{ target = '/tmp' }}\n"),
            "line 8: 'target' is set by the campaign",
        ),
        (format!("{head}name = 'w-{{mod}}'\nbench = {{}}\n"), "line 7: '{mod}' is not a parameter"),
        (format!("{head}name = 'w'\n"), "exactly one of the keys bench, probe, suite"),
        (
            format!("{head}name = 'w'\nbench = {{}}\n[[workload]]\nname = 'w'\nbench = {{}}\n"),
            "two have the name 'w'",
        ),
        (
            format!(
                "{head}name = 'w'\nbench = {{}}\n[[claims]]\nid = 'c'\nclaim = 'c'\ntests = ['a/b_ns[w, tt] > 1']\n"
            ),
            "no target is named 'tt'",
        ),
        (
            format!(
                "{head}name = 'w'\nbench = {{}}\n[[claims]]\nid = 'c'\nclaim = 'c'\ntests = ['a/b_ns[w, t] > soon']\n"
            ),
            "line 12: ",
        ),
        ("[campaign\n".to_owned(), "line 1: "),
    ] {
        let error = Plan::read(&plan, Path::new("."), &[]).unwrap_err();
        assert_eq!(error.kind(), FailureKind::BadInput, "{plan}");
        assert!(gemelo_base::with_causes(&error).contains(expected), "{plan}\n{error}");
    }
}
