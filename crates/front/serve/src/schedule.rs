//! Snapshots by schedule: a volume with the setting `every` gets one when its time has come, and of
//! those that the schedule has made, the setting `keep` tells which stay.
//!
//! A list beside the pool has the snapshots that the schedule made, by the ids of their volumes,
//! which are not used twice. Only what is in the list, and still has its name, is ever removed: not
//! a snapshot that a user made or renamed, nor one in use. A snapshot that was made just before the
//! process died is not in the list, and stays.

use crate::failure::RequestFailure;
use crate::kept_text::KeptText;
use crate::open_pool::OpenPool;
use crate::request::TickReport;
use crate::settings::KeepRule;
use gemelo_base::background::{Step, Task, Worker};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_format::{Origin, VolumeId, VolumeRecord};
use gemelo_place::{PlacedPool, PoolPlace};
use gemelo_volume::{NewCopy, VolumeSummary};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The file with the list.
pub(crate) const FILE: &str = "schedule.json";
/// Most bytes of the file: a hundred thousand snapshots.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Interval at which a server looks at the time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A snapshot that the schedule made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MadeSnapshot {
    id: VolumeId,
    name: String,
    made_utc_s: u64,
}

/// The snapshots that the schedule made, by their volumes, in the order in which they were made.
type MadeSnapshots = BTreeMap<u32, Vec<MadeSnapshot>>;

/// The schedule of a pool.
pub(crate) struct Schedule {
    kept: KeptText,
    made: Mutex<Option<MadeSnapshots>>,
    /// The hour in which unfinished copies were looked at last.
    forgot_hour: AtomicU64,
    task: Task,
}

impl Schedule {
    pub(crate) fn new(place: &PoolPlace, placed: &Arc<PlacedPool>) -> Self {
        let kept = KeptText::new(place, placed, FILE);
        let task = Task::new("snapshots", Arc::new(SystemClock::new()));
        Self { kept, made: Mutex::default(), forgot_hour: AtomicU64::new(0), task }
    }

    pub(crate) const fn task(&self) -> &Task {
        &self.task
    }

    /// Makes the snapshots that are due, and removes those that are not kept.
    pub(crate) fn tick(
        &self,
        pool: &OpenPool,
        now_utc_s: u64,
    ) -> Result<TickReport, RequestFailure> {
        if self.forgot_hour.swap(now_utc_s / 3600, Ordering::Relaxed) != now_utc_s / 3600 {
            pool.pool().forget_old_copies()?;
        }
        let mut report = TickReport::default();
        let volumes = pool.pool().volumes();
        let settings = pool.settings();
        let mut outcome = Ok(());
        for name in settings.volumes() {
            let Some(volume) = volumes.iter().find(|volume| volume.record.name == name) else {
                continue;
            };
            let (every, keep) = settings.of_volume(&name).snapshots();
            if every.is_none() && keep.is_none() {
                continue;
            }
            let of_volume = self.tick_volume(pool, (volume, &volumes), (every, keep), now_utc_s);
            match of_volume {
                Ok(done) => report.add(done),
                // One volume does not keep the others from having theirs.
                Err(failure) => outcome = outcome.and(Err(failure.about(&name))),
            }
        }
        outcome.map(|()| report)
    }

    fn tick_volume(
        &self,
        pool: &OpenPool,
        (volume, volumes): (&VolumeSummary, &[VolumeSummary]),
        (every, keep): (Option<Duration>, Option<KeepRule>),
        now_utc_s: u64,
    ) -> Result<TickReport, RequestFailure> {
        let mut all = self.made.lock();
        let all = all.get_or_insert_with(|| self.read());
        let made = all.entry(volume.record.id.0).or_default();
        let before = made.clone();
        // Gone, or given another name by a user who wants to keep it.
        made.retain(|one| {
            let is_it =
                |other: &&VolumeSummary| other.record.id == one.id && other.record.name == one.name;
            volumes.iter().any(|other| is_it(&other))
        });
        let mut report = TickReport::default();
        let last_utc_s = made.last().map(|one| one.made_utc_s);
        let mut outcome = Ok(());
        if every.is_some_and(|every| is_due(every, last_utc_s, now_utc_s)) {
            match make(pool, &volume.record.name, now_utc_s) {
                Ok(one) => {
                    report.made.push(one.name.clone());
                    made.push(one);
                }
                Err(failure) => outcome = Err(failure),
            }
        }
        if let Some(rule) = keep {
            remove_old(pool, made, rule, &mut report);
        }
        if *made != before {
            let text = serde_json::to_string(all)
                .map_err(|error| RequestFailure::of("the snapshots of the schedule", &error))?;
            self.kept.write(&text)?;
        }
        outcome.map(|()| report)
    }

