//! The steps of the model.

use super::process::{Asked, Outcome, Process, Stage};
use super::store::{Answer, Call, Message};
use super::{Hosts, State, Weakness, properties};
use crate::tenure::script::Entry;
use stateright::{Model, Property};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Tick,
    Deliver(Message),
    /// The process waits no longer for an answer.
    GiveUp(usize),
    /// From now on, what the process sends arrives later or never, and no answer reaches it.
    CutOff(usize),
    Take(usize),
    Renew(usize),
    HandOver(usize),
    Write(usize),
    /// Steps of a request of a client.
    Check(usize),
    Execute(usize),
    Answer(usize),
}

impl Model for Hosts {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.now < state.budget.ticks {
            steps.push(Step::Tick);
        }
        steps.extend(state.network.iter().cloned().map(Step::Deliver));
        // The processes are alike, so those that wait begin in order.
        let waits = |process: &Process| process.stage == Stage::Standby;
        steps.extend(state.processes.iter().position(waits).map(Step::Take));
        for (me, process) in state.processes.iter().enumerate() {
            if process.is_waiting && state.budget.faults > 0 {
                steps.push(Step::GiveUp(me));
            }
            match process.stage {
                Stage::Serving => self.steps_of_server(state, me, steps),
                Stage::HandingOver if self.lacks(Weakness::AnswerAfterHandOver) => {
                    self.steps_of_requests(state, me, steps);
                }
                _ => {}
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}

impl Hosts {
    fn steps_of_server(&self, state: &State, me: usize, steps: &mut Vec<Step>) {
        self.steps_of_requests(state, me, steps);
        let process = &state.processes[me];
        if !process.is_cut_off && state.budget.cuts > 0 {
            steps.push(Step::CutOff(me));
        }
        if process.is_waiting {
            return;
        }
        // A stopped process may send what it began within its lease at any later time.
        if state.budget.writes > 0 && !process.has_ended {
            steps.push(Step::Write(me));
        }
        let may_renew = !process.has_ended && !process.is_cut_off;
        if may_renew && state.budget.renewals > 0 && process.ends < state.now + state.budget.lease {
            steps.push(Step::Renew(me));
        }
        let may_end = state.now < process.ends && !process.has_ended;
        let may_end = may_end && state.budget.hand_overs > 0;
        if may_end || process.has_ended && self.lacks(Weakness::HandOverUnknown) {
            steps.push(Step::HandOver(me));
        }
    }

    /// Only requests that are executed late matter.
    fn steps_of_requests(&self, state: &State, me: usize, steps: &mut Vec<Step>) {
        let process = &state.processes[me];
        let is_late = state.served > process.epoch();
        match process.asked {
            None if self.lacks(Weakness::CheckFirst) && !is_late => steps.push(Step::Check(me)),
            None if self.lacks(Weakness::CheckFirst) => {}
            Some(Asked::Executed) => steps.push(Step::Answer(me)),
            None | Some(Asked::Checked) if is_late => steps.push(Step::Execute(me)),
            _ => {}
        }
    }

    fn apply(&self, state: &mut State, step: Step) {
        let now = state.now;
        match step {
            Step::Tick => state.now += 1,
            Step::Deliver(message) => self.deliver(state, &message),
            Step::GiveUp(me) => {
                state.budget.faults -= 1;
                self.answer(state, me, Answer::TimedOut);
            }
            Step::CutOff(me) => {
                state.budget.cuts -= 1;
                state.processes[me].is_cut_off = true;
                if state.processes[me].is_waiting {
                    self.answer(state, me, Answer::TimedOut);
                }
            }
            Step::Take(me) => {
                state.processes[me].stage = Stage::Taking;
                if self.lacks(Weakness::ReadFirst) {
                    state.processes[me].disk = state.store.disk;
                }
                self.run(state, me);
            }
            Step::Renew(me) => {
                state.budget.renewals -= 1;
                self.run(state, me);
            }
            Step::HandOver(me) => {
                state.budget.hand_overs = state.budget.hand_overs.saturating_sub(1);
                state.processes[me].stage = Stage::HandingOver;
                self.run(state, me);
            }
            Step::Write(me) => {
                state.budget.writes -= 1;
                state.values += 1;
                state.processes[me].write = Some(state.values);
                self.send(state, me, Call::Write(state.values));
            }
            Step::Check(me) if state.processes[me].check(now) => {
                state.processes[me].asked = Some(Asked::Checked);
            }
            Step::Check(me) => state.processes[me].stage = Stage::Gone,
            Step::Execute(me) => state.processes[me].asked = Some(Asked::Executed),
            Step::Answer(me) => self.answer_client(state, me),
        }
    }

    fn answer_client(&self, state: &mut State, me: usize) {
        let process = &mut state.processes[me];
        let looks = !self.lacks(Weakness::NoLease)
            && !self.lacks(Weakness::CheckFirst)
            && process.stage == Stage::Serving;
        if looks && !process.check(state.now) {
            // A process whose lease has ended ends.
            process.stage = Stage::Gone;
            return;
        }
        state.has_late_answer = true;
    }

    /// Runs the crate's code for a process, up to its next call or its end.
    fn run(&self, state: &mut State, me: usize) {
        let process = &mut state.processes[me];
        let outcome = process.run(me, (state.now, state.budget.lease), self.weakness);
        match (process.stage, outcome) {
            (_, Outcome::Calls(call)) => self.send(state, me, call),
            (Stage::Taking, Outcome::Done) if self.lacks(Weakness::NoSettle) => {
                self.serve(state, me);
            }
            (Stage::Taking, Outcome::Done) => {
                process.stage = Stage::Settling;
                self.send(state, me, Call::Stat);
            }
            (Stage::Taking, Outcome::InUse) => process.stage = Stage::Standby,
            // A renewal may fail, as long as the lease lasts, and so may a hand-over.
            (Stage::Serving | Stage::HandingOver, _) => {}
            _ => process.stage = Stage::Gone,
        }
    }

    /// Begins to serve.
    fn serve(&self, state: &mut State, me: usize) {
        let process = &mut state.processes[me];
        if !process.check(state.now) {
            process.stage = Stage::Gone;
            return;
        }
        process.stage = Stage::Serving;
        if !self.lacks(Weakness::ReadFirst) {
            process.disk = state.store.disk;
        }
        state.served = state.served.max(process.epoch());
    }

    fn send(&self, state: &mut State, me: usize, call: Call) {
        let process = &mut state.processes[me];
        process.is_waiting = true;
        if matches!(call, Call::Fence(_)) && self.lacks(Weakness::NoFence) {
            let fences = process.fences;
            return self.answer(state, me, Answer::Fences(fences));
        }
        let (number, fences) = (process.given_up, process.fences);
        state.network.push(Message { sender: me, number, fences, call });
        state.network.sort_unstable();
        if state.processes[me].is_cut_off {
            self.answer(state, me, Answer::TimedOut);
        }
    }

    fn deliver(&self, state: &mut State, message: &Message) {
        let place = state.network.iter().position(|other| other == message);
        state.network.remove(place.expect("a message on its way"));
        let answer = state.store.receive(message, (state.now, state.budget.lease));
        let process = &state.processes[message.sender];
        if process.is_waiting && process.given_up == message.number {
            self.answer(state, message.sender, answer);
        }
    }

    /// The answer to the call that the process awaits.
    fn answer(&self, state: &mut State, me: usize, answer: Answer) {
        let process = &mut state.processes[me];
        process.is_waiting = false;
        process.given_up += u8::from(answer == Answer::TimedOut);
        if let Answer::Fences(fences) = answer {
            process.fences |= fences;
        }
        match (process.stage, process.write.take()) {
            (Stage::Settling, _) if answer == Answer::Done => self.serve(state, me),
            (Stage::Settling, _) => process.stage = Stage::Gone,
            (_, Some(value)) => match answer {
                Answer::Done => process.disk = value,
                Answer::TimedOut => process.has_ended |= !self.lacks(Weakness::WriteAfterUnknown),
                _ => process.stage = Stage::Gone,
            },
            (_, None) => {
                process.log.push(Entry::Answer(answer));
                self.run(state, me);
            }
        }
    }
}
