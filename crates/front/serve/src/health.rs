//! Whether somebody has to act on a pool: its health in one word, the reason, and what to do.
//!
//! The health follows from the figures alone, so commands, metrics and the exit status of `gemelo
//! pool status` agree. Of several troubles the worst counts, in the order of [`HealthState`].

use crate::report::{COPY_AWAY, StatReport, Thresholds, space_advice};
use gemelo_base::background::TaskStat;
use gemelo_base::locks::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The health of a pool, from the best to the worst.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum HealthState {
    /// Nobody has to act.
    #[default]
    Good,
    /// The data store is full by a threshold or more.
    FullSoon,
    /// A task in the background fails.
    Degraded,
    /// The pool takes no changes any more.
    ReadOnly,
    /// Metadata or contents are damaged.
    Damaged,
}

impl fmt::Display for HealthState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Good => "good",
            Self::FullSoon => "full soon",
            Self::Degraded => "degraded",
            Self::ReadOnly => "read-only",
            Self::Damaged => "damaged",
        })
    }
}

/// The health of a pool, with the reason and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Health {
    /// The worst trouble.
    pub state: HealthState,
    /// Its place in one word, such as `metadata`, `space`, or the name of a task; empty if there is
    /// none.
    pub reason: String,
    /// What to do, as a sentence; empty if there is nothing to do.
    pub action: String,
    /// The time from which the state has held, in seconds since 1970, UTC; absent if no server
    /// watches the pool. A state that a server has found is at most as old as the server.
    pub since_utc_s: Option<u64>,
}

/// The state and the reason: `damaged: contents`.
impl fmt::Display for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => self.state.fmt(formatter),
            reason => write!(formatter, "{}: {reason}", self.state),
        }
    }
}

impl Health {
    /// Returns the health that follows from the figures.
    pub(crate) fn of<V>(report: &StatReport<V>, thresholds: &Thresholds) -> Self {
        let trouble = |state, reason: &str, action: String| Self {
            state,
            reason: reason.to_owned(),
            action,
            since_utc_s: None,
        };
        if !report.damage.is_empty() {
            let action = "stop the server, and run 'gemelo pool check --repair'".to_owned();
            return trouble(HealthState::Damaged, "metadata", action);
        }
        if !report.damaged_blocks.is_empty() {
            let action = "run 'gemelo pool scrub', and restore what it cannot heal".to_owned();
            return trouble(HealthState::Damaged, "contents", action);
        }
        if report.pool.stopped.is_some() {
            let action = format!("{COPY_AWAY}; then end it, and run 'gemelo pool check'");
            return trouble(HealthState::ReadOnly, "stopped", action);
        }
        if report.unknown_feature.is_some() {
            let action = "use the version of gemelo that the pool was last changed with, or a newer \
                          one";
            return trouble(HealthState::ReadOnly, "feature", action.to_owned());
        }
        if let Some(task) = report.tasks.iter().find(|task| task.failure.is_some()) {
            return trouble(HealthState::Degraded, &task.name, of_task(task));
        }
        if thresholds.reached(report.used_share).is_some() {
            return trouble(HealthState::FullSoon, "space", space_advice(report));
        }
        Self::default()
    }
}

fn of_task(task: &TaskStat) -> String {
    let error = task.last_error.as_deref().unwrap_or("it is not known why");
    format!("mend the cause, and it works again by itself: {error}")
}

/// Remembers since when the health of a served pool has held.
#[derive(Debug, Default)]
pub(crate) struct HealthWatch {
    held: Mutex<Option<(HealthState, String, u64)>>,
}

impl HealthWatch {
    /// Notes the health at a time, in seconds since 1970, and returns it with the time from which
    /// it has held.
    pub(crate) fn note(&self, health: Health, now_utc_s: u64) -> Health {
        let mut held = self.held.lock();
        let since = match &*held {
            Some((state, reason, since)) if (*state, reason) == (health.state, &health.reason) => {
                *since
            }
            _ => now_utc_s,
        };
        *held = Some((health.state, health.reason.clone(), since));
        Health { since_utc_s: Some(since), ..health }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_as_old_as_its_first_look() {
        let watch = HealthWatch::default();
        let health =
            |state, reason: &str| Health { state, reason: reason.to_owned(), ..Health::default() };
        let since = |state, reason, now| watch.note(health(state, reason), now).since_utc_s;
        assert_eq!(since(HealthState::Good, "", 10), Some(10));
        assert_eq!(since(HealthState::Good, "", 20), Some(10));
        assert_eq!(since(HealthState::Degraded, "sharing", 30), Some(30));
        assert_eq!(since(HealthState::Degraded, "scrub", 40), Some(40));
        assert_eq!(since(HealthState::Degraded, "scrub", 35), Some(40), "a clock that jumps");
        assert_eq!(since(HealthState::Good, "", 50), Some(50));
    }

    #[test]
    fn the_worst_is_the_greatest() {
        assert!(HealthState::Damaged > HealthState::ReadOnly);
        assert!(HealthState::ReadOnly > HealthState::Degraded);
        assert!(HealthState::Degraded > HealthState::FullSoon);
        assert!(HealthState::FullSoon > HealthState::Good);
    }
}