    /// Reads the list. Without one, the schedule has made nothing.
    fn read(&self) -> MadeSnapshots {
        let text = self.kept.read(MAX_FILE_BYTES);
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

/// Returns whether a snapshot is due: a whole multiple of the time has passed since the last one. A
/// clock that was far ahead at the last one must not put the next one off for years.
fn is_due(every: Duration, last_utc_s: Option<u64>, now_utc_s: u64) -> bool {
    let every_s = every.as_secs().max(1);
    last_utc_s.is_none_or(|last_s| {
        now_utc_s / every_s > last_s / every_s || last_s > now_utc_s.saturating_add(every_s)
    })
}

/// Returns the name of a snapshot: `web@2026-11-28T180000Z`.
fn name_of(volume: &str, utc_s: u64) -> String {
    let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(utc_s));
    let date = date.map(|date| humantime::format_rfc3339_seconds(date).to_string());
    format!("{volume}@{}", date.unwrap_or_default().replace(':', ""))
}

fn make(pool: &OpenPool, volume: &str, now_utc_s: u64) -> Result<MadeSnapshot, RequestFailure> {
    let name = name_of(volume, now_utc_s);
    let copy = NewCopy { source: volume.to_owned(), name: name.clone() };
    pool.copy_volumes(&[copy], true)?;
    let record = pool.record_of(&name)?;
    Ok(MadeSnapshot { id: record.id, name, made_utc_s: now_utc_s })
}

/// Removes the snapshots that are not kept. One in use, or that may not be removed, stays.
fn remove_old(
    pool: &OpenPool,
    made: &mut Vec<MadeSnapshot>,
    rule: KeepRule,
    report: &mut TickReport,
) {
    let times: Vec<u64> = made.iter().rev().map(|one| one.made_utc_s).collect();
    let mut kept = rule.keeps(&times).into_iter().rev();
    made.retain(|one| {
        if kept.next().unwrap_or(true) {
            return true;
        }
        match pool.remove_unused(&one.name) {
            Ok(()) => report.removed.push(one.name.clone()),
            Err(failure) => {
                report.left.insert(one.name.clone(), failure.text);
                return true;
            }
        }
        false
    });
}

impl OpenPool {
    /// Removes copies of snapshots of one volume by a rule: of the volume of whose snapshot `name`
    /// is a copy. That copy stays, and so do those that are held or in use.
    pub(crate) fn prune_copies(
        &self,
        name: &str,
        rule: KeepRule,
    ) -> Result<TickReport, RequestFailure> {
        let series = |record: &VolumeRecord| match record.birth.origin {
            Origin::Received { identity, source: Some(source) } if !record.is_unfinished() => {
                Some((identity.pool, source))
            }
            _ => None,
        };
        let of = series(&self.record_of(name)?).ok_or_else(|| {
            RequestFailure::refused(format!(
                "'{name}' is no copy of a snapshot of a volume: other snapshots are not removed"
            ))
        })?;
        let records = self.pool().volumes().into_iter().map(|volume| volume.record);
        let mut copies: Vec<VolumeRecord> =
            records.filter(|record| series(record) == Some(of)).collect();
        copies.sort_by_key(|record| Reverse((record.birth.created_s, record.id)));
        let times: Vec<u64> =
            copies.iter().map(|record| record.birth.created_s.unwrap_or(0)).collect();
        let mut report = TickReport::default();
        for (record, is_kept) in copies.iter().zip(rule.keeps(&times)) {
            if is_kept || record.name == name {
                continue;
            }
            match self.remove_unused(&record.name) {
                Ok(()) => report.removed.push(record.name.clone()),
                Err(failure) => {
                    report.left.insert(record.name.clone(), failure.text);
                }
            }
        }
        Ok(report)
    }
}

/// Starts the thread that makes snapshots by schedule while the pool is served.
pub(crate) fn start(
    pool: Arc<OpenPool>,
    monitor: Arc<dyn Monitor>,
    stop: StopFlag,
) -> std::io::Result<Worker> {
    let stopped = Arc::clone(&pool);
    let told = move |panicked| stopped.stop_by_panic(panicked);
    let clock = SystemClock::new();
    let look = move || {
        if let Some(now_s) = clock.utc_s()
            && !stop.is_raised()
            && !pool.is_read_only()
        {
            let task = pool.schedule().task();
            task.turn(|| {
                let report = pool.schedule().tick(&pool, now_s)?;
                report.lines().for_each(|line| monitor.log(&line));
                Ok::<_, RequestFailure>(Step::more(report.made.len() as u64))
            });
        }
        true
    };
    Worker::repeat("gemelo-snapshots", told, POLL_INTERVAL, look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_at_each_multiple_and_a_clock_that_jumps_delays_at_most_one() {
        let hour = Duration::from_secs(3600);
        let at = |hours: u64, s: u64| hours * 3600 + s;
        assert!(is_due(hour, None, at(5, 7)));
        assert!(!is_due(hour, Some(at(5, 7)), at(5, 3599)));
        assert!(is_due(hour, Some(at(5, 3599)), at(6, 0)));
        // A clock that is corrected by seconds makes none twice.
        assert!(!is_due(hour, Some(at(6, 0)), at(5, 3599)));
        // One that was years ahead is not waited for.
        assert!(is_due(hour, Some(at(90_000, 0)), at(6, 0)));
    }

    #[test]
    fn names_have_the_time_in_utc_and_no_colon() {
        assert_eq!(name_of("web", 0), "web@1970-01-01T000000Z");
        assert_eq!(name_of("a@b", 1_796_239_000), "a@b@2026-12-02T191640Z");
    }
}
