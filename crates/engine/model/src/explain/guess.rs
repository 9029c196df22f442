//! A run of the model that agrees with the events so far: its state, and what each thread waits
//! for.

use super::script::Script;
use super::{Answer, Event, Request, THREADS};
use crate::action::Action;
use crate::change::Change;
use crate::numbers::{CELLS, CLIENTS, Cell, Content, Pbn};
use crate::protocol::Protocol;
use crate::set::Set;
use crate::state::{Candidate, Client, History, Phase, Plan, State};

/// The work of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    /// It asked, and nothing was done yet. A flush must make this number of changes durable.
    Asked(Request, usize),
    /// Its client in the model has begun; what a read has found.
    Running(Request, Content),
    /// It is done, and may be answered when this number of changes is durable.
    Done(Answer, usize),
}

/// A run of the model. Changes are counted from the last opening.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Guess {
    state: State,
    threads: [Work; THREADS],
    made: usize,
    closed: usize,
    durable: usize,
    /// Changes of the last step that share a block.
    shares: u64,
    /// Blocks that the finder has shared for the request of a thread.
    shared: u64,
    /// The commit that was seen last had no changes, and neither has its sync.
    is_empty_commit: bool,
}

impl Guess {
    pub(super) fn first(protocol: &Protocol) -> Self {
        Self {
            state: State::first(&protocol.bounds),
            threads: [Work::Idle; THREADS],
            made: 0,
            closed: 0,
            durable: 0,
            shares: 0,
            shared: 0,
            is_empty_commit: false,
        }
    }

    /// The run after an action, if it is possible and its changes are those of the commits.
    fn after(&self, protocol: &Protocol, script: &Script, action: Action) -> Option<Self> {
        let (state, changes) = protocol.step(&self.state, action)?;
        let waits = !changes.is_empty() && script.must_close(self.made, self.closed);
        if waits || !script.agrees(self.made, &changes) {
            return None;
        }
        let made = self.made + changes.len();
        let is_share = |change: &&Change| matches!(change, Change::Share { .. });
        let shares = changes.iter().filter(is_share).count() as u64;
        Some(Self { state, made, shares, ..self.clone() })
    }

    fn with(mut self, thread: usize, work: Work) -> Self {
        self.threads[thread] = work;
        self
    }

    /// The runs after one more step that is not seen.
    pub(super) fn hidden_steps(&self, protocol: &Protocol, script: &Script) -> Vec<Self> {
        let mut next = Vec::new();
        for (thread, work) in self.threads.iter().enumerate() {
            match *work {
                Work::Idle | Work::Done(..) => {}
                Work::Asked(request, _) => {
                    next.extend(self.begin(protocol, script, thread, request));
                }
                Work::Running(request, seen) => {
                    self.go_on(protocol, script, (thread, request, seen), &mut next);
                }
            }
        }
        if self.is_finding() {
            self.find(protocol, script, &mut next);
        }
        if script.may_close(self.made, self.closed)
            && let Some(closed) = self.after(protocol, script, Action::Close)
        {
            next.push(Self { closed: self.made, ..closed });
        }
        // The knowledge of clients is left out: it would only tell equal runs apart.
        for guess in &mut next {
            guess.shares = 0;
            guess.state.history = [History::of(Content::ZEROS); CELLS];
        }
        next
    }

    fn is_finding(&self) -> bool {
        self.threads.iter().any(|work| matches!(work, Work::Asked(Request::Find, _)))
    }

    /// The first step for a request.
    fn begin(
        &self,
        protocol: &Protocol,
        script: &Script,
        thread: usize,
        request: Request,
    ) -> Option<Self> {
        let client = thread as u8;
        match request {
            Request::Write(cell, content) => {
                let action = Action::Write(client, cell, content);
                let begun = self.after(protocol, script, action)?;
                Some(begun.of_client(thread, request))
            }
            Request::Read(cell) => match self.state.live.map[cell.at()] {
                Some(entry) => {
                    let begun = self.after(protocol, script, Action::BeginRead(client, cell))?;
                    Some(begun.with(thread, Work::Running(request, entry.checksum)))
                }
                None => Some(self.read(thread, Content::ZEROS)),
            },
            Request::Trim(cell) => {
                let trimmed = match self.state.live.map[cell.at()] {
                    Some(_) => self.after(protocol, script, Action::Trim(cell))?,
                    None => self.clone(),
                };
                Some(trimmed.with(thread, Work::Done(Answer::Done, 0)))
            }
            Request::Volume(action) => {
                let changed = self.after(protocol, script, action)?;
                let made = changed.made;
                Some(changed.with(thread, Work::Done(Answer::Done, made)))
            }
            // The finder ends when it finds no mark.
            Request::Find if self.state.finder.is_none() && self.state.dirty.is_empty() => {
                let found = Answer::Shared(self.shared);
                Some(self.clone().with(thread, Work::Done(found, 0)))
            }
            Request::Flush | Request::Find | Request::Checkpoint { .. } => None,
        }
    }

    fn read(&self, thread: usize, content: Content) -> Self {
        self.clone().with(thread, Work::Done(Answer::Content(content), 0))
    }

    /// A write goes on, or is done if its client is idle.
    fn of_client(self, thread: usize, request: Request) -> Self {
        let work = match self.state.clients[thread] {
            Client::Idle => Work::Done(Answer::Done, 0),
            _ => Work::Running(request, Content::ZEROS),
        };
        self.with(thread, work)
    }

