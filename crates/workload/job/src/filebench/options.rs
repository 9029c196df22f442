//! The options of a run of a Filebench script.

use crate::Sweep;
use clap::Args;
use gemelo_base::values::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The options of a run of a Filebench script.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct FilebenchOptions {
    /// The script of Filebench's workload language
    #[serde(with = "gemelo_base::names::path")]
    pub script: PathBuf,
    /// Set a variable; the value of the script is ignored
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = pair)]
    pub define: Vec<(String, String)>,
    /// Directory of all files, the script's variable $dir [default: the script's]
    #[arg(long, value_name = "DIR")]
    #[serde(with = "gemelo_base::names::optional_path", default)]
    pub dir: Option<PathBuf>,
    /// Length of each run [default: the script's, or 60s]
    #[arg(long, value_name = "DURATION")]
    pub time: Option<Span>,
    /// Data source of filesets without one: entro, duplicates, random or file, with attributes
    #[arg(long, value_name = "NAME,ATTRIBUTE=VALUE,...")]
    pub source: Option<String>,
    /// Run once for each value of a variable or of an attribute of the data source, such as
    /// entropy=0,1,...,8
    #[arg(long, value_name = "NAME=VALUE,...")]
    pub sweep: Option<Sweep>,
    /// Seed of file trees, sizes, places and contents [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub seed: u64,
    /// Run id, which makes the unique contents of runs and hosts differ [default: random]
    #[arg(long, value_name = "N")]
    pub run_id: Option<u64>,
    /// Keep the files that the run created
    #[arg(long)]
    pub keep: bool,
    /// Remove existing trees at the places of filesets, and overwrite result files
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
