//! The repair of a domain all of whose members this process has: ledgers that have lost records are
//! written again, and then the shards of the index that differ from the ledgers.

use crate::domain_check::{DomainCheck, Looked, ledgers, lost};
use crate::error::{PlaceError, Result};
use crate::sharing::{LEDGER_PREFIX, MemberSharing};
use gemelo_base::{Clock, SystemClock};
use gemelo_domain::{Claim, Claims, Counts, Damage, Finding, MemberId, Repaired, check, repair};
use gemelo_member::{DomainClient, MemberError, Service};
use gemelo_sharing::{LedgerClaims, LedgerSources};
use gemelo_volume::{Pool, Tuning};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bits below the time in the version of a rebuilt shard: more changes than a shard takes in a
/// second.
const CHANGES_BITS: u32 = 24;

impl DomainCheck {
    /// Repairs a domain whose members are all served by this process.
    pub(crate) fn repair_held(
        client: &Arc<DomainClient>,
        services: &[Service],
    ) -> Result<(Self, Repaired)> {
        let (looked, mut findings) = ledgers(client)?;
        findings.extend(lost(client, &looked)?);
        let (mut damaged, mut looked) = (members_with_damage(&findings), looked);
        expect_known(client, &looked, &findings)?;
        // A home that does not keep what the index names has lost its record.
        damaged.extend(forgetful_homes(client, &mut looked)?);
        damaged.retain(|member| looked.iter().any(|one| one.ledger.member() == *member));
        for one in looked.iter().filter(|one| damaged.contains(&one.ledger.member())) {
            rebuild_ledger(client, service_of(services, &one.ledger)?, one, &looked)?;
        }
        let (mut looked, findings) = ledgers(client)?;
        if let Some(finding) = findings.first() {
            return Err(PlaceError::UnknownReferences { finding: finding.to_string() });
        }
        for Looked { ledger, .. } in &looked {
            mark_again(client, service_of(services, ledger)?, ledger)?;
        }
        let version = SystemClock::new().utc_s().unwrap_or(0) << CHANGES_BITS;
        let mut claims: Vec<&mut dyn Claims> =
            looked.iter_mut().map(|one| &mut one.ledger as &mut dyn Claims).collect();
        let counts = if damaged.is_empty() { Counts::AtLeast } else { Counts::Exact };
        let repaired = repair(client.index(), client.config(), &mut claims, version, counts);
        let repaired = repaired.map_err(MemberError::from)?;
        let repaired = Repaired { ledgers: damaged.len() as u64, ..repaired };
        Ok((Self::look(client)?, repaired))
    }
}

/// Returns the members whose ledgers are damaged, older than the rest, or have lost records.
fn members_with_damage(findings: &[Finding]) -> BTreeSet<MemberId> {
    let member = |finding: &Finding| match finding {
        Finding::Damaged { object, .. } => {
            let digits = object.strip_prefix(LEDGER_PREFIX)?.get(..8)?;
            u32::from_str_radix(digits, 16).ok().map(MemberId)
        }
        _ => None,
    };
    findings.iter().filter_map(member).collect()
}

/// Returns the homes that do not keep a content which the index says is there.
fn forgetful_homes(client: &DomainClient, looked: &mut [Looked]) -> Result<BTreeSet<MemberId>> {
    let mut claims: Vec<&mut dyn Claims> =
        looked.iter_mut().map(|one| &mut one.ledger as &mut dyn Claims).collect();
    let found = check(client.index(), client.config(), &mut claims).map_err(MemberError::from)?;
    let home = |finding: &Finding| match finding {
        Finding::NotKept { home, .. } => Some(*home),
        _ => None,
    };
    Ok(found.list.iter().filter_map(home).collect())
}

/// Fails if anything is lost without which the references of a member are not known.
fn expect_known(client: &DomainClient, looked: &[Looked], findings: &[Finding]) -> Result<()> {
    for finding in findings {
        let is_known = match finding {
            Finding::Lost { object, .. } => object.starts_with("meta."),
            Finding::Damaged { object, .. }
                if object.starts_with("meta.") || object.starts_with("data.") =>
            {
                true
            }
            Finding::Damaged { object, .. } if object.starts_with(LEDGER_PREFIX) => true,
            Finding::Damaged { object, .. } => {
                let is_it = |one: &&Looked| *object == member_name(one.ledger.member());
                match looked.iter().find(is_it) {
                    // Its marks can be made again.
                    Some(one) => client.parts_agree(one.ledger.member(), one.ledger.epoch())?,
                    None => false,
                }
            }
            _ => false,
        };
        if !is_known {
            return Err(PlaceError::UnknownReferences { finding: finding.to_string() });
        }
    }
    Ok(())
}

fn member_name(member: MemberId) -> String {
    gemelo_domain::member_object(member)
}

fn service_of<'s>(services: &'s [Service], ledger: &LedgerClaims) -> Result<&'s Service> {
    let found = services.iter().find(|service| service.member() == ledger.member());
    found.ok_or_else(|| PlaceError::UnknownReferences {
        finding: format!("member {} was registered meanwhile", ledger.member()),
    })
}

/// Writes the ledger of a member again. Its pool is read and not changed.
fn rebuild_ledger(
    client: &Arc<DomainClient>,
    service: &Service,
    one: &Looked,
    all: &[Looked],
) -> Result<()> {
    let member = service.member();
    expect_readable_pool(client, one)?;
    let mut others = Vec::new();
    for Looked { ledger, .. } in all.iter().filter(|one| one.ledger.member() != member) {
        others.extend(claims_of(ledger).map(|claim| (ledger.member(), claim)));
    }
    let sharing = MemberSharing::look(client, member)?;
    let disks = sharing.keep(service.disks());
    let tuning = Tuning { read_only: true, background: false, ..Tuning::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let pool = Pool::open_disks(disks, tuning, clock)?;
    let sources = LedgerSources { left: &one.ledger, others: &others, epoch: service.epoch() };
    service.lease_state().check().map_err(MemberError::from)?;
    sharing.rebuild(&pool, &sources)?;
    Ok(())
}

/// Fails if the metadata or the contents of a member are older than the rest or lost: they do not
/// say what it refers to.
fn expect_readable_pool(client: &DomainClient, one: &Looked) -> Result<()> {
    let stale = client.stale_parts(one.ledger.member(), one.ledger.epoch())?;
    let is_pool = |damage: &&Damage| !damage.object.starts_with(LEDGER_PREFIX);
    match stale.iter().find(is_pool) {
        Some(damage) if !damage.object.starts_with("member.") => {
            let finding = Finding::from(damage.clone()).to_string();
            Err(PlaceError::UnknownReferences { finding })
        }
        _ => Ok(()),
    }
}

fn claims_of(ledger: &LedgerClaims) -> impl Iterator<Item = Claim> {
    ledger.all_claims().iter().copied()
}

/// Makes the marks of a member again if only its own object or its ledger had others.
fn mark_again(client: &Arc<DomainClient>, service: &Service, ledger: &LedgerClaims) -> Result<()> {
    let stale = client.stale_parts(service.member(), ledger.epoch())?;
    let is_other = |damage: &Damage| {
        !damage.object.starts_with("member.") && !damage.object.starts_with(LEDGER_PREFIX)
    };
    if stale.is_empty() || stale.iter().any(is_other) || !service.has_pool()? {
        return Ok(());
    }
    service.mark()?;
    MemberSharing::look(client, service.member())?.mark(service.epoch())?;
    Ok(service.complete_marks()?)
}
