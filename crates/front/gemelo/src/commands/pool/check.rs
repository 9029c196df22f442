//! `gemelo pool check`.

use super::check_findings::{show_idle, show_served};
use super::outlook::{describe, gives_up};
use crate::confirm::ask;
use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::json::JsonOption;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::ShowPath as _;
use gemelo_base::values::Size;
use gemelo_check::{CheckOptions, CheckReport, MEMORY_BYTES, check_within};
use gemelo_disk::DiskAccess;
use gemelo_job::choice;
use gemelo_place::{PlaceError, PoolDisks, PoolPlace};
use gemelo_serve::{PoolRequest, Purpose, Reply, RequestFailure, Settings, mark_damaged};
use gemelo_volume::{
    LossChoice, RepairOptions, RepairOutlook, RepairPlan, VolumeError, repair_outlook_within,
    repair_within,
};

/// Below this, a large pool would be read a thousand times.
const MIN_MEMORY_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pub(super) pool: PoolPlace,
    /// Read all contents and compare them with their checksums and fingerprints
    #[arg(long)]
    pub(super) data: bool,
    /// Memory for what is compared or repaired at once, without two bits for each block; less reads
    /// the metadata more often. A served pool is checked in memory of its server [default: 256m]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Rebuild the metadata, and mark lost contents, so that the pool can be used again
    #[arg(long)]
    pub(super) repair: bool,
    /// With --repair, give up what is lost without a question; otherwise, overwrite an existing
    /// JSON file
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) json: JsonOption,
    /// With --repair, what to do about a commit of the journal that is lost: keep the later ones,
    /// or go back to the state before it [default: asked for; skip with --force]
    #[arg(long, value_name = "CHOICE", requires = "repair")]
    lost_commit: Option<LostCommit>,
}

choice!(
    LostCommit is LossChoice {
        /// Keep the later commits: loses least
        Skip,
        /// Go back to the state before the lost commit: a state that the pool had
        RollBack,
    }
);

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.check_json()?;
    let memory_bytes = arguments.memory_bytes()?;
    let name = &arguments.pool;
    let about = |error: PlaceError| RequestFailure::from(error).about(&name.to_string());
    // No command opens a pool with invalid settings, even if its disks are sound.
    let settings = Settings::read(&arguments.pool).err();
    let access = if arguments.repair { DiskAccess::Exclusive } else { DiskAccess::Shared };
    match arguments.pool.open_disks(access) {
        Ok(held) => {
            let disks = held.disks();
            let of_engine = |error: VolumeError| about(error.into());
            let checked = CheckedPool::of(&disks, (arguments.data, memory_bytes), context);
            let mut checked = checked.map_err(of_engine)?;
            if !arguments.repair || checked.report.is_clean() {
                drop(disks);
                held.release().map_err(about)?;
                mark_damaged(&arguments.pool, &checked.report.damaged_blocks, &*context.monitor);
                return show_idle(arguments, &checked, settings.as_ref(), context);
            }
            let choice = arguments.choose(&checked.outlook, context)?;
            let options = RepairOptions { data: arguments.data, choice };
            let plan =
                repair_within(memory_bytes, &disks, options, &*context.monitor, &context.stop);
            checked.repaired = Some(plan.map_err(of_engine)?);
            drop(disks);
            held.release().map_err(about)?;
            show_idle(arguments, &checked, settings.as_ref(), context)
        }
        Err(error) if error.is_in_use() && arguments.repair => {
            let error = about(error);
            let text =
                format!("{error}: a pool that is in use cannot be repaired: stop that process");
            Err(RequestFailure { text, ..error }.into())
        }
        Err(error) if error.is_in_use() && arguments.memory.is_some() => {
            let error = about(error);
            let text = format!("{error}: its server checks it, and --memory is for an idle pool");
            Err(RequestFailure { text, ..error }.into())
        }
        Err(error) if error.is_in_use() => {
            let access = pools::open(&arguments.pool, Purpose::Read, context)?;
            let reply = pools::ask(&access, &PoolRequest::Check { data: arguments.data }, context)?;
            access.close()?;
            let Reply::Checked(report) = reply else { return Err(pools::other_version()) };
            show_served(arguments, &report, settings.as_ref(), context)
        }
        Err(error) => Err(about(error).into()),
    }
}

/// The result of a check of a pool that no process has open.
pub(super) struct CheckedPool {
    pub(super) report: CheckReport,
    /// The losses of a repair, if there is something to repair.
    pub(super) outlook: RepairOutlook,
    /// The losses of the repair that was made.
    pub(super) repaired: Option<RepairPlan>,
}

impl CheckedPool {
    fn of(
        disks: &PoolDisks,
        (data, memory_bytes): (bool, u64),
        context: &Context,
    ) -> Result<Self, VolumeError> {
        let (monitor, stop) = (&*context.monitor, &context.stop);
        let report = check_within(memory_bytes, disks, CheckOptions { data }, monitor, stop)?;
        let outlook = match report.is_clean() {
            true => RepairOutlook::default(),
            false => repair_outlook_within(memory_bytes, disks, data, monitor, stop)?,
        };
        Ok(Self { report, outlook, repaired: None })
    }
}

impl Arguments {
    fn memory_bytes(&self) -> crate::Result<u64> {
        match self.memory {
            None => Ok(MEMORY_BYTES),
            Some(Size(bytes)) if bytes >= MIN_MEMORY_BYTES => Ok(bytes),
            Some(_) => Err(refused!("--memory must be at least 1m")),
        }
    }

    /// Refuses a JSON file that cannot be written or that exists. With --repair it is refused in
    /// any case, so that nobody gives up data by an option that was meant for the file.
    fn check_json(&self) -> crate::Result<()> {
        match self.json.path() {
            Some(path) if self.repair && path.is_file() => Err(refused!(
                "{} exists: name another file; with --repair, --force is for the pool alone",
                path.shown()
            )),
            _ => self.json.check(self.force),
        }
    }

    /// Asks whether to give up what a repair cannot keep, if there is anything, and what to do
    /// about a lost commit, if there is a choice.
    fn choose(&self, outlook: &RepairOutlook, context: &Context) -> crate::Result<LossChoice> {
        let chosen = self.lost_commit.map(LossChoice::from);
        let choice = chosen.unwrap_or(LossChoice::Skip);
        if self.force || !gives_up(outlook) {
            return Ok(choice);
        }
        let pool = &self.pool;
        let refused = format!("{pool}: nothing was repaired: use --force to give up what is lost");
        let wanted: &[(&str, LossChoice)] = match outlook.skip.is_some() && chosen.is_none() {
            true => &[("skip", LossChoice::Skip), ("roll-back", LossChoice::RollBack)],
            false => &[("yes", choice)],
        };
        let words: Vec<&str> = wanted.iter().map(|(word, _)| *word).collect();
        let question = format!("{pool}: type {} to repair it all the same", words.join(" or "));
        let answer = ask(&describe(outlook), &question, &refused, context)?;
        let answer = wanted.iter().find(|(word, _)| *word == answer);
        answer.map(|(_, choice)| *choice).ok_or_else(|| refused!("{refused}"))
    }
}
