//! `gemelo pool rm`.

use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::ShowPath as _;
use gemelo_base::units::{format_counted, format_size};
use gemelo_place::{MemberPlace, MemberRemoval, PlaceError, PoolPlace};
use gemelo_serve::{POOL_FILES, StatReport, VolumeReport};
use gemelo_volume::{PoolRemoval, RemovalStep, VolumeError};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Remove the pool without asking
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    // The figures are read before the pool is locked, because a locked pool cannot be opened.
    let report = pools::stat(&arguments.pool, context);
    let known = match &report {
        Ok(report) => contents(&arguments.pool, report),
        Err(error) => format!(
            "{}: its volumes are unknown, because it cannot be opened: {}\n",
            arguments.pool, error
        ),
    };
    match &arguments.pool {
        PoolPlace::Directory(directory) => arguments.remove_files(directory, known, context),
        PoolPlace::Member(member) => arguments.remove_member(member, known, context),
    }
}

impl Arguments {
    fn remove_files(
        &self,
        directory: &Path,
        known: String,
        context: &Context,
    ) -> crate::Result<Outcome> {
        let pool = &self.pool;
        let about = |error: VolumeError| Failure::from(error).context(pool.to_string());
        let removal = PoolRemoval::plan(directory, &POOL_FILES).map_err(about)?;
        let mut text = known;
        removal.steps().iter().for_each(|step| text += &step_text(step));
        self.confirm(&text, context)?;
        let is_gone = removal.run().map_err(about)?;
        if self.force {
            context.print(&text)?;
        }
        context.print(&if is_gone {
            format!("{pool}: removed\n")
        } else {
            format!(
                "{pool}: the pool is removed; the directory stays, because it is a link or not \
                 empty\n"
            )
        })?;
        Ok(Outcome::Done)
    }

    fn remove_member(
        &self,
        member: &MemberPlace,
        known: String,
        context: &Context,
    ) -> crate::Result<Outcome> {
        let pool = &self.pool;
        let about = |error: PlaceError| Failure::from(error).context(pool.to_string());
        let removal = MemberRemoval::plan(member).map_err(about)?;
        let text = known + "  remove its objects, and its name in the domain\n";
        self.confirm(&text, context)?;
        removal.run().map_err(about)?;
        if self.force {
            context.print(&text)?;
        }
        context.print(&format!("{pool}: removed\n"))?;
        Ok(Outcome::Done)
    }

    fn confirm(&self, text: &str, context: &Context) -> crate::Result<()> {
        let pool = &self.pool;
        if self.force {
            return Ok(());
        }
        let refused = format!("{pool}: nothing was removed: use --force to remove the pool");
        confirm(text, &format!("{pool}: type yes to remove it"), &refused, context)
    }
}

/// Lists the volumes that are removed with the pool.
fn contents(pool: &PoolPlace, report: &StatReport) -> String {
    let block_bytes = u64::from(report.pool.block_bytes);
    let mut text = format!(
        "{pool}: a pool with {}, {} stored\n",
        format_counted(report.pool.volumes, "volume"),
        format_size(report.pool.data_blocks() * block_bytes)
    );
    for VolumeReport { summary: volume, .. } in &report.volumes {
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
            format!("  remove {}\n", path.shown())
        }
        RemovalStep::Remove { path, length_bytes } => {
            format!("  remove {}, {}\n", path.shown(), format_size(*length_bytes))
        }
        RemovalStep::Wipe { target, is_device, .. } => {
            let what = if *is_device { "the device" } else { "the file" };
            format!("  wipe the header of {}; {what} stays\n", target.shown())
        }
    }
}
