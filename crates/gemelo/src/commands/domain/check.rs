//! `gemelo domain check`.

use super::{DomainArguments, PATIENCE};
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::{JsonOutput, Made};
use anyhow::Context as _;
use clap::Args;
use gemelo_base::units::{format_count, format_counted};
use gemelo_place::DomainCheck;
use serde::Serialize;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    domain: DomainArguments,
    #[command(flatten)]
    json: JsonOutput,
}

const SCHEMA: &str = "gemelo.domain-check/1";

/// The most contradictions that are printed. The JSON result has all.
const MOST_PRINTED: usize = 100;

#[derive(Serialize)]
struct Input {
    domain: String,
}

#[derive(Serialize)]
struct Unsettled {
    member: String,
    changes: u64,
}

#[derive(Serialize)]
struct Checked {
    members: u64,
    /// Records of the members about contents of the domain.
    records: u64,
    /// Members with changes that a crash has left unsettled.
    unsettled: Vec<Unsettled>,
    /// The contradictions, in words.
    problems: Vec<String>,
}

impl Checked {
    fn of(check: DomainCheck) -> Self {
        let DomainCheck { members, records, unsettled, findings } = check;
        let unsettled =
            unsettled.into_iter().map(|(member, changes)| Unsettled { member, changes }).collect();
        let problems = findings.iter().map(ToString::to_string).collect();
        Self { members, records, unsettled, problems }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for problem in self.problems.iter().take(MOST_PRINTED) {
            text += &format!("{problem}\n");
        }
        let more = self.problems.len().saturating_sub(MOST_PRINTED);
        if more > 0 {
            text += &format!("and {} more\n", format_count(more as u64));
        }
        for Unsettled { member, changes } in &self.unsettled {
            text += &format!(
                "member {member} has {} unsettled, whose contents were not checked: serve it once, \
                 and check again\n",
                format_counted(*changes, "change")
            );
        }
        let problems = match self.problems.len() {
            0 => "no contradictions".to_owned(),
            count => format_counted(count as u64, "contradiction"),
        };
        text + &format!(
            "{} with {} compared with the index: {problems}\n",
            format_counted(self.members, "member"),
            format_counted(self.records, "record")
        )
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.json.check()?;
    let uri = arguments.domain.uri();
    let client = Arc::new(arguments.domain.connect()?);
    let checked = Checked::of(DomainCheck::run(&client, PATIENCE).context(uri.to_string())?);
    let text = checked.text();
    let is_clean = checked.problems.is_empty();
    let input = Input { domain: uri.to_string() };
    let made = Made { schema: SCHEMA, input, result: &checked, warnings: Vec::new() };
    arguments.json.finish(context, made, &text)?;
    Ok(if is_clean { Outcome::Done } else { Outcome::FoundDamage })
}
