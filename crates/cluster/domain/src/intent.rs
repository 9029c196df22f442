//! The protocol of one shard, without input and output: from a change and the entry as it was read
//! to the guarded update, and from the receipt found later to whether it was applied.

use crate::codec::{Reader, Reason, Writer};
use crate::entry::{Entry, MemberId, Receipt};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{Shard, fingerprint_key};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{Guard, Update};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Most changes of one intent. With three servers on one machine, batches above 3,000 keys gain
/// nothing more, and a larger one keeps the shard busy for longer.
pub const MAX_STEPS: usize = 3000;

/// The request of a member to the index about one content. From the submission on, a block that is
/// published must keep its content, and a reference that is released must not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Refer to the content; if no member has it, offer the own block to the others.
    Publish(Pbn),
    /// Refer to the content if a member has it.
    Share,
    /// Give up the reference.
    Release,
    /// Take the entry out of the index if the member is the home and no member refers to it.
    Reclaim,
    /// Take the entry out of the index if the member is the home and no other one refers to it. The
    /// member itself does.
    Withdraw,
    /// Note that the member's own block is damaged, or that it is good again.
    Mark {
        /// `true` if it is damaged.
        is_suspect: bool,
    },
}

/// A change that a member asks for. It must not publish or share a content that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Change {
    /// The fingerprint of the content.
    pub fingerprint: Fingerprint,
    /// The action that the member asks for.
    pub action: Action,
}

/// The effect of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The member's own block is in the index, and must keep its content.
    Published(Pbn),
    /// The member refers to the block of the home, which may be the member itself.
    Shared(MemberId, Pbn),
    /// The member does not refer to the content any more; others do, or the home is told.
    Released {
        /// The home to tell that no member refers to the content.
        tell: Option<MemberId>,
    },
    /// The entry is out of the index: the member's own block is the member's alone again.
    Withdrawn(Pbn),
    /// The entry says now whether the member's own block is damaged.
    Marked,
    /// The member does not refer to the content: the home has found its block damaged.
    Refused {
        /// The home, which a good copy of the content helps.
        home: MemberId,
    },
    /// Nothing was changed: the index does not have what the change is about.
    Nothing,
    /// Nothing was decided: a value of the index is damaged or missing. See
    /// [`crate::Index::damage`].
    Undecided,
}

/// A change with the entry that it found, from which everything else follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// The change that was planned.
    pub change: Change,
    /// The entry before the change.
    pub before: Option<Entry>,
}

impl Step {
    /// Returns what the change does, and the entry after it.
    #[must_use]
    pub fn outcome(&self, member: MemberId) -> (Effect, Option<Entry>) {
        match (self.change.action, self.before) {
            (Action::Publish(pbn), None) => {
                let (members, is_suspect) = (1, false);
                (Effect::Published(pbn), Some(Entry { home: member, pbn, members, is_suspect }))
            }
            (Action::Publish(_) | Action::Share, Some(entry)) if entry.is_suspect => {
                (Effect::Refused { home: entry.home }, Some(entry))
            }
            (Action::Publish(_) | Action::Share, Some(entry)) => {
                let members = entry.members.saturating_add(1);
                (Effect::Shared(entry.home, entry.pbn), Some(Entry { members, ..entry }))
            }
            (Action::Release, Some(entry)) if entry.members > 0 => release(member, entry),
            (Action::Reclaim, Some(entry)) if entry.home == member && entry.members == 0 => {
                (Effect::Withdrawn(entry.pbn), None)
            }
            (Action::Withdraw, Some(entry)) if entry.home == member && entry.members == 1 => {
                (Effect::Withdrawn(entry.pbn), None)
            }
            (Action::Mark { is_suspect }, Some(entry))
                if entry.home == member && entry.is_suspect != is_suspect =>
            {
                (Effect::Marked, Some(Entry { is_suspect, ..entry }))
            }
            (_, before) => (Effect::Nothing, before),
        }
    }
}

fn release(member: MemberId, entry: Entry) -> (Effect, Option<Entry>) {
    let members = entry.members - 1;
    if members == 0 && entry.home == member {
        return (Effect::Withdrawn(entry.pbn), None);
    }
    let tell = (members == 0).then_some(entry.home);
    (Effect::Released { tell }, Some(Entry { members, ..entry }))
}

