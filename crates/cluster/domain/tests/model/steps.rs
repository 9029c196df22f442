//! The steps of the model.

use crate::member::{Late, Phase, letters_of};
use crate::promises;
use crate::split::Splitting;
use crate::state::{Message, Protocol, State, Subject, Weakness, content, fingerprint, id};
use gemelo_domain::{Action, Change, Intent, ShardState, plan, verdict};
use stateright::{Model, Property};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A volume of the member writes or overwrites a content.
    Write(usize, usize),
    Overwrite(usize, usize),
    /// The member reads the shard and plans.
    Publish(usize, usize),
    Release(usize, usize),
    /// The member wants to move a block that the index has.
    Withdraw(usize, usize),
    ReadMail(usize),
    Reclaim(usize, usize),
    RemoveMail(usize, usize),
    /// The member begins a split of the shard, or goes on with one.
    Split(usize),
    Record(usize),
    Send(usize),
    GiveUp(usize),
    Ask(usize),
    Tell(usize),
    Settle(usize),
    /// The network delivers a message; the answer may be lost.
    Deliver(Message, bool),
    Lose(Message),
    TakeOver(usize),
    /// An old process, which was cut off, goes on.
    Haunt(usize),
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for member in 0..self.members {
            for content in 0..self.contents {
                self.steps_of_volumes(state, member, content, steps);
            }
            self.steps_of_member(state, member, steps);
        }
        for message in &state.network {
            steps.push(Step::Deliver(message.clone(), false));
            if state.faults > 0 {
                steps.push(Step::Deliver(message.clone(), true));
                steps.push(Step::Lose(message.clone()));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

impl Protocol {
    fn steps_of_volumes(
        &self,
        state: &State,
        member: usize,
        content: usize,
        steps: &mut Vec<Step>,
    ) {
        let process = &state.members[member];
        let local = &process.locals[content];
        if local.is_used {
            steps.push(Step::Overwrite(member, content));
        } else if process.writes > 0 {
            steps.push(Step::Write(member, content));
        }
        if !process.is_idle() {
            return;
        }
        let releases = local.claim.is_some() && !local.is_used || local.releasing.is_some();
        if releases {
            steps.push(Step::Release(member, content));
        } else if local.own.is_some() {
            steps.push(Step::Publish(member, content));
        }
        let refers = local.claim.is_some_and(|(home, _)| home == member) && local.is_used;
        let is_lent = local.pinned.is_some() && self.lacks(Weakness::WithdrawLent);
        if process.moves > 0 && (refers || is_lent) {
            steps.push(Step::Withdraw(member, content));
        }
        if process.letters.iter().any(|letter| letter.0 == content) {
            steps.push(Step::Reclaim(member, content));
        }
    }

    fn steps_of_member(&self, state: &State, member: usize, steps: &mut Vec<Step>) {
        let process = &state.members[member];
        match &process.phase {
            Phase::Idle if process.is_idle() => {
                if process.letters.is_empty() && !state.mail[member].is_empty() {
                    steps.push(Step::ReadMail(member));
                }
                if state.may_split() {
                    steps.push(Step::Split(member));
                }
            }
            Phase::Splitting(Splitting::Look | Splitting::Copy(..)) => {
                steps.push(Step::Split(member));
            }
            Phase::Splitting(_) if state.faults > 0 => steps.push(Step::GiveUp(member)),
            Phase::Splitting(_) => {}
            Phase::Idle => {}
            Phase::Planned(_) => steps.push(Step::Record(member)),
            Phase::Recorded | Phase::Unknown => steps.push(Step::Send(member)),
            Phase::Waiting if state.faults > 0 => steps.push(Step::GiveUp(member)),
            Phase::Waiting => {}
            Phase::Refused => steps.push(Step::Ask(member)),
            Phase::Known(_) => steps.push(Step::Tell(member)),
            Phase::Told => steps.push(Step::Settle(member)),
            Phase::Dealt(content) => steps.push(Step::RemoveMail(member, *content)),
        }
        if state.crashes > 0 {
            steps.push(Step::TakeOver(member));
        }
        if process.ghost.is_some() {
            steps.push(Step::Haunt(member));
        }
    }

    fn apply(&self, state: &mut State, step: Step) {
        match step {
            Step::Write(member, content) => {
                state.members[member].writes -= 1;
                let uses = self.lacks(Weakness::UseWhileReleasing);
                state.members[member].write(content, uses);
            }
            Step::Overwrite(member, content) => state.members[member].overwrite(content),
            Step::Publish(member, content) => {
                let own = state.members[member].locals[content].own;
                if let Some(pbn) = own {
                    self.plan(state, member, content, Action::Publish(pbn));
                }
            }
            Step::Release(member, content) => self.plan(state, member, content, Action::Release),
            Step::Withdraw(member, content) => {
                state.members[member].moves -= 1;
                self.plan(state, member, content, Action::Withdraw);
            }
            Step::ReadMail(member) => state.members[member].letters = state.mail[member].clone(),
            Step::Reclaim(member, content) => self.reclaim(state, member, content),
            Step::RemoveMail(member, content) => Self::remove_mail(state, member, content),
            Step::Record(member) => {
                self.record(state, member);
                // The next step matters to nobody else, unless a crash comes in between.
                if state.crashes == 0 {
                    self.send(state, member);
                }
            }
            Step::Send(member) => self.send(state, member),
            Step::GiveUp(member) => {
                state.faults -= 1;
                if let Phase::Splitting(_) = state.members[member].phase {
                    state.split_again(member);
                } else {
                    state.members[member].phase = Phase::Unknown;
                }
            }
            Step::Split(member) => self.split(state, member),
            Step::Ask(member) => self.ask(state, member),
            Step::Tell(member) => self.tell(state, member),
            Step::Settle(member) => Self::settle(state, member, true),
            Step::Deliver(message, is_lost) => self.deliver(state, &message, is_lost),
            Step::Lose(message) => {
                state.faults -= 1;
                Self::take_from_network(state, &message);
                self.answer(state, &message, Phase::Unknown);
            }
            Step::TakeOver(member) => self.take_over(state, member),
            Step::Haunt(member) => self.haunt(state, member),
        }
    }

    fn take_over(&self, state: &mut State, member: usize) {
        state.crashes -= 1;
        let late = state.members[member].take_over();
        // The journal's object knows the fence, so the old process records nothing.
        let late = late.filter(|late| match late {
            Late::Record(..) => self.lacks(Weakness::NoFence),
            Late::Post(letters) => !letters.is_empty(),
            Late::Remove(letters) => !letters.is_empty(),
        });
        if late.is_some() {
            state.members[member].ghost = late;
        }
    }

    /// The servers of mailboxes need not know the fence.
    fn haunt(&self, state: &mut State, member: usize) {
        match state.members[member].ghost.take().expect("an old process") {
            Late::Record(instance, intent) => {
                // Its record overwrote the journal of the new process, which never reads it again.
                let known = state.known(&intent.shard.object(), member);
                state.send_as(self, member, instance.max(known), &intent);
            }
            Late::Post(letters) => {
                for (home, letter) in letters {
                    state.mail[home].insert(letter);
                }
            }
            Late::Remove(letters) => {
                state.mail[member].retain(|letter| !letters.contains(letter));
            }
        }
    }

    fn send(&self, state: &mut State, member: usize) {
        let intent = state.members[member].journal.clone().expect("a recorded intent");
        state.members[member].phase = Phase::Waiting;
        state.send(self, member, &intent);
    }

    fn plan(&self, state: &mut State, member: usize, content: usize, action: Action) {
        let (shard, mut view) = state.read(member, content);
        if let [Some(entry)] = view.entries.as_mut_slice()
            && action == Action::Withdraw
            && self.lacks(Weakness::WithdrawShared)
        {
            // As if no other member were counted.
            entry.members = 1;
        }
        if view.header.state != ShardState::Open {
            // It waits for the end of a split, or finishes it.
            return;
        }
        let change = Change { fingerprint: fingerprint(content), action };
        let intent = plan(shard, id(member), &view, &[change]);
        if intent.changes_anything() {
            state.members[member].phase = Phase::Planned(intent.clone());
            if self.lacks(Weakness::SendFirst) {
                state.send(self, member, &intent);
            }
            if self.lacks(Weakness::LetterFirst) {
                self.post(state, &intent);
            }
        } else if action == Action::Reclaim {
            state.members[member].phase = Phase::Dealt(content);
        }
    }

    fn reclaim(&self, state: &mut State, member: usize, content: usize) {
        if self.lacks(Weakness::FreeOnLetter) {
            let entry = state.entry(content).filter(|entry| entry.home == id(member));
            state.members[member].locals[content].pinned = None;
            state.members[member].free_unused(content);
            if entry.is_none_or(|entry| entry.members == 0) {
                self.plan(state, member, content, Action::Reclaim);
            }
            return;
        }
        self.plan(state, member, content, Action::Reclaim);
    }

    /// Removes the letters about a content that were read.
    fn remove_mail(state: &mut State, member: usize, content: usize) {
        state.members[member].phase = Phase::Idle;
        let letters = std::mem::take(&mut state.members[member].letters);
        for letter in letters {
            if letter.0 == content {
                state.mail[member].remove(&letter);
            } else {
                state.members[member].letters.insert(letter);
            }
        }
    }

    fn record(&self, state: &mut State, member: usize) {
        let process = &mut state.members[member];
        let Phase::Planned(intent) = process.phase.clone() else { return };
        let content = content(intent.steps[0].change.fingerprint);
        let pins = !self.lacks(Weakness::PinLate);
        process.record(content, &intent, pins);
        let withdraws = intent.steps[0].change.action == Action::Withdraw;
        if withdraws && self.lacks(Weakness::MoveBeforeSettling) {
            process.move_block(content);
        }
        process.phase = Phase::Recorded;
    }

    fn ask(&self, state: &mut State, member: usize) {
        let intent = state.members[member].journal.clone().expect("a recorded intent");
        let found = state.read_receipt(member, intent.shard);
        let applied = match self.weakness {
            Some(Weakness::AssumeVoid) => Some(false),
            Some(Weakness::AssumeApplied) => Some(true),
            _ => verdict(&intent, found),
        };
        state.members[member].phase = Phase::Known(applied.expect("a receipt in order"));
    }

    fn post(&self, state: &mut State, intent: &Intent) {
        for (home, letter) in letters_of(intent, self.lacks(Weakness::OneLetterPerContent)) {
            state.mail[home].insert(letter);
        }
    }

    fn tell(&self, state: &mut State, member: usize) {
        let Phase::Known(applied) = state.members[member].phase else { return };
        if !applied {
            Self::settle(state, member, false);
            return;
        }
        let intent = state.members[member].journal.clone().expect("a recorded intent");
        let has_letters = !letters_of(&intent, false).is_empty();
        if self.lacks(Weakness::SettleBeforeLetter) && has_letters && state.crashes > 0 {
            // The journal has forgotten the intent when a crash keeps the letter from being sent.
            Self::settle(state, member, true);
            self.take_over(state, member);
            return;
        }
        if !self.lacks(Weakness::LetterFirst) {
            self.post(state, &intent);
        }
        state.members[member].phase = Phase::Told;
        // As after the record.
        if state.crashes == 0 {
            Self::settle(state, member, true);
        }
    }

    fn settle(state: &mut State, member: usize, applied: bool) {
        let intent = state.members[member].journal.clone().expect("a recorded intent");
        let change = intent.steps[0].change;
        let content = content(change.fingerprint);
        state.members[member].settle(member, content, &intent, applied);
    }

    fn take_from_network(state: &mut State, message: &Message) {
        let place = state.network.iter().position(|other| other == message);
        state.network.remove(place.expect("a message on its way"));
    }

    fn deliver(&self, state: &mut State, message: &Message, is_lost: bool) {
        Self::take_from_network(state, message);
        let outcome = state.deliver(message);
        let phase = match outcome {
            _ if is_lost => Phase::Unknown,
            Some(true) => Phase::Known(true),
            Some(false) => Phase::Refused,
            None => return,
        };
        state.faults -= u8::from(is_lost);
        self.answer(state, message, phase);
    }

    /// An answer reaches the process that waits for it, and does not count as that of a later
    /// intent.
    fn answer(&self, state: &mut State, message: &Message, phase: Phase) {
        let Subject::Intent(shard, receipt) = message.subject else {
            return self.answer_split(state, message, phase == Phase::Unknown);
        };
        let process = &mut state.members[message.sender];
        let is_waiting = process.phase == Phase::Waiting && process.instance == message.instance;
        let awaited = process.journal.as_ref().map(|intent| (intent.shard, intent.receipt()));
        if is_waiting && awaited == Some((shard, receipt)) {
            process.phase = phase;
        }
    }
}
