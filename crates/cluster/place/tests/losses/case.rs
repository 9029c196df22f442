//! One case: the check, then all that members do, then the repair, and all of it again.

use crate::base::{BLOCK, Images, LAST, MEMBERS, Process, content, read, write};
use crate::faults::Case;
use crate::snapshot::{contents, put, take};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_disk::DiskAccess;
use gemelo_domain::Client;
use gemelo_place::{DomainCheck, PlacedPool, PoolPlace, Use};
use gemelo_volume::{LossChoice, RepairOptions, ScrubOptions, repair, repair_outlook};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The lease of a repair.
const LEASE: Duration = Duration::from_secs(60);

/// What was seen of a case.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What the checks said before anything else.
    pub(crate) said: Vec<String>,
    /// Blocks with bytes that they never had.
    pub(crate) wrong: Vec<String>,
    /// Contents that were there after the fault and are wanted, and that are gone at the end.
    pub(crate) gone: Vec<u64>,
    /// What failed before the repair.
    pub(crate) failed: Vec<String>,
    /// The reason why the repair failed, if it did, and what failed after it.
    pub(crate) unrepaired: Option<String>,
    pub(crate) failed_after: Vec<String>,
}

/// The blocks of a volume: each has one of these contents.
type Expected = BTreeMap<(&'static str, &'static str), BTreeMap<u64, BTreeSet<u64>>>;

struct Running<'c> {
    connect: &'c dyn Fn() -> Arc<dyn Client>,
    expected: Expected,
    seen: Seen,
    failed: Vec<String>,
    next: u64,
    /// Members whose pools were repaired and gave blocks up, as the repair says before.
    gave_up: BTreeSet<&'static str>,
    /// `true` if contents of the last commit of `three` may be lost.
    is_torn: bool,
}

/// Runs a case on an empty store. `is_plain` says that contents lie in it as they are.
pub(crate) fn run(
    case: &Case,
    images: &Images,
    connect: &dyn Fn() -> Arc<dyn Client>,
    is_plain: bool,
) -> Seen {
    put(&*connect(), &case.objects);
    let one = |id: &u64| BTreeSet::from([*id]);
    let blocks = |blocks: &BTreeMap<u64, u64>| blocks.iter().map(|(l, id)| (*l, one(id))).collect();
    let expected = images.iter().map(|(volume, list)| (*volume, blocks(list))).collect();
    let seen = Seen { unrepaired: Some("not run".into()), ..Seen::default() };
    let mut running = Running {
        connect,
        expected,
        seen,
        failed: Vec::new(),
        next: 5000,
        gave_up: BTreeSet::new(),
        is_torn: case.name.starts_with("data.00000003"),
    };
    running.check();
    running.round();
    running.round();
    running.seen.failed = std::mem::take(&mut running.failed);
    if is_plain {
        running.look_for_gone(case);
    }
    running.repair();
    running.round();
    running.seen.failed_after = std::mem::take(&mut running.failed);
    if is_plain {
        running.look_for_gone(case);
    }
    running.seen
}

