//! Running a campaign: each run of the plan, resumption, and further repetitions.

mod attempt;
mod decision;
mod files;
mod pace;

use crate::error::{CampaignError, StepError};
use crate::journal::Journal;
use crate::lock::Lock;
use crate::plan::Plan;
use crate::quiet::Quiet;
use crate::room::Room;
use crate::schedule::{Pair, order};
use crate::selection::Selection;
use attempt::Attempt;
use decision::CompleteRuns;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use gemelo_compare::Place;
use gemelo_record::Provenance;
use gemelo_record::{
    CAMPAIGN_SCHEMA, CampaignRecord, Outcome, PlannedRun, RUN_FILE, RunRecord, TargetRecord,
    WorkloadRecord, read_campaign, read_run, run_directory,
};
use gemelo_stats::PlannedLooks;
use pace::Pace;
use std::path::{Path, PathBuf};

/// The surroundings of a campaign.
pub struct Environment<'a> {
    /// This program, which runs its own commands as processes.
    pub program: &'a Path,
    /// The clock of all durations.
    pub clock: SystemClock,
    /// Receives progress and warnings.
    pub monitor: &'a dyn Monitor,
    /// Ends the campaign in good order when it is raised.
    pub stop: &'a StopFlag,
    /// Origin of the campaign.
    pub provenance: Provenance,
    /// Wait before runs until no others keep the machine busy.
    pub waits_for_quiet: bool,
}

/// The end of a campaign.
#[derive(Debug, Default)]
pub struct Summary {
    /// Number of complete runs, with those before a resumption.
    pub done: usize,
    /// Names of failed runs, with their reasons.
    pub failed: Vec<(String, String)>,
    /// `true` if the campaign was asked to stop before its end.
    pub is_interrupted: bool,
    /// Things that could not be given back. `campaign clean` tries again.
    pub left: Vec<String>,
}

/// Returns the runs of the first repetitions, in their order.
pub(crate) fn first_runs(plan: &Plan, selection: &Selection) -> Vec<PlannedRun> {
    let mut runs = Vec::new();
    for repetition in 1..=plan.settings.repetitions {
        add_runs(plan, &selection.pairs, repetition, &mut runs);
    }
    runs
}

/// Returns the runs that do not count: the first workload of each target, as often as the plan
/// wants.
pub(crate) fn warm_up_runs(plan: &Plan, selection: &Selection) -> Vec<PlannedRun> {
    let mut first: Vec<Pair> = Vec::new();
    for pair in &selection.pairs {
        if first.iter().all(|other| other.target != pair.target) {
            first.push(*pair);
        }
    }
    let mut runs = Vec::new();
    for _ in 0..plan.settings.warm_up_runs {
        add_runs(plan, &first, 0, &mut runs);
    }
    runs
}

/// Appends one repetition of some pairs.
fn add_runs(plan: &Plan, pairs: &[Pair], repetition: u32, runs: &mut Vec<PlannedRun>) {
    for pair in order(pairs, plan.settings.seed, repetition) {
        let members = plan.workloads.get(pair.workload).zip(plan.targets.get(pair.target));
        let Some((workload, target)) = members else { continue };
        let number = runs.len() + 1;
        runs.push(PlannedRun {
            id: format!("{number:04}-{}-{}-r{repetition}", workload.name, target.name),
            target: target.name.clone(),
            workload: workload.name.clone(),
            repetition,
        });
    }
}

/// Runs a campaign in a directory, or goes on with it.
///
/// # Errors
/// Fails if the campaign cannot begin or its record cannot be written. A failed run is no error.
pub fn run(
    plan: &Plan,
    directory: &Path,
    resume: bool,
    environment: &Environment<'_>,
) -> Result<Summary, CampaignError> {
    let selection = Selection::of(plan);
    if selection.pairs.is_empty() {
        return Err(CampaignError::NothingToRun(selection.reasons(plan)));
    }
    let room = Room::of(plan, &selection, directory);
    room.check()?;
    let directory = files::prepare(plan, directory, resume)?;
    let _lock = Lock::take(&directory)?;
    let record = files::record(plan, &directory, resume, || {
        record_of(plan, &selection, environment.provenance.clone())
    })?;
    let mut journal = Journal::open(&directory)?;
    refuse_leftovers(journal.undo_all()?)?;
    let of_before = warn_of_kept(&journal, 0, environment.monitor);
    let work = work_directory(plan, &directory, &mut journal)?;
    let mut campaign =
        Campaign { plan, directory: &directory, work, room, record, journal, environment };
    let ended = campaign.all_runs(&selection);
    let left = reasons(&campaign.journal.undo_all()?);
    warn_of_kept(&campaign.journal, of_before, environment.monitor);
    Ok(Summary { left, ..ended? })
}

