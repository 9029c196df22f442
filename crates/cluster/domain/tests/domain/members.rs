//! The list of members.

use gemelo_domain::{DomainError, MemberId, Members, NewMember};
use gemelo_objects::simulated::{Faults, World};

#[test]
fn members_have_names_and_numbers_that_are_never_the_same() {
    let client = World::new(1, Faults::NONE).client();
    let members = Members::new(&client);
    assert!(members.list().unwrap().is_empty());
    assert!(matches!(members.find("a"), Err(DomainError::NoMember { .. })));
    let add = |name, token| members.add(&NewMember { name, token });
    assert_eq!(add("b", 1).unwrap(), MemberId(1));
    assert_eq!(add("a", 2).unwrap(), MemberId(2));
    assert_eq!(add("a", 2).unwrap(), MemberId(2), "the same registration, repeated");
    assert!(matches!(add("a", 3), Err(DomainError::MemberExists { .. })));
    assert!(matches!(add("", 4), Err(DomainError::Invalid { .. })));
    assert!(matches!(add(&"n".repeat(201), 5), Err(DomainError::Invalid { .. })));
    assert_eq!(members.find("a").unwrap(), MemberId(2));
    let expected = [("a".to_owned(), MemberId(2)), ("b".to_owned(), MemberId(1))];
    assert_eq!(members.list().unwrap(), expected);
}

/// A registration that is repeated gives one number, also after lost calls.
#[test]
fn a_registration_survives_lost_answers() {
    for seed in 0..50 {
        let faults = Faults { lost_replies: 300, lost_calls: 100, ..Faults::NONE };
        let world = World::new(seed, faults);
        let client = world.client();
        let members = Members::new(&client);
        let member = (0..100).find_map(|_| members.add(&NewMember { name: "a", token: 7 }).ok());
        world.set_faults(Faults::NONE);
        assert_eq!(members.list().unwrap(), [("a".to_owned(), member.unwrap())], "seed {seed}");
    }
}
