//! A domain and its members.

use gemelo_domain::{DomainConfig, MemberId, Members, NewMember, SharedSettings};
use gemelo_format::FingerprintKind;
use gemelo_objects::simulated::Client;

/// The key of all fingerprints.
pub(crate) const KEY: [u8; 32] = [7; 32];

pub(crate) fn create(client: &Client, members: u32) {
    let fingerprint = FingerprintKind::Blake3;
    let shared = SharedSettings { fingerprint, key: KEY, data_pool: None };
    let fingerprint_id = shared.fingerprint_id();
    let config = DomainConfig {
        block_bytes: crate::BLOCK as u32,
        depth: 1,
        fingerprint_id,
        unknown: gemelo_format::Features::NONE,
    };
    config.create_shared(client, &shared).unwrap();
    for number in 1..=members {
        let new = NewMember { name: &name_of(MemberId(number)), token: u64::from(number) };
        assert_eq!(Members::new(client).add(&new).unwrap(), MemberId(number));
    }
}

pub(crate) fn name_of(member: MemberId) -> String {
    format!("member{member}")
}
