//! The index as one member uses it: changes in batches, exactly once.

use crate::config::{DomainConfig, damaged};
use crate::entry::MemberId;
use crate::error::JournalError;
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::intent::{Action, Change, Effect, Intent, MAX_STEPS, plan};
use crate::mail;
use crate::shard::Shard;
use crate::split;
use crate::wire::{MAX_ATTEMPTS, Read, Wire};
use crate::{DomainError, Result};
use gemelo_base::Clock;
use gemelo_base::random::mix64;
use gemelo_format::Fingerprint;
use gemelo_objects::Objects;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds in which a member leaves the split of a shard to the one who began it.
const ROUNDS_BEFORE_HELP: u32 = 5;
/// A shard with more entries should be split: the store keeps the keys of an object together, and
/// recovers it as a whole.
const SPLIT_ABOVE: u64 = 200_000;

/// The fate of an intent: applied or void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It took effect, once.
    Applied,
    /// It did not, and never will.
    Void,
}

/// An intent whose fate is known.
#[derive(Debug, Clone, Copy)]
pub struct Settled<'a> {
    /// The intent, as the journal has it.
    pub intent: &'a Intent,
    /// The fate of the intent.
    pub verdict: Verdict,
}

/// The member's own journal.
pub trait Journal {
    /// Makes the intents durable. They are sent afterwards. A block that one of them publishes must
    /// keep its content from now on, and what one of them releases must not be used any more.
    ///
    /// # Errors
    /// Fails if they may be not durable; nothing is sent then.
    fn record(&mut self, intents: &[Intent]) -> std::result::Result<(), JournalError>;

