//! A process of the model: the code of the crate that it runs, and its part in serving the member.

use super::Weakness;
use super::script::{Entry, Script};
use super::store::{Call, Set};
use gemelo_domain::{DomainError, MemberId, Tenure};
use gemelo_objects::ObjectError;
use std::hash::{Hash, Hasher};
use std::time::Duration;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It waits until the member is free.
    #[default]
    Standby,
    Taking,
    /// It asks for the object of the disk.
    Settling,
    Serving,
    HandingOver,
    Gone,
}

/// A request of a client, which a process executes and then answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    /// The lease was looked at, which is too early.
    Checked,
    /// It was executed after another process had served.
    Executed,
}

/// A tenure with the hash that it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held(pub(crate) Tenure);

impl Hash for Held {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.epoch(), self.0.ends_ns()).hash(state);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) stage: Stage,
    /// The run of the crate's code that is under way.
    pub(crate) log: Vec<Entry>,
    /// Calls that were given up. Their answers count no more.
    pub(crate) given_up: u8,
    pub(crate) is_waiting: bool,
    pub(crate) held: Option<Held>,
    /// The end of the lease.
    pub(crate) ends: u8,
    /// `true` if the lease has ended before its time.
    pub(crate) has_ended: bool,
    /// The fences that the process knows.
    pub(crate) fences: Set,
    pub(crate) is_cut_off: bool,
    /// The disk as the process knows it.
    pub(crate) disk: u8,
    /// The write whose answer is awaited.
    pub(crate) write: Option<u8>,
    pub(crate) asked: Option<Asked>,
}

/// The state of a run of the crate's code.
pub(crate) enum Outcome {
    Calls(Call),
    Done,
    /// Another process has the member.
    InUse,
    Failed,
}

impl Process {
    pub(crate) fn epoch(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.0.epoch())
    }

    /// Returns whether the process may act for the member. A lease that has ended stays so.
    pub(crate) fn check(&mut self, now: u8) -> bool {
        self.has_ended |= now >= self.ends;
        !self.has_ended
    }

    /// Runs the code of the present stage with the answers that there are.
    pub(crate) fn run(
        &mut self,
        me: usize,
        (now, lease): (u8, u8),
        weakness: Option<Weakness>,
    ) -> Outcome {
        let log = std::mem::take(&mut self.log);
        let is_guarded = weakness != Some(Weakness::NoRecordGuard);
        let script = Script::new(me, now, is_guarded, log);
        let outcome = match (self.stage, &self.held) {
            (Stage::Taking, _) => {
                let lease = Duration::from_nanos(lease.into());
                Tenure::take(&script, &script, MemberId(1), lease).map(Some)
            }
            (Stage::HandingOver, Some(Held(tenure))) => tenure.clone().end(&script).map(|()| None),
            (_, Some(Held(tenure))) => {
                let mut tenure = tenure.clone();
                tenure.renew(&script, &script).map(|()| Some(tenure))
            }
            (stage, None) => panic!("{stage:?} without a tenure"),
        };
        let (log, call) = script.finish();
        if let Some(call) = call {
            self.log = log;
            return Outcome::Calls(call);
        }
        match outcome {
            Ok(tenure) => {
                self.note(
                    tenure,
                    (weakness == Some(Weakness::CountFromAnswer)).then_some(now + lease),
                );
                Outcome::Done
            }
            Err(DomainError::InUse { .. }) => Outcome::InUse,
            Err(error) => {
                let is_over = matches!(error, DomainError::NotHeld)
                    || matches!(error, DomainError::Object(ObjectError::Fenced { .. }));
                self.has_ended |= is_over;
                Outcome::Failed
            }
        }
    }

    fn note(&mut self, tenure: Option<Tenure>, later: Option<u8>) {
        let Some(tenure) = tenure else { return };
        let ends = u8::try_from(tenure.ends_ns()).expect("a short run");
        self.ends = self.ends.max(later.unwrap_or(ends));
        self.held = Some(Held(tenure));
    }
}
