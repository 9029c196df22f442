//! The actions that are possible in a state, and the call of each.

use crate::action::Action;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode, Pbn, VOLUMES};
use crate::protocol::{Protocol, Step};
use crate::set::Set;
use crate::state::{Candidate, Client, Metadata, Plan, Remembered, State, Volume};
use crate::{clients, collector, commit, crash, finder, volumes};

impl Step<'_> {
    pub(crate) fn run(&mut self, action: Action) -> Option<()> {
        match action {
            Action::Write(client, cell, content) => clients::write(self, client, cell, content),
            Action::LookUp(client) => clients::look_up(self, client),
            Action::Store(client, pbn) => clients::store(self, client, pbn),
            Action::Refuse(client) => clients::refuse(self, client),
            Action::Change(client) => clients::change(self, client),
            Action::Trim(cell) => clients::trim(self, cell),
            Action::BeginRead(client, cell) => clients::begin_read(self, client, cell),
            Action::EndRead(client) => clients::end_read(self, client),
            Action::Search(volume) => finder::search(self, volume, |_| true),
            Action::SearchOne(cell) => finder::search_one(self, cell),
            Action::Examine(at) => finder::examine(self, at.into()),
            Action::Settle(at) => finder::settle(self, at.into()),
            Action::BeginTake(pbn) => finder::begin_take(self, pbn),
            Action::EndTake => finder::end_take(self),
            Action::Close => commit::close(self, false),
            Action::CloseForCheckpoint => commit::close(self, true),
            Action::BeginSync => commit::begin_sync(self),
            Action::EndSync => commit::end_sync(self),
            Action::WriteCommit => commit::write_commit(self),
            Action::FreezeForRoot => commit::freeze_for_root(self),
            Action::SyncCommit => commit::sync_commit(self),
            Action::SyncRoot => commit::sync_root(self),
            Action::WriteCheckpoint => commit::write_checkpoint(self),
            Action::SyncCheckpoint => commit::sync_checkpoint(self),
            Action::BeginDiscard(pbn) => collector::begin_discard(self, pbn),
            Action::EndDiscard => collector::end_discard(self),
            Action::Create(volume, mode) => volumes::create(self, volume, mode),
            Action::Remove(volume) => volumes::remove(self, volume),
            Action::Clone(from, to) => volumes::clone_volume(self, from, to),
            Action::Hide(volume) => volumes::hide(self, volume),
            Action::ClearHidden(volume) => volumes::clear_hidden(self, volume),
            Action::SetMode(volume, mode) => volumes::set_mode(self, volume, mode),
            Action::CutPower(survives) => crash::cut_power(self, survives),
            Action::Kill => crash::kill(self),
        }
    }
}

impl Protocol {
    /// Adds the actions that may be possible in a state.
    pub(crate) fn list(&self, state: &State, actions: &mut Vec<Action>) {
        self.list_requests(state, actions);
        self.list_writes(state, actions);
        self.list_commits(state, actions);
        self.list_background(state, actions);
        self.list_volumes(state, actions);
        if state.budget.crashes > 0 {
            actions.extend([Action::CutPower(false), Action::CutPower(true), Action::Kill]);
        }
    }

    /// The LBNs of the volumes that clients see.
    fn cells(&self, state: &State) -> impl Iterator<Item = Cell> {
        let is_shown = |volume: usize| state.mode(volume).is_some();
        let shown: Vec<usize> = (0..VOLUMES).filter(|volume| is_shown(*volume)).collect();
        let lbns = usize::from(self.bounds.lbns);
        shown.into_iter().flat_map(move |volume| Cell::of(volume).take(lbns))
    }

    /// New requests. Clients are alike, so the first idle one asks.
    fn list_requests(&self, state: &State, actions: &mut Vec<Action>) {
        let clients = (0..self.bounds.clients).zip(state.clients);
        let idle = clients.into_iter().find(|(_, client)| *client == Client::Idle);
        for cell in self.cells(state) {
            if state.budget.trims > 0 {
                actions.push(Action::Trim(cell));
            }
            let Some((client, _)) = idle else { continue };
            if state.budget.writes > 0 {
                let most = self.bounds.contents.min(state.contents + 1);
                let contents = (1..=most).map(Content);
                actions.extend(contents.map(|content| Action::Write(client, cell, content)));
            }
            if state.budget.reads > 0 {
                actions.push(Action::BeginRead(client, cell));
            }
        }
    }

    fn list_writes(&self, state: &State, actions: &mut Vec<Action>) {
        for (client, request) in (0..self.bounds.clients).zip(state.clients) {
            match request {
                Client::Idle => {}
                Client::Overtaken { .. } => actions.push(Action::LookUp(client)),
                Client::Reading { .. } => actions.push(Action::EndRead(client)),
                Client::Planned { plan: Plan::Fresh { pbn: None, .. }, .. } => {
                    let pbns = Self::choices(state).numbers().map(Pbn);
                    actions.extend(pbns.map(|pbn| Action::Store(client, pbn)));
                    actions.push(Action::Refuse(client));
                }
                Client::Planned { .. } => actions.push(Action::Change(client)),
            }
        }
    }

