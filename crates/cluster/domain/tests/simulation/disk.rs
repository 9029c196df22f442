//! The durable state of a member. It is one key of an object, so that it is written as a whole, and
//! is subject to fences and late calls like every other object. The key holds a number, under which
//! the state is kept beside the store.

use gemelo_domain::{Claim, Claims, Intent, MemberId, Result, Shard};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::simulated::Client;
use gemelo_objects::{ObjectError, Objects, Update};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A content, by its number.
pub(crate) type Content = u64;
/// A block of a member.
pub(crate) type Block = (MemberId, Pbn);

/// The record of a member about one content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Local {
    /// `true` if the member's volumes have the content.
    pub(crate) is_used: bool,
    /// The own block that volumes refer to, while no reference is taken.
    pub(crate) own: Option<Pbn>,
    /// The block that the member has a reference to.
    pub(crate) claim: Option<Block>,
    /// The block whose release is to be done, or done again.
    pub(crate) releasing: Option<Block>,
    /// The own block that is in the index, or may be.
    pub(crate) pinned: Option<Pbn>,
}

/// All records of a member.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    pub(crate) member: MemberId,
    pub(crate) locals: BTreeMap<Content, Local>,
    pub(crate) blocks: BTreeMap<Pbn, Content>,
    pub(crate) journal: Vec<Intent>,
}

/// The states that were written, by number.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    states: Mutex<Vec<Records>>,
}

const STATE_KEY: &str = "state";

fn object(member: MemberId) -> String {
    format!("state.{member}")
}

impl Disks {
    pub(crate) fn load(&self, client: &Client, member: MemberId) -> Result<Records> {
        let values = match client.get_keys(&object(member), &[STATE_KEY.into()]) {
            Err(ObjectError::NotFound { .. }) => return Ok(Records::new(member)),
            values => values?,
        };
        let value = values[0].as_ref().unwrap();
        let number = u64::from_le_bytes(value.as_slice().try_into().unwrap());
        Ok(self.states.lock().unwrap()[number as usize].clone())
    }

    /// Writes the state. After an error the process must end: the write may arrive later.
    pub(crate) fn save(&self, client: &Client, records: &Records) -> Result<()> {
        let number = {
            let mut states = self.states.lock().unwrap();
            states.push(records.clone());
            states.len() as u64 - 1
        };
        let set = vec![(STATE_KEY.into(), number.to_le_bytes().to_vec())];
        Ok(client.update(&object(records.member), &Update { set, ..Update::default() })?)
    }
}

pub(crate) fn fingerprint(content: Content) -> Fingerprint {
    // The low bits choose the shard: contents spread over shards.
    Fingerprint::of_hash(
        u128::from(gemelo_base::random::mix64(content + 1)) << 32
            | u128::from(content.reverse_bits() >> 56),
    )
}

impl Records {
    fn new(member: MemberId) -> Self {
        Self { member, locals: BTreeMap::new(), blocks: BTreeMap::new(), journal: Vec::new() }
    }

    pub(crate) fn content_of(&self, fingerprint: Fingerprint) -> Content {
        let mut contents = self.locals.keys();
        *contents.find(|content| self::fingerprint(**content) == fingerprint).unwrap()
    }

    pub(crate) fn allocate(&mut self, content: Content) -> Pbn {
        let free =
            (1..).find_map(|number| Pbn::new(number).filter(|pbn| !self.blocks.contains_key(pbn)));
        let pbn = free.unwrap();
        self.blocks.insert(pbn, content);
        pbn
    }

    pub(crate) fn free_unused(&mut self, content: Content) {
        let Some(local) = self.locals.get(&content) else { return };
        let kept = [local.own, local.pinned];
        self.blocks.retain(|pbn, held| *held != content || kept.contains(&Some(*pbn)));
    }
}

impl Claims for Records {
    fn member(&self) -> MemberId {
        self.member
    }

    fn claims(&mut self, shard: Shard) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        for (content, local) in &self.locals {
            let fingerprint = fingerprint(*content);
            assert!(local.releasing.is_none() && self.journal.is_empty(), "all is settled");
            if let Some((home, pbn)) = local.claim {
                claims.push(Claim { fingerprint, home, pbn, is_counted: true });
            }
            let lends = local.pinned.filter(|_| local.claim.is_none());
            claims.extend(lends.map(|pbn| Claim {
                fingerprint,
                home: self.member,
                pbn,
                is_counted: false,
            }));
        }
        claims.retain(|claim| shard.contains(claim.fingerprint));
        Ok(claims)
    }

    fn intents(&self) -> &[Intent] {
        &[]
    }
}
