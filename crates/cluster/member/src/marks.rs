//! Marks: each part of a member says in which tenure it was taken last, so that a part which was
//! put back as it was earlier is found before it is used with newer ones.
//!
//! A tenure is known by how often the member was taken. Who takes a member to change it marks each
//! object of the metadata, the begin of the data disk and the ledger, in any order, and notes last
//! in the member's object that all have the mark. So no part is older than that note, and none is
//! newer than the holder.

use crate::client::{DomainClient, MOST_LOST};
use crate::disk::{LIST_OPERATIONS, MemberDisk};
use crate::error::{MemberError, Result};
use crate::service::Service;
use gemelo_domain::codec::{Reader, Reason, Writer};
use gemelo_domain::{Damage, MemberId, MemberValues, Tenure, member_object};
use gemelo_objects::{ObjectError, Objects, Operation, Request, Update};

/// The key of a mark, in objects that have keys.
pub(crate) const MARK_KEY: &str = "epoch";
/// The byte of the data disk at which its mark lies: within the block of its header, which is the
/// smallest one's size at least, and behind the header.
const DATA_MARK_OFFSET: u64 = 256;
const DATA_MARK_BYTES: usize = 16;

const MISSING: Reason = "it is missing";
const LOST: Reason = "the object is lost";
const OLDER: Reason = "the object is older than the rest of the member: it was put back as it was \
                       in an earlier tenure";
const OLDER_MEMBER: Reason = "the object is older than the metadata, the contents and the ledger \
                              of the member";

/// The marks of a member's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marks {
    /// How often the member was taken.
    taken: u64,
    /// The tenure of which all parts have the mark.
    complete: Option<u64>,
    /// Each object of the metadata that should be there; [`None`] if it is lost.
    metadata: Vec<(String, Option<u64>)>,
    data: u64,
    ledger: u64,
    /// Values of the member without which it cannot be opened.
    missing: Vec<&'static str>,
}

/// Returns the value of a mark.
pub(crate) fn mark_of(epoch: u64) -> Vec<u8> {
    Writer::new(0).u64(epoch).finish(MARK_KEY)
}

/// Reads a mark. What was never marked is of tenure 0, and so is what cannot be read.
fn read_mark(value: &[u8]) -> u64 {
    let read = || {
        let mut reader = Reader::new(MARK_KEY, value)?;
        let epoch = reader.count()?;
        reader.finish().map(|()| epoch)
    };
    read().unwrap_or(0)
}

/// Returns the change that marks an object of the metadata, and creates it if it is not there.
pub(crate) fn marking(epoch: u64) -> Update {
    Update { set: vec![(MARK_KEY.to_owned(), mark_of(epoch))], ..Update::default() }
}

impl Marks {
    /// Reads the marks. That of the ledger is given.
    fn read(client: &DomainClient, member: MemberId, ledger: Option<u64>) -> Result<Self> {
        let index: &dyn Objects = &*client.index;
        let values = MemberValues::new(index, member);
        let (_, taken) = Tenure::look(&*client.index, member)?;
        let missing = MemberDisk::ALL.map(MemberDisk::length_key).into_iter();
        let mut lost = Vec::new();
        for key in missing {
            if values.get(key)?.is_none() {
                lost.push(key);
            }
        }
        let complete = values.get(MARK_KEY)?;
        let complete = complete.and_then(|value| value.try_into().ok()).map(u64::from_le_bytes);
        let length = MemberDisk::Metadata.recorded_length(index, member)?.unwrap_or(0);
        let metadata = read_metadata(index, MemberDisk::Metadata.objects(member, length))?;
        let data = read_data(client, member)?;
        Ok(Self { taken, complete, metadata, data, ledger: ledger.unwrap_or(0), missing: lost })
    }

