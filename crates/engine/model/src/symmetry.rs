//! Symmetry: blocks are alike, and so are clients. States that differ in their numbers alone are
//! one state.
//!
//! Each block gets a signature of all places that name it, and the blocks are numbered in the order
//! of their signatures. Two blocks with one signature are named alike everywhere.

use crate::bounds::Bounds;
use crate::numbers::{PBNS, Pbn};
use crate::state::{Candidate, Client, Entry, Metadata, Phase, Plan, Remembered, State};

/// Signatures by block, filled bit by bit. There are at most 49 bits.
struct Signatures {
    of: [u64; PBNS],
    blocks: usize,
}

impl Signatures {
    /// Adds a place that names some blocks, or none.
    fn add(&mut self, names: impl Fn(usize) -> bool) {
        for (at, signature) in self.of[..self.blocks].iter_mut().enumerate() {
            *signature = *signature << 1 | u64::from(names(at));
        }
    }

    fn add_entry(&mut self, entry: Option<Entry>) {
        self.add_pbn(entry.map(|entry| entry.pbn));
    }

    fn add_pbn(&mut self, pbn: Option<Pbn>) {
        self.of.iter_mut().for_each(|signature| *signature <<= 1);
        if let Some(pbn) = pbn {
            self.of[pbn.at()] |= 1;
        }
    }

    /// Adds a number below 8 of each block.
    fn add_number(&mut self, number: impl Fn(usize) -> u8) {
        for (at, signature) in self.of[..self.blocks].iter_mut().enumerate() {
            *signature = *signature << 3 | u64::from(number(at));
        }
    }

    fn add_metadata(&mut self, metadata: &Metadata) {
        metadata.map.iter().for_each(|entry| self.add_entry(*entry));
        self.add_number(|at| metadata.fingerprints[at].map_or(0, |known| known.0 + 1));
    }
}

fn signatures(state: &State, blocks: usize) -> Signatures {
    let mut all = Signatures { of: [0; PBNS], blocks };
    all.add_metadata(&state.live);
    all.add_metadata(&state.log.durable);
    all.add_metadata(&state.log.closed);
    state.index.iter().for_each(|entry| all.add_pbn(*entry));
    all.add_number(|at| state.store[at].content.0);
    for content in 0..4 {
        all.add(|at| state.store[at].medium.has(content));
    }
    let space = &state.space;
    for set in [space.free, space.open, space.closed, space.discarding] {
        all.add(|at| set.has(at as u8));
    }
    for pin in 0..3 {
        all.add(|at| space.retired[at].has(pin));
    }
    if let Phase::Syncing(covered) = state.log.phase {
        all.add(|at| covered.has(at as u8));
    }
    all.add_number(|at| match state.remembered[at] {
        Remembered::Nothing => 0,
        Remembered::Ticket(content) => content.0,
        Remembered::Fingerprint(fingerprint) => 4 + fingerprint.0,
    });
    all.add_pbn(state.taking.map(|taking| taking.pbn));
    for client in state.clients {
        let named = match client {
            Client::Idle | Client::Overtaken { .. } => None,
            Client::Planned { plan: Plan::Share(pbn), .. } => Some(pbn),
            Client::Planned { plan: Plan::Fresh { pbn, .. }, .. } => pbn,
            Client::Reading { entry, .. } => entry.map(|entry| entry.pbn),
        };
        all.add_pbn(named);
    }
    for candidate in state.finder.iter().flat_map(|search| search.candidates) {
        if let Candidate::Listed { own, .. } | Candidate::Examined { own, .. } = candidate {
            all.add_pbn(Some(own.pbn));
        }
        if let Candidate::Examined { entry, .. } = candidate {
            all.add_pbn(entry);
        }
    }
    all
}

/// A numbering of the blocks: the new number of each.
struct Numbering([u8; PBNS]);

