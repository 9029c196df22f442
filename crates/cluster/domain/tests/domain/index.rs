//! Publishing, sharing, releasing and collecting; failures of the journal; splits.

use crate::{Domain, HOME, Memory, OTHER, content, pbn, publish, release};
use gemelo_base::Clock;
use gemelo_domain::{
    Action, Change, DomainConfig, DomainError, Effect, Intent, Shard, Verdict, mailbox_name,
};
use gemelo_objects::simulated::{Faults, World};
use gemelo_objects::{KeyRange, ObjectError, Objects, Operation, Update};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_content_is_published_shared_released_and_collected() {
    let domain = Domain::new(2);
    assert_eq!(domain.submit(HOME, &[publish(7, 3)]), [Effect::Published(pbn(3))]);
    assert_eq!(domain.submit(OTHER, &[publish(7, 9)]), [Effect::Shared(HOME, pbn(3))]);
    assert_eq!(domain.submit(HOME, &[release(7)]), [Effect::Released { tell: None }]);
    assert_eq!(domain.submit(OTHER, &[release(7)]), [Effect::Released { tell: Some(HOME) }]);
    let (mut home, mut journal) = (domain.index(HOME), Memory::default());
    assert_eq!(home.collect(10, &mut journal).unwrap(), 1);
    assert_eq!(journal.verdicts, [Verdict::Applied]);
    assert_eq!(home.collect(10, &mut journal).unwrap(), 0);
    let share = Change { fingerprint: content(7), action: Action::Share };
    assert_eq!(domain.submit(OTHER, &[share]), [Effect::Nothing], "the content is gone");
}

#[test]
fn a_content_that_was_taken_up_again_is_not_withdrawn() {
    let domain = Domain::new(0);
    domain.submit(HOME, &[publish(7, 3)]);
    domain.submit(OTHER, &[publish(7, 9)]);
    domain.submit(HOME, &[release(7)]);
    domain.submit(OTHER, &[release(7)]);
    assert_eq!(domain.submit(OTHER, &[publish(7, 9)]), [Effect::Shared(HOME, pbn(3))]);
    let (mut home, mut journal) = (domain.index(HOME), Memory::default());
    assert_eq!(home.collect(10, &mut journal).unwrap(), 1);
    assert!(journal.verdicts.is_empty(), "nothing was to be changed");
    domain.submit(OTHER, &[release(7)]);
    assert_eq!(home.collect(10, &mut journal).unwrap(), 1, "another letter");
    assert_eq!(journal.verdicts, [Verdict::Applied]);
}

#[test]
fn nothing_is_sent_that_the_journal_does_not_hold() {
    let domain = Domain::new(0);
    let mut index = domain.index(HOME);
    let mut journal = Memory { fails_to_record: true, ..Memory::default() };
    let outcome = index.submit(&[publish(7, 3)], &mut journal);
    assert!(matches!(outcome, Err(DomainError::Journal(_))), "{outcome:?}");
    let page = domain.client.list_keys(&Shard::ALL.object(), all("f.")).unwrap();
    assert!(page.entries.is_empty());
    journal.fails_to_record = false;
    index.submit(&[publish(7, 3)], &mut journal).unwrap();
}

/// Neighbouring blocks are shared in one call, whatever the number of their shards.
#[test]
fn all_shards_of_a_batch_are_settled_together() {
    let domain = Domain::new(6);
    let changes: Vec<Change> = (1..1000).map(|number| publish(number.into(), number)).collect();
    let mut journal = Memory::default();
    domain.index(HOME).submit(&changes, &mut journal).unwrap();
    assert_eq!(
        (journal.settlements, journal.verdicts.as_slice()),
        (1, &[Verdict::Applied; 64][..])
    );
    assert!(journal.open.is_empty());
}

