//! All figures of all runs as comma-separated values, for other programs.

use crate::campaign::Data;
use std::fmt::Write as _;

/// Returns the lines `run,target,workload,repetition,outcome,figure,value`.
pub(crate) fn figures(data: &Data) -> String {
    let mut text = "run,target,workload,repetition,outcome,figure,value\n".to_owned();
    for run in &data.runs {
        let outcome = match run.outcome {
            gemelo_record::Outcome::Done => "done",
            gemelo_record::Outcome::Failed { .. } => "failed",
            gemelo_record::Outcome::Interrupted => "interrupted",
        };
        for figure in run.figures.figures.iter().chain(&run.monitor.figures) {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{outcome},{},{}",
                field(&run.id),
                field(&run.target),
                field(&run.workload),
                run.repetition,
                field(&figure.name),
                figure.value
            );
        }
    }
    text
}

/// Quotes a field that has a letter with a meaning (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(super::field("plain"), "plain");
        assert_eq!(super::field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
