//! Reading a whole ledger, and finding what it has lost.
//!
//! A page, a group or an intent that is missing must never be taken for one that does not exist:
//! the blocks of its records would be free. Each object is therefore compared with its seal, each
//! page with the version that the head knows of it, and the head with the version that each page
//! knows of it.

use super::{Ledger, OBJECTS_AT_ONCE, Reading, VERSION_KEY};
use crate::error::Result;
use crate::group::AFTER_FINGERPRINTS;
use crate::in_flight::InFlight;
use crate::record::BlockState;
use gemelo_base::Clock;
use gemelo_domain::codec::Reason;
use gemelo_domain::{Damage, MemberId};
use gemelo_format::Pbn;
use gemelo_objects::{KeyPage, KeyRange, MAX_PAGE_KEYS, ObjectError, Objects, Operation, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const LOST_PAGE: Reason = "the object is lost: the head of the ledger names it";
pub(crate) const OLD_PAGE: Reason = "the object is older than the head of the ledger";
pub(crate) const OLD_HEAD: Reason = "the object is older than the pages of the ledger";

/// A ledger that was read.
pub(crate) struct Loaded {
    pub(crate) ledger: Ledger,
    pub(crate) in_flight: Vec<InFlight>,
    /// What is damaged or lost. Such a ledger must not be changed.
    pub(crate) damage: Vec<Damage>,
}

impl Ledger {
    /// Reads the ledger, and calls a function with the kind of each block in it. The last holder of
    /// the member must be fenced. What is damaged is left out: a group, or an older page.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub(crate) fn load(
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        member: MemberId,
        mut take_kind: impl FnMut(Pbn, BlockState),
    ) -> Result<Loaded> {
        let mut ledger = Self {
            objects,
            clock,
            member,
            seals: BTreeMap::new(),
            head_keys: BTreeMap::new(),
            named: BTreeMap::new(),
            shards: BTreeMap::new(),
            epoch: 0,
            doubtful: Vec::new(),
        };
        let mut damage = Vec::new();
        // Also what does not exist is asked for, so that no late call of the fenced holder creates
        // it.
        let head = ledger.head();
        let in_flight = ledger.load_head(&head, &mut damage)?;
        let pages: Vec<(u32, u64)> = ledger.named.iter().map(|one| (*one.0, *one.1)).collect();
        for pages in pages.chunks(OBJECTS_AT_ONCE) {
            let names: Vec<String> = pages.iter().map(|(page, _)| ledger.page(*page)).collect();
            let readings = ledger.load_some(&names)?;
            for ((name, (_, known)), reading) in names.into_iter().zip(pages).zip(readings) {
                let kinds = ledger.take_page(name, *known, reading, &mut damage);
                kinds.into_iter().for_each(|(pbn, kind)| take_kind(pbn, kind));
            }
        }
        Ok(Loaded { ledger, in_flight, damage })
    }

    fn load_head(&mut self, head: &str, damage: &mut Vec<Damage>) -> Result<Vec<InFlight>> {
        let mut in_flight = Vec::new();
        for mut reading in self.load_some(&[head.to_owned()])?.into_iter().flatten() {
            reading.check_seal(false);
            damage.extend(reading.damage.drain(..).map(|one| damage_of(head, one)));
            if let Some(seal) = reading.seal {
                self.seals.insert(head.to_owned(), seal);
                self.epoch = seal.other;
            }
            self.named = reading.named;
            self.shards = reading.shards;
            self.head_keys = reading.head_keys;
            in_flight = reading.in_flight;
        }
        Ok(in_flight)
    }

    /// Takes a page, and returns the kinds of its blocks, unless it is an older one.
    fn take_page(
        &mut self,
        name: String,
        known: u64,
        reading: Option<Reading>,
        damage: &mut Vec<Damage>,
    ) -> Vec<(Pbn, BlockState)> {
        let mut note = |reason| damage.push(damage_of(&name, (VERSION_KEY.to_owned(), reason)));
        let Some(mut reading) = reading else {
            if known > 0 {
                note(LOST_PAGE);
            }
            return Vec::new();
        };
        reading.check_seal(false);
        let Some(seal) = reading.seal else {
            damage.extend(reading.damage.into_iter().map(|one| damage_of(&name, one)));
            return reading.kinds;
        };
        let is_old = seal.version < known;
        if is_old {
            note(OLD_PAGE);
        }
        let head = self.head();
        if self.seals.get(&head).is_none_or(|head| head.version < seal.other) {
            damage.push(damage_of(&head, (VERSION_KEY.to_owned(), OLD_HEAD)));
        }
        damage.extend(reading.damage.into_iter().map(|one| damage_of(&name, one)));
        self.seals.insert(name, seal);
        if is_old { Vec::new() } else { reading.kinds }
    }

    /// Reads objects side by side, those that exist, without the fingerprints.
    fn load_some(&self, names: &[String]) -> Result<Vec<Option<Reading>>> {
        let mut readings: Vec<Option<Reading>> = names.iter().map(|_| None).collect();
        let mut open: Vec<(usize, &String, String)> = (0..)
            .zip(names)
            .map(|(number, name)| (number, name, AFTER_FINGERPRINTS.to_owned()))
            .collect();
        while !open.is_empty() {
            let pages = self.retry(|objects| {
                let mut requests: Vec<Request<'_>> = open.iter().map(list_after).collect();
                objects.execute(&mut requests);
                let page = |request: Request<'_>| match request.outcome {
                    Err(ObjectError::NotFound { .. }) => Ok(None),
                    outcome => outcome.map(|()| Some(page_of(request.operation))),
                };
                requests.into_iter().map(page).collect::<std::result::Result<Vec<_>, _>>()
            })?;
            let mut rest = Vec::new();
            for ((number, name, _), page) in open.into_iter().zip(pages) {
                let (Some(page), Some(reading)) = (page, readings.get_mut(number)) else {
                    continue;
                };
                let reading = reading.get_or_insert_default();
                let entries = page.entries.iter();
                entries.for_each(|(key, value)| reading.take(self.member, name, (key, value)));
                let last = page.entries.into_iter().next_back().filter(|_| page.has_more);
                rest.extend(last.map(|(key, _)| (number, name, key)));
            }
            open = rest;
        }
        Ok(readings)
    }
}

fn damage_of(object: &str, (key, reason): (String, Reason)) -> Damage {
    Damage { object: object.to_owned(), key, reason }
}

/// Returns the request for the keys of an object after this one.
fn list_after<'a>((_, name, after): &'a (usize, &String, String)) -> Request<'a> {
    let range = KeyRange { after, prefix: "", limit: MAX_PAGE_KEYS };
    Request::new(name, Operation::ListKeys { range, page: KeyPage::default() })
}

fn page_of(operation: Operation<'_>) -> KeyPage {
    match operation {
        Operation::ListKeys { page, .. } => page,
        _ => KeyPage::default(),
    }
}