    /// Records the fate of intents, and what follows for the member.
    ///
    /// # Errors
    /// Fails if the journal does. The intents are settled again later, with the same fate.
    fn settle(&mut self, settled: &[Settled<'_>]) -> std::result::Result<(), JournalError>;
}

/// Shards that are read, and then written, together. With three servers on one machine 16 keep all
/// busy; a larger store has more servers.
const SHARDS_AT_ONCE: usize = 32;
/// The share of an intent's limit that [`Index::changes_at_once`] plans for. Fingerprints are
/// random, so a shard hardly ever gets an eighth more than its share.
const PLANNED_STEPS: usize = MAX_STEPS / 8 * 7;

/// The index as one member uses it. There is one for each member, in the process that serves it.
pub struct Index {
    wire: Wire,
    member: MemberId,
    depth: u8,
    splits: BTreeSet<Shard>,
    large: BTreeSet<Shard>,
    /// Intents that the journal has, with their fates as far as they are known.
    unsettled: Vec<(Intent, Option<Verdict>)>,
    split_above: u64,
}

impl Index {
    /// Opens the index of a domain for a member that this client serves.
    #[must_use]
    pub fn new(
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        config: &DomainConfig,
        member: MemberId,
    ) -> Self {
        Self {
            wire: Wire { objects, clock, member },
            member,
            depth: config.depth,
            splits: BTreeSet::new(),
            large: BTreeSet::new(),
            unsettled: Vec::new(),
            split_above: SPLIT_ABOVE,
        }
    }

    /// Sets the entries above which a shard should be split.
    #[must_use]
    pub const fn with_split_above(mut self, entries: u64) -> Self {
        self.split_above = entries;
        self
    }

    /// Finds out the fate of intents that the member's journal holds from before a crash, and
    /// settles them. The old holder must be fenced. The caller submits again what is void.
    ///
    /// # Errors
    /// Fails if the store or the journal does. Another call continues.
    pub fn resume(&mut self, intents: Vec<Intent>, journal: &mut dyn Journal) -> Result<()> {
        self.unsettled.extend(intents.into_iter().map(|intent| (intent, None)));
        self.settle_unsettled(journal)
    }

    /// Returns how many changes of random contents fit into one intent for each shard. More of them
    /// take several rounds.
    #[must_use]
    pub const fn changes_at_once(&self) -> usize {
        PLANNED_STEPS << self.depth
    }

    /// Applies changes and returns their effects. Changes of one content keep their order.
    ///
    /// # Errors
    /// Fails if the store or the journal does. Then the next call first settles what was sent; the
    /// journal learns the fate of each intent, and the caller submits again what is void.
    pub fn submit(&mut self, changes: &[Change], journal: &mut dyn Journal) -> Result<Vec<Effect>> {
        self.settle_unsettled(journal)?;
        let mut effects = vec![Effect::Nothing; changes.len()];
        let mut open: Vec<usize> = (0..changes.len()).collect();
        for round in 0..MAX_ATTEMPTS {
            let (batches, later) = self.batches(changes, open);
            let mut rest = Vec::new();
            for batches in batches.chunks(SHARDS_AT_ONCE) {
                let batches = self.plan_batches(changes, batches, round, &mut rest)?;
                self.apply_batches(&batches, journal, |batch, verdict| match verdict {
                    Verdict::Void => rest.extend(&batch.numbers),
                    Verdict::Applied => batch.report(&mut effects),
                })?;
            }
            // All together: what follows for neighbouring blocks follows at the same time.
            self.settle_unsettled(journal)?;
            let has_progress = rest.is_empty();
            open = rest;
            open.extend(later);
            open.sort_unstable();
            if open.is_empty() {
                return Ok(effects);
            }
            if !has_progress {
                self.wire.pause(round);
            }
        }
        Err(DomainError::Contended { changes: open.len(), rounds: MAX_ATTEMPTS })
    }

    /// Reads letters and takes out of the index what no member refers to. Returns how many letters
    /// were read; 0 if there are none.
    ///
    /// # Errors
    /// Fails as [`Self::submit`] does. Letters that were not dealt with remain.
    pub fn collect(&mut self, limit: usize, journal: &mut dyn Journal) -> Result<usize> {
        let letters = self.wire.retry(|objects| mail::read(objects, self.member, limit))?;
        let contents: BTreeSet<[u8; 16]> = letters
            .iter()
            .filter_map(|letter| letter.fingerprint().map(Fingerprint::to_bytes))
            .collect();
        let reclaim = |bytes: [u8; 16]| Change {
            fingerprint: Fingerprint::from_bytes(bytes),
            action: Action::Reclaim,
        };
        let changes: Vec<Change> = contents.into_iter().map(reclaim).collect();
        self.submit(&changes, journal)?;
        let count = letters.len();
        if count > 0 {
            self.wire.retry(|objects| mail::remove(objects, self.member, letters.clone()))?;
        }
        Ok(count)
    }

    /// Splits the shards that had too many entries when this member changed them, and finishes
    /// splits that others left.
    ///
    /// # Errors
    /// Fails if the store does. Members that need the shard finish its split.
    pub fn split_large(&mut self) -> Result<usize> {
        let shards = std::mem::take(&mut self.large);
        for shard in &shards {
            self.wire.retry(|objects| split::split(objects, *shard))?;
        }
        Ok(shards.len())
    }

    /// Returns the shard in use that holds the content, as far as this member knows.
    fn shard_of(&self, fingerprint: Fingerprint) -> Shard {
        let mut shard = Shard::of(fingerprint, self.depth);
        while self.splits.contains(&shard) {
            shard = Shard::of(fingerprint, shard.depth() + 1);
        }
        shard
    }

    /// Groups changes by shard. Changes above the limit of an intent are left for later. Members
    /// begin with different shards, so that they meet less often.
    fn batches(
        &self,
        changes: &[Change],
        open: Vec<usize>,
    ) -> (Vec<(Shard, Vec<usize>)>, Vec<usize>) {
        let mut batches: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        let mut later = Vec::new();
        for number in open {
            let Some(change) = changes.get(number) else { continue };
            let batch = batches.entry(self.shard_of(change.fingerprint)).or_default();
            if batch.len() < MAX_STEPS { batch.push(number) } else { later.push(number) }
        }
        let mut batches: Vec<_> = batches.into_iter().collect();
        let count = batches.len().max(1) as u64;
        batches.rotate_left((mix64(u64::from(self.member.0)) % count) as usize);
        (batches, later)
    }

    /// Reads shards and plans their changes. Changes whose shard is being split, or was, are left.
    fn plan_batches(
        &mut self,
        changes: &[Change],
        batches: &[(Shard, Vec<usize>)],
        round: u32,
        rest: &mut Vec<usize>,
    ) -> Result<Vec<Batch>> {
        let reads: Vec<Read> = batches
            .iter()
            .map(|(shard, numbers)| Read::new(*shard, numbers.clone(), changes))
            .collect();
        let values = self.wire.read(&reads)?;
        let mut planned = Vec::new();
        for (read, values) in reads.into_iter().zip(values) {
            let view = read.decode(&values)?;
            if view.header.state == ShardState::Open {
                let chosen = read.numbers.iter().filter_map(|number| changes.get(*number));
                let chosen: Vec<Change> = chosen.copied().collect();
                let intent = plan(read.shard, self.member, &view, &chosen);
                planned.push(Batch { intent, numbers: read.numbers });
            } else {
                self.meet_split(read.shard, view.header, round)?;
                rest.extend(read.numbers);
            }
        }
        Ok(planned)
    }

    /// Learns of a split, or helps to finish it.
    fn meet_split(&mut self, shard: Shard, header: ShardHeader, round: u32) -> Result<()> {
        match header.state {
            ShardState::Split => {
                self.splits.insert(shard);
                if header.entries > 0 {
                    // Its split was interrupted before its entries were removed.
                    self.large.insert(shard);
                }
                Ok(())
            }
            ShardState::Sealed if round >= ROUNDS_BEFORE_HELP => {
                self.wire.retry(|objects| split::split(objects, shard))
            }
            ShardState::Sealed | ShardState::Open => Ok(()),
            ShardState::Filling => {
                let reason = "the shard is not in use, but the one that it is a half of is split";
                Err(damaged(&shard.object(), HEADER_KEY, reason))
            }
        }
    }

    /// Journals intents and sends them. They are left to be settled.
    fn apply_batches(
        &mut self,
        batches: &[Batch],
        journal: &mut dyn Journal,
        mut on_settled: impl FnMut(&Batch, Verdict),
    ) -> Result<()> {
        let changes = |batch: &&Batch| batch.intent.changes_anything();
        for batch in batches.iter().filter(|batch| !changes(batch)) {
            on_settled(batch, Verdict::Applied);
        }
        let sent: Vec<&Batch> = batches.iter().filter(changes).collect();
        if sent.is_empty() {
            return Ok(());
        }
        let intents: Vec<Intent> = sent.iter().map(|batch| batch.intent.clone()).collect();
        journal.record(&intents).map_err(DomainError::Journal)?;
        let first = self.unsettled.len();
        self.unsettled.extend(intents.into_iter().map(|intent| (intent, None)));
        self.find_fates()?;
        for (batch, (_, verdict)) in sent.into_iter().zip(self.unsettled.iter().skip(first)) {
            verdict.iter().for_each(|verdict| on_settled(batch, *verdict));
        }
        Ok(())
    }

    /// Finds out the fate of all unsettled intents, by sending those of unknown fate as often as
    /// needed.
    fn find_fates(&mut self) -> Result<()> {
        let open = self.unsettled.iter_mut().filter(|(_, verdict)| verdict.is_none());
        let (intents, slots): (Vec<&Intent>, Vec<_>) =
            open.map(|(intent, verdict)| (&*intent, verdict)).unzip();
        let verdicts = self.wire.send(&intents)?;
        slots.into_iter().zip(verdicts).for_each(|(slot, verdict)| *slot = Some(verdict));
        Ok(())
    }

    /// Settles the intents that the journal has.
    fn settle_unsettled(&mut self, journal: &mut dyn Journal) -> Result<()> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        self.find_fates()?;
        let settled = self.unsettled.iter();
        let settled: Vec<Settled<'_>> = settled
            .filter_map(|(intent, verdict)| Some(Settled { intent, verdict: (*verdict)? }))
            .collect();
        let applied = settled.iter().filter(|settled| settled.verdict == Verdict::Applied);
        let applied: Vec<&Intent> = applied.map(|settled| settled.intent).collect();
        // Letters come before the journal forgets the intents: a crash in between sends them again.
        self.wire.retry(|objects| mail::send(objects, mail::letters(applied.iter().copied())))?;
        let is_large = |intent: &&&Intent| intent.header.entries > self.split_above;
        let large: Vec<Shard> =
            applied.iter().filter(is_large).map(|intent| intent.shard).collect();
        journal.settle(&settled).map_err(DomainError::Journal)?;
        self.large.extend(large);
        self.unsettled.clear();
        Ok(())
    }
}

/// A planned intent, and the numbers of its changes in the caller's list.
struct Batch {
    intent: Intent,
    numbers: Vec<usize>,
}

impl Batch {
    fn report(&self, effects: &mut [Effect]) {
        for (number, (_, effect)) in self.numbers.iter().zip(self.intent.effects()) {
            if let Some(slot) = effects.get_mut(*number) {
                *slot = effect;
            }
        }
    }
}
