//! The protocol of one shard, without input and output: from a change and the entry as it was read
//! to the guarded update, and from the sequence number found later to whether it was applied.

use crate::codec::{Reader, Reason, Writer};
use crate::entry::{Entry, MemberId, Sequence};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{Shard, fingerprint_key};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::{Guard, Update};
use std::collections::BTreeMap;

/// Most changes of one intent. With three servers on one machine, batches above 3,000 keys gain
/// nothing more, and a larger one keeps the shard busy for longer.
pub const MAX_STEPS: usize = 3000;

/// What a member asks of the index for one content.
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
}

/// A change that a member asks for. It must not publish or share a content that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Change {
    /// The content.
    pub fingerprint: Fingerprint,
    /// What to do.
    pub action: Action,
}

/// What a change did.
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
    /// Nothing was changed: the index does not have what the change is about.
    Nothing,
}

/// A change with the entry that it found, from which everything else follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// The change.
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
                (Effect::Published(pbn), Some(Entry { home: member, pbn, members: 1 }))
            }
            (Action::Publish(_) | Action::Share, Some(entry)) => {
                let members = entry.members.saturating_add(1);
                (Effect::Shared(entry.home, entry.pbn), Some(Entry { members, ..entry }))
            }
            (Action::Release, Some(entry)) if entry.members > 0 => release(member, entry),
            (Action::Reclaim, Some(entry)) if entry.home == member && entry.members == 0 => {
                (Effect::Withdrawn(entry.pbn), None)
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

/// A shard as it was read: its header, the member's sequence number, and the entries asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardView {
    /// The header.
    pub header: ShardHeader,
    /// The number of the member's last intent on this shard.
    pub sequence: Sequence,
    /// The entries, in the order of the changes.
    pub entries: Vec<Option<Entry>>,
}

/// Changes of one shard that take effect together, once or never. The member's journal holds the
/// intent before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Intent {
    /// The shard.
    pub shard: Shard,
    /// The member.
    pub member: MemberId,
    /// The number of this intent among the member's intents on this shard.
    pub sequence: Sequence,
    /// The header that the shard must have.
    pub header: ShardHeader,
    /// The changes, which take effect one after another.
    pub steps: Vec<Step>,
}

/// Plans changes of a shard that was read. The view has an entry for each change.
#[must_use]
pub fn plan(shard: Shard, member: MemberId, view: &ShardView, changes: &[Change]) -> Intent {
    let mut current = BTreeMap::new();
    let mut steps = Vec::with_capacity(changes.len());
    for (change, entry) in changes.iter().zip(&view.entries) {
        let before = current.entry(change.fingerprint.to_bytes()).or_insert(*entry);
        let step = Step { change: *change, before: *before };
        *before = step.outcome(member).1;
        steps.push(step);
    }
    let sequence = Sequence(view.sequence.0 + 1);
    Intent { shard, member, sequence, header: view.header, steps }
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
        let mut first_and_last = BTreeMap::new();
        for step in &self.steps {
            let after = step.outcome(self.member).1;
            let key = step.change.fingerprint.to_bytes();
            first_and_last.entry(key).or_insert((step.before, after)).1 = after;
        }
        let mut update = Update { guards: self.guards(), ..Update::default() };
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
        let key = Sequence::key(self.member);
        update.set.extend(self.sequence.encode(&key).map(|value| (key, value)));
        update
    }

    /// The header protects the entries, the sequence number protects against sending twice.
    fn guards(&self) -> Vec<Guard> {
        let key = Sequence::key(self.member);
        let before = Sequence(self.sequence.0.saturating_sub(1));
        let sequence = Guard { expected: before.encode(&key), key };
        let header = Guard { key: HEADER_KEY.into(), expected: Some(self.header.encode()) };
        vec![header, sequence]
    }

    /// Returns the bytes for a journal.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { shard, member, sequence, header, steps } = self;
        let mut writer = Writer::new(shard.depth()).u32(shard.bits()).u32(member.0);
        writer = writer.u64(sequence.0).u64(header.version).u64(header.entries);
        for Step { change, before } in steps {
            let (code, pbn) = code_of(change.action);
            let before = before.as_ref();
            let entry_pbn = before.map_or(0, |entry| entry.pbn.number());
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
        let sequence = Sequence(reader.u64()?);
        let (version, entries) = (reader.u64()?, reader.u64()?);
        let header = ShardHeader { state: ShardState::Open, version, entries };
        let mut steps = Vec::new();
        while !reader.is_empty() {
            if steps.len() >= MAX_STEPS {
                return Err("it has too many changes");
            }
            steps.push(decode_step(&mut reader)?);
        }
        Ok(Self { shard, member, sequence, header, steps })
    }
}

fn decode_step(reader: &mut Reader<'_>) -> Result<Step, Reason> {
    let fingerprint = Fingerprint::from_bytes(reader.array()?);
    let (code, pbn) = (reader.u32()?, reader.u32()?);
    let action = match code {
        0 => Action::Publish(Pbn::new(pbn).ok_or("its PBN is out of range")?),
        1 => Action::Share,
        2 => Action::Release,
        3 => Action::Reclaim,
        _ => return Err("it has an unknown change"),
    };
    let (pbn, home, members) = (Pbn::new(reader.u32()?), MemberId(reader.u32()?), reader.u32()?);
    let before = pbn.map(|pbn| Entry { home, pbn, members });
    Ok(Step { change: Change { fingerprint, action }, before })
}

const fn code_of(action: Action) -> (u32, u32) {
    match action {
        Action::Publish(pbn) => (0, pbn.number()),
        Action::Share => (1, 0),
        Action::Release => (2, 0),
        Action::Reclaim => (3, 0),
    }
}

/// Returns whether an intent was applied, from the member's sequence number on the shard, read
/// after a guard failed. `None` if it is the number of neither.
///
/// A guard has failed, so the shard has changed since the intent was planned. Versions and sequence
/// numbers only grow: what was not applied by then is not applied later, even if a copy of it is
/// still on its way.
#[must_use]
pub fn verdict(intent: &Intent, found: Sequence) -> Option<bool> {
    if found == intent.sequence {
        Some(true)
    } else {
        (found.0 + 1 == intent.sequence.0).then_some(false)
    }
}

#[cfg(test)]
mod tests;
