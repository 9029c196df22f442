//! `gemelo domain ls`.

use super::{DomainArguments, Input};
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::table::Table;
use clap::Args;
use gemelo_member::MemberLook;
use gemelo_record::ResultFile;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    domain: DomainArguments,
    #[command(flatten)]
    json: JsonOutput,
}

const KIND: Kind<ResultFile<Input, &'static [MemberRow]>> =
    Kind::new("gemelo.domain-list/1", "Result of gemelo domain ls");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct MemberRow {
    /// The name of the member.
    name: String,
    /// The number of the member in the domain.
    number: u32,
    /// `true` if the member has a pool.
    has_pool: bool,
    /// The number of times that a client took the member.
    tenures: u64,
    /// The client that serves the member; absent if none does.
    served_by: Option<String>,
}

impl MemberRow {
    fn of(name: String, look: &MemberLook) -> Self {
        Self {
            name,
            number: look.member.0,
            has_pool: look.has_pool,
            tenures: look.epoch,
            served_by: look.holder.as_ref().map(ToString::to_string),
        }
    }

    fn cells(&self) -> [String; 4] {
        let state = match (&self.served_by, self.has_pool) {
            (Some(client), _) => format!("served by {client}"),
            (None, true) => "idle".to_owned(),
            (None, false) => "without a pool".to_owned(),
        };
        [self.name.clone(), self.number.to_string(), self.tenures.to_string(), state]
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let uri = arguments.domain.uri();
    let client = arguments.domain.connect()?;
    let mut rows = Vec::new();
    for (name, member) in client.members()? {
        rows.push(MemberRow::of(name, &client.look_at(member)?));
    }
    let mut table = Table::new();
    table.row(["member", "number", "tenures", "state"]);
    rows.iter().for_each(|row| table.row(row.cells()));
    let input = Input { domain: uri.to_string() };
    let made = KIND.made(input, &rows, Vec::new());
    arguments.json.finish(context, made, &table.render(0))?;
    Ok(Outcome::Done)
}
