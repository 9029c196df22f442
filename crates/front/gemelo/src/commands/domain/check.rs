//! `gemelo domain check`.

use super::{DomainArguments, Input, PATIENCE};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use clap::Args;
use gemelo_base::units::{format_count, format_counted};
use gemelo_place::{DomainCheck, Repaired};
use gemelo_record::ResultFile;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    domain: DomainArguments,
    /// Write ledgers of members again that have lost records, and rebuild the shards of the index
    /// that contradict the ledgers; no member may be served meanwhile
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    json: JsonOutput,
}

/// Pause between two looks at what seems to be a contradiction. A change of the index takes
/// milliseconds; one that takes longer is seen as unsettled.
const PAUSE: Duration = Duration::from_secs(2);

const KIND: Kind<ResultFile<Input, &'static CheckedDomain>> =
    Kind::new("gemelo.domain-check/1", "Result of gemelo domain check");

pub(crate) const DESCRIBED: Described = KIND.described();

/// The most contradictions that are printed. The JSON result has all.
const MAX_PRINTED: usize = 100;

#[derive(JsonSchema, Serialize)]
struct Unsettled {
    /// Name of the member.
    member: String,
    /// Changes of the index whose fate the member does not know.
    changes: u64,
}

#[derive(JsonSchema, Serialize)]
struct CheckedDomain {
    /// Members that were checked.
    members: u64,
    /// Records of the members about contents of the domain.
    records: u64,
    /// Members with changes that a crash has left unsettled.
    unsettled: Vec<Unsettled>,
    /// The contradictions, in words.
    problems: Vec<String>,
    /// Contradictions that are not in the list.
    more_problems: u64,
    /// Shards that were rebuilt.
    rebuilt_shards: u64,
    /// Members whose ledgers were written again.
    rewritten_ledgers: u64,
}

impl CheckedDomain {
    fn of(check: DomainCheck, repaired: Repaired) -> Self {
        let DomainCheck { members, records, unsettled, findings } = check;
        let unsettled =
            unsettled.into_iter().map(|(member, changes)| Unsettled { member, changes }).collect();
        let problems = findings.list.iter().map(ToString::to_string).collect();
        Self {
            members,
            records,
            unsettled,
            problems,
            more_problems: findings.more,
            rebuilt_shards: repaired.shards,
            rewritten_ledgers: repaired.ledgers,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for problem in self.problems.iter().take(MAX_PRINTED) {
            text += &format!("{problem}\n");
        }
        let more = self.problems.len().saturating_sub(MAX_PRINTED) as u64 + self.more_problems;
        if more > 0 {
            text += &format!("and {} more\n", format_count(more));
        }
        if self.rewritten_ledgers > 0 {
            text +=
                &format!("{} written again\n", format_counted(self.rewritten_ledgers, "ledger"));
        }
        if self.rebuilt_shards > 0 {
            text += &format!("{} rebuilt\n", format_counted(self.rebuilt_shards, "shard"));
        }
        for Unsettled { member, changes } in &self.unsettled {
            text += &format!(
                "member {member} has {} unsettled, whose contents were not checked: serve it once, \
                 and check again\n",
                format_counted(*changes, "change")
            );
        }
        let problems = match self.problems.len() as u64 + self.more_problems {
            0 => "no contradictions".to_owned(),
            count => format_counted(count, "contradiction"),
        };
        text + &format!(
            "{} with {} compared with the index: {problems}\n",
            format_counted(self.members, "member"),
            format_counted(self.records, "record")
        )
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let uri = arguments.domain.uri();
    let client = Arc::new(arguments.domain.connect()?);
    let checked = match arguments.repair {
        true => DomainCheck::repair(&client, PATIENCE),
        false => DomainCheck::run(&client, PAUSE).map(|check| (check, Repaired::default())),
    };
    let (check, repaired) = checked.context(uri.to_string())?;
    let checked = CheckedDomain::of(check, repaired);
    let text = checked.text();
    let is_clean = checked.problems.is_empty() && checked.more_problems == 0;
    let input = Input { domain: uri.to_string() };
    let made = KIND.made(input, &checked, Vec::new());
    arguments.json.finish(context, made, &text)?;
    Ok(if is_clean { Outcome::Done } else { Outcome::FoundDamage })
}