/// Warns of what is in the place of something that the campaign made, and stays. Returns how much
/// was kept until now.
fn warn_of_kept(journal: &Journal, told: usize, monitor: &dyn Monitor) -> usize {
    let kept = journal.kept();
    kept.iter().skip(told).for_each(|kept| monitor.warn(&format!("kept: {kept}")));
    kept.len()
}

/// Gives back everything that a campaign has left. Returns what could not be given back.
///
/// # Errors
/// Fails if the directory has no campaign, if it is in use, or if its journal cannot be read.
pub fn clean(directory: &Path) -> Result<Cleaned, CampaignError> {
    read_campaign(directory)?;
    let _lock = Lock::take(directory)?;
    let mut journal = Journal::open(directory)?;
    let found = journal.live().map(ToString::to_string).collect();
    let left = reasons(&journal.undo_all()?);
    Ok(Cleaned { found, kept: journal.kept().to_vec(), left })
}

/// The outcome of [`clean`].
#[derive(Debug)]
pub struct Cleaned {
    /// Resources that the journal named.
    pub found: Vec<String>,
    /// Things in the places of such resources that nothing proves to be the campaign's, with
    /// reasons. They stay.
    pub kept: Vec<String>,
    /// Resources that could not be given back, with reasons.
    pub left: Vec<String>,
}

fn reasons(errors: &[StepError]) -> Vec<String> {
    errors.iter().map(StepError::reason).collect()
}

fn refuse_leftovers(errors: Vec<StepError>) -> Result<(), CampaignError> {
    errors.into_iter().next().map_or(Ok(()), |error| Err(CampaignError::Leftover(error.reason())))
}

/// Makes the directory in which runs make their targets.
fn work_directory(
    plan: &Plan,
    directory: &Path,
    journal: &mut Journal,
) -> Result<PathBuf, CampaignError> {
    let work = match &plan.settings.work {
        Some(parent) => parent.join(format!("gemelo-{:016x}", gemelo_base::random::fresh_word())),
        None => directory.join(files::WORK_DIRECTORY),
    };
    journal.directory(&work).map_err(|error| match error {
        StepError::Io { action: "create", path, source }
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            CampaignError::Taken(path)
        }
        StepError::Io { action, path, source } => CampaignError::Io { action, path, source },
        other => CampaignError::Leftover(other.reason()),
    })
}

pub(crate) fn record_of(
    plan: &Plan,
    selection: &Selection,
    provenance: Provenance,
) -> CampaignRecord {
    let settings = &plan.settings;
    let targets =
        plan.targets.iter().zip(&selection.targets).map(|(target, left_out)| TargetRecord {
            name: target.name.clone(),
            kind: target.kind.to_owned(),
            description: target.description.clone(),
            capacity_bytes: target.target.space_bytes(),
            is_baseline: settings.baseline.as_ref() == Some(&target.name),
            left_out: left_out.clone(),
        });
    let workloads = plan.workloads.iter().zip(&selection.workloads).map(|(workload, left_out)| {
        WorkloadRecord {
            name: workload.name.clone(),
            kind: workload.kind.to_owned(),
            description: workload.description.clone(),
            data_bytes: workload.data_bytes,
            main_figure: workload.main_figure.clone(),
            set: workload.set.clone(),
            left_out: left_out.clone(),
        }
    });
    CampaignRecord {
        schema: CAMPAIGN_SCHEMA.to_owned(),
        provenance: Provenance { seed: Some(settings.seed), ..provenance },
        name: settings.name.clone(),
        title: settings.title.clone(),
        plan_text: plan.text.clone(),
        paper: plan.paper.clone(),
        targets: targets.collect(),
        workloads: workloads.collect(),
        runs: first_runs(plan, selection),
        repetitions: settings.repetitions,
        max_repetitions: settings.max_repetitions,
        margin_share: settings.margin_share,
        confidence: settings.confidence,
        claims: plan.claims.clone(),
        warnings: selection.unsuitable.clone(),
    }
}

/// A campaign that is running.
struct Campaign<'a> {
    plan: &'a Plan,
    directory: &'a Path,
    work: PathBuf,
    room: Room,
    record: CampaignRecord,
    journal: Journal,
    environment: &'a Environment<'a>,
}