    /// Returns what does not belong together.
    fn damage(&self, member: MemberId) -> Vec<Damage> {
        let object = member_object(member);
        let damage = |object: &str, key: &str, reason| Damage {
            object: object.to_owned(),
            key: key.to_owned(),
            reason,
        };
        let mut found: Vec<Damage> =
            self.missing.iter().map(|key| damage(&object, key, MISSING)).collect();
        if self.complete.is_none() {
            found.push(damage(&object, MARK_KEY, MISSING));
        }
        let oldest = self.complete.unwrap_or(0);
        let mut newest = oldest;
        let data = (MemberDisk::Data.object(member, 0), Some(self.data));
        let ledger = (format!("ledger.{member}"), Some(self.ledger));
        for (name, mark) in self.metadata.iter().chain([&data, &ledger]) {
            match mark {
                None => found.push(damage(name, MARK_KEY, LOST)),
                Some(mark) if *mark < oldest => found.push(damage(name, MARK_KEY, OLDER)),
                Some(mark) => newest = newest.max(*mark),
            }
        }
        if newest > self.taken {
            found.push(damage(&object, "holder", OLDER_MEMBER));
        }
        found
    }

    /// Returns whether metadata, contents and ledger have the same mark, so that the member's
    /// object alone is another one.
    fn parts_agree(&self) -> bool {
        let mut marks = self.metadata.iter().map(|(_, mark)| *mark);
        self.missing.is_empty()
            && self.data == self.ledger
            && marks.all(|mark| mark == Some(self.data))
    }
}

/// Reads the marks of the metadata, until too many objects are lost.
fn read_metadata(
    index: &dyn Objects,
    mut names: impl Iterator<Item = String>,
) -> Result<Vec<(String, Option<u64>)>> {
    let (keys, mut found, mut lost) = ([MARK_KEY.to_owned()], Vec::new(), 0);
    while lost < MOST_LOST {
        let names: Vec<String> = names.by_ref().take(LIST_OPERATIONS).collect();
        if names.is_empty() {
            break;
        }
        let get = |name: &String| -> gemelo_objects::Result<Option<u64>> {
            match index.get_keys(name, &keys) {
                Err(ObjectError::NotFound { .. }) => Ok(None),
                values => {
                    let value = values?.into_iter().next().flatten();
                    Ok(Some(value.as_deref().map_or(0, read_mark)))
                }
            }
        };
        let mut requests: Vec<Request<'_>> =
            names.iter().map(|name| Request::new(name, Operation::get_keys(&keys))).collect();
        index.execute(&mut requests);
        for (name, request) in names.iter().zip(requests) {
            let mark = match (request.outcome, request.operation) {
                (Ok(()), Operation::GetKeys { values, .. }) => {
                    Some(values.first().and_then(Option::as_deref).map_or(0, read_mark))
                }
                // Asked for again alone, where the store may be slow.
                _ => get(name).map_err(MemberError::from)?,
            };
            lost += usize::from(mark.is_none());
            found.push((name.clone(), mark));
        }
    }
    Ok(found)
}

fn read_data(client: &DomainClient, member: MemberId) -> Result<u64> {
    let mut mark = [0; DATA_MARK_BYTES];
    let name = MemberDisk::Data.object(member, 0);
    match client.data.read(&name, DATA_MARK_OFFSET, &mut mark) {
        Ok(DATA_MARK_BYTES) => Ok(read_mark(&mark)),
        Ok(_) | Err(ObjectError::NotFound { .. }) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

impl DomainClient {
    /// Compares the marks of a member's parts; that of its ledger is given, if it exists. Returns
    /// what is older than the rest, and what is lost.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn stale_parts(&self, member: MemberId, ledger: Option<u64>) -> Result<Vec<Damage>> {
        Ok(Marks::read(self, member, ledger)?.damage(member))
    }

    /// Returns whether the metadata, the contents and the ledger of a member belong together,
    /// whatever the member's object says.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn parts_agree(&self, member: MemberId, ledger: Option<u64>) -> Result<bool> {
        Ok(Marks::read(self, member, ledger)?.parts_agree())
    }
}

