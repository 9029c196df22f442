//! The actions that are possible in a state, and the call of each.

use crate::action::Action;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode, Pbn, VOLUMES};
use crate::protocol::{Protocol, Step};
use crate::set::Set;
use crate::state::{Candidate, Client, Metadata, Plan, Remembered, State, Volume};

impl Step<'_> {
    pub(crate) fn run(&mut self, action: Action) -> Option<()> {
        match action {
            Action::Write(client, cell, content) => self.write(client, cell, content),
            Action::LookUp(client) => self.look_up(client),
            Action::Store(client, pbn) => self.store(client, pbn),
            Action::Refuse(client) => self.refuse(client),
            Action::Change(client) => self.change(client),
            Action::Trim(cell) => self.trim(cell),
            Action::BeginRead(client, cell) => self.begin_read(client, cell),
            Action::EndRead(client) => self.end_read(client),
            Action::Search(volume) => self.search(volume, |_| true),
            Action::SearchOne(cell) => self.search_one(cell),
            Action::Examine(at) => self.examine(at.into()),
            Action::Settle(at) => self.settle(at.into()),
            Action::BeginTake(pbn) => self.begin_take(pbn),
            Action::EndTake => self.end_take(),
            Action::Close => self.close(false),
            Action::CloseForCheckpoint => self.close(true),
            Action::BeginSync => self.begin_sync(),
            Action::EndSync => self.end_sync(),
            Action::WriteCommit => self.write_commit(),
            Action::FreezeForRoot => self.freeze_for_root(),
            Action::SyncCommit => self.sync_commit(),
            Action::SyncRoot => self.sync_root(),
            Action::WriteCheckpoint => self.write_checkpoint(),
            Action::SyncCheckpoint => self.sync_checkpoint(),
            Action::BeginDiscard(pbn) => self.begin_discard(pbn),
            Action::EndDiscard => self.end_discard(),
            Action::Create(volume, mode) => self.create(volume, mode),
            Action::Remove(volume) => self.remove(volume),
            Action::Clone(from, to) => self.clone_volume(from, to),
            Action::Hide(volume) => self.hide(volume),
            Action::ClearHidden(volume) => self.clear_hidden(volume),
            Action::SetMode(volume, mode) => self.set_mode(volume, mode),
            Action::CutPower(survives) => self.cut_power(survives),
            Action::Kill => self.kill(),
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
