//! The members of a domain: their names and numbers, in the object `members`.

use crate::codec::{Reader, Reason, Writer};
use crate::config::damaged;
use crate::damage::Damage;
use crate::entry::MemberId;
use crate::error::{DomainError, Result};
use gemelo_objects::{Guard, KeyRange, MAX_PAGE_KEYS, ObjectError, Objects, Update};

/// The object with the list.
pub(crate) const MEMBERS_OBJECT: &str = "members";
/// The key of the number of the next member.
const NEXT_KEY: &str = "next";
/// The key that is there while no member may be registered.
const CLOSED_KEY: &str = "closed";
/// No member has the number 0.
const NO_MEMBER: Reason = "it is the number of no member";
const NAME_PREFIX: &str = "name.";
/// The longest name: a key has 256 bytes.
const MAX_NAME_BYTES: usize = 200;
/// Attempts to register while others do.
const MAX_ATTEMPTS: u32 = 20;

/// A member to register.
#[derive(Debug, Clone, Copy)]
pub struct NewMember<'a> {
    /// The name, unique in the domain.
    pub name: &'a str,
    /// A fresh random number. It tells this registration from another one of the same name, if the
    /// store's answer is lost.
    pub token: u64,
}

/// The name and the number of a member.
pub type NamedMember = (String, MemberId);

/// The list of members.
pub struct Members<'a> {
    objects: &'a dyn Objects,
}

struct Record {
    member: MemberId,
    token: u64,
}

impl<'a> Members<'a> {
    /// Returns the members of the domain in these objects.
    #[must_use]
    pub const fn new(objects: &'a dyn Objects) -> Self {
        Self { objects }
    }

