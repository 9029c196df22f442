//! The behaviour of a domain on a simulated store without faults, seen from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod check;
mod index;
mod members;
mod tap;
mod tenure;

use gemelo_domain::{
    Action, Change, DomainConfig, Effect, Index, Intent, Journal, JournalError, MemberId, Settled,
    Verdict,
};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{ObjectError, Request};
use std::sync::Arc;

/// The home in most tests, and another member.
const HOME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

/// A journal in memory, whose failures can be set.
#[derive(Default)]
struct Memory {
    open: Vec<Intent>,
    verdicts: Vec<Verdict>,
    /// Calls that settled intents.
    settlements: usize,
    fails_to_record: bool,
    fails_to_settle: bool,
}

impl Journal for Memory {
    fn record(&mut self, intents: &[Intent]) -> Result<(), JournalError> {
        if self.fails_to_record {
            return Err("no space for the journal".into());
        }
        self.open.extend(intents.iter().cloned());
        Ok(())
    }

    fn settle(&mut self, settled: &[Settled<'_>]) -> Result<(), JournalError> {
        if self.fails_to_settle {
            return Err("no space for the journal".into());
        }
        self.settlements += 1;
        for settled in settled {
            self.open.retain(|intent| intent != settled.intent);
            self.verdicts.push(settled.verdict);
        }
        Ok(())
    }
}

/// A domain of two members, with one client.
struct Domain {
    client: Client,
    config: DomainConfig,
}

impl Domain {
    fn new(depth: u8) -> Self {
        let world = World::new(1, Faults::NONE);
        let client = world.client();
        let config = DomainConfig {
            block_bytes: 4096,
            depth,
            fingerprint_id: [1; 16],
            unknown: gemelo_format::Features::NONE,
        };
        config.create(&client).unwrap();
        Self { client, config }
    }

    fn index(&self, member: MemberId) -> Index {
        let clock = Arc::new(self.client.clock());
        Index::new(Arc::new(self.client.clone()), clock, &self.config, member)
    }

    /// An index whose requests are seen, and may be stopped, before they are sent.
    fn tapped_index(
        &self,
        member: MemberId,
        before: impl Fn(&Request<'_>) -> Option<ObjectError> + Send + Sync + 'static,
    ) -> Index {
        let objects = Arc::new(tap::Tap { client: self.client.clone(), before });
        Index::new(objects, Arc::new(self.client.clock()), &self.config, member)
    }

    fn submit(&self, member: MemberId, changes: &[Change]) -> Vec<Effect> {
        self.index(member).submit(changes, &mut Memory::default()).unwrap()
    }
}

fn pbn(number: u32) -> Pbn {
    Pbn::new(number.into()).unwrap()
}

fn content(number: u64) -> Fingerprint {
    Fingerprint::of_hash(u128::from(gemelo_base::random::mix64(number)))
}

fn publish(number: u64, block: u32) -> Change {
    Change { fingerprint: content(number), action: Action::Publish(pbn(block)) }
}

fn release(number: u64) -> Change {
    Change { fingerprint: content(number), action: Action::Release }
}
