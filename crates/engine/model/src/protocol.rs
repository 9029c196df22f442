//! The protocol within bounds, and a step of it: the state that is being changed, and the changes
//! of the metadata that were made on the way.

use crate::action::Action;
use crate::bounds::Bounds;
use crate::change::Change;
use crate::guard::Guard;
use crate::numbers::{Content, Fingerprint};
use crate::state::State;
use std::mem::discriminant;
use std::sync::{Mutex, PoisonError};

/// The protocol within bounds, with all guards or without some.
#[derive(Debug)]
pub struct Protocol {
    pub(crate) bounds: Bounds,
    without: u32,
    pub(crate) only: Option<&'static str>,
    happened: Mutex<Vec<Action>>,
}

impl Protocol {
    /// The protocol with all guards.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, without: 0, only: None, happened: Mutex::new(Vec::new()) }
    }

    /// The protocol without these guards.
    #[must_use]
    pub fn without(bounds: Bounds, guards: &[Guard]) -> Self {
        let without = guards.iter().fold(0, |bits, guard| bits | 1 << *guard as u32);
        Self { without, ..Self::new(bounds) }
    }

    /// The same protocol with a check of one property only. A search in breadth then ends with
    /// the shortest run that breaks it.
    #[must_use]
    pub fn only(self, property: &'static str) -> Self {
        Self { only: Some(property), ..self }
    }

    pub(crate) const fn has(&self, guard: Guard) -> bool {
        self.without & (1 << guard as u32) == 0
    }

    /// Returns whether no guard is out.
    pub(crate) const fn is_whole(&self) -> bool {
        self.without == 0
    }

    pub(crate) const fn fingerprint(&self, content: Content) -> Fingerprint {
        Fingerprint(if self.bounds.collisions { 0 } else { content.0 - 1 })
    }

    /// The actions that were made in a search, one of each kind.
    #[must_use]
    pub fn happened(&self) -> Vec<Action> {
        self.happened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note(&self, action: Action) {
        let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        if happened.iter().all(|earlier| discriminant(earlier) != discriminant(&action)) {
            happened.push(action);
        }
    }

    /// Makes a step. Returns the state after it and the changes of the metadata.
    pub(crate) fn step(&self, state: &State, action: Action) -> Option<(State, Vec<Change>)> {
        let mut step = Step { model: self, state: state.clone(), made: Vec::new() };
        step.run(action)?;
        Some((step.state, step.made))
    }
}

pub(crate) struct Step<'m> {
    pub(crate) model: &'m Protocol,
    pub(crate) state: State,
    pub(crate) made: Vec<Change>,
}

impl Step<'_> {
    pub(crate) const fn has(&self, guard: Guard) -> bool {
        self.model.has(guard)
    }
}
