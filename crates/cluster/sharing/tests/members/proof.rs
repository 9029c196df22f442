//! Checks of the state in which all intents are settled.

use crate::member::Member;
use gemelo_domain::{Claims, DomainConfig, check, mailbox_name};
use gemelo_objects::simulated::Client;
use gemelo_objects::{KeyRange, ObjectError, Objects};
use gemelo_sharing::LedgerClaims;

pub(crate) fn ledgers(client: &Client, members: &[&Member]) -> Vec<LedgerClaims> {
    let load = |member: &&Member| LedgerClaims::load(client, member.id()).unwrap();
    members.iter().map(load).collect()
}

/// Checks that the index, the ledgers and the pools agree. No member has anything left to do.
pub(crate) fn expect_clean(client: &Client, members: &[&Member]) {
    let mut ledgers = ledgers(client, members);
    let mut claims: Vec<&mut dyn Claims> =
        ledgers.iter_mut().map(|ledger| -> &mut dyn Claims { ledger }).collect();
    let config = DomainConfig::open(client).unwrap();
    let findings = check(client, &config, &mut claims).unwrap();
    assert!(findings.are_none(), "{findings:#?}");
    assert!(ledgers.iter().all(|ledger| ledger.damage().is_empty()));
    for (member, ledger) in members.iter().zip(&ledgers) {
        assert_eq!(ledger.in_flight(), 0);
        assert_eq!(member.pool.prove(10).unwrap(), Vec::<String>::new());
        let figures = member.sharing.figures();
        assert_eq!(figures.lost, 0, "a reference is lost");
        let pbns: Vec<_> = ledger.blocks().iter().map(|block| block.pbn).collect();
        let fingerprints = member.pool.fingerprints_of(&pbns).unwrap();
        let mut held = 0;
        for (block, found) in ledger.blocks().iter().zip(fingerprints) {
            let expected = block.is_counted.then_some(block.fingerprint);
            let is_right = found == expected || block.is_alone;
            assert!(is_right, "member {}: {block:?} is {found:?} in the pool", member.id());
            held += u64::from(found.is_none() && !block.is_alone);
        }
        assert_eq!(member.pool.held_blocks(), held, "blocks are held that the ledger forgot");
    }
}

/// Checks that no content is left anywhere.
pub(crate) fn expect_nothing_left(client: &Client, members: &[&Member]) {
    expect_clean(client, members);
    for (member, ledger) in members.iter().zip(ledgers(client, members)) {
        assert!(ledger.blocks().is_empty(), "member {} keeps {:?}", member.id(), ledger.blocks());
        assert_eq!(member.pool.held_blocks(), 0);
        let figures = member.sharing.block_figures();
        assert_eq!((figures.kept, figures.due), (0, 0));
        expect_no_keys(client, &mailbox_name(member.id()), "");
    }
    for shard in client.list("index.").unwrap() {
        expect_no_keys(client, &shard, "f.");
    }
}

fn expect_no_keys(client: &Client, object: &str, prefix: &str) {
    match client.list_keys(object, KeyRange { after: "", prefix, limit: 10 }) {
        Ok(page) => assert!(page.entries.is_empty(), "{object}: {:?}", page.entries),
        Err(ObjectError::NotFound { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}
