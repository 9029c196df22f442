//! `gemelo schema` prints the JSON Schemas of results, which are made from their types.

use super::list::COMMANDS;
use crate::context::Context;
use crate::exit::{OrFailed as _, Outcome, refused};
use crate::kind::Described;
use clap::Args;

/// Print the JSON Schema of a kind of result, or list the kinds
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The kind, such as scan or gemelo.scan/1 [default: list all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let mut kinds = COMMANDS.iter().flat_map(|command| command.kinds);
    let Some(name) = &arguments.name else {
        let line = |kind: &Described| format!("{:18} {}\n", kind.name(), kind.title);
        context.print(&kinds.map(line).collect::<String>())?;
        return Ok(Outcome::Done);
    };
    let is_named = |kind: &&Described| [kind.name(), kind.schema].contains(&name.as_str());
    let kind = kinds
        .find(is_named)
        .ok_or_else(|| refused!("there is no schema '{name}': 'gemelo schema' lists them"))?;
    context.print(&gemelo_record::to_json(&kind.json_schema()).or_failed()?)?;
    Ok(Outcome::Done)
}
