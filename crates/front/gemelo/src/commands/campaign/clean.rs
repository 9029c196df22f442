//! `gemelo campaign clean`.

use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_base::units::format_counted;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of the campaign
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let cleaned = gemelo_campaign::clean(&arguments.directory)?;
    let mut text: String = cleaned.kept.iter().map(|kept| format!("kept: {kept}\n")).collect();
    text.extend(cleaned.left.iter().map(|left| format!("left: {left}\n")));
    if cleaned.left.is_empty() {
        let given_back = cleaned.found.len().saturating_sub(cleaned.kept.len());
        let count = format_counted(given_back as u64, "thing");
        text += &format!("{count} given back\n");
    }
    context.print(&text)?;
    Ok(if cleaned.left.is_empty() { Outcome::Done } else { Outcome::Partial })
}