/// A shard as it was read: its header and the entries asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardView {
    /// The header as it was read, which guards the write.
    pub header: ShardHeader,
    /// The entries, in the order of the changes.
    pub entries: Vec<Option<Entry>>,
}

impl ShardView {
    /// Returns the keys to read.
    #[must_use]
    pub fn keys(contents: impl Iterator<Item = Fingerprint>) -> Vec<String> {
        std::iter::once(HEADER_KEY.to_owned()).chain(contents.map(fingerprint_key)).collect()
    }

    /// Decodes the values of the keys.
    ///
    /// # Errors
    /// Fails with the damaged key and the reason.
    pub fn decode<'a>(
        keys: &'a [String],
        values: &[Option<Vec<u8>>],
    ) -> Result<Self, (&'a str, Reason)> {
        let mut pairs = keys.iter().map(String::as_str).zip(values.iter().map(Option::as_deref));
        let (key, value) = pairs.next().unwrap_or((HEADER_KEY, None));
        let header = ShardHeader::decode(value).map_err(|reason| (key, reason))?;
        let entry = |(key, value): (&'a str, Option<&[u8]>)| {
            let entry = value.map(|value| Entry::decode(key, value)).transpose();
            entry.map_err(|reason| (key, reason))
        };
        let entries = pairs.map(entry).collect::<Result<_, _>>()?;
        Ok(Self { header, entries })
    }
}

/// Changes of one shard that take effect together, once or never. The member's journal holds the
/// intent before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Intent {
    /// The shard that all changes belong to.
    pub shard: Shard,
    /// The member that asks for the changes.
    pub member: MemberId,
    /// The header that the shard must have.
    pub header: ShardHeader,
    /// The changes, which take effect one after another.
    pub steps: Vec<Step>,
}

/// Plans changes of a shard that was read. The view has an entry for each change.
#[must_use]
pub fn plan(shard: Shard, member: MemberId, view: &ShardView, changes: &[Change]) -> Intent {
    assert_eq!(changes.len(), view.entries.len(), "each change has the entry that it finds");
    let mut current = BTreeMap::new();
    let mut steps = Vec::with_capacity(changes.len());
    for (change, entry) in changes.iter().zip(&view.entries) {
        let before = current.entry(change.fingerprint.to_bytes()).or_insert(*entry);
        let step = Step { change: *change, before: *before };
        *before = step.outcome(member).1;
        steps.push(step);
    }
    Intent { shard, member, header: view.header, steps }
}

impl Intent {
    /// Returns what each change does.
    pub fn effects(&self) -> impl Iterator<Item = (Change, Effect)> {
        self.steps.iter().map(|step| (step.change, step.outcome(self.member).0))
    }

