//! One run: make the target, prepare it, measure, let it settle, give everything back.

use super::{Campaign, files};
use crate::error::{CampaignError, StepError};
use crate::journal::Mark;
use crate::monitor::{TargetMonitor, Watched};
use crate::plan::Settings;
use crate::process;
use crate::resource::Resource;
use crate::result;
use crate::site::RunSite;
use crate::system;
use crate::target::{MadeTarget, TargetPlan};
use crate::workload::{Action, ActionSite, Measured, Step, WorkloadPlan};
use gemelo_base::{Clock, WallClock};
use gemelo_compare::Repetition;
use gemelo_record::{
    Better, Outcome, PhaseRecord, PlannedRun, RUN_SCHEMA, RunRecord, Space, Stats,
};
use std::ops::Range;
use std::path::PathBuf;

/// Names of the moments at which the space of a target is asked for.
const BEFORE: &str = "before";
const AFTER: &str = "after";
const SETTLED: &str = "settled";

/// One run that is about to be executed.
pub(super) struct Attempt<'a> {
    settings: &'a Settings,
    target: &'a TargetPlan,
    workload: &'a WorkloadPlan,
    site: RunSite<'a>,
    clock: gemelo_base::SystemClock,
    start_ns: u64,
    record: RunRecord,
    /// Start and end of the measured phase, in nanoseconds since the start of the run.
    measured: Option<Range<u64>>,
}

impl<'a> Attempt<'a> {
    /// Prepares the directory of the results. Those of an earlier attempt are removed.
    pub(super) fn new(
        campaign: &'a mut Campaign<'_>,
        run: &PlannedRun,
        results: PathBuf,
    ) -> Result<Self, CampaignError> {
        let missing = || CampaignError::OtherPlan(campaign.directory.to_owned());
        let plan = campaign.plan;
        let target = plan.targets.iter().find(|target| target.name == run.target);
        let workload = plan.workloads.iter().find(|workload| workload.name == run.workload);
        let (target, workload) = target.zip(workload).ok_or_else(missing)?;
        files::make_results(&results, &run.id)?;
        let clock = campaign.environment.clock;
        let number = run.id.split('-').next().unwrap_or_default();
        let site = RunSite {
            program: campaign.environment.program,
            work: campaign.work.join(number),
            results,
            journal: &mut campaign.journal,
            mark: format!("{:016x}", gemelo_base::random::fresh_word()),
            stop: campaign.environment.stop,
            clock: &campaign.environment.clock,
            watched: Watched::default(),
            load_is_target: false,
            // All targets get the same load in a repetition, and each repetition another one.
            seed: plan.settings.seed.wrapping_add(u64::from(run.repetition)).wrapping_sub(1),
            repetition: run.repetition,
            warnings: Vec::new(),
        };
        let started_at = humantime::format_rfc3339_seconds(clock.date()).to_string();
        let record = empty_record(run, started_at);
        let start_ns = clock.now_ns();
        let settings = &plan.settings;
        Ok(Self { settings, target, workload, site, clock, start_ns, record, measured: None })
    }

    /// Executes the run and gives back everything that it has made.
    pub(super) fn execute(mut self) -> RunRecord {
        let mark = self.site.journal.mark();
        let monitor = TargetMonitor::start(self.clock, self.start_ns, self.site.watched.clone());
        let outcome = match &monitor {
            Ok(monitor) => self.steps(monitor),
            Err(error) => Err(StepError::Start {
                program: "the monitor".to_owned(),
                source: std::io::Error::from(error.kind()),
            }),
        };
        self.record.outcome = match outcome {
            Ok(()) => Outcome::Done,
            Err(StepError::Interrupted) => Outcome::Interrupted,
            Err(error) => Outcome::Failed { reason: error.reason() },
        };
        let left = self.give_back(mark);
        self.record.warnings.append(&mut self.site.warnings);
        self.record.warnings.extend(left.iter().map(StepError::reason));
        match monitor.map(|monitor| monitor.finish(self.measured.as_ref())) {
            Ok(Some(seen)) => self.record.monitor = seen,
            // Without its figures the run is not like the others.
            Ok(None) if self.record.outcome == Outcome::Done => {
                let reason = "the monitor panicked, which is a defect of this program".to_owned();
                self.record.outcome = Outcome::Failed { reason };
            }
            Ok(None) | Err(_) => {}
        }
        self.add_space();
        self.check_main_figure();
        self.record.elapsed_ns = self.now_ns();
        self.record
    }