    /// Registers a member and returns its number. A call whose answer was lost may be repeated with
    /// the same token.
    ///
    /// # Errors
    /// Fails if the name is taken, if the list is closed, or if the store fails.
    pub fn add(&self, new: &NewMember<'_>) -> Result<MemberId> {
        if new.name.is_empty() || new.name.len() > MAX_NAME_BYTES || new.name.contains('\0') {
            let reason =
                format!("a member's name has 1 to {MAX_NAME_BYTES} bytes and no zero byte");
            return Err(DomainError::Invalid { reason });
        }
        let key = format!("{NAME_PREFIX}{}", new.name);
        // Without guards the update creates the object.
        self.objects.update(MEMBERS_OBJECT, &Update::default())?;
        for _ in 0..MAX_ATTEMPTS {
            let keys = [NEXT_KEY.to_owned(), key.clone(), CLOSED_KEY.to_owned()];
            let values = self.objects.get_keys(MEMBERS_OBJECT, &keys)?;
            let [next, present, closed] = values.as_slice() else { continue };
            if let Some(value) = present {
                let record = Record::decode(&key, value)?;
                let is_mine = record.token == new.token;
                let taken = DomainError::MemberExists { name: new.name.into() };
                return if is_mine { Ok(record.member) } else { Err(taken) };
            }
            if closed.is_some() {
                return Err(DomainError::BeingRepaired);
            }
            if next.is_none() {
                // Without the number of the next member, an old one would be given out again.
                refuse_if_lost(self.objects)?;
            }
            let member = MemberId(next.as_ref().map_or(Ok(1), |value| decode_next(value))?);
            let record = Record { member, token: new.token };
            let Some(after) = member.0.checked_add(1) else {
                return Err(damaged(MEMBERS_OBJECT, NEXT_KEY, "there are no more numbers"));
            };
            let update = Update {
                guards: vec![
                    Guard { key: NEXT_KEY.into(), expected: next.clone() },
                    Guard { key: CLOSED_KEY.into(), expected: None },
                ],
                set: vec![(NEXT_KEY.into(), encode_next(after)), record.encode(key.clone())],
                ..Update::default()
            };
            match self.objects.update(MEMBERS_OBJECT, &update) {
                Ok(()) => return Ok(member),
                Err(ObjectError::Guard { .. } | ObjectError::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(DomainError::Contended { changes: 1, rounds: MAX_ATTEMPTS })
    }

    /// Closes the list: no member is registered before [`Self::open`].
    ///
    /// # Errors
    /// Fails if the store does. The list may then be closed.
    pub fn close(&self) -> Result<()> {
        let set = vec![(CLOSED_KEY.into(), Writer::new(0).finish(CLOSED_KEY))];
        Ok(self.objects.update(MEMBERS_OBJECT, &Update { set, ..Update::default() })?)
    }

    /// Opens the list again.
    ///
    /// # Errors
    /// Fails if the store does. The list may then be closed still.
    pub fn open(&self) -> Result<()> {
        let remove = vec![CLOSED_KEY.into()];
        Ok(self.objects.update(MEMBERS_OBJECT, &Update { remove, ..Update::default() })?)
    }

    /// Returns the number of a member.
    ///
    /// # Errors
    /// Fails if there is no member of this name.
    pub fn find(&self, name: &str) -> Result<MemberId> {
        let key = format!("{NAME_PREFIX}{name}");
        let missing = || DomainError::NoMember { name: name.into() };
        let value = self.objects.value_if_there(MEMBERS_OBJECT, &key)?.ok_or_else(missing)?;
        Ok(Record::decode(&key, &value)?.member)
    }

    /// Takes a member from the list. Its number is not used again.
    ///
    /// # Errors
    /// Fails if the name has another number by now, or if the store fails.
    pub fn remove(&self, name: &str, member: MemberId) -> Result<()> {
        let key = format!("{NAME_PREFIX}{name}");
        let values = self.objects.get_keys(MEMBERS_OBJECT, std::slice::from_ref(&key))?;
        let value = values.into_iter().next().flatten();
        let no_member = || DomainError::NoMember { name: name.into() };
        let value = value.ok_or_else(no_member)?;
        if Record::decode(&key, &value)?.member != member {
            return Err(no_member());
        }
        let guards = vec![Guard { key: key.clone(), expected: Some(value) }];
        let update = Update { guards, remove: vec![key], ..Update::default() };
        Ok(self.objects.update(MEMBERS_OBJECT, &update)?)
    }

    /// Returns the names and numbers of all members, by name.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn list(&self) -> Result<Vec<(String, MemberId)>> {
        let (members, damage) = self.list_readable()?;
        match damage.into_iter().next() {
            Some(damage) => Err(damage.into()),
            None => Ok(members),
        }
    }

    /// Returns the members whose records can be read, and the damage of the others.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn list_readable(&self) -> Result<(Vec<NamedMember>, Vec<Damage>)> {
        let (mut members, mut damage) = (Vec::new(), Vec::new());
        let mut after = String::new();
        loop {
            let range = KeyRange { after: &after, prefix: NAME_PREFIX, limit: MAX_PAGE_KEYS };
            let page = self.objects.keys_if_there(MEMBERS_OBJECT, range)?;
            for (key, value) in &page.entries {
                let name = key.strip_prefix(NAME_PREFIX).unwrap_or(key);
                match Record::decode(key, value) {
                    Ok(record) => members.push((name.to_owned(), record.member)),
                    Err(error) => damage.push(Damage::of(error)?),
                }
            }
            match page.entries.last() {
                Some((last, _)) if page.has_more => after.clone_from(last),
                _ => return Ok((members, damage)),
            }
        }
    }
}

/// Fails if there are objects of members, although no member was ever registered.
fn refuse_if_lost(objects: &dyn Objects) -> Result<()> {
    for prefix in ["member.", "ledger.", "data.", "meta."] {
        if !objects.list(prefix)?.is_empty() {
            let reason = "it is missing, and there are objects of members";
            return Err(damaged(MEMBERS_OBJECT, NEXT_KEY, reason));
        }
    }
    Ok(())
}

impl Record {
    fn encode(&self, key: String) -> (String, Vec<u8>) {
        let value = Writer::new(0).u32(self.member.0).u64(self.token).finish(&key);
        (key, value)
    }

    fn decode(key: &str, value: &[u8]) -> Result<Self> {
        let read = || {
            let mut reader = Reader::new(key, value)?;
            let record = Self { member: MemberId(reader.u32()?), token: reader.u64()? };
            reader.finish()?;
            if record.member == MemberId(0) { Err(NO_MEMBER) } else { Ok(record) }
        };
        read().map_err(|reason| damaged(MEMBERS_OBJECT, key, reason))
    }
}

fn encode_next(next: u32) -> Vec<u8> {
    Writer::new(0).u32(next).finish(NEXT_KEY)
}

fn decode_next(value: &[u8]) -> Result<u32> {
    let read = || {
        let mut reader = Reader::new(NEXT_KEY, value)?;
        let next = reader.u32()?;
        reader.finish()?;
        if next == 0 { Err(NO_MEMBER) } else { Ok(next) }
    };
    read().map_err(|reason| damaged(MEMBERS_OBJECT, NEXT_KEY, reason))
}

/// Reads any value of the list and encodes it again.
pub(crate) fn recode_member(key: &str, value: &[u8]) -> Result<Vec<u8>> {
    match key {
        NEXT_KEY => decode_next(value).map(encode_next),
        _ => Record::decode(key, value).map(|record| record.encode(key.to_owned()).1),
    }
}