    /// Adds the runs after the next step of a request that has begun.
    fn go_on(
        &self,
        protocol: &Protocol,
        script: &Script,
        (thread, request, seen): (usize, Request, Content),
        next: &mut Vec<Self>,
    ) {
        let client = thread as u8;
        let mut add = |action| {
            let after = self.after(protocol, script, action);
            next.extend(after.map(|after| after.of_client(thread, request)));
        };
        match self.state.clients[thread] {
            Client::Idle => {}
            Client::Overtaken { .. } => add(Action::LookUp(client)),
            Client::Planned { cell, content, plan: Plan::Fresh { pbn: None, .. } } => {
                for number in self.blocks_for(script, cell, content).numbers() {
                    add(Action::Store(client, Pbn(number)));
                }
                // The engine waits for free blocks, and plans again.
                if let Some(refused) = self.after(protocol, script, Action::Refuse(client)) {
                    next.push(refused.with(thread, Work::Asked(request, 0)));
                }
            }
            Client::Planned { .. } => add(Action::Change(client)),
            Client::Reading { .. } => {
                let ended = self.after(protocol, script, Action::EndRead(client));
                next.extend(ended.map(|ended| ended.read(thread, seen)));
            }
        }
    }

    /// Free blocks that a write may take: those that a commit names, and some for a write
    /// whose change no commit has.
    fn blocks_for(&self, script: &Script, cell: Cell, content: Content) -> Set {
        script.blocks_of(self.made, cell, content).and(script.unseen_blocks(self.state.space.free))
    }

    /// Adds the runs after the next step of the finder.
    fn find(&self, protocol: &Protocol, script: &Script, next: &mut Vec<Self>) {
        let Some(search) = self.state.finder else {
            let searches = self.state.searches();
            next.extend(searches.filter_map(|action| self.after(protocol, script, action)));
            return;
        };
        for (at, candidate) in (0..).zip(search.candidates) {
            let action = match candidate {
                Candidate::Done => continue,
                Candidate::Listed { .. } => Action::Examine(at),
                Candidate::Examined { .. } => Action::Settle(at),
            };
            let Some(mut after) = self.after(protocol, script, action) else { continue };
            after.shared += after.shares;
            next.push(after);
        }
    }

    /// The runs after an event: none if it cannot happen now.
    pub(super) fn see(&self, protocol: &Protocol, script: &Script, event: &Event) -> Vec<Self> {
        let act = |action| self.after(protocol, script, action);
        match event {
            Event::Asked(thread, request) => {
                let work = Work::Asked(*request, self.made);
                let mut asked = self.clone().with(*thread, work);
                if *request == Request::Find {
                    asked.shared = 0;
                }
                vec![asked]
            }
            Event::Answered(thread, answer) => {
                let may = self.may_answer(*thread, *answer);
                may.then(|| self.clone().with(*thread, Work::Idle)).into_iter().collect()
            }
            Event::BeginSync => act(Action::BeginSync).into_iter().collect(),
            Event::EndSync => act(Action::EndSync).into_iter().collect(),
            Event::Commit(changes) if changes.is_empty() => {
                vec![Self { is_empty_commit: true, ..self.clone() }]
            }
            Event::Commit(_) => {
                let is_closed = script.end_of_last() == Some(self.closed);
                act(Action::WriteCommit).filter(|_| is_closed).into_iter().collect()
            }
            Event::SyncCommit if self.is_empty_commit => {
                vec![Self { is_empty_commit: false, ..self.clone() }]
            }
            Event::SyncCommit => {
                let synced = act(Action::SyncCommit);
                synced.map(|synced| Self { durable: self.closed, ..synced }).into_iter().collect()
            }
            Event::Discard(pbn) => {
                let is_free = self.state.space.free.has(pbn.0);
                is_free.then(|| self.clone()).into_iter().collect()
            }
            Event::CutPower => self.after_power_cut(protocol),
            Event::Shown(contents) => {
                let is_shown = Cell::all()
                    .zip(contents)
                    .all(|(cell, content)| self.state.live.content(cell) == *content);
                is_shown.then(|| self.clone()).into_iter().collect()
            }
        }
    }

    fn may_answer(&self, thread: usize, answer: Answer) -> bool {
        match self.threads[thread] {
            Work::Idle => false,
            Work::Done(found, durable) => found == answer && self.durable >= durable,
            Work::Asked(Request::Flush | Request::Checkpoint { .. }, made) => {
                answer == Answer::Done && self.durable >= made
            }
            Work::Asked(..) => answer == Answer::Refused,
            Work::Running(..) => {
                let is_planned = thread < CLIENTS
                    && matches!(self.state.clients[thread], Client::Overtaken { .. });
                answer == Answer::Refused && is_planned
            }
        }
    }

    /// The power is cut: what threads had asked for is forgotten.
    fn after_power_cut(&self, protocol: &Protocol) -> Vec<Self> {
        let is_written = self.state.log.phase == Phase::Written;
        let outcomes = [Some(false), is_written.then_some(true)];
        let steps = outcomes.into_iter().flatten().filter_map(|survives| {
            let (state, _) = protocol.step(&self.state, Action::CutPower(survives))?;
            Some(Self { state, ..Self::first(protocol) })
        });
        steps.collect()
    }
}