/// Shards are sent in groups. The later ones fail here, and the first ones are settled afterwards.
#[test]
fn what_was_sent_before_a_failure_is_settled_by_the_next_call() {
    let domain = Domain::new(6);
    let (is_broken, has_sent) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let mut index = domain.tapped_index(HOME, move |request| {
        if matches!(request.operation, Operation::Update(_)) {
            has_sent.store(true, Ordering::Relaxed);
        }
        let fails = broken.load(Ordering::Relaxed) && has_sent.load(Ordering::Relaxed);
        let is_read = matches!(request.operation, Operation::GetKeys { .. });
        (fails && is_read).then(|| ObjectError::Full { object: request.object.to_owned() })
    });
    let changes: Vec<Change> = (1..1000).map(|number| publish(number.into(), number)).collect();
    let mut journal = Memory::default();
    assert!(index.submit(&changes, &mut journal).is_err());
    let sent = journal.open.len();
    assert!((1..64).contains(&sent) && journal.settlements == 0, "{sent} were sent");
    is_broken.store(false, Ordering::Relaxed);
    index.submit(&[], &mut journal).unwrap();
    assert_eq!((journal.settlements, journal.verdicts.len()), (1, sent));
    assert!(journal.open.is_empty());
}

fn all(prefix: &str) -> KeyRange<'_> {
    KeyRange { after: "", prefix, limit: 1000 }
}

/// A member that was cut off settles what it had sent before it sends anything else.
#[test]
fn what_is_unknown_is_settled_before_anything_else_is_sent() {
    let domain = Domain::new(0);
    let is_cut = Arc::new(AtomicBool::new(true));
    let cut = Arc::clone(&is_cut);
    let mut index = domain.tapped_index(HOME, move |request| {
        let is_update = matches!(request.operation, Operation::Update(_));
        let object = request.object.to_owned();
        let is_lost = is_update && cut.load(Ordering::Relaxed);
        is_lost.then_some(ObjectError::TimedOut { action: "update", object })
    });
    let mut journal = Memory::default();
    let outcome = index.submit(&[publish(1, 1)], &mut journal);
    let error = outcome.unwrap_err();
    assert!(matches!(error, DomainError::Object(ObjectError::TimedOut { .. })), "{error:?}");
    assert_eq!(journal.open.len(), 1);
    is_cut.store(false, Ordering::Relaxed);
    assert_eq!(index.submit(&[publish(2, 2)], &mut journal).unwrap(), [Effect::Published(pbn(2))]);
    assert_eq!(journal.verdicts, [Verdict::Applied, Verdict::Applied]);
    assert!(journal.open.is_empty());
    assert_eq!(domain.submit(OTHER, &[publish(1, 9)]), [Effect::Shared(HOME, pbn(1))]);
}

/// After a crash between the write and the end of the journal's record, the intent is found to be
/// applied, and its letter is sent.
#[test]
fn an_applied_intent_is_resumed_once() {
    let domain = Domain::new(0);
    domain.submit(HOME, &[publish(7, 3)]);
    domain.submit(OTHER, &[publish(7, 9)]);
    domain.submit(HOME, &[release(7)]);
    let mut journal = Memory { fails_to_settle: true, ..Memory::default() };
    let outcome = domain.index(OTHER).submit(&[release(7)], &mut journal);
    assert!(matches!(outcome, Err(DomainError::Journal(_))), "{outcome:?}");
    // The letter was sent, and is lost with the mailbox, as if the crash had come before.
    domain.client.remove(&mailbox_name(HOME)).unwrap();
    domain.submit(HOME, &[publish(8, 4)]);
    let open: Vec<Intent> = std::mem::take(&mut journal.open);
    let open: Vec<Intent> =
        open.iter().map(|intent| Intent::decode(&intent.encode()).unwrap()).collect();
    journal.fails_to_settle = false;
    domain.index(OTHER).resume(open, &mut journal).unwrap();
    assert_eq!(journal.verdicts, [Verdict::Applied]);
    assert_eq!(domain.index(HOME).collect(10, &mut journal).unwrap(), 1);
}

