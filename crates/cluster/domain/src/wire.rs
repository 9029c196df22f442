//! The requests of the index: sent again until their outcome is known.

use crate::config::damaged;
use crate::damage::Damage;
use crate::entry::{Entry, MemberId, Receipt};
use crate::error::{DomainError, Result};
use crate::header::{HEADER_KEY, ShardHeader};
use crate::index::Verdict;
use crate::intent::{Change, Intent, ShardView, verdict};
use crate::shard::Shard;
use gemelo_base::Clock;
use gemelo_base::random::mix_pair;
use gemelo_objects::{ObjectError, Objects, Operation, Request, Update};
use std::sync::Arc;

/// Attempts to send a request whose outcome is unknown, and rounds of planning again after other
/// members were faster. Both end sooner unless the store is cut off or hundreds of members meet.
pub(crate) const MAX_ATTEMPTS: u32 = 40;
/// The first pause after an attempt; it doubles, up to [`MAX_PAUSE_NS`].
const FIRST_PAUSE_NS: u64 = 1_000_000;
/// The longest pause. Under a lease of 10 s it leaves time for many attempts.
const MAX_PAUSE_NS: u64 = 128_000_000;
/// The values of keys, in the order of the keys.
pub(crate) type Values = Vec<Option<Vec<u8>>>;

/// The store as one member reaches it.
pub(crate) struct Wire {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) member: MemberId,
}

impl Wire {
    /// Sends intents until the fate of each is known, or cannot be found out because a value of its
    /// shard is damaged or missing. The fates are in the order of the intents.
    pub(crate) fn send(&self, intents: &[&Intent]) -> Result<Vec<Fate>> {
        let mut sent: Vec<Sent<'_>> = intents.iter().map(|intent| Sent::new(intent)).collect();
        for attempt in 0..MAX_ATTEMPTS {
            let mut last_error = None;
            let open: Vec<&mut Sent<'_>> =
                sent.iter_mut().filter(|sent| sent.fate.is_none()).collect();
            let outcomes: Vec<_> = {
                let mut requests: Vec<Request<'_>> =
                    open.iter().map(|sent| sent.request()).collect();
                self.objects.execute(&mut requests);
                requests.into_iter().map(|request| request.outcome).collect()
            };
            assert_eq!(open.len(), outcomes.len(), "each intent that was sent has an outcome");
            for (sent, outcome) in open.into_iter().zip(outcomes) {
                match self.judge(sent.intent, outcome) {
                    Ok(verdict) => sent.fate = Some(Fate::Known(verdict)),
                    Err(DomainError::Object(error)) if error.is_unknown() => {
                        last_error = Some(error);
                    }
                    Err(error) => sent.fate = Some(Fate::Damaged(Damage::of(error)?)),
                }
            }
            match last_error {
                None => break,
                Some(error) if attempt + 1 == MAX_ATTEMPTS => return Err(error.into()),
                Some(_) => self.pause(attempt),
            }
        }
        let fates: Vec<Fate> = sent.into_iter().filter_map(|sent| sent.fate).collect();
        assert_eq!(fates.len(), intents.len(), "each intent has a fate");
        Ok(fates)
    }