impl Running<'_> {
    fn process(&mut self) -> Option<Process> {
        let process = Process::new((self.connect)());
        process.map_err(|error| self.failed.push(format!("domain: {error}"))).ok()
    }

    /// What the checks of the domain and of each pool say.
    fn check(&mut self) {
        let process = match Process::new((self.connect)()) {
            Ok(process) => process,
            Err(error) => return self.seen.said.push(error),
        };
        match DomainCheck::run(&process.client, Duration::ZERO) {
            Err(error) => self.seen.said.push(error.to_string()),
            Ok(found) => {
                let found = found.findings.list.iter().take(3);
                self.seen.said.extend(found.map(ToString::to_string));
            }
        }
        for name in MEMBERS {
            let place = PoolPlace::Member(Box::new(process.place(name)));
            let options = CheckOptions { data: true };
            match place.open_disks(DiskAccess::Shared) {
                Err(error) => self.seen.said.push(format!("{name}: {error}")),
                Ok(held) => match check(&held.disks(), options, &Silent, &StopFlag::new()) {
                    Ok(report) if report.is_sound() => {}
                    Ok(report) => self.seen.said.push(format!("{name}: {:?}", report.problems)),
                    Err(error) => self.seen.said.push(format!("{name}: {error}")),
                },
            }
        }
    }

    /// Reads and serves all members.
    fn round(&mut self) {
        let Some(process) = self.process() else { return };
        for name in MEMBERS {
            for used in [Use::Look, Use::Hold] {
                match process.open(name, used, true) {
                    Ok(placed) => {
                        self.read(name, &placed);
                        let _ = placed.close();
                    }
                    Err(error) => self.failed.push(format!("{name}, {used:?}: {error}")),
                }
            }
            match process.open(name, Use::Hold, false) {
                Ok(placed) => self.serve(name, placed),
                Err(error) => self.failed.push(format!("{name}, serve: {error}")),
            }
        }
    }

    /// Does all that a server does, also in the background.
    fn serve(&mut self, name: &'static str, placed: PlacedPool) {
        let stop = StopFlag::new();
        self.note(name, "share", placed.share(&stop));
        self.read(name, &placed);
        self.note(name, "find", placed.pool().find(&Silent, &stop));
        let options = ScrubOptions { heals: true, ..ScrubOptions::default() };
        self.note(name, "scrub", placed.pool().scrub(options, &Silent, &stop));
        self.note(name, "share", placed.share(&stop));
        self.note(name, "gc", placed.pool().gc(None, &Silent, &stop));
        // New contents, one of another member, and over blocks that have others.
        let other = if name == "two" { 8 } else { 205 };
        let fresh = [(60, 0), (61, 0), (62, other), (6, 0), (7, 0), (13, 0), (14, 0)];
        for (lbn, id) in fresh {
            self.next += 1;
            self.write(name, &placed, lbn, if id == 0 { self.next } else { id });
        }
        self.note(name, "flush", placed.pool().flush());
        self.note(name, "share", placed.share(&stop));
        self.note(name, "gc", placed.pool().gc(None, &Silent, &stop));
        self.note(name, "share", placed.share(&stop));
        self.read(name, &placed);
        self.note(name, "close", placed.close());
    }

    fn note<T, E: std::fmt::Display>(&mut self, name: &str, action: &str, outcome: Result<T, E>) {
        if let Err(error) = outcome {
            self.failed.push(format!("{name}, {action}: {error}"));
        }
    }

    fn write(&mut self, name: &'static str, placed: &PlacedPool, lbn: u64, id: u64) {
        let written = write(placed, "vm", lbn, id);
        let blocks = self.expected.entry((name, "vm")).or_default();
        let block = blocks.entry(lbn).or_default();
        match written {
            Ok(()) => *block = BTreeSet::from([id]),
            Err(error) => {
                block.insert(id);
                self.failed.push(format!("{name}, write {lbn}: {error}"));
            }
        }
    }

    /// Reads all blocks, and compares those that can be read.
    fn read(&mut self, name: &'static str, placed: &PlacedPool) {
        let is_torn = |lbn| self.is_torn && name == "three" && LAST.contains(&lbn);
        let volumes = self.expected.iter().filter(|((member, _), _)| *member == name);
        for ((_, volume), blocks) in volumes {
            // One in eight of many contents tells as much.
            let step = if *volume == "many" { 8 } else { 1 };
            for (lbn, ids) in blocks.iter().step_by(step) {
                match read(placed, volume, *lbn) {
                    // One that was not written when the member was read only may be zeros.
                    Ok(found) if ids.iter().any(|id| content(*id) == found) => {}
                    Ok(found) if *lbn >= 60 && found.iter().all(|byte| *byte == 0) => {}
                    Ok(found) if is_torn(*lbn) && found.iter().all(|byte| *byte == 0) => {}
                    Ok(_) => self.seen.wrong.push(format!("{name}/{volume} {lbn}")),
                    Err(error) => self.failed.push(format!("{name}/{volume} {lbn}: {error}")),
                }
            }
        }
    }

    /// Repairs the domain, and then each pool.
    fn repair(&mut self) {
        if let Some(process) = self.process() {
            self.seen.unrepaired = match DomainCheck::repair(&process.client, LEASE) {
                Err(error) => Some(error.to_string()),
                Ok((check, _)) => check.findings.list.first().map(ToString::to_string),
            };
        }
        let Some(process) = self.process() else { return };
        for name in MEMBERS {
            let place = PoolPlace::Member(Box::new(process.place(name)));
            if let Ok(held) = place.open_disks(DiskAccess::Exclusive) {
                let options = RepairOptions { data: true, choice: LossChoice::Skip };
                let (disks, stop) = (held.disks(), StopFlag::new());
                let outlook = repair_outlook(&disks, true, &Silent, &stop);
                // A repair that goes back to an earlier state is the user's choice.
                if outlook.is_ok_and(|outlook| outlook.lost_history.is_none()) {
                    let repaired = repair(&disks, options, &Silent, &stop);
                    if repaired.as_ref().is_ok_and(|plan| !plan.costs.is_empty()) {
                        self.gave_up.insert(name);
                    }
                    self.note(name, "repair", repaired);
                }
                drop(disks);
                let released = held.release();
                self.note(name, "release", released);
            }
        }
    }

    fn look_for_gone(&mut self, case: &Case) {
        let (before, after) =
            (contents(&case.objects, BLOCK), contents(&take(&*(self.connect)()), BLOCK));
        let wanting = self.expected.iter().filter(|((name, _), _)| !self.gave_up.contains(name));
        let sure = wanting.flat_map(|(_, blocks)| blocks.values()).filter(|ids| ids.len() == 1);
        let wanted: BTreeSet<u64> = sure.flatten().copied().collect();
        let is_gone = |id: &&u64| {
            let content = content(**id);
            before.contains(&content) && !after.contains(&content)
        };
        self.seen.gone.extend(wanted.iter().filter(is_gone));
    }
}