impl Campaign<'_> {
    fn all_runs(&mut self, selection: &Selection) -> Result<Summary, CampaignError> {
        let mut summary = Summary::default();
        let mut measured = CompleteRuns::default();
        let monitor = self.environment.monitor;
        monitor.begin("run", Unit::Items, Some(self.record.runs.len() as u64));
        let Environment { clock, stop, .. } = self.environment;
        let mut quiet = Quiet { clock, monitor, stop, quiet_since_ns: None };
        if self.environment.waits_for_quiet {
            quiet.wait();
        }
        self.warm_up(selection)?;
        let mut pace = Pace::default();
        let mut next = 0;
        while !self.environment.stop.is_raised() {
            let Some(run) = self.record.runs.get(next).cloned() else {
                if self.add_repetitions(selection, &measured)? {
                    continue;
                }
                monitor.finish();
                return Ok(summary);
            };
            next += 1;
            let planned = self.record.runs.len();
            monitor.show(&format!("{next} of {planned}, {} on {}", run.workload, run.target));
            if self.environment.waits_for_quiet && !self.is_complete(&run) {
                quiet.wait();
            }
            let began_ns = self.environment.clock.now_ns();
            let (record, is_new) = self.complete(&run)?;
            if is_new {
                pace.add(self.environment.clock.now_ns() - began_ns);
                monitor.milestone(&pace.line(next, planned, &record));
            }
            monitor.advance(1);
            match &record.outcome {
                Outcome::Done => {
                    summary.done += 1;
                    measured.add(&record);
                }
                Outcome::Failed { reason } => {
                    monitor.warn(&format!("run {} failed: {reason}", run.id));
                    summary.failed.push((run.id, reason.clone()));
                }
                Outcome::Interrupted => break,
            }
        }
        monitor.finish();
        summary.is_interrupted = true;
        Ok(summary)
    }

    /// Appends the repetitions up to the next look of the pairs that are undecided. Returns `false`
    /// if there are none.
    fn add_repetitions(
        &mut self,
        selection: &Selection,
        measured: &CompleteRuns,
    ) -> Result<bool, CampaignError> {
        let settings = &self.plan.settings;
        let last = self.record.runs.iter().map(|run| run.repetition).max().unwrap_or(0);
        let looks = PlannedLooks::new(settings.repetitions, settings.max_repetitions);
        let Some(next) = looks.after(last) else { return Ok(false) };
        let undecided = measured.undecided(&self.record)?;
        let is_undecided = |pair: &Pair| {
            let workload = self.plan.workloads.get(pair.workload);
            let target = self.plan.targets.get(pair.target);
            workload.zip(target).is_some_and(|(workload, target)| {
                undecided.contains(&Place::new(&workload.name, &target.name))
            })
        };
        let pairs: Vec<_> = selection.pairs.iter().copied().filter(is_undecided).collect();
        for repetition in last + 1..=next {
            add_runs(self.plan, &pairs, repetition, &mut self.record.runs);
        }
        if !pairs.is_empty() {
            let path = self.directory.join(gemelo_record::CAMPAIGN_FILE);
            files::write_json(&path, &self.record)?;
            self.environment.monitor.set_total(self.record.runs.len() as u64);
        }
        Ok(!pairs.is_empty())
    }

    /// Runs the first workload of each target a few times without counting it: the first run of a
    /// target finds cold memory, files that were never written, and processors at rest. A resumed
    /// campaign does not repeat this.
    fn warm_up(&mut self, selection: &Selection) -> Result<(), CampaignError> {
        for run in warm_up_runs(self.plan, selection) {
            let results = self.directory.join(WARM_UP_DIRECTORY).join(&run.id);
            if self.environment.stop.is_raised() || results.join(RUN_FILE).exists() {
                continue;
            }
            let record = Attempt::new(self, &run, results.clone())?.execute();
            self.room.check_after(&record)?;
            if let Outcome::Failed { reason } = &record.outcome {
                self.environment.monitor.warn(&format!("warm-up {} failed: {reason}", run.id));
            }
            if record.outcome != Outcome::Interrupted {
                files::write_json(&results.join(RUN_FILE), &record)?;
            }
        }
        Ok(())
    }

    fn is_complete(&self, run: &PlannedRun) -> bool {
        read_run(self.directory, &run.id).is_ok_and(|record| record.outcome == Outcome::Done)
    }

    /// Returns the record of a run that is complete already, or executes it and returns `true`.
    fn complete(&mut self, run: &PlannedRun) -> Result<(RunRecord, bool), CampaignError> {
        if let Ok(record) = read_run(self.directory, &run.id)
            && record.outcome == Outcome::Done
        {
            return Ok((record, false));
        }
        self.room.check()?;
        let results = run_directory(self.directory, &run.id);
        let record = Attempt::new(self, run, results.clone())?.execute();
        files::write_json(&results.join(RUN_FILE), &record)?;
        self.room.check_after(&record)?;
        Ok((record, true))
    }
}

/// Directory of the records of runs that do not count.
const WARM_UP_DIRECTORY: &str = "warm-up";
