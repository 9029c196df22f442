//! An intent in the ledger, until its fate is settled.

use gemelo_domain::codec::{Reader, Reason, Writer};
use gemelo_domain::{Action, Intent, MemberId};
use gemelo_format::Pbn;
use std::collections::BTreeSet;

/// The prefix of the keys of intents.
pub(crate) const INTENT_PREFIX: &str = "i.";

/// An intent, and the block of each of its steps that releases one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) intent: Intent,
    pub(crate) released: Vec<Option<Pbn>>,
}

impl InFlight {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert_eq!(self.released.len(), self.intent.steps.len(), "each change has a block or none");
        let mut writer = Writer::new(0).u32(self.released.len() as u32);
        for pbn in &self.released {
            writer = writer.u32(pbn.map_or(0, Pbn::narrow));
        }
        writer.bytes(&self.intent.encode()).finish("")
    }

    /// Decodes the value of a key in the ledger of a member.
    pub(crate) fn decode_of(member: MemberId, key: &str, value: &[u8]) -> Result<Self, Reason> {
        let one = Self::decode(value)?;
        if one.intent.member != member {
            return Err("it is the intent of another member");
        }
        if intent_key(&one.intent) != key {
            return Err("it is the intent of another key");
        }
        one.check_steps().map(|()| one)
    }

    /// Checks what holds for each intent of this crate: it has a content once, publishes a block
    /// once, and releases a block where it gives a reference up.
    fn check_steps(&self) -> Result<(), Reason> {
        let (mut contents, mut blocks) = (BTreeSet::new(), BTreeSet::new());
        for (step, released) in self.intent.steps.iter().zip(&self.released) {
            let block = match step.change.action {
                Action::Publish(pbn) => Some(pbn),
                Action::Release | Action::Withdraw => *released,
                _ => None,
            };
            let gives_up = matches!(step.change.action, Action::Release | Action::Withdraw);
            let is_new = contents.insert(step.change.fingerprint.to_bytes());
            if !is_new || !block.is_none_or(|pbn| blocks.insert(pbn)) {
                return Err("it has a content or a block twice");
            }
            if released.is_some() && !gives_up {
                return Err("it releases a block that it does not give up");
            }
        }
        Ok(())
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Reason> {
        let mut reader = Reader::new("", value)?;
        let count = reader.u32()?;
        let released = (0..count).map(|_| reader.u32().map(|number| Pbn::new(number.into())));
        let released = released.collect::<Result<_, _>>()?;
        let released: Vec<Option<Pbn>> = released;
        let intent = Intent::decode(reader.rest())?;
        if released.len() != intent.steps.len() {
            return Err("it has other blocks than changes");
        }
        Ok(Self { released, intent })
    }
}

/// No two intents give a shard the same version, so the key is the intent's alone.
pub(crate) fn intent_key(intent: &Intent) -> String {
    let (shard, version) = (intent.shard, intent.receipt().0);
    format!("{INTENT_PREFIX}{:02}.{:08x}.{version:016x}", shard.depth(), shard.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_domain::{Change, Shard, ShardHeader, ShardState, ShardView, plan};
    use gemelo_format::Fingerprint;

    const MEMBER: MemberId = MemberId(1);

    fn in_flight(changes: &[(u8, Action)], released: &[Option<Pbn>]) -> InFlight {
        let change = |(content, action): &(u8, Action)| Change {
            fingerprint: Fingerprint::from_bytes([*content; 16]),
            action: *action,
        };
        let changes: Vec<Change> = changes.iter().map(change).collect();
        let header = ShardHeader::new(ShardState::Open);
        let view = ShardView { header, entries: vec![None; changes.len()] };
        let intent = plan(Shard::ALL, MEMBER, &view, &changes);
        InFlight { intent, released: released.to_vec() }
    }

    #[test]
    fn an_intent_belongs_to_its_member_and_key_and_has_each_content_and_block_once() {
        let (one, two) = (Pbn::new(1).unwrap(), Pbn::new(2).unwrap());
        let changes = [(1, Action::Publish(one)), (2, Action::Release)];
        let good = in_flight(&changes, &[None, Some(two)]);
        let (key, value) = (intent_key(&good.intent), good.encode());
        assert_eq!(InFlight::decode_of(MEMBER, &key, &value).as_ref(), Ok(&good));
        assert!(InFlight::decode_of(MemberId(2), &key, &value).is_err(), "of another member");
        let other = key.replace("01", "02");
        assert!(InFlight::decode_of(MEMBER, &other, &value).is_err(), "of another key");
        let bad = [
            in_flight(&[(1, Action::Share), (1, Action::Release)], &[None, None]),
            in_flight(&[(1, Action::Publish(one)), (2, Action::Publish(one))], &[None, None]),
            in_flight(&[(1, Action::Publish(one)), (2, Action::Release)], &[None, Some(one)]),
            in_flight(&[(1, Action::Share)], &[Some(one)]),
        ];
        for one in bad {
            assert!(InFlight::decode_of(MEMBER, &key, &one.encode()).is_err(), "{one:?}");
        }
    }
}
