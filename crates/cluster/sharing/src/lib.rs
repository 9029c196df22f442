//! A pool as a member of a domain: contents that several members have are stored once.
//!
//! No LBN is ever mapped to another member. A PBN is the number of a content, and not a place: the
//! content of a *borrowed* PBN lies in the store of its home, where it is read. [`Sharing`] keeps
//! the member's ledger: which blocks are published, lent or borrowed, and which changes of the
//! index are in flight. The engine sees a [`gemelo_store::FreeVeto`] and a store over its own.
//! `docs/internals/domain.md` describes the rules and why they are safe.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bits;
mod blocks;
mod borrowed;
mod claims;
mod compare;
mod copies;
mod error;
mod examine;
mod foreign;
mod group;
mod homes;
mod in_flight;
mod journal;
mod ledger;
mod object_contents;
mod own_blocks;
mod pace;
mod places;
mod rebuild;
mod recode;
mod record;
mod shared;
mod sharing;
mod stats;
mod store;
mod withdraw;
mod worker;

pub use claims::{KeptBlock, LedgerClaims};
pub use error::{Result, SharingError};
pub use foreign::{ForeignContents, ForeignRead};
pub use homes::Homes;
pub use ledger::remove_ledger;
pub use object_contents::ObjectContents;
pub use rebuild::LedgerSources;
pub use recode::recode_ledger_value;
pub use sharing::{Round, Sharing, SharingOptions, SharingParts};
pub use stats::{BlockStats, Stats};
pub use worker::SharingWorker;
