//! The requests of the index: sent again until their outcome is known.

use crate::config::damaged;
use crate::entry::{MemberId, Receipt};
use crate::index::Verdict;
use crate::intent::{Change, Intent, ShardView, verdict};
use crate::shard::Shard;
use crate::{DomainError, Result};
use gemelo_base::Clock;
use gemelo_base::random::mix_pair;
use gemelo_objects::{ObjectError, Objects, Operation, Request};
use std::sync::Arc;

/// Attempts to send a request whose outcome is unknown, and rounds of planning again after other
/// members were faster. Both end sooner unless the store is cut off or hundreds of members meet.
pub(crate) const MAX_ATTEMPTS: u32 = 40;
/// The first pause after an attempt; it doubles, up to [`MAX_PAUSE_NS`].
const FIRST_PAUSE_NS: u64 = 1_000_000;
/// The longest pause. Under a lease of 10 s it leaves time for many attempts.
const MAX_PAUSE_NS: u64 = 128_000_000;
/// The values of keys, in the order of the keys.
type Values = Vec<Option<Vec<u8>>>;

/// The store as one member reaches it.
pub(crate) struct Wire {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) member: MemberId,
}

impl Wire {
    /// Sends intents until the fate of each is known.
    pub(crate) fn send(&self, intents: &[&Intent]) -> Result<Vec<Verdict>> {
        let names: Vec<String> = intents.iter().map(|intent| intent.shard.object()).collect();
        let updates: Vec<_> = intents.iter().map(|intent| intent.update()).collect();
        let mut verdicts: Vec<Option<Verdict>> = vec![None; intents.len()];
        for attempt in 0..MAX_ATTEMPTS {
            let mut last_error = None;
            let open: Vec<usize> =
                verdicts.iter().enumerate().filter(|(_, it)| it.is_none()).map(|it| it.0).collect();
            let request = |number: &usize| {
                let (name, update) = (names.get(*number)?, updates.get(*number)?);
                Some(Request::new(name, Operation::Update(update)))
            };
            let mut requests: Vec<Request<'_>> = open.iter().filter_map(request).collect();
            self.objects.execute(&mut requests);
            for (number, request) in open.into_iter().zip(requests) {
                let (Some(slot), Some(intent)) = (verdicts.get_mut(number), intents.get(number))
                else {
                    continue;
                };
                match self.judge(intent, request.outcome) {
                    Ok(verdict) => *slot = Some(verdict),
                    Err(DomainError::Object(error)) if error.is_unknown() => {
                        last_error = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            match last_error {
                None => return Ok(verdicts.into_iter().flatten().collect()),
                Some(error) if attempt + 1 == MAX_ATTEMPTS => return Err(error.into()),
                Some(_) => self.pause(attempt),
            }
        }
        Ok(Vec::new())
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

    /// Gets the keys of several shards at once.
    pub(crate) fn read(&self, reads: &[Read]) -> Result<Vec<Values>> {
        self.retry(|objects| {
            let mut requests: Vec<Request<'_>> = reads.iter().map(Read::request).collect();
            objects.execute(&mut requests);
            let values = |request: Request<'_>| match (request.outcome, request.operation) {
                (Ok(()), Operation::GetKeys { values, .. }) => Ok(values),
                (Err(error), _) => Err(error.into()),
                (Ok(()), _) => Ok(Vec::new()),
            };
            requests.into_iter().map(values).collect()
        })
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

/// A read of a shard.
pub(crate) struct Read {
    pub(crate) shard: Shard,
    pub(crate) object: String,
    pub(crate) numbers: Vec<usize>,
    keys: Vec<String>,
}

impl Read {
    fn request(&self) -> Request<'_> {
        Request::new(&self.object, Operation::get_keys(&self.keys))
    }

    /// Reads the changes of a shard in the order of their keys: librados and the servers sort them
    /// otherwise. Changes of one content keep their order.
    pub(crate) fn new(shard: Shard, mut numbers: Vec<usize>, changes: &[Change]) -> Self {
        let bytes_of = |number: &usize| {
            changes.get(*number).map_or([0; 16], |change| change.fingerprint.to_bytes())
        };
        numbers.sort_by_cached_key(bytes_of);
        let chosen = numbers.iter().filter_map(|number| changes.get(*number));
        let keys = ShardView::keys(chosen.map(|change| change.fingerprint));
        Self { shard, object: shard.object(), numbers, keys }
    }

    pub(crate) fn decode(&self, values: &Values) -> Result<ShardView> {
        let view = ShardView::decode(&self.keys, values);
        view.map_err(|(key, reason)| damaged(&self.object, key, reason))
    }
}
