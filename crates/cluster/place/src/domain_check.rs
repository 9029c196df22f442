//! The check of a domain: the ledgers of all members against the counts of the index, and what must
//! be there against what is.

use crate::error::{PlaceError, Result};
use gemelo_base::{BootClock, Clock, SystemClock};
use gemelo_domain::{
    Claims, Damage, DomainError, Finding, Findings, MemberId, Members, Repaired, check,
};
use gemelo_member::{DomainClient, MemberError, Service};
use gemelo_sharing::LedgerClaims;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Looks at most. A change that is under way in one of them is not in all.
const LOOKS: u32 = 3;

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainCheck {
    /// Members that were checked.
    pub members: u64,
    /// Records of the members about contents of the domain.
    pub records: u64,
    /// Members that nobody serves, with changes that a crash has left unsettled and their number.
    /// Their contents are not compared.
    pub unsettled: Vec<(String, u64)>,
    /// Contradictions between the index and the ledgers of the members, and what is lost.
    pub findings: Findings,
}

/// A member and its ledger.
pub(crate) struct Looked {
    pub(crate) name: String,
    pub(crate) ledger: LedgerClaims,
}

impl DomainCheck {
    /// Compares the ledgers with the index. Members may be served meanwhile: what is found is
    /// looked at again after a pause, and only what is found each time is reported.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn run(client: &Arc<DomainClient>, pause: Duration) -> Result<Self> {
        let clock = SystemClock::new();
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let mut found = Self::look(client)?;
        for _ in 1..LOOKS {
            if found.findings.are_none() {
                break;
            }
            clock.sleep_until_ns(clock.now_ns().saturating_add(pause_ns));
            let again = Self::look(client)?;
            let before: BTreeSet<Finding> = found.findings.list.into_iter().collect();
            let more = again.findings.more.min(found.findings.more);
            let list = again.findings.list.into_iter().filter(|one| before.contains(one)).collect();
            found = Self { findings: Findings { list, more }, ..again };
        }
        Ok(found)
    }

    /// Writes ledgers again that have lost records, rebuilds the shards of the index that
    /// contradict the ledgers, and checks the domain again. Takes all members meanwhile, and lets
    /// no new ones be registered, so that nothing changes.
    ///
    /// # Errors
    /// Fails if another process serves a member, if a member is lost, or the pool of one whose
    /// ledger is damaged, so that its references are not known, or if the store fails.
    pub fn repair(client: &Arc<DomainClient>, lease: Duration) -> Result<(Self, Repaired)> {
        client.config().check_writable().map_err(MemberError::from)?;
        let mut services = Vec::new();
        take_all(client, lease, &mut services)?;
        let members = Members::new(client.index());
        let closed = members.close().map_err(MemberError::from);
        // Before the list was closed, others may have been registered.
        let repaired = closed
            .map_err(PlaceError::from)
            .and_then(|()| take_all(client, lease, &mut services))
            .and_then(|()| Self::repair_held(client, &services));
        let opened = members.open().map_err(|error| MemberError::from(error).into());
        let repaired = repaired.and_then(|repaired| opened.map(|()| repaired));
        let repaired = repaired.inspect_err(|error| {
            let is_refused =
                matches!(error, PlaceError::Served { .. } | PlaceError::UnknownReferences { .. });
            if !is_refused {
                // A change may still be on its way, so the next process has to fence this one.
                services.iter().for_each(|service| service.doubt("repair the domain of", error));
            }
        })?;
        for service in services {
            service.lease_state().check().map_err(MemberError::from)?;
            service.release()?;
        }
        Ok(repaired)
    }

    /// Looks once.
    pub(crate) fn look(client: &Arc<DomainClient>) -> Result<Self> {
        let (mut looked, damage) = ledgers(client)?;
        let mut findings = Findings::default();
        damage.into_iter().for_each(|finding| findings.add(finding));
        lost(client, &looked)?.into_iter().for_each(|finding| findings.add(finding));
        let mut unsettled = Vec::new();
        for Looked { name, ledger } in &looked {
            let is_served = client.look_at(ledger.member())?.holder.is_some();
            if ledger.in_flight() > 0 && !is_served {
                unsettled.push((name.clone(), ledger.in_flight() as u64));
            }
        }
        let members = looked.len() as u64;
        let records = looked.iter().map(|one| one.ledger.blocks().len() as u64).sum();
        let mut claims: Vec<&mut dyn Claims> =
            looked.iter_mut().map(|one| &mut one.ledger as &mut dyn Claims).collect();
        let compared = check(client.index(), client.config(), &mut claims);
        let compared = compared.map_err(MemberError::from)?;
        findings.more += compared.more;
        compared.list.into_iter().for_each(|finding| findings.add(finding));
        Ok(Self { members, records, unsettled, findings })
    }
}