/// An intent that never arrived is void as soon as another member changes the shard, and is applied
/// by being sent if none does.
#[test]
fn an_intent_that_was_not_sent_is_void_or_applied_later() {
    let resumed = |other_changes: bool| {
        let domain = Domain::new(0);
        let mut journal = Memory::default();
        let mut index = domain.index(HOME);
        index.submit(&[publish(1, 1)], &mut journal).unwrap();
        // The client dies when the read is answered and the intent recorded.
        let intent = planned(&domain);
        if other_changes {
            domain.submit(OTHER, &[publish(2, 2)]);
        }
        let mut journal = Memory::default();
        domain.index(HOME).resume(vec![intent], &mut journal).unwrap();
        journal.verdicts
    };
    assert_eq!(resumed(false), [Verdict::Applied]);
    assert_eq!(resumed(true), [Verdict::Void]);
}

/// Plans an intent that is not sent.
fn planned(domain: &Domain) -> Intent {
    let keys = gemelo_domain::ShardView::keys(std::iter::once(content(5)));
    let values = domain.client.get_keys(&Shard::ALL.object(), &keys).unwrap();
    let view = gemelo_domain::ShardView::decode(&keys, &values).unwrap();
    gemelo_domain::plan(Shard::ALL, HOME, &view, &[publish(5, 5)])
}

#[test]
fn a_late_intent_of_a_journal_that_is_too_old_is_an_error() {
    let domain = Domain::new(0);
    let intent = planned(&domain);
    domain.submit(HOME, &[publish(1, 1)]);
    domain.submit(HOME, &[publish(2, 2)]);
    let outcome = domain.index(HOME).resume(vec![intent], &mut Memory::default());
    assert!(matches!(outcome, Err(DomainError::OutOfOrder { .. })), "{outcome:?}");
}

#[test]
fn a_large_batch_is_applied_in_parts() {
    let domain = Domain::new(1);
    let changes: Vec<Change> = (0..10_000).map(|number| publish(number, 1)).collect();
    let mut journal = Memory::default();
    let effects = domain.index(HOME).submit(&changes, &mut journal).unwrap();
    assert!(effects.iter().all(|effect| *effect == Effect::Published(pbn(1))));
    assert!(journal.verdicts.len() >= 4, "at most 3,000 changes an intent");
}

#[test]
fn a_shard_is_split_in_use_and_members_with_old_knowledge_follow() {
    let domain = Domain::new(0);
    let mut index = domain.index(HOME).with_split_above(100);
    let mut old = domain.index(OTHER);
    let mut journal = Memory::default();
    let changes: Vec<Change> = (0..300).map(|number| publish(number, number as u32 + 1)).collect();
    index.submit(&changes, &mut journal).unwrap();
    assert_eq!(index.split_large().unwrap(), 0, "it was small when it was read");
    index.submit(&[publish(300, 301)], &mut journal).unwrap();
    assert_eq!(index.split_large().unwrap(), 1);
    assert_eq!(domain.client.list("index.").unwrap(), ["index.", "index.0", "index.1"]);
    let remaining = domain.client.list_keys("index.", all("f.")).unwrap();
    assert!(remaining.entries.is_empty());
    let effects = old.submit(&changes, &mut journal).unwrap();
    for (number, effect) in (1..).zip(effects) {
        assert_eq!(effect, Effect::Shared(HOME, pbn(number)));
    }
}

/// A copy of a split that arrives late must not undo what happened in the half since.
#[test]
fn a_late_copy_of_a_split_changes_nothing() {
    let domain = Domain::new(0);
    let changes: Vec<Change> = (0..50).map(|number| publish(number, 1)).collect();
    domain.submit(HOME, &changes);
    let late: Arc<Mutex<Option<Update>>> = Arc::default();
    let delayed = Arc::clone(&late);
    let mut index = domain.tapped_index(HOME, move |request| {
        let Operation::Update(update) = &request.operation else { return None };
        let is_copy = request.object == "index.0" && update.set.len() > 1;
        let mut delayed = delayed.lock().unwrap();
        if !is_copy || delayed.is_some() {
            return None;
        }
        *delayed = Some((*update).clone());
        Some(ObjectError::TimedOut { action: "update", object: request.object.into() })
    });
    index = index.with_split_above(10);
    index.submit(&[publish(50, 1)], &mut Memory::default()).unwrap();
    assert_eq!(index.split_large().unwrap(), 1);
    let released: Vec<Change> = (0..50).map(release).collect();
    domain.submit(HOME, &released);
    let late = late.lock().unwrap().take().unwrap();
    let outcome = domain.client.update("index.0", &late);
    assert!(matches!(outcome, Err(ObjectError::Guard { .. })), "{outcome:?}");
}