    /// Returns whether any entry changes. An intent that changes nothing is not sent.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        self.steps.iter().any(|step| step.outcome(self.member).1 != step.before)
    }

    /// Returns the guarded update. It is the same however often it is made, so that sending it
    /// twice has no other effect than sending it once.
    #[must_use]
    pub fn update(&self) -> Update {
        assert!(self.header.state == ShardState::Open, "only an open shard takes changes");
        assert!(self.steps.len() <= MAX_STEPS, "an intent has too many changes");
        let mut first_and_last = BTreeMap::new();
        for step in &self.steps {
            let after = step.outcome(self.member).1;
            let key = step.change.fingerprint.to_bytes();
            first_and_last.entry(key).or_insert((step.before, after)).1 = after;
        }
        let expected = Some(self.header.encode());
        let guards = vec![Guard { key: HEADER_KEY.into(), expected }];
        let mut update = Update { guards, ..Update::default() };
        let mut entries = self.header.entries;
        for (bytes, (first, last)) in first_and_last {
            let key = fingerprint_key(Fingerprint::from_bytes(bytes));
            entries = match (first, last) {
                (None, Some(_)) => entries.saturating_add(1),
                (Some(_), None) => entries.saturating_sub(1),
                _ => entries,
            };
            match last {
                _ if first == last => {}
                Some(entry) => update.set.push((key.clone(), entry.encode(&key))),
                None => update.remove.push(key),
            }
        }
        let header = self.header.next(ShardState::Open, entries);
        update.set.push((HEADER_KEY.into(), header.encode()));
        let key = Receipt::key(self.member);
        let value = self.receipt().encode(&key);
        update.set.push((key, value));
        update
    }

    /// Returns the member's receipt, if the intent is applied.
    #[must_use]
    pub const fn receipt(&self) -> Receipt {
        Receipt(self.header.version + 1)
    }

    /// Returns the bytes for a journal.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { shard, member, header, steps } = self;
        let mut writer = Writer::new(shard.depth()).u32(shard.bits()).u32(member.0);
        writer = writer.u64(header.version).u64(header.entries);
        for Step { change, before } in steps {
            let (code, pbn) = code_of(change.action);
            let before = before.as_ref();
            let entry_pbn = before.map_or(0, |entry| entry.pbn.narrow());
            let is_suspect = before.is_some_and(|entry| entry.is_suspect);
            let code = code | if is_suspect { SUSPECT } else { 0 };
            writer = writer.bytes(&change.fingerprint.to_bytes()).u32(code).u32(pbn);
            writer = writer.u32(entry_pbn).u32(before.map_or(0, |entry| entry.home.0));
            writer = writer.u32(before.map_or(0, |entry| entry.members));
        }
        writer.finish("")
    }

    /// Reads the bytes of a journal.
    ///
    /// # Errors
    /// Fails with the reason if they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new("", bytes)?;
        let shard = Shard::new(reader.tag, reader.u32()?).ok_or("its shard is out of range")?;
        let member = MemberId(reader.u32()?);
        let (version, entries) = (reader.count()?, reader.count()?);
        let header = ShardHeader { state: ShardState::Open, version, entries };
        let mut steps = Vec::new();
        while !reader.is_empty() {
            if steps.len() >= MAX_STEPS {
                return Err("it has too many changes");
            }
            steps.push(decode_step(&mut reader)?);
        }
        Ok(Self { shard, member, header, steps })
    }
}

/// The bit of an encoded action that says that the entry found was suspect.
const SUSPECT: u32 = 1 << 8;

fn decode_step(reader: &mut Reader<'_>) -> Result<Step, Reason> {
    let fingerprint = Fingerprint::from_bytes(reader.array()?);
    let (code, pbn) = (reader.u32()?, reader.u32()?);
    let is_suspect = code & SUSPECT != 0;
    let action = match code & !SUSPECT {
        0 => Action::Publish(Pbn::new(pbn.into()).ok_or("its PBN is out of range")?),
        1 if pbn == 0 => Action::Share,
        2 if pbn == 0 => Action::Release,
        3 if pbn == 0 => Action::Reclaim,
        4 if pbn == 0 => Action::Mark { is_suspect: false },
        5 if pbn == 0 => Action::Mark { is_suspect: true },
        6 if pbn == 0 => Action::Withdraw,
        _ => return Err("it has an unknown change"),
    };
    let (pbn, home, members) = (reader.u32()?, MemberId(reader.u32()?), reader.u32()?);
    let before = match (pbn, home, members) {
        (0, MemberId(0), 0) if !is_suspect => None,
        _ => {
            let pbn = Pbn::new(pbn.into()).ok_or("the PBN of its entry is out of range")?;
            Some(Entry { home, pbn, members, is_suspect })
        }
    };
    Ok(Step { change: Change { fingerprint, action }, before })
}

const fn code_of(action: Action) -> (u32, u32) {
    match action {
        Action::Publish(pbn) => (0, pbn.narrow()),
        Action::Share => (1, 0),
        Action::Release => (2, 0),
        Action::Withdraw => (6, 0),
        Action::Reclaim => (3, 0),
        Action::Mark { is_suspect: false } => (4, 0),
        Action::Mark { is_suspect: true } => (5, 0),
    }
}

/// Returns whether an intent was applied, from the member's receipt on the shard, read after a
/// guard failed. `None` if the receipt is of a later intent.
///
/// A guard has failed, so the shard has changed since the intent was planned. Versions only grow:
/// what was not applied by then is not applied later, even if a copy of it is still on its way.
#[must_use]
pub fn verdict(intent: &Intent, found: Receipt) -> Option<bool> {
    match found.cmp(&intent.receipt()) {
        Ordering::Equal => Some(true),
        Ordering::Less => Some(false),
        Ordering::Greater => None,
    }
}

#[cfg(test)]
mod tests;
