//! Tests of intents: their encoding, their effect on entries, and what a receipt tells.

use super::*;
use proptest::prelude::*;

const ME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

fn pbn(number: u32) -> Pbn {
    Pbn::new(number.into()).unwrap()
}

fn entry(home: MemberId, members: u32) -> Entry {
    Entry { home, pbn: pbn(9), members, is_suspect: false }
}

fn outcome(action: Action, before: Option<Entry>) -> (Effect, Option<u32>) {
    let change = Change { fingerprint: Fingerprint::of_hash(5), action };
    let (effect, after) = Step { change, before }.outcome(ME);
    (effect, after.map(|entry| entry.members))
}

#[test]
fn every_action_on_every_entry() {
    let publish = Action::Publish(pbn(3));
    assert_eq!(outcome(publish, None), (Effect::Published(pbn(3)), Some(1)));
    assert_eq!(outcome(Action::Share, None), (Effect::Nothing, None));
    for action in [publish, Action::Share] {
        let shared = Effect::Shared(OTHER, pbn(9));
        assert_eq!(outcome(action, Some(entry(OTHER, 2))), (shared, Some(3)));
        assert_eq!(outcome(action, Some(entry(OTHER, 0))), (shared, Some(1)), "taken up again");
    }
    let released = |tell| Effect::Released { tell };
    assert_eq!(outcome(Action::Release, Some(entry(OTHER, 2))), (released(None), Some(1)));
    assert_eq!(outcome(Action::Release, Some(entry(OTHER, 1))), (released(Some(OTHER)), Some(0)));
    assert_eq!(outcome(Action::Release, Some(entry(ME, 2))), (released(None), Some(1)));
    assert_eq!(outcome(Action::Release, Some(entry(ME, 1))), (Effect::Withdrawn(pbn(9)), None));
    assert_eq!(outcome(Action::Release, Some(entry(ME, 0))), (Effect::Nothing, Some(0)));
    assert_eq!(outcome(Action::Release, None), (Effect::Nothing, None));
    assert_eq!(outcome(Action::Reclaim, Some(entry(ME, 0))), (Effect::Withdrawn(pbn(9)), None));
    assert_eq!(outcome(Action::Reclaim, Some(entry(ME, 1))), (Effect::Nothing, Some(1)));
    assert_eq!(outcome(Action::Reclaim, Some(entry(OTHER, 0))), (Effect::Nothing, Some(0)));
    assert_eq!(outcome(Action::Withdraw, Some(entry(ME, 1))), (Effect::Withdrawn(pbn(9)), None));
    for (home, members) in [(ME, 0), (ME, 2), (OTHER, 1)] {
        let nothing = (Effect::Nothing, Some(members));
        assert_eq!(outcome(Action::Withdraw, Some(entry(home, members))), nothing);
    }
    assert_eq!(outcome(Action::Withdraw, None), (Effect::Nothing, None));
}

fn sample(steps: &[(u128, Action)], entries: Vec<Option<Entry>>) -> Intent {
    let change = |(hash, action): &(u128, Action)| Change {
        fingerprint: Fingerprint::of_hash(*hash),
        action: *action,
    };
    let changes: Vec<Change> = steps.iter().map(change).collect();
    let header = ShardHeader { state: ShardState::Open, version: 7, entries: 1 };
    let view = ShardView { header, entries };
    plan(Shard::ALL, ME, &view, &changes)
}

#[test]
fn changes_of_one_content_follow_each_other() {
    let actions = [(1, Action::Publish(pbn(3))), (2, Action::Share), (1, Action::Release)];
    let intent = sample(&actions, vec![None, Some(entry(OTHER, 1)), None]);
    let effects: Vec<Effect> = intent.effects().map(|(_, effect)| effect).collect();
    let shared = Effect::Shared(OTHER, pbn(9));
    assert_eq!(effects, [Effect::Published(pbn(3)), shared, Effect::Withdrawn(pbn(3))]);
    let update = intent.update();
    let keys: Vec<&str> = update.set.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys.len(), 3, "one entry, the header and the receipt: {keys:?}");
    assert!(update.remove.is_empty(), "what was not there before need not be removed");
    let header = update.set.iter().find(|(key, _)| key == HEADER_KEY).unwrap();
    let header = ShardHeader::decode(Some(&header.1)).unwrap();
    assert_eq!((header.version, header.entries), (8, 1));
}

#[test]
fn changes_of_one_intent_take_effect_one_after_another() {
    let publish = Action::Publish(pbn(9));
    let actions = [(1, publish), (2, Action::Release), (2, publish), (3, publish)];
    let mine = Some(entry(ME, 1));
    let intent = sample(&actions, vec![None, mine, mine, Some(entry(OTHER, 1))]);
    let effects: Vec<Effect> = intent.effects().skip(1).map(|(_, effect)| effect).collect();
    let shared = Effect::Shared(OTHER, pbn(9));
    assert_eq!(effects, [Effect::Withdrawn(pbn(9)), Effect::Published(pbn(9)), shared]);
}

#[test]
fn the_receipt_found_tells_if_an_intent_was_applied() {
    let intent = sample(&[(1, Action::Share)], vec![None]);
    assert_eq!(intent.receipt(), Receipt(8));
    assert_eq!(verdict(&intent, Receipt(8)), Some(true));
    assert_eq!(verdict(&intent, Receipt(7)), Some(false));
    assert_eq!(verdict(&intent, Receipt(0)), Some(false));
    assert_eq!(verdict(&intent, Receipt(9)), None);
}

proptest! {
    #[test]
    fn an_intent_is_read_back(
        steps in proptest::collection::vec((any::<u128>(), 0..5usize, any::<u32>()), 0..20),
        flip in 1..=255u8, place: u16,
    ) {
        let publish = Action::Publish(pbn(3));
        let actions =
            [publish, Action::Share, Action::Release, Action::Reclaim, Action::Withdraw];
        let entries = steps.iter().map(|(_, _, members)| {
            (members % 3 > 0).then_some(entry(MemberId(*members), *members))
        });
        let entries = entries.collect();
        let actions = steps.iter().map(|(hash, action, _)| (*hash, actions[*action]));
        let actions: Vec<_> = actions.collect();
        let intent = sample(&actions, entries);
        let mut bytes = intent.encode();
        prop_assert_eq!(Intent::decode(&bytes), Ok(intent));
        let place = usize::from(place) % bytes.len();
        bytes[place] ^= flip;
        prop_assert!(Intent::decode(&bytes).is_err());
    }
}