impl Numbering {
    const fn pbn(&self, pbn: &mut Pbn) {
        pbn.0 = self.0[pbn.at()];
    }

    fn option(&self, pbn: &mut Option<Pbn>) {
        pbn.iter_mut().for_each(|pbn| self.pbn(pbn));
    }

    fn entry(&self, entry: &mut Option<Entry>) {
        entry.iter_mut().for_each(|entry| self.pbn(&mut entry.pbn));
    }

    fn array<T: Copy>(&self, array: &mut [T; PBNS]) {
        let before = *array;
        for (value, to) in before.into_iter().zip(self.0) {
            array[usize::from(to)] = value;
        }
    }

    fn set(&self, set: &mut crate::set::Set) {
        let before = std::mem::take(set);
        before.numbers().for_each(|number| set.add(self.0[usize::from(number)]));
    }

    fn metadata(&self, metadata: &mut Metadata) {
        metadata.map.iter_mut().for_each(|entry| self.entry(entry));
        self.array(&mut metadata.fingerprints);
    }

    fn client(&self, client: &mut Client) {
        match client {
            Client::Idle | Client::Overtaken { .. } => {}
            Client::Planned { plan: Plan::Share(pbn), .. } => self.pbn(pbn),
            Client::Planned { plan: Plan::Fresh { pbn, .. }, .. } => self.option(pbn),
            Client::Reading { entry, .. } => self.entry(entry),
        }
    }

    fn candidate(&self, candidate: &mut Candidate) {
        match candidate {
            Candidate::Done => {}
            Candidate::Listed { own, .. } => self.pbn(&mut own.pbn),
            Candidate::Examined { own, entry, .. } => {
                self.pbn(&mut own.pbn);
                self.option(entry);
            }
        }
    }

    fn state(&self, state: &mut State) {
        self.metadata(&mut state.live);
        self.metadata(&mut state.log.durable);
        self.metadata(&mut state.log.closed);
        self.array(&mut state.counts);
        self.array(&mut state.store);
        state.index.iter_mut().for_each(|entry| self.option(entry));
        let space = &mut state.space;
        for set in [&mut space.free, &mut space.open, &mut space.closed, &mut space.discarding] {
            self.set(set);
        }
        self.array(&mut space.retired);
        self.array(&mut state.remembered);
        if let Some(taking) = &mut state.taking {
            self.pbn(&mut taking.pbn);
        }
        if let Phase::Syncing(covered) = &mut state.log.phase {
            self.set(covered);
        }
        state.clients.iter_mut().for_each(|client| self.client(client));
        if let Some(search) = &mut state.finder {
            search.candidates.iter_mut().for_each(|candidate| self.candidate(candidate));
        }
    }
}

/// Numbers the blocks and the clients anew, so that states that differ in their numbers alone
/// become equal. Only for a protocol with all guards: there are no states that a crash may go back
/// to.
pub(crate) fn renumber(state: &mut State, bounds: &Bounds) {
    let blocks = bounds.blocks;
    renumber_blocks(state, blocks);
    if bounds.clients > 1 && state.clients[1] < state.clients[0] {
        state.clients.swap(0, 1);
        for pins in &mut state.space.retired {
            *pins = pins.swapped();
        }
        renumber_blocks(state, blocks);
    }
}

fn renumber_blocks(state: &mut State, blocks: u8) {
    let blocks = usize::from(blocks);
    let signatures = signatures(state, blocks).of;
    let mut order: [u8; PBNS] = std::array::from_fn(|at| at as u8);
    if signatures[..blocks].is_sorted_by(|one, next| one >= next) {
        return;
    }
    order[..blocks]
        .sort_by(|one, other| signatures[usize::from(*other)].cmp(&signatures[usize::from(*one)]));
    let mut numbering = Numbering([0; PBNS]);
    for (to, from) in (0..).zip(order) {
        numbering.0[usize::from(from)] = to;
    }
    numbering.state(state);
}
