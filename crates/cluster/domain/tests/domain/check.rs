//! The check: a clean domain, and each contradiction.

use crate::{Domain, HOME, Memory, OTHER, content, pbn, publish, release};
use gemelo_domain::{
    Action, Change, Claim, Claims, Counts, Effect, Finding, Intent, MemberId, Result, Shard,
    Verdict, check, fingerprint_key, mailbox_name, repair,
};
use gemelo_objects::{Objects, Update};

struct Records {
    member: MemberId,
    claims: Vec<Claim>,
    intents: Vec<Intent>,
}

impl Records {
    fn new(member: MemberId, claims: Vec<Claim>) -> Self {
        Self { member, claims, intents: Vec::new() }
    }
}

impl Claims for Records {
    fn member(&self) -> MemberId {
        self.member
    }

    fn claims(&mut self, shard: Shard) -> Result<Vec<Claim>> {
        Ok(self.claims.iter().filter(|claim| shard.contains(claim.fingerprint)).copied().collect())
    }

    fn intents(&self) -> &[Intent] {
        &self.intents
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
    let (mut home, mut other) = (Records::new(HOME, of_home), Records::new(OTHER, of_other));
    let members: &mut [&mut dyn Claims] = &mut [&mut home, &mut other];
    let found = check(&domain.client, &domain.config, members).unwrap();
    assert_eq!(found.more, 0);
    found.list
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

/// Puts a bad value in the place of an entry.
fn damage_entry(domain: &Domain, number: u64) -> Finding {
    let object = Shard::of(content(number), 1).object();
    let set = vec![(key(number), vec![1; 24])];
    domain.client.update(&object, &Update { set, ..Update::default() }).unwrap();
    Finding::Damaged { object, key: key(number), reason: "it is too short" }
}

/// Repairs the index, and returns what is found afterwards.
fn repaired(domain: &Domain, home: Records, other: Records) -> Vec<Finding> {
    let (mut home, mut other) = (home, other);
    let members: &mut [&mut dyn Claims] = &mut [&mut home, &mut other];
    let done = repair(&domain.client, &domain.config, members, 1 << 40, Counts::AtLeast).unwrap();
    assert!(done.shards > 0);
    findings(domain, home.claims, other.claims)
}

#[test]
fn a_damaged_entry_is_named_and_stops_no_other_change() {
    let domain = domain();
    let damage = damage_entry(&domain, 2);
    assert_eq!(findings(&domain, of_home(), of_other()), [damage]);
    let mut index = domain.index(HOME);
    let changes = [release(2), release(1), publish(2, 7), publish(7, 8)];
    let effects = index.submit(&changes, &mut Memory::default()).unwrap();
    let released = Effect::Released { tell: None };
    let expected = [Effect::Undecided, released, Effect::Undecided, Effect::Published(pbn(8))];
    assert_eq!(effects, expected);
    assert_eq!(index.damage().len(), 1);
    assert_eq!(index.damage()[0].key, key(2));
}

#[test]
fn a_missing_shard_is_found_and_stops_no_other_one() {
    let domain = domain();
    let shard = Shard::of(content(1), 1);
    domain.client.remove(&shard.object()).unwrap();
    let lost = |claims: &[Claim]| {
        claims.iter().filter(|claim| shard.contains(claim.fingerprint)).count() as u64
    };
    let contents = lost(&of_home()) + lost(&of_other());
    let found = findings(&domain, of_home(), of_other());
    assert_eq!(found, [Finding::NoShard { shard: shard.object(), contents }]);
    let there = (10..).find(|number| !shard.contains(content(*number))).unwrap();
    let effects = domain.submit(OTHER, &[release(1), publish(there, 9)]);
    assert_eq!(effects, [Effect::Undecided, Effect::Published(pbn(9))]);
}

#[test]
fn lost_and_damaged_shards_are_rebuilt_from_the_ledgers() {
    for lost in ["index.0", "index.1"] {
        let domain = domain();
        domain.client.remove(lost).unwrap();
        domain.client.remove(&mailbox_name(HOME)).unwrap();
        damage_entry(&domain, 3);
        let (home, other) = (Records::new(HOME, of_home()), Records::new(OTHER, of_other()));
        assert_eq!(repaired(&domain, home, other), [], "{lost}");
        // Unreferenced contents are freed, and the others are counted as before.
        let mut journal = Memory::default();
        assert_eq!(domain.index(HOME).collect(10, &mut journal).unwrap(), 1);
        let effects = domain.submit(OTHER, &[release(1)]);
        assert_eq!(effects, [Effect::Released { tell: None }]);
        let effects = domain.submit(HOME, &[release(1), release(2), release(3)]);
        let expected = [Effect::Withdrawn(pbn(1)), Effect::Withdrawn(pbn(2)), Effect::Nothing];
        assert_eq!(effects, expected);
    }
}

#[test]
fn a_count_is_not_lowered_and_a_content_without_a_home_is_kept() {
    let domain = domain();
    damage_entry(&domain, 2);
    let forgotten = Records::new(HOME, vec![claim(2, HOME, 2, true)]);
    let found = repaired(&domain, forgotten, Records::new(OTHER, of_other()));
    let expected = [
        Finding::Count { content: key(1), counted: 2, found: 1 },
        Finding::NotKept { content: key(1), home: HOME },
    ];
    assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
}

/// A home whose publishing of content 9 was sent, and whose shard is lost then.
fn published_and_lost() -> (Domain, Intent, Memory) {
    let domain = domain();
    let mut journal = Memory { fails_to_settle: true, ..Memory::default() };
    domain.index(HOME).submit(&[publish(9, 9)], &mut journal).unwrap_err();
    let intent = journal.open[0].clone();
    domain.client.remove(&intent.shard.object()).unwrap();
    journal.fails_to_settle = false;
    (domain, intent, journal)
}

#[test]
fn an_intent_on_which_another_member_relies_was_applied() {
    let (domain, intent, mut journal) = published_and_lost();
    let mut other = Records::new(OTHER, of_other());
    other.claims.push(claim(9, HOME, 9, true));
    let home = Records { intents: vec![intent.clone()], ..Records::new(HOME, of_home()) };
    repaired(&domain, home, other);
    domain.index(HOME).resume(vec![intent], &mut journal).unwrap();
    assert_eq!(journal.verdicts, [Verdict::Applied]);
    // Both are counted.
    let effects = domain.submit(OTHER, &[release(9)]);
    assert_eq!(effects, [Effect::Released { tell: None }]);
    assert_eq!(domain.submit(HOME, &[release(9)]), [Effect::Withdrawn(pbn(9))]);
}

#[test]
fn an_intent_on_which_nobody_relies_is_void_and_never_applied() {
    let (domain, intent, mut journal) = published_and_lost();
    // While the shard is lost, the intent is stuck, and the member goes on.
    let mut index = domain.index(HOME);
    index.resume(vec![intent.clone()], &mut journal).unwrap();
    assert_eq!((journal.verdicts.len(), index.damage().len()), (0, 1));
    let home = Records { intents: vec![intent.clone()], ..Records::new(HOME, of_home()) };
    assert_eq!(repaired(&domain, home, Records::new(OTHER, of_other())), []);
    // It is sent again, and the version of the shard has passed it.
    domain.index(HOME).resume(vec![intent], &mut journal).unwrap();
    assert_eq!(journal.verdicts, [Verdict::Void]);
    assert_eq!(domain.submit(OTHER, &[publish(9, 3)]), [Effect::Published(pbn(3))]);
}

#[test]
fn what_a_home_marks_as_damaged_is_refused_to_others_until_it_is_good_again() {
    let domain = domain();
    let mark = |is_suspect| Change { fingerprint: content(2), action: Action::Mark { is_suspect } };
    assert_eq!(domain.submit(OTHER, &[mark(true)]), [Effect::Nothing]);
    assert_eq!(domain.submit(HOME, &[mark(true)]), [Effect::Marked]);
    assert_eq!(domain.submit(OTHER, &[publish(2, 5)]), [Effect::Refused { home: HOME }]);
    assert_eq!(findings(&domain, of_home(), of_other()), []);
    assert_eq!(domain.submit(HOME, &[mark(false), mark(false)]), [Effect::Marked, Effect::Nothing]);
    assert_eq!(domain.submit(OTHER, &[publish(2, 5)]), [Effect::Shared(HOME, pbn(2))]);
}
