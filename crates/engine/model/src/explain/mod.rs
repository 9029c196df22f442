//! Explaining a run of the real engine: is there a run of the model that shows the same?
//!
//! A recorded run is a list of [`Event`]s: what clients asked and were answered, and the calls to
//! the disks that matter. The steps in between are not seen, such as look-ups and changes under the
//! lock. The search keeps all runs of the model that agree with the events so far. The changes of
//! the metadata are seen when their commit is written, and the runs must make exactly these in
//! exactly this order.

mod guess;
mod script;

use crate::action::Action;
use crate::change::Change;
use crate::numbers::{Cell, Content, Pbn};
use crate::protocol::Protocol;
use guess::Guess;
use script::Script;
use std::collections::HashSet;

/// Threads of a run. The first two are clients, which also write.
pub(crate) const THREADS: usize = 4;
/// Runs of the model that are kept at a time: some 500 MB. There can be more, because a life of the
/// pool without a visible commit can have made any changes.
const MAX_GUESSES: usize = 500_000;

/// A request of a thread to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Write a block; only of the first two threads.
    Write(Cell, Content),
    /// Read a block; only of the first two threads.
    Read(Cell),
    /// Unmap a block.
    Trim(Cell),
    /// Make durable what was acknowledged.
    Flush,
    /// Let the finder look at all that is marked.
    Find,
    /// Change a volume, durably, by this action.
    Volume(Action),
    /// Write a checkpoint, and perhaps give back the space of free blocks after it.
    Checkpoint {
        /// `true` to give back space.
        collects: bool,
    },
}

/// The answer that a thread got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The request ended without an error.
    Done,
    /// A content was read.
    Content(Content),
    /// The finder has shared this number of blocks.
    Shared(u64),
    /// It was refused, and nothing was changed.
    Refused,
}

/// Something that was seen of a run, in the order in which it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A thread begins a request.
    Asked(usize, Request),
    /// A thread is answered.
    Answered(usize, Answer),
    /// A sync of the data disk begins.
    BeginSync,
    /// The sync ended.
    EndSync,
    /// A commit with these changes is written to the journal.
    Commit(Vec<Change>),
    /// The journal is synced.
    SyncCommit,
    /// The space of a block is given back.
    Discard(Pbn),
    /// The power is cut, and the pool is opened again.
    CutPower,
    /// The contents of all LBNs while nothing is under way.
    Shown(Vec<Content>),
}

/// The first event of a run that no run of the model shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained {
    /// The number of the event.
    pub at: usize,
    /// The event that no step of the model explains.
    pub event: Event,
}

/// The outcome of a search that found no contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explanation {
    /// Runs of the model show the same as the run of the engine.
    Found {
        /// Their number, at least one.
        runs: usize,
    },
    /// No run shows this event, but not all were tried, because there were too many.
    GivenUp {
        /// The number of the event.
        at: usize,
    },
}

/// Searches for runs of the model that show the same as a run of the engine.
///
/// # Errors
/// Fails if there is none.
pub fn explain(protocol: &Protocol, events: &[Event]) -> Result<Explanation, Unexplained> {
    let mut lives = events.split(|event| *event == Event::CutPower).map(Script::of);
    let mut script = lives.next().unwrap_or_default();
    let (mut guesses, mut is_cut_off) = (vec![Guess::first(protocol)], false);
    for (at, event) in events.iter().enumerate() {
        let all = with_hidden_steps(protocol, &script, guesses);
        is_cut_off |= all.len() >= MAX_GUESSES;
        if *event == Event::CutPower {
            script = lives.next().unwrap_or_default();
        }
        script.note(event);
        let after = all.iter().flat_map(|guess| guess.see(protocol, &script, event));
        let after: HashSet<Guess> = after.collect();
        if after.is_empty() && is_cut_off {
            return Ok(Explanation::GivenUp { at });
        }
        if after.is_empty() {
            return Err(Unexplained { at, event: event.clone() });
        }
        guesses = after.into_iter().collect();
    }
    Ok(Explanation::Found { runs: guesses.len() })
}

/// Adds the runs that make further steps which are not seen, up to [`MAX_GUESSES`].
fn with_hidden_steps(protocol: &Protocol, script: &Script, first: Vec<Guess>) -> HashSet<Guess> {
    let mut all: HashSet<Guess> = first.iter().cloned().collect();
    let mut waiting = first;
    while let Some(guess) = waiting.pop() {
        if all.len() >= MAX_GUESSES {
            break;
        }
        for next in guess.hidden_steps(protocol, script) {
            if all.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    all
}
