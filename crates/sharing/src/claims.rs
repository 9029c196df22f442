//! The ledger of a member as the check of a domain reads it.

use crate::error::Result;
use crate::ledger::Ledger;
use crate::record::Kind;
use gemelo_base::Clock;
use gemelo_domain::{Claim, Claims, DomainError, MemberId, Shard};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::Objects;
use std::sync::Arc;

/// A block of which a ledger knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlock {
    /// The block.
    pub pbn: Pbn,
    /// Its content.
    pub fingerprint: Fingerprint,
    /// The home of the content and its block there, if it is not this block.
    pub borrowed: Option<(MemberId, Pbn)>,
    /// `true` if the pool must refer to the block, unless its reference is about to be released.
    pub is_counted: bool,
    /// `true` if the block is never shared, because the index has a copy that differs.
    pub is_alone: bool,
}

/// The claims of a member, from its ledger: 48 bytes for each block of which it knows.
pub struct LedgerClaims {
    member: MemberId,
    claims: Vec<Claim>,
    blocks: Vec<KeptBlock>,
    in_flight: usize,
}

impl LedgerClaims {
    /// Reads the ledger of a member. Nothing may be in flight, or the check may report
    /// contradictions that are none.
    ///
    /// # Errors
    /// Fails if the store fails or the ledger is damaged.
    pub fn load(
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        member: MemberId,
    ) -> Result<Self> {
        let (_, loaded) = Ledger::load(objects, clock, member)?;
        let (mut claims, mut blocks) = (Vec::new(), Vec::new());
        for (pbn, record) in &loaded.records {
            let fingerprint = record.fingerprint;
            let is_counted = !matches!(record.kind, Kind::Lent | Kind::Alone);
            let borrowed = match record.kind {
                Kind::Borrowed(place) => Some(place),
                _ => None,
            };
            let is_alone = record.kind == Kind::Alone;
            blocks.push(KeptBlock { pbn: *pbn, fingerprint, borrowed, is_counted, is_alone });
            if !is_alone {
                let (home, pbn) = record.kind.place().unwrap_or((member, *pbn));
                claims.push(Claim { fingerprint, home, pbn, is_counted });
            }
        }
        claims.sort_unstable_by_key(|claim| claim.fingerprint.to_bytes());
        Ok(Self { member, claims, blocks, in_flight: loaded.in_flight.len() })
    }

    /// Returns the blocks of which the ledger knows.
    #[must_use]
    pub fn blocks(&self) -> &[KeptBlock] {
        &self.blocks
    }

    /// Returns the number of intents in flight.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Claims for LedgerClaims {
    fn member(&self) -> MemberId {
        self.member
    }

    fn claims(&mut self, shard: Shard) -> std::result::Result<Vec<Claim>, DomainError> {
        let claims = self.claims.iter().filter(|claim| shard.contains(claim.fingerprint));
        Ok(claims.copied().collect())
    }
}
