//! The index as one member uses it: changes in batches, exactly once.

use crate::check::older;
use crate::config::DomainConfig;
use crate::damage::{Damage, MetDamage};
use crate::entry::MemberId;
use crate::error::JournalError;
use crate::error::{DomainError, Result};
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::intent::{Action, Change, Effect, Intent, MAX_STEPS, ShardView, plan};
use crate::mail;
use crate::shard::Shard;
use crate::split;
use crate::wire::{Fate, MAX_ATTEMPTS, Read, ShardRead, Wire};
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

mod looks;

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
    /// Intents that the journal has.
    unsettled: Vec<Unsettled>,
    split_above: u64,
    damage: MetDamage,
    /// The version that each shard has at least: that of this member's last change of it.
    versions: BTreeMap<Shard, u64>,
}

/// An intent that the journal has, with its fate if it is known.
struct Unsettled {
    intent: Intent,
    verdict: Option<Verdict>,
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
            damage: MetDamage::default(),
            versions: BTreeMap::new(),
        }
    }

    /// Sets the versions that shards have at least. One that is older was put back as it was, and
    /// its counts would free contents that are used: no change of it is planned.
    #[must_use]
    pub fn with_versions(mut self, versions: BTreeMap<Shard, u64>) -> Self {
        self.versions = versions;
        self
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
        self.remember(intents);
        self.settle_unsettled(journal)
    }

    fn remember(&mut self, intents: Vec<Intent>) {
        let unsettled = |intent| Unsettled { intent, verdict: None };
        self.unsettled.extend(intents.into_iter().map(unsettled));
    }

    /// Returns damaged and missing values of the index that this member has met: up to 100 of them.
    /// The changes that need them are left out, until the index was repaired and the member is
    /// opened again.
    #[must_use]
    pub fn damage(&self) -> Vec<Damage> {
        self.damage.list()
    }

    /// Returns how many changes of random contents fit into one intent for each shard. More of them
    /// take several rounds.
    #[must_use]
    pub const fn changes_at_once(&self) -> usize {
        PLANNED_STEPS << self.depth
    }

    /// Applies changes and returns their effects, in the order of the changes. Changes of one
    /// content keep their order. A change that meets a damaged value is left out:
    /// [`Effect::Undecided`].
    ///
    /// # Errors
    /// Fails if the store or the journal does. Then the next call first settles what was sent; the
    /// journal learns the fate of each intent, and the caller submits again what is void.
    pub fn submit(&mut self, changes: &[Change], journal: &mut dyn Journal) -> Result<Vec<Effect>> {
        self.settle_unsettled(journal)?;
        let mut effects: Vec<Option<Effect>> = vec![None; changes.len()];
        for round in 0..MAX_ATTEMPTS {
            let open: Vec<usize> = (0..changes.len())
                .filter(|number| effects.get(*number).is_some_and(Option::is_none))
                .collect();
            if open.is_empty() {
                break;
            }
            let batches = self.batches(changes, &open);
            let tried = numbers_of(&batches);
            for batches in batches.chunks(SHARDS_AT_ONCE) {
                let batches = self.plan_batches(batches, round, &mut effects)?;
                self.apply_batches(batches, journal, &mut effects)?;
            }
            // All together: what follows for neighbouring blocks follows at the same time.
            self.settle_unsettled(journal)?;
            let is_met = |number: &usize| effects.get(*number).is_some_and(Option::is_none);
            if tried.iter().any(is_met) && round + 1 < MAX_ATTEMPTS {
                self.wire.pause(round);
            }
        }
        let open = effects.iter().filter(|effect| effect.is_none()).count();
        if open > 0 {
            return Err(DomainError::Contended { changes: open, rounds: MAX_ATTEMPTS });
        }
        let effects: Vec<Effect> = effects.into_iter().flatten().collect();
        assert_eq!(effects.len(), changes.len(), "each change has an effect");
        Ok(effects)
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

    /// Groups open changes by shard, at most as many for each as an intent takes. Members begin
    /// with different shards, so that they meet less often.
    fn batches(&self, changes: &[Change], open: &[usize]) -> Vec<(Shard, Vec<(usize, Change)>)> {
        let mut batches: BTreeMap<Shard, Vec<(usize, Change)>> = BTreeMap::new();
        for number in open {
            let Some(change) = changes.get(*number) else { continue };
            let batch = batches.entry(self.shard_of(change.fingerprint)).or_default();
            if batch.len() < MAX_STEPS {
                batch.push((*number, *change));
            }
        }
        let mut batches: Vec<_> = batches.into_iter().collect();
        let count = batches.len().max(1) as u64;
        batches.rotate_left((mix64(u64::from(self.member.0)) % count) as usize);
        batches
    }

    /// Reads shards and plans their changes. Changes whose shard is being split, or was, stay open.
    /// Those that meet a damaged value are left out.
    fn plan_batches(
        &mut self,
        batches: &[(Shard, Vec<(usize, Change)>)],
        round: u32,
        effects: &mut [Option<Effect>],
    ) -> Result<Vec<Batch>> {
        let reads: Vec<Read> =
            batches.iter().map(|(shard, changes)| Read::new(*shard, changes.clone())).collect();
        let values = self.wire.read(&reads)?;
        let mut planned = Vec::new();
        for (read, values) in reads.into_iter().zip(values) {
            let least = self.versions.get(&read.shard).copied().unwrap_or(0);
            let decoded = read.decode(values.as_ref()).and_then(|decoded| {
                if decoded.header.version < least {
                    return Err(older(read.shard));
                }
                self.meet(read.shard, decoded.header, round).map(|is_open| (decoded, is_open))
            });
            let mut leave_out = |number: usize| set(effects, number, Effect::Undecided);
            match decoded {
                // An intent of this member is stuck there: its receipt must stay.
                Ok((_, Meeting::Open)) if self.is_stuck(read.shard) => {
                    read.numbers().for_each(leave_out);
                }
                Ok((decoded, Meeting::Open)) => {
                    let left =
                        |number: &usize| decoded.found.iter().all(|found| found.number != *number);
                    if !decoded.damage.is_empty() {
                        read.numbers().filter(left).for_each(&mut leave_out);
                    }
                    planned.push(Batch::plan(&read, &decoded, self.member));
                    decoded.damage.into_iter().for_each(|damage| self.damage.note(damage));
                }
                Ok((_, Meeting::Splitting { helps })) => {
                    if helps {
                        self.wire.retry(|objects| split::split(objects, read.shard))?;
                    }
                }
                Err(damage) => {
                    read.numbers().for_each(leave_out);
                    self.damage.note(damage);
                }
            }
        }
        Ok(planned)
    }

    fn is_stuck(&self, shard: Shard) -> bool {
        self.unsettled.iter().any(|one| one.intent.shard == shard)
    }

    /// Learns of a split from the header of a shard.
    fn meet(
        &mut self,
        shard: Shard,
        header: ShardHeader,
        round: u32,
    ) -> std::result::Result<Meeting, Damage> {
        match header.state {
            ShardState::Open => Ok(Meeting::Open),
            ShardState::Split => {
                self.splits.insert(shard);
                if header.entries > 0 {
                    // Its split was interrupted before its entries were removed.
                    self.large.insert(shard);
                }
                Ok(Meeting::Splitting { helps: false })
            }
            ShardState::Sealed => Ok(Meeting::Splitting { helps: round >= ROUNDS_BEFORE_HELP }),
            ShardState::Filling => {
                let reason = "the shard is not in use, but the one that it is a half of is split";
                Err(Damage { object: shard.object(), key: HEADER_KEY.into(), reason })
            }
        }
    }

    /// Journals intents and sends them. They are left to be settled.
    fn apply_batches(
        &mut self,
        batches: Vec<Batch>,
        journal: &mut dyn Journal,
        effects: &mut [Option<Effect>],
    ) -> Result<()> {
        let (sent, unchanged): (Vec<Batch>, Vec<Batch>) =
            batches.into_iter().partition(|batch| batch.intent.changes_anything());
        unchanged.iter().for_each(|batch| batch.report(effects));
        if sent.is_empty() {
            return Ok(());
        }
        let intents: Vec<Intent> = sent.iter().map(|batch| batch.intent.clone()).collect();
        journal.record(&intents).map_err(DomainError::Journal)?;
        self.remember(intents);
        self.find_fates()?;
        for batch in sent {
            let known = self.unsettled.iter().find(|one| one.intent == batch.intent);
            assert!(known.is_some(), "an intent that was sent is not settled yet");
            match known.and_then(|one| one.verdict) {
                Some(Verdict::Applied) => batch.report(effects),
                Some(Verdict::Void) => {}
                None => batch.numbers.iter().for_each(|number| {
                    set(effects, *number, Effect::Undecided);
                }),
            }
        }
        Ok(())
    }

    /// Finds out the fate of all unsettled intents, by sending those of unknown fate as often as
    /// needed. One whose shard is damaged keeps its fate to itself.
    fn find_fates(&mut self) -> Result<()> {
        let mut open: Vec<&mut Unsettled> =
            self.unsettled.iter_mut().filter(|one| one.verdict.is_none()).collect();
        let fates = {
            let intents: Vec<&Intent> = open.iter().map(|one| &one.intent).collect();
            self.wire.send(&intents)?
        };
        assert_eq!(fates.len(), open.len(), "each intent has a fate");
        for (one, fate) in open.iter_mut().zip(fates) {
            match fate {
                Fate::Known(verdict) => one.verdict = Some(verdict),
                Fate::Damaged(damage) => self.damage.note(damage),
            }
        }
        Ok(())
    }

    /// Settles the intents that the journal has, except those that are stuck at a damaged value.
    fn settle_unsettled(&mut self, journal: &mut dyn Journal) -> Result<()> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        self.find_fates()?;
        let settled: Vec<Settled<'_>> = self
            .unsettled
            .iter()
            .filter_map(|one| Some(Settled { intent: &one.intent, verdict: one.verdict? }))
            .collect();
        if settled.is_empty() {
            return Ok(());
        }
        let applied = settled.iter().filter(|settled| settled.verdict == Verdict::Applied);
        let applied: Vec<&Intent> = applied.map(|settled| settled.intent).collect();
        // Letters come before the journal forgets the intents: a crash in between sends them again.
        self.wire.retry(|objects| mail::send(objects, mail::letters(applied.iter().copied())))?;
        let is_large = |intent: &&&Intent| intent.header.entries > self.split_above;
        let large: Vec<Shard> =
            applied.iter().filter(is_large).map(|intent| intent.shard).collect();
        journal.settle(&settled).map_err(DomainError::Journal)?;
        for intent in applied {
            let known = self.versions.entry(intent.shard).or_default();
            *known = intent.receipt().0.max(*known);
        }
        self.large.extend(large);
        self.unsettled.retain(|one| one.verdict.is_none());
        Ok(())
    }
}