    /// Free blocks: the first one that nothing names, because those are alike, and all others.
    fn choices(state: &State) -> Set {
        let mut choices = Set::EMPTY;
        let mut has_unnamed = false;
        for number in state.space.free.numbers() {
            let is_named = Self::is_named(state, number);
            if is_named || !has_unnamed {
                choices.add(number);
            }
            has_unnamed |= !is_named;
        }
        choices
    }

    /// Returns whether metadata, the index or a request names a block.
    fn is_named(state: &State, number: u8) -> bool {
        let by_metadata = |metadata: &Metadata| metadata.referenced().has(number);
        by_metadata(&state.live)
            || by_metadata(&state.log.closed)
            || state.outcomes().any(by_metadata)
            || state.index.contains(&Some(Pbn(number)))
            || state.space.discarding.has(number)
            || state.remembered[usize::from(number)] != Remembered::Nothing
            || state.taking.is_some_and(|taking| taking.pbn.0 == number)
            || state.clients.iter().any(|client| match client {
                Client::Planned { plan: Plan::Share(pbn), .. } => pbn.0 == number,
                _ => false,
            })
            || state.finder.is_some_and(|search| {
                search.candidates.iter().any(|candidate| match candidate {
                    Candidate::Done => false,
                    Candidate::Listed { own, .. } => own.pbn.0 == number,
                    Candidate::Examined { own, entry, .. } => {
                        own.pbn.0 == number || *entry == Some(Pbn(number))
                    }
                })
            })
    }

    fn list_commits(&self, state: &State, actions: &mut Vec<Action>) {
        use crate::state::{Checkpoint, Phase};
        match state.log.phase {
            Phase::Idle => {
                actions.push(Action::Close);
                if state.budget.checkpoints > 0 {
                    actions.push(Action::CloseForCheckpoint);
                }
            }
            Phase::Closed => actions.extend([Action::BeginSync, Action::WriteCommit]),
            Phase::Syncing(_) => actions.push(Action::EndSync),
            Phase::Synced => actions.push(Action::WriteCommit),
            Phase::NoRoom => actions.push(Action::FreezeForRoot),
            Phase::Written => actions.push(Action::SyncCommit),
            Phase::RootWritten => actions.push(Action::SyncRoot),
        }
        match state.log.checkpoint {
            Checkpoint::None | Checkpoint::Frozen => {}
            Checkpoint::Pages(_) => actions.push(Action::WriteCheckpoint),
            Checkpoint::Root(_) => actions.push(Action::SyncCheckpoint),
        }
    }

    /// The finder and the collector.
    fn list_background(&self, state: &State, actions: &mut Vec<Action>) {
        match state.finder {
            None => actions.extend(state.searches()),
            Some(search) => {
                for (at, candidate) in (0..).zip(search.candidates) {
                    match candidate {
                        Candidate::Done => {}
                        Candidate::Listed { .. } => actions.push(Action::Examine(at)),
                        Candidate::Examined { .. } => actions.push(Action::Settle(at)),
                    }
                }
            }
        }
        if state.taking.is_some() {
            actions.push(Action::EndTake);
        } else if state.budget.takes > 0 {
            actions.extend((0..self.bounds.blocks).map(|number| Action::BeginTake(Pbn(number))));
        }
        if !state.space.discarding.is_empty() {
            actions.push(Action::EndDiscard);
        } else if state.budget.discards > 0 {
            let pbns = Self::choices(state).numbers().map(Pbn);
            actions.extend(pbns.map(Action::BeginDiscard));
        }
    }

    fn list_volumes(&self, state: &State, actions: &mut Vec<Action>) {
        for number in 0..VOLUMES as u8 {
            match state.live.volumes[usize::from(number)] {
                Volume::Hidden if self.has(Guard::HiddenAreCleared) => {
                    actions.push(Action::ClearHidden(number));
                }
                Volume::Hidden => {}
                Volume::Absent if state.budget.volumes > 0 => {
                    let other = (VOLUMES as u8 - 1) - number;
                    actions.extend([
                        Action::Create(number, Mode::Offline),
                        Action::Clone(other, number),
                    ]);
                }
                Volume::Absent => {}
                Volume::Shown(_) => {
                    if state.budget.volumes > 0 {
                        actions.extend([Action::Remove(number), Action::Hide(number)]);
                    }
                    if state.budget.modes > 0 {
                        let modes = [Mode::Off, Mode::Inline, Mode::Offline];
                        actions.extend(modes.map(|mode| Action::SetMode(number, mode)));
                    }
                }
            }
        }
    }
}
