//! A domain: the pools that share contents across hosts, called members, and their common index in
//! a shared store.
//!
//! The index counts, for each content, the members that refer to it. A change of the index is an
//! [`Intent`]: the member's journal holds it before it is sent, it takes effect at most once, and
//! [`Index::resume`] finds out after a crash if it did. `docs/internals/domain.md` describes the
//! protocol and why it is safe. The blocks of a member are left to the engine.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod check;
pub mod codec;
mod config;
mod damage;
mod doubt;
mod entry;
mod error;
mod fences;
mod figures;
mod find;
mod finding;
mod header;
mod index;
mod intent;
mod mail;
mod member_values;
mod members;
mod recode;
mod removal;
mod repair;
mod shard;
mod shared;
mod split;
mod tenure;
mod wire;

pub use check::{Claim, Claims, check, count_entries_of, each_entry};
pub use config::DomainConfig;
pub use damage::Damage;
pub use doubt::{Doubt, Doubts, doubts_name};
pub use entry::{Entry, MemberId, Receipt};
pub use error::{DomainError, JournalError, Result};
pub use fences::tend_fences;
pub use figures::IndexStats;
pub use find::find_content;
pub use finding::{Finding, Findings};
pub use header::{ShardHeader, ShardState};
pub use index::{Index, Journal, Settled, Verdict};
pub use intent::{Action, Change, Effect, Intent, MAX_STEPS, ShardView, Step, plan, verdict};
pub use mail::{Letter, mailbox_name};
pub use member_values::MemberValues;
pub use members::{Members, NamedMember, NewMember};
pub use recode::recode_value;
pub use removal::remove_domain;
pub use repair::{Counts, Repaired, repair};
pub use shard::{MAX_DEPTH, Shard, fingerprint_key, fingerprint_of_key};
pub use shared::SharedSettings;
pub use split::{ShardEntries, SplitStep};
pub use tenure::{Client, Tenure, member_object};
