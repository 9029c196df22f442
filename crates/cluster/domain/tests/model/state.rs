//! The state of the model: the shared store, the network and the members.

use crate::member::Member;
use gemelo_domain::{Entry, Intent, MemberId, Receipt, ShardHeader, ShardState, ShardView};
use gemelo_format::Fingerprint;
use gemelo_objects::Update;
use std::collections::{BTreeMap, BTreeSet};

/// A rule of the protocol that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakness {
    NoHeaderGuard,
    AssumeVoid,
    AssumeApplied,
    SendFirst,
    PinLate,
    UseWhileReleasing,
    SettleBeforeLetter,
    LetterFirst,
    OneLetterPerContent,
    FreeOnLetter,
    NoFence,
}

/// Limits of the number of events, so that there are finitely many states.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Contents that each member writes.
    pub(crate) writes: u8,
    /// Take-overs, of all members.
    pub(crate) crashes: u8,
    /// Lost and late calls and answers, of all members.
    pub(crate) faults: u8,
}

/// The model: its size, and the rule that it lacks.
#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    pub(crate) members: usize,
    pub(crate) contents: usize,
    pub(crate) budget: Budget,
    pub(crate) weakness: Option<Weakness>,
}

impl Protocol {
    pub(crate) fn lacks(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }
}

/// A guarded write on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Message {
    pub(crate) sender: usize,
    pub(crate) instance: u8,
    pub(crate) receipt: Receipt,
    pub(crate) update: Keys,
}

/// An update in a form that has an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Keys {
    guards: Vec<(String, Option<Vec<u8>>)>,
    set: Vec<(String, Vec<u8>)>,
    remove: Vec<String>,
}

/// A letter to a home: the content, and what makes it unlike other letters.
pub(crate) type Letter = (usize, usize, u64);

/// The members, the store, and the calls on their way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The keys of the one shard.
    pub(crate) shard: BTreeMap<String, Vec<u8>>,
    /// The newest instance of each member from which the shard's server knows the fences.
    pub(crate) known: Vec<u8>,
    pub(crate) mail: Vec<BTreeSet<Letter>>,
    /// In order, and with repetitions.
    pub(crate) network: Vec<Message>,
    pub(crate) members: Vec<Member>,
    pub(crate) faults: u8,
    pub(crate) crashes: u8,
}

pub(crate) fn id(member: usize) -> MemberId {
    MemberId(member as u32 + 1)
}

pub(crate) fn number(member: MemberId) -> usize {
    member.0 as usize - 1
}

pub(crate) fn fingerprint(content: usize) -> Fingerprint {
    Fingerprint::of_hash(content as u128 + 1)
}

pub(crate) fn content(fingerprint: Fingerprint) -> usize {
    fingerprint.low() as usize - 1
}

const HEADER: &str = "header";

impl State {
    pub(crate) fn new(protocol: &Protocol) -> Self {
        let Protocol { members, contents, budget, .. } = protocol;
        let header = ShardHeader::new(ShardState::Open).encode();
        Self {
            shard: BTreeMap::from([(HEADER.to_owned(), header)]),
            known: vec![0; *members],
            mail: vec![BTreeSet::new(); *members],
            network: Vec::new(),
            members: vec![Member::new(*contents, *budget); *members],
            faults: budget.faults,
            crashes: budget.crashes,
        }
    }

    /// Reads the shard for a member; the server learns of the fences that the member knows.
    pub(crate) fn read(&mut self, member: usize, contents: &[usize]) -> ShardView {
        self.known[member] = self.members[member].instance;
        self.view(contents)
    }

    /// Reads the member's receipt.
    pub(crate) fn read_receipt(&mut self, member: usize) -> Receipt {
        self.known[member] = self.members[member].instance;
        let key = Receipt::key(id(member));
        let value = self.shard.get(&key).map(Vec::as_slice);
        Receipt::decode(&key, value).expect("the crate's own encoding")
    }

    fn view(&self, contents: &[usize]) -> ShardView {
        let keys = ShardView::keys(contents.iter().map(|it| fingerprint(*it)));
        let values: Vec<_> = keys.iter().map(|key| self.shard.get(key).cloned()).collect();
        ShardView::decode(&keys, &values).expect("the crate's own encoding")
    }

    pub(crate) fn entry(&self, content: usize) -> Option<Entry> {
        self.view(&[content]).entries[0]
    }

    pub(crate) fn send(&mut self, protocol: &Protocol, sender: usize, intent: &Intent) {
        let instance = self.members[sender].instance;
        self.send_as(protocol, sender, instance, intent);
    }

    pub(crate) fn send_as(
        &mut self,
        protocol: &Protocol,
        sender: usize,
        instance: u8,
        intent: &Intent,
    ) {
        let update = Keys::of(protocol, intent.update());
        self.network.push(Message { sender, instance, receipt: intent.receipt(), update });
        self.network.sort_unstable();
    }

    /// Delivers a message and returns whether it took effect; `None` if its sender is fenced.
    pub(crate) fn deliver(&mut self, message: &Message) -> Option<bool> {
        let known = &mut self.known[message.sender];
        if message.instance < *known {
            return None;
        }
        *known = message.instance;
        let Keys { guards, set, remove } = &message.update;
        let holds = guards.iter().all(|(key, value)| self.shard.get(key) == value.as_ref());
        if holds {
            for key in remove {
                self.shard.remove(key);
            }
            self.shard.extend(set.iter().cloned());
        }
        Some(holds)
    }
}

impl Keys {
    fn of(protocol: &Protocol, update: Update) -> Self {
        let guards = update.guards.into_iter().filter(|_| !protocol.lacks(Weakness::NoHeaderGuard));
        Self {
            guards: guards.map(|guard| (guard.key, guard.expected)).collect(),
            set: update.set,
            remove: update.remove,
        }
    }
}