impl Service {
    /// Marks the metadata and the contents with the tenure of this process. The ledger is marked by
    /// its owner, and [`Self::complete_marks`] follows.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn mark(&self) -> Result<()> {
        let (client, member, epoch) = (self.client(), self.member(), self.epoch());
        let index: &dyn Objects = &*client.index;
        let length = MemberDisk::Metadata.recorded_length(index, member)?.unwrap_or(0);
        let names: Vec<String> = MemberDisk::Metadata.objects(member, length).collect();
        let (update, lease_state) = (marking(epoch), self.lease_state());
        for names in names.chunks(LIST_OPERATIONS) {
            lease_state.check()?;
            let mark = |name| Request::new(name, Operation::Update(&update));
            let mut requests: Vec<_> = names.iter().map(String::as_str).map(mark).collect();
            index.execute(&mut requests);
            lease_state.judge_all(requests, |_| false)?;
        }
        let (name, mark) = (MemberDisk::Data.object(member, 0), mark_of(epoch));
        assert_eq!(mark.len(), DATA_MARK_BYTES, "a mark has the bytes that are read");
        lease_state.check()?;
        let mut requests = vec![Request::new(&name, Operation::write(DATA_MARK_OFFSET, &mark))];
        client.data.execute(&mut requests);
        Ok(lease_state.judge_all(requests, |_| false)?)
    }

    /// Notes that all parts have the mark of this tenure.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn complete_marks(&self) -> Result<()> {
        self.set_value(MARK_KEY, &self.epoch().to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: MemberId = MemberId(1);

    /// A member that was taken five times, and all of whose parts were marked the last time.
    fn agreeing() -> Marks {
        Marks {
            taken: 5,
            complete: Some(5),
            metadata: (0..2).map(|n| (MemberDisk::Metadata.object(MEMBER, n), Some(5))).collect(),
            data: 5,
            ledger: 5,
            missing: Vec::new(),
        }
    }

    fn objects(marks: &Marks) -> Vec<String> {
        marks.damage(MEMBER).into_iter().map(|damage| damage.object).collect()
    }

    #[test]
    fn each_part_that_is_older_is_named_and_no_other() {
        assert_eq!(agreeing().damage(MEMBER), []);
        assert!(agreeing().parts_agree());
        type Change = fn(&mut Marks);
        let cases: [(&str, Change); 6] = [
            ("meta.00000001.1", |marks| marks.metadata[1].1 = Some(4)),
            ("meta.00000001.1", |marks| marks.metadata[1].1 = None),
            ("data.00000001.0", |marks| marks.data = 4),
            ("ledger.00000001", |marks| marks.ledger = 0),
            ("member.00000001", |marks| marks.complete = None),
            ("member.00000001", |marks| marks.missing.push("data.length")),
        ];
        for (object, change) in cases {
            let mut marks = agreeing();
            change(&mut marks);
            assert_eq!(objects(&marks), [object]);
        }
        // The member's object alone is older.
        let older = Marks { taken: 4, complete: Some(3), ..agreeing() };
        assert_eq!(objects(&older), ["member.00000001"]);
        assert!(older.parts_agree());
    }

    #[test]
    fn marks_that_a_crash_left_half_done_are_no_damage() {
        let mut marks = Marks { taken: 6, data: 6, ledger: 5, ..agreeing() };
        marks.metadata[0].1 = Some(6);
        assert_eq!(marks.damage(MEMBER), []);
        // A pool that was created, and never opened.
        let new = Marks { taken: 1, complete: Some(0), data: 0, ledger: 0, ..agreeing() };
        let metadata = new.metadata.iter().map(|(name, _)| (name.clone(), Some(1))).collect();
        assert_eq!(Marks { metadata, ..new }.damage(MEMBER), []);
    }

    #[test]
    fn a_mark_is_read_back_and_anything_else_is_of_no_tenure() {
        assert_eq!(read_mark(&mark_of(7)), 7);
        assert_eq!(mark_of(7).len(), DATA_MARK_BYTES);
        assert_eq!((read_mark(&[0; DATA_MARK_BYTES]), read_mark(b"")), (0, 0));
    }
}
