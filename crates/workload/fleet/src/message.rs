//! The messages of both sides, each one line of JSON.

use gemelo_base::FailureKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the messages. Both sides must have the same one, and be the same version of the
/// program, because tasks and results have no version of their own.
pub(crate) const PROTOCOL: u32 = 1;

/// The end of a task on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The result, whose form the task decides.
    pub result: Value,
    /// `false` if the host did a part of its task only. The other hosts are then stopped.
    pub is_complete: bool,
}

/// The failure of a task that has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The error, its causes and advice, as one line.
    pub message: String,
    /// The kind of the failure.
    pub kind: FailureKind,
}

/// A message of the far side. The first one is a greeting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(crate) enum FromHost {
    /// The program over there.
    Hello { gemelo: String, protocol: u32, host: String },
    /// The answer to a ping: the reading of the clock that times runs, and the date.
    Pong { number: u32, clock_ns: u64, date_ns: u64 },
    /// The task was checked, and nothing was changed yet. The value is the task with its defaults.
    Checked { plan: Value },
    /// Everything is ready for the start of a run.
    Ready { run: u32 },
    /// A run has started, this much after the moment that was set.
    Started { run: u32, late_ns: u64 },
    /// The far side is alive.
    Beat,
    /// A warning for the user.
    Note { text: String },
    /// A part of a file that the host sends, in base64.
    Piece { data: String },
    /// The task has ended.
    Done(Done),
    /// The task failed and has no result.
    Failed(Refusal),
}

/// A message to the far side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(crate) enum ToHost {
    /// Asks for a reading of the clock.
    Ping { number: u32 },
    /// The task, and the time of silence after which the far side gives up the coordinator.
    Task { task: Value, timeout_ns: u64 },
    /// All hosts have checked their tasks.
    Go,
    /// A run starts at this reading of the clock over there.
    Start { run: u32, at_ns: u64 },
    /// Ends the task early; its result so far is wanted.
    Stop,
    /// The coordinator is alive.
    Beat,
}
