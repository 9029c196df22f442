//! The check of a domain: the ledgers of all members against the counts of the index.

use crate::error::{PlaceError, Result};
use gemelo_base::{BootClock, Clock};
use gemelo_domain::{Claims, DomainError, Finding, check};
use gemelo_member::{DomainClient, MemberError, Service};
use gemelo_sharing::LedgerClaims;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainCheck {
    /// Members that were checked.
    pub members: u64,
    /// Records of the members about contents of the domain.
    pub records: u64,
    /// Members with changes that a crash has left unsettled, with the number of changes. Their
    /// contents are not compared.
    pub unsettled: Vec<(String, u64)>,
    /// Contradictions between the index and the ledgers of the members.
    pub findings: Vec<Finding>,
}

impl DomainCheck {
    /// Compares the ledgers with the index. Takes all members meanwhile, so that nothing changes.
    ///
    /// # Errors
    /// Fails if another process serves a member, or if the store fails.
    pub fn run(client: &Arc<DomainClient>, lease: Duration) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(BootClock);
        let mut services = Vec::new();
        for (name, _) in client.members()? {
            let mut service = match Service::take(client, &name, &clock, lease) {
                Err(MemberError::Domain(DomainError::InUse { holder })) => {
                    let holder = holder.to_string();
                    return Err(PlaceError::Served { name, holder });
                }
                taken => taken?,
            };
            service.keep()?;
            services.push((name, service));
        }
        let mut ledgers = Vec::with_capacity(services.len());
        let mut unsettled = Vec::new();
        for (name, service) in &services {
            let ledger =
                LedgerClaims::load(client.objects(), Arc::clone(&clock), service.member())?;
            if ledger.in_flight() > 0 {
                unsettled.push((name.clone(), ledger.in_flight() as u64));
            }
            ledgers.push(ledger);
        }
        let members = ledgers.len() as u64;
        let records = ledgers.iter().map(|ledger| ledger.blocks().len() as u64).sum();
        let mut claims: Vec<&mut dyn Claims> =
            ledgers.iter_mut().map(|ledger| ledger as &mut dyn Claims).collect();
        let findings = check(client.index(), &mut claims).map_err(MemberError::from)?;
        for (_, service) in services {
            service.release()?;
        }
        Ok(Self { members, records, unsettled, findings })
    }
}
