//! `gemelo campaign report`.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::files;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::units::{format_counted, format_line};
use gemelo_page::{PAGE_FILE, Report};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of the campaign
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let directory = &arguments.directory;
    let report = Report::of_campaign(directory)?;
    let made = report.files()?;
    for file in &made {
        let path = directory.join(&file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.shown()))?;
        }
        // The files of an earlier report are replaced: they follow from the records of the runs.
        files::write_whole(&path, true, &file.bytes)?;
    }
    let page = directory.join(PAGE_FILE);
    let text = format!(
        "{}\n{}, and {} beside it\n",
        report.answer(),
        format_line(&gemelo_base::text_of_name(page.as_os_str())),
        format_counted(made.len().saturating_sub(1) as u64, "file")
    );
    context.print(&text)?;
    Ok(Outcome::Done)
}
