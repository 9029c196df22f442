//! The ledger of a member as the check of a domain reads it.

use crate::error::Result;
use crate::ledger::Ledger;
use crate::record::Kind;
use gemelo_base::Clock;
use gemelo_domain::{Claim, Claims, DomainError, MemberId, Shard};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::Objects;
use std::sync::Arc;

/// Blocks whose records are read together.
const BLOCKS_AT_ONCE: usize = 1 << 18;

/// A block of which a ledger knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlock {
    /// Address of the block in the pool of the member.
    pub pbn: Pbn,
    /// Fingerprint of the content of the block.
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
    /// Contents that intents in flight are about.
    unsettled: Vec<Fingerprint>,
}

impl LedgerClaims {
    /// Reads the ledger of a member that nobody changes meanwhile.
    ///
    /// # Errors
    /// Fails if the store fails or the ledger is damaged.
    pub fn load(
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        member: MemberId,
    ) -> Result<Self> {
        let mut pbns = Vec::new();
        let (ledger, in_flight) = Ledger::load(objects, clock, member, |pbn, _| pbns.push(pbn))?;
        let mut records = Vec::with_capacity(pbns.len());
        for pbns in pbns.chunks(BLOCKS_AT_ONCE) {
            let found = pbns.iter().zip(ledger.read(pbns)?);
            records.extend(found.filter_map(|(pbn, record)| Some((*pbn, record?))));
        }
        let (mut claims, mut blocks) = (Vec::new(), Vec::new());
        for (pbn, record) in &records {
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
        let steps = in_flight.iter().flat_map(|one| &one.intent.steps);
        let unsettled = steps.map(|step| step.change.fingerprint).collect();
        Ok(Self { member, claims, blocks, in_flight: in_flight.len(), unsettled })
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
        // The fingerprints of a shard begin with the same bits, so they are side by side.
        let is_before = |claim: &Claim| Shard::of(claim.fingerprint, shard.depth()) < shard;
        let first = self.claims.partition_point(is_before);
        let claims = self.claims.iter().skip(first);
        Ok(claims.take_while(|claim| shard.contains(claim.fingerprint)).copied().collect())
    }

    fn unsettled(&self, shard: Shard) -> Vec<Fingerprint> {
        self.unsettled.iter().copied().filter(|content| shard.contains(*content)).collect()
    }
}
