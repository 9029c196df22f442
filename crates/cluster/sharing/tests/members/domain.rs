//! A domain and its members.

use gemelo_domain::{DomainConfig, MemberId, Members, NewMember};
use gemelo_objects::simulated::Client;

pub(crate) fn create(client: &Client, members: u32) -> DomainConfig {
    let config =
        DomainConfig { block_bytes: crate::BLOCK as u32, depth: 1, fingerprint_id: [7; 16] };
    config.create(client).unwrap();
    for number in 1..=members {
        let name = format!("member{number}");
        let new = NewMember { name: &name, token: u64::from(number) };
        assert_eq!(Members::new(client).add(&new).unwrap(), MemberId(number));
    }
    config
}
