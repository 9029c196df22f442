//! The state of the model: the shared store, the network and the members.

use crate::member::Member;
use gemelo_domain::{
    Entry, Intent, MemberId, Receipt, Shard, ShardHeader, ShardState, ShardView, SplitStep,
};
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
    CopyBeforeSeal,
    NoCopyGuard,
    RemoveReceipts,
    WithdrawShared,
    WithdrawLent,
    MoveBeforeSettling,
}

/// Limits of the number of events, so that there are finitely many states.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Contents that each member writes.
    pub(crate) writes: u8,
    /// Contents that each member withdraws, to move them.
    pub(crate) moves: u8,
    /// Take-overs, of all members.
    pub(crate) crashes: u8,
    /// Lost and late calls and answers, of all members.
    pub(crate) faults: u8,
    /// Splits of the shard that members begin without need.
    pub(crate) splits: u8,
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
    pub(crate) subject: Subject,
    object: String,
    update: Keys,
}

/// The larger step of which a write is a part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    /// The intent that sets this receipt of a shard.
    Intent(Shard, Receipt),
    /// The attempt of this number at a split.
    Split(u8),
}

/// An update in a form that has an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Keys {
    guards: Vec<(String, Option<Vec<u8>>)>,
    set: Vec<(String, Vec<u8>)>,
    remove: Vec<String>,
    creates: bool,
}

/// A letter to a home: the content, and what makes it unlike other letters.
pub(crate) type Letter = (usize, usize, u64);

/// The members, the store, and the calls on their way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The keys of the objects: the one shard, and its halves once they exist.
    pub(crate) objects: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// For an object, the newest instance of each member from which its server knows the fences.
    known: BTreeMap<String, Vec<u8>>,
    pub(crate) mail: Vec<BTreeSet<Letter>>,
    /// In order, and with repetitions.
    pub(crate) network: Vec<Message>,
    pub(crate) members: Vec<Member>,
    pub(crate) faults: u8,
    pub(crate) crashes: u8,
    pub(crate) splits: u8,
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
        let keys = BTreeMap::from([(HEADER.to_owned(), header)]);
        Self {
            objects: BTreeMap::from([(Shard::ALL.object(), keys)]),
            known: BTreeMap::new(),
            mail: vec![BTreeSet::new(); *members],
            network: Vec::new(),
            members: vec![Member::new(*contents, *budget); *members],
            faults: budget.faults,
            crashes: budget.crashes,
            splits: budget.splits,
        }
    }

    /// The server of an object learns of the fences that an instance knows, and returns whether it
    /// is fenced itself.
    fn learn(&mut self, object: &str, member: usize, instance: u8) -> bool {
        let none = vec![0; self.members.len()];
        let known = &mut self.known.entry(object.to_owned()).or_insert(none)[member];
        let is_fenced = instance < *known;
        *known = instance.max(*known);
        is_fenced
    }

    /// Returns the newest instance of a member of which the server of an object knows.
    pub(crate) fn known(&self, object: &str, member: usize) -> u8 {
        self.known.get(object).map_or(0, |known| known[member])
    }

    /// Reads the shard in use for a member.
    pub(crate) fn read(&mut self, member: usize, content: usize) -> (Shard, ShardView) {
        self.touch(member, Shard::ALL);
        let shard = self.shard_of(content);
        self.touch(member, shard);
        (shard, self.view(shard, content))
    }

    /// A member reads or changes a shard.
    pub(crate) fn touch(&mut self, member: usize, shard: Shard) {
        self.learn(&shard.object(), member, self.members[member].instance);
    }

    /// Reads the member's receipt.
    pub(crate) fn read_receipt(&mut self, member: usize, shard: Shard) -> Receipt {
        self.touch(member, shard);
        let key = Receipt::key(id(member));
        let value = self.objects[&shard.object()].get(&key).map(Vec::as_slice);
        Receipt::decode(&key, value).expect("the crate's own encoding")
    }

    fn view(&self, shard: Shard, content: usize) -> ShardView {
        let shard = &self.objects[&shard.object()];
        let keys = ShardView::keys(std::iter::once(fingerprint(content)));
        let values: Vec<_> = keys.iter().map(|key| shard.get(key).cloned()).collect();
        ShardView::decode(&keys, &values).expect("the crate's own encoding")
    }

    /// Returns the header of the one shard.
    pub(crate) fn header(&self) -> ShardHeader {
        self.view(Shard::ALL, 0).header
    }

    /// Returns the shard in use that holds a content.
    fn shard_of(&self, content: usize) -> Shard {
        match self.header().state {
            ShardState::Split => Shard::of(fingerprint(content), 1),
            _ => Shard::ALL,
        }
    }

    pub(crate) fn entry(&self, content: usize) -> Option<Entry> {
        self.view(self.shard_of(content), content).entries[0]
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
        let subject = Subject::Intent(intent.shard, intent.receipt());
        let (object, update) = (intent.shard.object(), intent.update());
        let is_guarded = !protocol.lacks(Weakness::NoHeaderGuard);
        self.push(Message::new((sender, instance), subject, object, update, is_guarded));
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.network.push(message);
        self.network.sort_unstable();
    }

    /// Takes a step of a split at once.
    pub(crate) fn take_step(&mut self, member: usize, shard: Shard, step: SplitStep<'_>) {
        self.touch(member, shard);
        let keys = Keys::of(step.update(), true);
        self.update(&shard.object(), &keys);
    }

    /// Delivers a message and returns whether it took effect; `None` if its sender is fenced.
    pub(crate) fn deliver(&mut self, message: &Message) -> Option<bool> {
        let Message { sender, instance, object, update, .. } = message;
        (!self.learn(object, *sender, *instance)).then(|| self.update(object, update))
    }

    /// Returns whether the update took effect.
    fn update(&mut self, object: &str, update: &Keys) -> bool {
        let Keys { guards, set, remove, creates } = update;
        let found = self.objects.get(object);
        let value = |key: &String| found.and_then(|keys| keys.get(key));
        let holds = guards.iter().all(|(key, expected)| value(key) == expected.as_ref());
        if !holds || *creates && found.is_some() {
            return false;
        }
        let keys = self.objects.entry(object.to_owned()).or_default();
        keys.retain(|key, _| !remove.contains(key));
        keys.extend(set.iter().cloned());
        true
    }
}

impl Message {
    pub(crate) fn new(
        (sender, instance): (usize, u8),
        subject: Subject,
        object: String,
        update: Update,
        is_guarded: bool,
    ) -> Self {
        Self { sender, instance, subject, object, update: Keys::of(update, is_guarded) }
    }
}

impl Keys {
    fn of(update: Update, is_guarded: bool) -> Self {
        let Update { guards, set, remove, creates, .. } = update;
        let guards = guards.into_iter().filter(|_| is_guarded);
        let guards = guards.map(|guard| (guard.key, guard.expected)).collect();
        Self { guards, set, remove, creates }
    }
}