/// A letter that arrives while the home removes an older one about the same content stays.
#[test]
fn removing_a_letter_leaves_a_newer_one_about_the_same_content() {
    let domain = Arc::new(Domain::new(0));
    domain.submit(HOME, &[publish(7, 3)]);
    domain.submit(OTHER, &[publish(7, 9)]);
    domain.submit(HOME, &[release(7)]);
    domain.submit(OTHER, &[release(7)]);
    domain.submit(OTHER, &[publish(7, 9)]);
    let (other, is_first) = (Arc::clone(&domain), AtomicBool::new(true));
    let mut home = domain.tapped_index(HOME, move |request| {
        let is_removal = matches!(&request.operation, Operation::Update(update)
            if request.object == mailbox_name(HOME) && !update.remove.is_empty());
        if is_removal && is_first.swap(false, Ordering::Relaxed) {
            other.submit(OTHER, &[release(7)]);
        }
        None
    });
    let mut journal = Memory::default();
    assert_eq!(home.collect(10, &mut journal).unwrap(), 1);
    assert!(journal.verdicts.is_empty());
    assert_eq!(home.collect(10, &mut journal).unwrap(), 1, "the newer letter is there");
    assert_eq!(journal.verdicts, [Verdict::Applied]);
}

#[test]
fn a_domain_is_created_once_and_a_broken_creation_is_continued() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let config = DomainConfig {
        block_bytes: 4096,
        depth: 10,
        fingerprint_id: [1; 16],
        unknown: gemelo_format::Features::NONE,
    };
    assert!(matches!(DomainConfig::open(&client), Err(DomainError::NoDomain)));
    let too_deep = DomainConfig { depth: 25, ..config };
    assert!(matches!(too_deep.create(&client), Err(DomainError::Invalid { .. })));
    let dying = world.client();
    world.kill_at(&gemelo_objects::Locks::instance(&dying), world.now_ns() + 4_000_000);
    assert!(matches!(config.create(&dying), Err(DomainError::Object(ObjectError::Io { .. }))));
    assert!(matches!(DomainConfig::open(&client), Err(DomainError::NoDomain)));
    let other = DomainConfig { block_bytes: 8192, ..config };
    assert!(matches!(other.create(&client), Err(DomainError::Exists)));
    config.create(&client).unwrap();
    assert_eq!(DomainConfig::open(&client).unwrap(), config);
    assert_eq!(client.list("index.").unwrap().len(), 1024);
    assert!(matches!(config.create(&client), Err(DomainError::Exists)));
}

/// The index counts one member that refers to a content of the home, and another one does as well.
#[test]
fn a_shard_that_was_put_back_as_it_was_takes_no_change_that_would_free_a_content() {
    let domain = Domain::new(0);
    domain.submit(HOME, &[publish(7, 3)]);
    let object = Shard::ALL.object();
    let range = KeyRange { after: "", prefix: "", limit: 100 };
    let before = domain.client.list_keys(&object, range).unwrap().entries;
    let mut home = domain.index(HOME);
    let mut journal = Memory::default();
    domain.submit(OTHER, &[publish(7, 9)]);
    home.submit(&[publish(8, 4)], &mut journal).unwrap();
    domain.client.remove(&object).unwrap();
    let update = Update { creates: true, set: before, ..Update::default() };
    domain.client.update(&object, &update).unwrap();

    // The process that made the change knows it, and the next one by the ledger.
    let versions = std::collections::BTreeMap::from([(Shard::ALL, 4)]);
    for mut home in [home, domain.index(HOME).with_versions(versions)] {
        let effects = home.submit(&[release(7)], &mut Memory::default()).unwrap();
        assert_eq!(effects, [Effect::Undecided]);
        let damage = home.damage();
        assert!(damage[0].reason.contains("older than the last change"), "{damage:?}");
    }
}