    fn judge(
        &self,
        intent: &Intent,
        outcome: std::result::Result<(), ObjectError>,
    ) -> Result<Verdict> {
        match outcome {
            Ok(()) => Ok(Verdict::Applied),
            Err(ObjectError::Guard { .. }) => {
                let (object, key) = (intent.shard.object(), Receipt::key(intent.member));
                let values = self.objects.get_keys(&object, std::slice::from_ref(&key))?;
                let value = values.first().and_then(Option::as_deref);
                let found = Receipt::decode(&key, value);
                let found = found.map_err(|reason| damaged(&object, &key, reason))?;
                match verdict(intent, found) {
                    Some(true) => Ok(Verdict::Applied),
                    Some(false) => Ok(Verdict::Void),
                    None => Err(DomainError::OutOfOrder {
                        member: intent.member.0,
                        object,
                        found: found.0,
                        expected: intent.receipt().0,
                    }),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gets the keys of several shards at once, in the order of the reads. A shard that does not
    /// exist has no values.
    pub(crate) fn read(&self, reads: &[Read]) -> Result<Vec<Option<Values>>> {
        let values = self.retry(|objects| {
            let mut requests: Vec<Request<'_>> = reads.iter().map(Read::request).collect();
            objects.execute(&mut requests);
            let values = |request: Request<'_>| match (request.outcome, request.operation) {
                (Ok(()), Operation::GetKeys { values, .. }) => Ok(Some(values)),
                (Err(ObjectError::NotFound { .. }), _) => Ok(None),
                (Err(error), _) => Err(error.into()),
                (Ok(()), _) => Ok(None),
            };
            requests.into_iter().map(values).collect::<Result<Vec<_>>>()
        })?;
        assert_eq!(values.len(), reads.len(), "each read has values");
        Ok(values)
    }

    /// Repeats what may be repeated until the store answers.
    pub(crate) fn retry<T>(&self, attempt: impl Fn(&dyn Objects) -> Result<T>) -> Result<T> {
        let mut number = 0;
        loop {
            match attempt(self.objects.as_ref()) {
                Err(DomainError::Object(ObjectError::TimedOut { .. }))
                    if number + 1 < MAX_ATTEMPTS =>
                {
                    self.pause(number);
                    number += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits longer from attempt to attempt, and not as long as other members.
    pub(crate) fn pause(&self, attempt: u32) {
        let longest_ns = FIRST_PAUSE_NS.checked_shl(attempt.min(20)).unwrap_or(MAX_PAUSE_NS);
        let longest_ns = longest_ns.min(MAX_PAUSE_NS);
        let now_ns = self.clock.now_ns();
        let chance = mix_pair(u64::from(self.member.0), now_ns) % longest_ns;
        self.clock.sleep_until_ns(now_ns + longest_ns / 2 + chance);
    }
}

/// An intent on its way, and its fate once it is known.
struct Sent<'a> {
    intent: &'a Intent,
    object: String,
    update: Update,
    fate: Option<Fate>,
}

impl<'a> Sent<'a> {
    fn new(intent: &'a Intent) -> Self {
        Self { intent, object: intent.shard.object(), update: intent.update(), fate: None }
    }

    fn request(&self) -> Request<'_> {
        Request::new(&self.object, Operation::Update(&self.update))
    }
}

/// The fate of an intent, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Known(Verdict),
    /// A value is damaged that would tell.
    Damaged(Damage),
}

/// A change with its number in the caller's list, and the entry that it finds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) number: usize,
    pub(crate) change: Change,
    pub(crate) before: Option<Entry>,
}

/// A shard as it was read.
pub(crate) struct ShardRead {
    pub(crate) header: ShardHeader,
    pub(crate) found: Vec<Found>,
    /// Entries that are damaged. Their changes are left out.
    pub(crate) damage: Vec<Damage>,
}

/// A read of a shard.
pub(crate) struct Read {
    pub(crate) shard: Shard,
    object: String,
    changes: Vec<(usize, Change)>,
    keys: Vec<String>,
}

impl Read {
    fn request(&self) -> Request<'_> {
        Request::new(&self.object, Operation::get_keys(&self.keys))
    }

    /// Reads the changes of a shard in the order of their keys: librados and the servers sort them
    /// otherwise. Changes of one content keep their order.
    pub(crate) fn new(shard: Shard, mut changes: Vec<(usize, Change)>) -> Self {
        changes.sort_by_cached_key(|(_, change)| change.fingerprint.to_bytes());
        let keys = ShardView::keys(changes.iter().map(|(_, change)| change.fingerprint));
        Self { shard, object: shard.object(), changes, keys }
    }

    /// Returns the numbers of the changes in the caller's list.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.changes.iter().map(|(number, _)| *number)
    }

    /// Decodes what was read.
    ///
    /// # Errors
    /// Fails with the damage if the shard is missing, or if its header is damaged.
    pub(crate) fn decode(&self, values: Option<&Values>) -> std::result::Result<ShardRead, Damage> {
        let damage =
            |key: &str, reason| Damage { object: self.object.clone(), key: key.into(), reason };
        let values = values.ok_or_else(|| damage(HEADER_KEY, "the object is missing"))?;
        assert_eq!(values.len(), self.keys.len(), "each key has a value or none");
        assert_eq!(self.keys.len(), self.changes.len() + 1, "the header comes first");
        let header = values.first().and_then(Option::as_deref);
        let header = ShardHeader::decode(header).map_err(|reason| damage(HEADER_KEY, reason))?;
        let mut read = ShardRead { header, found: Vec::new(), damage: Vec::new() };
        let entries = self.keys.iter().zip(values).skip(1);
        for ((number, change), (key, value)) in self.changes.iter().copied().zip(entries) {
            match value.as_deref().map(|value| Entry::decode(key, value)).transpose() {
                Ok(before) => read.found.push(Found { number, change, before }),
                Err(reason) => read.damage.push(damage(key, reason)),
            }
        }
        Ok(read)
    }
}