/// The state of a shard that a member meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    Open,
    /// It is being split, or was. `helps` tells this member to finish the split.
    Splitting {
        helps: bool,
    },
}

/// A planned intent, and the numbers of its changes in the caller's list.
struct Batch {
    intent: Intent,
    numbers: Vec<usize>,
}

impl Batch {
    fn plan(read: &Read, decoded: &ShardRead, member: MemberId) -> Self {
        let entries = decoded.found.iter().map(|found| found.before).collect();
        let view = ShardView { header: decoded.header, entries };
        let changes: Vec<Change> = decoded.found.iter().map(|found| found.change).collect();
        let intent = plan(read.shard, member, &view, &changes);
        let numbers = decoded.found.iter().map(|found| found.number).collect();
        Self { intent, numbers }
    }

    fn report(&self, effects: &mut [Option<Effect>]) {
        assert_eq!(self.numbers.len(), self.intent.steps.len(), "each change has a step");
        for (number, (_, effect)) in self.numbers.iter().zip(self.intent.effects()) {
            set(effects, *number, effect);
        }
    }
}

fn numbers_of(batches: &[(Shard, Vec<(usize, Change)>)]) -> BTreeSet<usize> {
    batches.iter().flat_map(|(_, batch)| batch.iter().map(|(number, _)| *number)).collect()
}

/// Sets the result of a change of the caller's list.
fn set<T>(results: &mut [Option<T>], number: usize, result: impl Into<Option<T>>) {
    let length = results.len();
    let slot = results.get_mut(number);
    assert!(slot.is_some(), "change {number} is not one of {length}");
    if let Some(slot) = slot {
        *slot = result.into();
    }
}
