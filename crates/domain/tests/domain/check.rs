//! The check: a clean domain, and each contradiction.

use crate::{Domain, HOME, Memory, OTHER, content, pbn, publish, release};
use gemelo_domain::{
    Claim, Claims, DomainError, Finding, MemberId, Result, Shard, check, fingerprint_key,
    mailbox_name,
};
use gemelo_format::Fingerprint;
use gemelo_objects::{Objects, Update};

struct Records(MemberId, Vec<Claim>);

impl Claims for Records {
    fn member(&self) -> MemberId {
        self.0
    }

    fn claims(&mut self, shard: Shard) -> Result<Vec<Claim>> {
        Ok(self.1.iter().filter(|claim| shard.contains(claim.fingerprint)).copied().collect())
    }

    fn unsettled(&self, _: Shard) -> Vec<Fingerprint> {
        Vec::new()
    }
}

fn claim(number: u64, home: MemberId, block: u32, is_counted: bool) -> Claim {
    Claim { fingerprint: content(number), home, pbn: pbn(block), is_counted }
}

/// A domain in which both members refer to content 1, one to content 2 and none to content 3, all
/// of the first member.
fn domain() -> Domain {
    let domain = Domain::new(1);
    domain.submit(HOME, &[publish(1, 1), publish(2, 2), publish(3, 3)]);
    domain.submit(OTHER, &[publish(1, 1), publish(3, 1)]);
    domain.submit(HOME, &[release(3)]);
    domain.submit(OTHER, &[release(3)]);
    domain
}

fn of_home() -> Vec<Claim> {
    vec![claim(1, HOME, 1, true), claim(2, HOME, 2, true), claim(3, HOME, 3, false)]
}

fn of_other() -> Vec<Claim> {
    vec![claim(1, HOME, 1, true)]
}

fn findings(domain: &Domain, of_home: Vec<Claim>, of_other: Vec<Claim>) -> Vec<Finding> {
    let (mut home, mut other) = (Records(HOME, of_home), Records(OTHER, of_other));
    check(&domain.client, &mut [&mut home, &mut other]).unwrap()
}

fn key(number: u64) -> String {
    fingerprint_key(content(number))
}

#[test]
fn a_domain_without_contradictions_has_no_findings() {
    assert_eq!(findings(&domain(), of_home(), of_other()), []);
}

#[test]
fn a_member_that_forgot_a_reference_is_found() {
    let found = findings(&domain(), of_home(), Vec::new());
    assert_eq!(found, [Finding::Count { content: key(1), counted: 2, found: 1 }]);
}

#[test]
fn a_member_that_refers_to_what_the_index_does_not_have_is_found() {
    let mut claims = of_other();
    claims.push(claim(9, HOME, 4, true));
    let found = findings(&domain(), of_home(), claims);
    assert_eq!(found, [Finding::Missing { content: key(9), member: OTHER }]);
}

#[test]
fn a_home_that_keeps_a_block_for_nobody_is_found() {
    let mut claims = of_home();
    claims.push(claim(9, HOME, 4, false));
    let found = findings(&domain(), claims, of_other());
    assert_eq!(found, [Finding::Leaked { content: key(9), member: HOME }]);
}

#[test]
fn a_reference_to_another_block_is_found() {
    let found = findings(&domain(), of_home(), vec![claim(1, HOME, 8, true)]);
    let expected = [
        Finding::Elsewhere { content: key(1), member: OTHER },
        Finding::Count { content: key(1), counted: 2, found: 1 },
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_home_that_gave_a_block_away_too_early_is_found() {
    let claims = of_home().into_iter().filter(|claim| claim.pbn != pbn(3)).collect();
    let found = findings(&domain(), claims, of_other());
    assert_eq!(found, [Finding::NotKept { content: key(3), home: HOME }]);
}

#[test]
fn a_home_that_was_not_told_is_found() {
    let domain = domain();
    domain.client.remove(&mailbox_name(HOME)).unwrap();
    let found = findings(&domain, of_home(), of_other());
    assert_eq!(found, [Finding::NotTold { content: key(3), home: HOME }]);
}

#[test]
fn an_entry_that_is_lost_is_found_twice() {
    let domain = domain();
    let remove = vec![key(2)];
    for shard in ["index.0", "index.1"] {
        let update = Update { remove: remove.clone(), ..Update::default() };
        domain.client.update(shard, &update).unwrap();
    }
    let found = findings(&domain, of_home(), of_other());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(matches!(found[0], Finding::Entries { .. }), "{found:?}");
    assert_eq!(found[1], Finding::Missing { content: key(2), member: HOME });
}

#[test]
fn a_damaged_entry_is_an_error_that_names_it() {
    let domain = domain();
    let shard = Shard::of(content(2), 1).object();
    let set = vec![(key(2), vec![1; 24])];
    domain.client.update(&shard, &Update { set, ..Update::default() }).unwrap();
    let (mut home, mut other) = (Records(HOME, of_home()), Records(OTHER, of_other()));
    let error = check(&domain.client, &mut [&mut home, &mut other]).unwrap_err();
    assert!(matches!(&error, DomainError::Damaged { .. }));
    let message = error.to_string();
    assert!(message.contains(&key(2)) && message.contains(&shard), "{message}");
    let outcome = domain.index(HOME).submit(&[release(2)], &mut Memory::default());
    assert!(matches!(outcome, Err(DomainError::Damaged { .. })), "{outcome:?}");
}
