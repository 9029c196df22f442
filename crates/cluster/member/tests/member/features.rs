//! Domains with a feature that this program does not know, one of each field.

use crate::LEASE;
use gemelo_base::{Classified, Clock, FailureKind};
use gemelo_domain::{DomainConfig, DomainError, Members, NewMember, SharedSettings, remove_domain};
use gemelo_format::{Features, FingerprintKind};
use gemelo_member::{DomainClient, MemberError, Service};
use gemelo_objects::simulated::{Faults, World};
use std::sync::Arc;

/// A domain with the member "one" and these features.
fn domain_with(unknown: Features) -> (World, Result<Arc<DomainClient>, MemberError>) {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let fingerprint = FingerprintKind::Blake3;
    let shared = SharedSettings { fingerprint, key: [1; 32], data_pool: None };
    let fingerprint_id = shared.fingerprint_id();
    let config = DomainConfig { block_bytes: 4096, depth: 1, fingerprint_id, unknown };
    config.create_shared(&client, &shared).unwrap();
    Members::new(&client).add(&NewMember { name: "one", token: 1 }).unwrap();
    let objects = Arc::new(client);
    let connected = DomainClient::new(objects.clone(), objects).map(Arc::new);
    (world, connected)
}

fn take(world: &World, domain: &Arc<DomainClient>) -> Result<Service, MemberError> {
    let clock: Arc<dyn Clock> = Arc::new(world.client().clock());
    Service::take(domain, "one", &clock, LEASE)
}

#[test]
fn a_domain_with_an_unknown_incompatible_feature_is_refused_by_its_number() {
    let (world, connected) = domain_with(Features { incompatible: 2, ..Features::NONE });
    let error = connected.err().unwrap();
    assert_eq!(error.kind(), FailureKind::BadInput);
    let said = error.to_string();
    assert!(said.contains("the incompatible feature 1") && said.contains("not know"), "{said}");
    assert!(matches!(remove_domain(&world.client()), Err(DomainError::Unknown { .. })));
}

#[test]
fn a_domain_with_an_unknown_read_compatible_feature_can_be_looked_at_alone() {
    let (world, connected) = domain_with(Features { read_compatible: 8, ..Features::NONE });
    let domain = connected.unwrap();
    assert_eq!(domain.members().unwrap().len(), 1);
    domain.look("one").unwrap();
    let refusals = [
        take(&world, &domain).err().unwrap().to_string(),
        domain.register("two").unwrap_err().to_string(),
        remove_domain(&world.client()).unwrap_err().to_string(),
    ];
    for said in refusals {
        assert!(said.contains("the read-compatible feature 3"), "{said}");
    }
    assert_eq!(domain.members().unwrap().len(), 1);
}

#[test]
fn a_domain_with_an_unknown_compatible_feature_is_used() {
    let (world, connected) = domain_with(Features { compatible: 1, ..Features::NONE });
    let domain = connected.unwrap();
    take(&world, &domain).unwrap();
    domain.register("two").unwrap();
    assert_eq!(domain.config().unknown, Features { compatible: 1, ..Features::NONE });
}
