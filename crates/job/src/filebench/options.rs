//! The options of a run of a Filebench script.

use super::sweep::Sweep;
use clap::Args;
use gemelo_base::values::Span;
use std::path::PathBuf;

/// The options of a run of a Filebench script.
#[derive(Debug, Clone, Args)]
pub struct FilebenchOptions {
    /// The script
    pub script: PathBuf,
    /// Set a variable, whatever the script sets it to
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = pair)]
    pub define: Vec<(String, String)>,
    /// Do everything below this directory: the script's $dir [default: what the script says]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Length of every run [default: the script's, or 60s]
    #[arg(long, value_name = "DURATION")]
    pub time: Option<Span>,
    /// Data source of filesets that have none: entro, duplicates, random or file, with attributes
    #[arg(long, value_name = "NAME,ATTRIBUTE=VALUE,...")]
    pub source: Option<String>,
    /// Run once for each value of a variable or of a data source's attribute: entropy=0,1,...,8
    #[arg(long, value_name = "NAME=VALUE,...")]
    pub sweep: Option<Sweep>,
    /// Decides shapes, sizes, places and contents [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub seed: u64,
    /// Tells unique contents of runs and hosts apart [default: random]
    #[arg(long, value_name = "N")]
    pub run_id: Option<u64>,
    /// Keep the files that the run made
    #[arg(long)]
    pub keep: bool,
    /// Remove existing trees where filesets will be, and overwrite results
    #[arg(long)]
    pub force: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let name = name.trim().trim_start_matches('$');
    if name.is_empty() {
        return Err("expected a name before '='".to_owned());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}
