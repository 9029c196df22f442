//! Lengths of disks that cannot be, with right checksums.

use crate::{Domain, OBJECT};
use gemelo_domain::{DomainError, MemberValues};
use gemelo_member::MemberError;

#[test]
fn a_length_that_no_disk_has_is_refused_and_a_wrong_one_takes_no_memory() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    let disks = service.disks();
    disks.metadata.set_len(2 * OBJECT).unwrap();
    let member = service.member();
    service.release().unwrap();
    let set = |key: &str, length: u64| {
        let values = MemberValues::new(&host.client, member);
        values.set(&[(key, &length.to_le_bytes())]).unwrap();
    };
    for (key, most) in [("meta.length", 1 << 45), ("data.length", 1 << 52)] {
        for length in [most + 1, u64::MAX] {
            set(key, length);
            let refused = host.take().err();
            let is_damage = |error: &MemberError| match error {
                MemberError::Domain(DomainError::Damaged { key: of, .. }) => of == key,
                _ => false,
            };
            assert!(refused.as_ref().is_some_and(is_damage), "{key} {length}: {refused:?}");
            domain.pass_lease();
        }
        set(key, 2 * OBJECT);
    }
    // Millions of objects are missing.
    set("meta.length", 1 << 45);
    assert_eq!(host.domain.lost_objects(member).unwrap().unwrap().len(), 1000);
    let stale = host.domain.stale_parts(member, None).unwrap();
    assert!(stale.len() < 3000, "{}", stale.len());
}