    fn give_back(&mut self, mark: Mark) -> Vec<StepError> {
        let given_back = |run: &mut Self| Ok(run.site.journal.undo_since(mark));
        self.phase("give-back", given_back).unwrap_or_default()
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.start_ns)
    }

    /// Executes a part of the run and records its time.
    fn phase<T>(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Self) -> Result<T, StepError>,
    ) -> Result<T, StepError> {
        let start_ns = self.now_ns();
        let result = act(self);
        let length_ns = self.now_ns().saturating_sub(start_ns);
        self.record.phases.push(PhaseRecord { name: name.to_owned(), start_ns, length_ns });
        result
    }

    fn steps(&mut self, monitor: &TargetMonitor) -> Result<(), StepError> {
        self.site.pause(self.settings.idle)?;
        let made = self.phase("make", Self::make)?;
        self.ask_space(made.as_ref(), BEFORE)?;
        for (index, step) in self.workload.prepare.iter().enumerate() {
            self.prepare(made.as_ref(), index + 1, step)?;
        }
        if self.workload.drops_caches.unwrap_or(self.settings.drops_caches) {
            self.phase("drop-caches", Self::drop_caches)?;
        }
        monitor.look();
        let start_ns = self.now_ns();
        let workload = self.workload;
        let measured = self
            .phase("measure", |run| run.act(made.as_ref(), workload.measure.as_ref(), "measure"));
        monitor.look();
        self.measured = Some(start_ns..self.now_ns());
        let Measured { figures, failure, files, mut warnings } = measured?;
        self.record.figures = figures;
        self.record.files.extend(files);
        self.record.warnings.append(&mut warnings);
        failure.map_or(Ok(()), Err)?;
        self.ask_space(made.as_ref(), AFTER)?;
        let is_settled = self.phase("settle", |run| made.settle(&mut run.site))?;
        if is_settled {
            let length_ns = self.record.phases.last().map_or(0, |phase| phase.length_ns);
            self.record.figures.push("settle/elapsed_ns", length_ns as f64, Better::Lower);
            self.ask_space(made.as_ref(), SETTLED)?;
        } else {
            self.record.phases.pop();
        }
        Ok(())
    }

    fn make(&mut self) -> Result<Box<dyn MadeTarget>, StepError> {
        let mark = self.site.mark.clone();
        self.site.journal.note(Resource::MarkedProcesses { mark })?;
        self.site.directory(&self.site.work.clone())?;
        let made = self.target.target.make(&mut self.site)?;
        self.site.load_is_target = made.is_in_load();
        for process in process::marked(&self.site.mark) {
            self.site.watched.add(process.pid);
        }
        Ok(made)
    }

    fn prepare(
        &mut self,
        made: &dyn MadeTarget,
        number: usize,
        step: &Step,
    ) -> Result<(), StepError> {
        match step {
            Step::Act(action) => {
                let name = format!("prepare-{number}");
                let measured = self.phase(&name, |run| run.act(made, action.as_ref(), &name))?;
                self.record.files.extend(measured.files);
                measured.failure.map_or(Ok(()), Err)
            }
            Step::Idle(length) => self.phase("idle", |run| run.site.pause(*length)),
            Step::Settle => self.phase("settle", |run| made.settle(&mut run.site)).map(drop),
            Step::DropCaches => self.phase("drop-caches", Self::drop_caches),
        }
    }

    fn act(
        &mut self,
        made: &dyn MadeTarget,
        action: &dyn Action,
        name: &str,
    ) -> Result<Measured, StepError> {
        let mut stage = ActionSite {
            site: &mut self.site,
            place: made.place(),
            name: name.to_owned(),
            limit: self.workload.time_limit,
        };
        action.run(&mut stage)
    }

    fn drop_caches(&mut self) -> Result<(), StepError> {
        if system::is_root() {
            return system::drop_caches();
        }
        let warning = "the caches of the system were not dropped, because that needs root";
        self.record.warnings.push(warning.to_owned());
        Ok(())
    }

    fn ask_space(&mut self, made: &dyn MadeTarget, moment: &str) -> Result<(), StepError> {
        let space = self.phase("space", |run| made.space(&mut run.site))?;
        if let Some(space) = space {
            self.record.space.insert(moment.to_owned(), space);
        }
        Ok(())
    }

    /// Fails a complete run that lacks the main figure of the plan: no comparison could use it.
    fn check_main_figure(&mut self) {
        let main = self.workload.main_figure.as_ref().filter(|_| self.workload.names_main_figure);
        let Some(main) = main.filter(|_| self.record.outcome == Outcome::Done) else { return };
        let figures = Repetition::of_run(&self.record).figures;
        if figures.value(main).is_some() {
            return;
        }
        let names: Vec<&str> = figures.figures.iter().map(|one| one.name.as_str()).collect();
        let has = if names.is_empty() { "no figure".to_owned() } else { names.join(", ") };
        let reason =
            format!("the run does not have the main figure '{main}' of its workload: it has {has}");
        self.record.outcome = Outcome::Failed { reason };
    }

    /// Adds the space that the load takes at the end to the figures.
    fn add_space(&mut self) {
        let space = &self.record.space;
        let Some(last) = space.get(SETTLED).or_else(|| space.get(AFTER)).copied() else { return };
        let none = Space { data_bytes: 0, metadata_bytes: Some(0), logical_bytes: Some(0) };
        let before = space.get(BEFORE).copied().unwrap_or(none);
        let data_bytes = last.data_bytes.saturating_sub(before.data_bytes) as f64;
        let figures = &mut self.record.figures;
        let mut push = |name, value, better| result::set(figures, name, value, better);
        push("space/data_bytes", data_bytes, Better::Lower);
        if let Some(bytes) = last.metadata_bytes {
            let grown = bytes.saturating_sub(before.metadata_bytes.unwrap_or(0));
            push("space/metadata_bytes", grown as f64, Better::Lower);
        }
        if let Some(bytes) = last.logical_bytes {
            let grown = bytes.saturating_sub(before.logical_bytes.unwrap_or(0)) as f64;
            push("space/logical_bytes", grown, Better::Neither);
            push("space/dedup_ratio", grown / data_bytes, Better::Higher);
        }
    }
}

fn empty_record(run: &PlannedRun, started_at: String) -> RunRecord {
    RunRecord {
        schema: RUN_SCHEMA.to_owned(),
        id: run.id.clone(),
        target: run.target.clone(),
        workload: run.workload.clone(),
        repetition: run.repetition,
        started_at,
        elapsed_ns: 0,
        outcome: Outcome::Interrupted,
        phases: Vec::new(),
        figures: Stats::default(),
        monitor: Stats::default(),
        space: std::collections::BTreeMap::new(),
        files: Vec::new(),
        warnings: Vec::new(),
    }
}
