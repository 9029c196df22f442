//! `gemelo pool rm`.

use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::{Outcome, message};
use crate::pools;
use anyhow::anyhow;
use clap::Args;
use gemelo_base::units::{format_counted, format_size};
use gemelo_serve::{POOL_FILES, StatReport};
use gemelo_volume::{PoolRemoval, RemovalStep, VolumeError};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// Remove the pool without asking
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let pool = arguments.pool.display().to_string();
    let about = |error: VolumeError| anyhow::Error::from(error).context(pool.clone());
    // The figures are read before the pool is locked, because a locked pool cannot be opened.
    let report = pools::stat(&arguments.pool, context);
    let removal = PoolRemoval::plan(&arguments.pool, &POOL_FILES).map_err(about)?;
    let mut text = match &report {
        Ok(report) => contents(&pool, report),
        Err(error) => format!(
            "{pool}: its volumes are unknown, because it cannot be opened: {}\n",
            message(&anyhow!("{error:#}"))
        ),
    };
    removal.steps().iter().for_each(|step| text += &step_text(step));
    if !arguments.yes {
        let refused = format!("{pool}: nothing was removed: use --yes to remove the pool");
        confirm(&text, &format!("{pool}: type yes to remove it"), &refused, context)?;
    }
    let is_gone = removal.run().map_err(about)?;
    if arguments.yes {
        context.print(&text)?;
    }
    context.print(&if is_gone {
        format!("{pool}: removed\n")
    } else {
        format!(
            "{pool}: the pool is removed; the directory stays, because it is a link or not empty\n"
        )
    })?;
    Ok(Outcome::Done)
}

/// Lists the volumes that are removed with the pool.
fn contents(pool: &str, report: &StatReport) -> String {
    let block_bytes = u64::from(report.pool.block_bytes);
    let mut text = format!(
        "{pool}: a pool with {}, {} stored\n",
        format_counted(report.pool.volumes, "volume"),
        format_size(report.pool.physical_blocks * block_bytes)
    );
    for volume in &report.volumes {
        text += &format!(
            "  volume {}: {}, {} mapped\n",
            volume.record.name.escape_debug(),
            format_size(volume.record.size_bytes),
            format_size(volume.mapped_blocks * block_bytes)
        );
    }
    text
}

fn step_text(step: &RemovalStep) -> String {
    match step {
        RemovalStep::Remove { path, length_bytes: 0 } => {
            format!("  remove {}\n", path.display())
        }
        RemovalStep::Remove { path, length_bytes } => {
            format!("  remove {}, {}\n", path.display(), format_size(*length_bytes))
        }
        RemovalStep::Wipe { target, is_device, .. } => {
            let what = if *is_device { "the device" } else { "the file" };
            format!("  wipe the header of {}; {what} stays\n", target.display())
        }
    }
}