/// Takes all members that are not taken yet, and that nobody may serve.
fn take_all(
    client: &Arc<DomainClient>,
    lease: Duration,
    services: &mut Vec<Service>,
) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    for (name, member) in client.members()? {
        if services.iter().any(|service| service.member() == member) {
            continue;
        }
        let mut service = match Service::take(client, &name, &clock, lease) {
            Err(MemberError::Domain(DomainError::InUse { holder })) => {
                let holder = holder.to_string();
                return Err(PlaceError::Served { name, holder });
            }
            taken => taken?,
        };
        service.note_use();
        service.keep()?;
        services.push(service);
    }
    Ok(())
}

/// Reads the ledgers of all members that are registered. Returns what is damaged as well.
pub(crate) fn ledgers(client: &DomainClient) -> Result<(Vec<Looked>, Vec<Finding>)> {
    let (members, damage) = client.readable_members()?;
    let mut findings: Vec<Finding> = damage.into_iter().map(Finding::from).collect();
    let mut looked = Vec::with_capacity(members.len());
    for (name, member) in members {
        let ledger = LedgerClaims::load(client.index(), member).map_err(MemberError::from)?;
        findings.extend(ledger.damage().iter().cloned().map(Finding::from));
        looked.push(Looked { name, ledger });
    }
    Ok((looked, findings))
}

/// Finds objects that are lost, and those of members that are not registered.
pub(crate) fn lost(client: &DomainClient, looked: &[Looked]) -> Result<Vec<Finding>> {
    let mut present: BTreeMap<MemberId, u64> = BTreeMap::new();
    for prefix in ["ledger.", "meta."] {
        let names = client.index().list(prefix).map_err(MemberError::from)?;
        for member in names.iter().filter_map(|name| member_of(name, prefix)) {
            *present.entry(member).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    for Looked { name, ledger } in looked {
        let (member, name) = (ledger.member(), name.clone());
        let has_objects = present.remove(&member).is_some();
        match client.lost_objects(member) {
            Ok(Some(objects)) => {
                let lost = |object| Finding::Lost { object, member: name.clone() };
                findings.extend(objects.into_iter().map(lost));
                findings.extend(stale(client, ledger, &findings)?);
            }
            Ok(None) if has_objects => {
                findings.push(Finding::Lost { object: format!("member.{member}"), member: name });
            }
            Ok(None) => {}
            Err(MemberError::Domain(DomainError::Damaged { object, key, reason })) => {
                findings.push(Finding::Damaged { object, key, reason });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let unregistered = |(member, objects)| Finding::Unregistered { member, objects };
    findings.extend(present.into_iter().map(unregistered));
    Ok(findings)
}

/// Finds parts of a member that do not belong together, but for objects that are named as lost.
fn stale(client: &DomainClient, ledger: &LedgerClaims, known: &[Finding]) -> Result<Vec<Finding>> {
    let is_lost = |damage: &Damage| {
        let is_it =
            |one: &Finding| matches!(one, Finding::Lost { object, .. } if *object == damage.object);
        known.iter().any(is_it)
    };
    // The marks are complete once the pool is.
    let looked = client.look_at(ledger.member()).and_then(|look| match look.has_pool {
        true => client.stale_parts(ledger.member(), ledger.epoch()),
        false => Ok(Vec::new()),
    });
    match looked {
        Ok(stale) => {
            Ok(stale.into_iter().filter(|damage| !is_lost(damage)).map(Finding::from).collect())
        }
        Err(MemberError::Domain(DomainError::Damaged { object, key, reason })) => {
            Ok(vec![Finding::Damaged { object, key, reason }])
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the member to which an object belongs.
fn member_of(name: &str, prefix: &str) -> Option<MemberId> {
    let digits = name.strip_prefix(prefix)?.get(..8)?;
    u32::from_str_radix(digits, 16).ok().map(MemberId)
}
