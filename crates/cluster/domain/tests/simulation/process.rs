//! A process that serves a member: a small engine with contents instead of volumes.

use crate::Tally;
use crate::disk::{Content, Disks, Records, fingerprint};
use gemelo_domain::{
    Action, Change, DomainConfig, DomainError, Effect, Index, Intent, Journal, JournalError,
    MemberId, Result, Settled, Step, Tenure, Verdict,
};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::Objects;
use gemelo_objects::simulated::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Long against a call, short against the time with faults.
const LEASE: Duration = Duration::from_millis(300);
/// Entries above which a shard is split.
const SPLIT_ABOVE: u64 = 12;

pub(crate) struct Process<'a> {
    client: Client,
    member: MemberId,
    index: Index,
    store: Store<'a>,
    pub(crate) tenure: Tenure,
}

/// The process's own copy of its durable state.
struct Store<'a> {
    client: Client,
    disks: Arc<Disks>,
    records: Records,
    tally: &'a Tally,
}

/// The contents whose blocks are not in the index if the intent is void. One that is withdrawn and
/// published again in one intent is not among them.
fn unpublished(intent: &Intent) -> Vec<Fingerprint> {
    let mut known = BTreeSet::new();
    let is_first = |step: &&Step| known.insert(step.change.fingerprint.to_bytes());
    let publishes =
        |step: &&Step| matches!(step.change.action, Action::Publish(_)) && step.before.is_none();
    let first = intent.steps.iter().filter(is_first);
    first.filter(publishes).map(|step| step.change.fingerprint).collect()
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

fn data_object(member: MemberId, pbn: Pbn) -> String {
    format!("data.{member}.{}", pbn.number())
}

impl<'a> Process<'a> {
    /// Takes the member, fences its last holder, and settles what that one left open.
    pub(crate) fn start(
        client: &Client,
        disks: &Arc<Disks>,
        config: DomainConfig,
        member: MemberId,
        tally: &'a Tally,
    ) -> Result<Self> {
        let clock = Arc::new(client.clock());
        let tenure = Tenure::take(client, clock.as_ref(), member, LEASE)?;
        count(&tally.taken_over, usize::from(tenure.epoch() > 1));
        let records = disks.load(client, member)?;
        let index = Index::new(Arc::new(client.clone()), clock, &config, member);
        let (client, disks) = (client.clone(), Arc::clone(disks));
        let store = Store { client: client.clone(), disks, records, tally };
        let index = index.with_split_above(SPLIT_ABOVE);
        let mut process = Self { client, member, index, store, tenure };
        let open = process.store.records.journal.clone();
        count(&tally.resumed, open.len());
        process.index.resume(open, &mut process.store)?;
        Ok(process)
    }

    pub(crate) fn records(&self) -> Records {
        assert!(self.store.records.journal.is_empty());
        self.store.records.clone()
    }

    /// A volume writes a content.
    pub(crate) fn write(&mut self, content: Content) -> Result<()> {
        let records = &mut self.store.records;
        let local = records.locals.entry(content).or_default();
        if local.claim.is_none() && local.own.is_none() {
            let pinned = local.pinned;
            let pbn = pinned.unwrap_or_else(|| records.allocate(content));
            let name = data_object(self.member, pbn);
            if pinned.is_none() {
                self.client.write(&name, 0, &content.to_le_bytes())?;
            }
            let local = self.store.records.locals.entry(content).or_default();
            local.own = Some(pbn);
        }
        self.store.records.locals.entry(content).or_default().is_used = true;
        self.store.save()
    }

    /// A volume overwrites a content with another one.
    pub(crate) fn overwrite(&mut self, content: Content) -> Result<()> {
        self.store.records.overwrite(content);
        self.store.save()
    }

    pub(crate) fn overwrite_all(&mut self) -> Result<()> {
        let contents: Vec<Content> = self.store.records.locals.keys().copied().collect();
        for content in contents {
            self.store.records.overwrite(content);
        }
        self.store.save()
    }

    /// The finder and the collector: publishes and shares what has no reference, and releases what
    /// is not used any more.
    pub(crate) fn take_and_give(&mut self) -> Result<()> {
        let mut changes = Vec::new();
        for (content, local) in &self.store.records.locals {
            let fingerprint = fingerprint(*content);
            let is_unused = local.claim.is_some() && !local.is_used;
            if is_unused || local.releasing.is_some() {
                changes.push(Change { fingerprint, action: Action::Release });
            }
            if let (Some(pbn), true) = (local.own, local.claim.is_none()) {
                changes.push(Change { fingerprint, action: Action::Publish(pbn) });
            }
        }
        // From here on a released reference is not used, even if the submission fails.
        let effects = self.index.submit(&changes, &mut self.store)?;
        let released = changes.iter().zip(effects);
        let mut released = released.filter(|(change, _)| change.action == Action::Release);
        assert!(released.all(|(_, effect)| effect != Effect::Nothing), "a reference is lost");
        Ok(())
    }

    pub(crate) fn collect(&mut self, limit: usize) -> Result<usize> {
        self.index.collect(limit, &mut self.store)
    }

    pub(crate) fn split(&mut self) -> Result<()> {
        count(&self.store.tally.split, self.index.split_large()?);
        Ok(())
    }

    pub(crate) fn renew(&mut self) -> Result<()> {
        self.tenure.renew(&self.client, &self.client.clock())
    }

    /// Reads a content at the place that the member has for it.
    pub(crate) fn verify(&self, content: Content) -> Result<()> {
        let Some(local) = self.store.records.locals.get(&content) else { return Ok(()) };
        let Some((home, pbn)) = local.claim.or(local.own.map(|pbn| (self.member, pbn))) else {
            return Ok(());
        };
        let mut bytes = [0; 8];
        self.client.read(&data_object(home, pbn), 0, &mut bytes)?;
        // A process whose lease is over may read anything, and must not answer.
        if self.tenure.is_valid(&self.client.clock()) {
            let found = u64::from_le_bytes(bytes);
            assert_eq!(found, content, "member {} reads block {home} {pbn:?}", self.member);
        }
        Ok(())
    }

    pub(crate) fn verify_all(&self) -> Result<()> {
        self.store.records.locals.keys().try_for_each(|content| self.verify(*content))
    }

    pub(crate) fn hand_over(self) -> Result<()> {
        self.tenure.end(&self.client)
    }
}

impl Records {
    fn overwrite(&mut self, content: Content) {
        let local = self.locals.entry(content).or_default();
        local.is_used = false;
        local.own = None;
        self.free_unused(content);
    }

    fn record(&mut self, intents: &[Intent]) {
        for intent in intents {
            for (change, effect) in intent.effects() {
                let content = self.content_of(change.fingerprint);
                let local = self.locals.entry(content).or_default();
                if let Effect::Published(pbn) = effect {
                    local.pinned = Some(pbn);
                }
                if change.action == Action::Release {
                    local.releasing = local.claim.take().or(local.releasing);
                }
            }
        }
        self.journal.extend(intents.iter().cloned());
    }

    fn settle(&mut self, settled: &Settled<'_>) {
        let is_applied = settled.verdict == Verdict::Applied;
        for fingerprint in unpublished(settled.intent).into_iter().filter(|_| !is_applied) {
            let content = self.content_of(fingerprint);
            self.locals.entry(content).or_default().pinned = None;
        }
        for (change, effect) in settled.intent.effects() {
            let content = self.content_of(change.fingerprint);
            let local = self.locals.entry(content).or_default();
            match effect {
                Effect::Published(pbn) if is_applied => {
                    local.pinned = Some(pbn);
                    local.claim = Some((self.member, pbn));
                    local.own = None;
                }
                Effect::Shared(home, pbn) if is_applied => {
                    local.claim = Some((home, pbn));
                    local.own = None;
                }
                Effect::Withdrawn(_) if is_applied => local.pinned = None,
                _ => {}
            }
            if is_applied && change.action == Action::Release {
                local.releasing = None;
            }
            self.free_unused(content);
        }
        self.journal.retain(|intent| intent != settled.intent);
    }
}

impl Store<'_> {
    fn save(&self) -> Result<()> {
        self.disks.save(&self.client, &self.records)
    }

    fn save_journal(&self) -> std::result::Result<(), JournalError> {
        self.save().map_err(|error: DomainError| -> JournalError { Box::new(error) })
    }
}

impl Journal for Store<'_> {
    fn record(&mut self, intents: &[Intent]) -> std::result::Result<(), JournalError> {
        self.records.record(intents);
        self.save_journal()
    }

    fn settle(&mut self, settled: &[Settled<'_>]) -> std::result::Result<(), JournalError> {
        for settled in settled {
            self.records.settle(settled);
            let effects = settled.intent.effects().map(|(_, effect)| effect);
            if settled.verdict == Verdict::Void {
                count(&self.tally.void, 1);
                continue;
            }
            for effect in effects {
                match effect {
                    Effect::Published(_) => count(&self.tally.published, 1),
                    Effect::Shared(..) => count(&self.tally.shared, 1),
                    Effect::Withdrawn(_) => count(&self.tally.withdrawn, 1),
                    _ => {}
                }
            }
        }
        self.save_journal()
    }
}
