//! The protocol as a model of `stateright`.

use crate::action::Action;
use crate::guard::Guard;
use crate::properties;
use crate::protocol::Protocol;
use crate::state::State;
use crate::symmetry::renumber;
use stateright::{Model, Property};

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::first(&self.bounds);
        if !self.has(Guard::TrimAfterRoot) {
            state.log.ghosts.root = Some(state.live);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.list(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let (mut state, _) = self.step(state, action)?;
        self.note(action);
        if self.is_whole() {
            renumber(&mut state, &self.bounds);
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = properties::all(self);
        properties.retain(|property| self.only.is_none_or(|only| only == property.name));
        properties
    }
}
