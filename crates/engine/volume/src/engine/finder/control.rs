//! The control and the figures of the finder of the background.

use super::super::data::RememberedStats;
use super::pace::Hold;
use super::turns::Turn;
use gemelo_base::StatTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The activity of the finder of the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinderState {
    /// No block is due.
    #[default]
    Idle,
    /// It examines blocks at this moment.
    Working,
    /// A user has paused it.
    Paused,
    /// Blocks are due, and it is outside of the window of the day.
    Window,
    /// Blocks are due, and the interval between two rounds has not passed.
    Interval,
    /// Blocks are due, and it has read as many bytes as its rate allows.
    Rate,
    /// Blocks are due, the pool is busy, and the finder has used its share of a core.
    Load,
}

impl FinderState {
    const ALL: [Self; 7] = [
        Self::Idle,
        Self::Working,
        Self::Paused,
        Self::Window,
        Self::Interval,
        Self::Rate,
        Self::Load,
    ];

    /// The name of the state in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Paused => "paused",
            Self::Window => "window",
            Self::Interval => "interval",
            Self::Rate => "rate",
            Self::Load => "load",
        }
    }
}

impl From<Hold> for FinderState {
    fn from(hold: Hold) -> Self {
        match hold {
            Hold::Paused => Self::Paused,
            Hold::Window => Self::Window,
            Hold::Interval => Self::Interval,
            Hold::Rate => Self::Rate,
            Hold::Load => Self::Load,
        }
    }
}

/// Nanoseconds for which the finder of the background waited although blocks were due, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct HeldBack {
    /// Because a user had paused it.
    pub paused_ns: u64,
    /// Because it was outside of the window of the day.
    pub window_ns: u64,
    /// Because the interval between two rounds had not passed.
    pub interval_ns: u64,
    /// Because of its rate.
    pub rate_ns: u64,
    /// Because the pool was busy.
    pub load_ns: u64,
}

impl HeldBack {
    /// The name of each reason with its nanoseconds.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); Hold::ALL.len()] {
        [
            (FinderState::Paused.name(), self.paused_ns),
            (FinderState::Window.name(), self.window_ns),
            (FinderState::Interval.name(), self.interval_ns),
            (FinderState::Rate.name(), self.rate_ns),
            (FinderState::Load.name(), self.load_ns),
        ]
    }

    /// Nanoseconds of all reasons.
    #[must_use]
    pub const fn total_ns(&self) -> u64 {
        self.paused_ns + self.window_ns + self.interval_ns + self.rate_ns + self.load_ns
    }
}

/// Figures of the finder since the pool was opened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(counter)]
pub struct FinderStats {
    /// The activity of the finder of the background.
    #[stat(skip)]
    pub state: FinderState,
    /// Marked blocks of off-line volumes that wait to be examined. Blocks of a volume that is gone
    /// through as a whole are not among them.
    #[stat(gauge)]
    pub backlog_blocks: u64,
    /// Time since the oldest group of these blocks was marked or looked at last.
    #[stat(gauge)]
    pub oldest_ns: u64,
    /// Volumes that are searched as a whole, because it is not known which of their blocks were
    /// written.
    #[stat(gauge)]
    pub swept_volumes: u64,
    /// The longest delay of an off-line volume at present.
    #[stat(gauge)]
    pub longest_delay_ns: u64,
    /// Blocks that were written again before they were examined, which the delay has avoided.
    pub rewritten_blocks: u64,
    /// Examined blocks of a sample of all blocks.
    pub sampled_blocks: u64,
    /// Blocks of that sample whose examination was wasted: they were overwritten within the longest
    /// delay of the settings.
    pub wasted_blocks: u64,
    /// Time in which the finder has examined blocks, commands included. Blocks divided by
    /// this time are its throughput.
    pub working_ns: u64,
    /// Processor time that the finder has used, commands included.
    pub cpu_ns: u64,
    /// Nanoseconds for which it waited although blocks were due.
    #[stat(skip)]
    pub held_back: HeldBack,
    /// Figures of the fingerprints that are taken while contents are written.
    #[stat(skip)]
    pub remembered: RememberedStats,
}

/// The control of the finder, shared by its thread and the commands.
#[derive(Debug, Default)]
pub(crate) struct FinderControl {
    is_paused: AtomicBool,
    /// Commands that examine everything at once. The background leaves the work to them.
    commands: AtomicU32,
    state: AtomicU8,
    working_ns: AtomicU64,
    cpu_ns: AtomicU64,
    held_ns: [AtomicU64; Hold::ALL.len()],
    /// The turn of the volume that was served last.
    last_turn: Turn,
}

impl FinderControl {
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Keeps the background from working until the result is dropped.
    pub(crate) fn command(&self) -> FinderCommand<'_> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        FinderCommand(&self.commands)
    }

    pub(super) fn has_command(&self) -> bool {
        self.commands.load(Ordering::Relaxed) > 0
    }

    pub(super) fn set_state(&self, state: FinderState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn state(&self) -> FinderState {
        let number = usize::from(self.state.load(Ordering::Relaxed));
        FinderState::ALL.get(number).copied().unwrap_or_default()
    }

    pub(super) fn add_held(&self, hold: Hold, held_ns: u64) {
        if let Some(sum) = self.held_ns.get(hold as usize) {
            sum.fetch_add(held_ns, Ordering::Relaxed);
        }
    }

    pub(super) fn add_cpu(&self, cpu_ns: u64) {
        self.cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
    }

    pub(super) fn add_working(&self, working_ns: u64) {
        self.working_ns.fetch_add(working_ns, Ordering::Relaxed);
    }

    pub(super) const fn last_turn(&self) -> &Turn {
        &self.last_turn
    }

    /// The figures, without those of the backlog.
    pub(super) fn figures(&self) -> FinderStats {
        let [paused_ns, window_ns, interval_ns, rate_ns, load_ns] =
            self.held_ns.each_ref().map(|sum| sum.load(Ordering::Relaxed));
        FinderStats {
            state: self.state(),
            working_ns: self.working_ns.load(Ordering::Relaxed),
            cpu_ns: self.cpu_ns.load(Ordering::Relaxed),
            held_back: HeldBack { paused_ns, window_ns, interval_ns, rate_ns, load_ns },
            ..FinderStats::default()
        }
    }
}

/// A command that examines everything at once, until it is dropped.
pub(crate) struct FinderCommand<'c>(&'c AtomicU32);

impl Drop for FinderCommand<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_and_reason_is_told_apart() {
        let control = FinderControl::default();
        assert_eq!(control.figures().state, FinderState::Idle);
        for (hold, held_ns) in Hold::ALL.into_iter().zip(1..) {
            control.set_state(hold.into());
            control.add_held(hold, held_ns);
            assert_eq!(control.figures().state, hold.into());
        }
        let held = control.figures().held_back;
        let expected = [("paused", 1), ("window", 2), ("interval", 3), ("rate", 4), ("load", 5)];
        assert_eq!((held.named(), held.total_ns()), (expected, 15));
        control.set_state(FinderState::Working);
        assert_eq!(control.figures().state, FinderState::Working);
    }

    #[test]
    fn the_background_rests_until_the_last_of_several_commands_has_ended() {
        let control = FinderControl::default();
        assert!(!control.has_command());
        let commands = [control.command(), control.command()];
        for command in commands {
            assert!(control.has_command());
            drop(command);
        }
        assert!(!control.has_command());
    }
}
