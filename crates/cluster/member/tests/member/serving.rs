//! Members as processes take them, give them back, look at them, and create and remove what is
//! there.

use crate::{Domain, LEASE, OBJECT, data};
use gemelo_base::background::FailureLog;
use gemelo_base::{Clock, Recorder};
use gemelo_domain::{DomainError, MemberId, Members, Tenure};
use gemelo_format::FingerprintKind;
use gemelo_member::{DomainClient, Ended, MemberError, NewDomain, Service};
use gemelo_objects::simulated::{Faults, World};
use gemelo_objects::{Locks, Objects};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

#[test]
fn a_lease_that_is_over_ends_syncs_and_another_host_takes_the_member() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    let disk = data(&service);
    disk.write_at(0, b"bytes").unwrap();
    service.renew();
    let other = domain.host();
    let refused = other.take().err().unwrap();
    assert!(matches!(refused, MemberError::Domain(DomainError::InUse { .. })));
    domain.pass_lease();
    assert!(disk.sync().unwrap_err().to_string().contains("lease"));
    let taken = other.take().unwrap();
    assert_eq!(taken.epoch(), 2);
    // The lease cannot be prolonged any more, and the release does not harm the new holder.
    service.renew();
    assert_eq!(service.lease_state().check(), Err(Ended::LeaseOver));
    assert!(service.release().is_err());
    let look = domain.host().domain.look("one").unwrap();
    assert_eq!(look.holder.unwrap().instance, other.client.instance());
    data(&taken).sync().unwrap();
}

#[test]
fn a_member_that_is_handed_over_is_free_at_once() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    let disk = data(&service);
    disk.write_at(0, b"bytes").unwrap();
    service.release().unwrap();
    assert!(disk.write_at(0, b"late").is_err());
    let other = domain.host().take().unwrap();
    let mut buffer = [0; 5];
    data(&other).read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"bytes");
    // It was not fenced: it may serve again.
    drop(other);
    host.take().unwrap();
}

/// A hand-over that is not answered arrives when the same client serves the member again. The next
/// host would then take the client for one that has ended in good order.
#[test]
fn a_late_hand_over_does_not_free_a_member_that_was_taken_again() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    data(&service).write_at(0, b"bytes").unwrap();
    domain.world.set_faults(Faults { late_calls: 1000, ..Faults::NONE });
    assert!(service.release().is_err());
    domain.world.set_faults(Faults::NONE);
    let _again = host.take().unwrap();
    domain.pass_lease();
    let _other = domain.host().take().unwrap();
    assert!(host.client.write("data.00000001.0", 0, b"late").is_err(), "it is fenced");
}

#[test]
fn an_inspection_writes_nothing_and_notices_a_take_over() {
    let domain = Domain::new(1);
    let host = domain.host();
    let other = domain.host();
    assert!(matches!(host.domain.inspect("one"), Err(MemberError::NoPool { .. })));
    let service = host.take().unwrap();
    service.disks().metadata.write_at(0, b"bytes").unwrap();
    assert!(matches!(
        other.domain.inspect("one"),
        Err(MemberError::Domain(DomainError::InUse { .. }))
    ));
    service.release().unwrap();
    let inspection = other.domain.inspect("one").unwrap();
    let disks = inspection.disks();
    let mut buffer = [0; 5];
    disks.metadata.read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"bytes");
    let refused = disks.metadata.write_at(0, b"other").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    inspection.check().unwrap();
    // Somebody takes the member and gives it back: what was read may be of both times.
    host.take().unwrap().release().unwrap();
    assert!(matches!(inspection.check(), Err(MemberError::Taken)));
}

#[test]
fn values_and_objects_go_with_the_removal() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    service.set_value("settings", b"text").unwrap();
    let member = service.member();
    assert_eq!(host.domain.value(member, "settings").unwrap().unwrap(), b"text");
    service.disks().metadata.write_at(0, b"bytes").unwrap();
    data(&service).write_at(3 * OBJECT, b"bytes").unwrap();
    assert!(service.has_pool().unwrap());
    service.clear().unwrap();
    assert!(!service.has_pool().unwrap());
    assert!(host.client.list("data.").unwrap().is_empty());
    assert!(host.client.list("meta.").unwrap().is_empty());
}

/// A clock that lets something happen when it is read first.
struct Interrupting {
    clock: Arc<dyn Clock>,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Interrupting {
    fn now_ns(&self) -> u64 {
        if let Some(happens) = self.happens.lock().take() {
            happens();
        }
        self.clock.now_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.clock.sleep_until_ns(deadline_ns);
    }
}

/// A pool that is created there would have no name.
#[test]
fn a_member_that_is_removed_while_another_process_takes_it_is_not_taken() {
    for is_registered_again in [false, true] {
        let domain = Domain::new(1);
        let (host, other) = (domain.host(), domain.host());
        let client = other.client.clone();
        let happens = move || {
            let service = other.take().unwrap();
            service.clear().unwrap();
            Members::new(&other.client).remove("one", service.member()).unwrap();
            service.release().unwrap();
            if is_registered_again {
                other.domain.register("one").unwrap();
            }
        };
        let happens = Mutex::new(Some(Box::new(happens) as Box<dyn FnOnce() + Send>));
        let clock = Arc::new(Interrupting { clock: Arc::new(host.client.clock()), happens });
        let clock: Arc<dyn Clock> = clock;
        let refused = Service::take(&host.domain, "one", &clock, LEASE).err().unwrap();
        let is_missing = matches!(refused, MemberError::Domain(DomainError::NoMember { .. }));
        assert!(is_missing, "{refused:?}");
        assert!(Tenure::look(&client, MemberId(1)).unwrap().0.is_none());
    }
}

/// A disk of length 0 would have no object that a fenced process must not change any more.
#[test]
fn a_member_whose_length_is_damaged_is_not_taken() {
    for key in ["data.length", "meta.length"] {
        let domain = Domain::new(1);
        let service = domain.host().take().unwrap();
        service.set_value(key, b"seven").unwrap();
        service.release().unwrap();
        let refused = domain.host().take().err().unwrap();
        assert!(refused.to_string().contains("it is no length"), "{refused}");
    }
}

#[test]
fn a_creation_that_was_interrupted_is_completed_with_the_same_key() {
    let world = World::new(1, Faults::NONE);
    let with_pool = |block_bytes, pool: &str| NewDomain {
        block_bytes,
        depth: 2,
        fingerprint: FingerprintKind::Blake3,
        data_pool: Some(pool.into()),
    };
    let new = |block_bytes| with_pool(block_bytes, "data");
    let client = world.client();
    // The last of the calls, which completes the domain, is not made.
    let dies = world.client();
    world.kill_at(&dies.instance(), world.now_ns() + 1_500_000);
    assert!(new(4096).create_in(&dies).is_err());
    assert!(new(8192).create_in(&client).is_err(), "with other settings");
    assert!(with_pool(4096, "other").create_in(&client).is_err(), "with another pool");
    new(4096).create_in(&client).unwrap();
    assert!(new(4096).create_in(&client).is_err(), "it exists");
    let objects = Arc::new(client);
    let domain = DomainClient::new(objects.clone(), objects).unwrap();
    assert_eq!(domain.config().fingerprint_id, domain.shared().fingerprint_id());
    assert_eq!(domain.shared().data_pool.as_deref(), Some("data"));
}

/// Renewals that fail are told once and tried each second, because a lease that waits longer ends.
/// So they cannot fail for longer than the lease: then it is over, and the process ends.
#[test]
fn renewals_that_fail_are_told_once_until_they_work_or_the_lease_is_over() {
    let domain = Domain::new(1);
    let (host, watcher) = (domain.host(), domain.host());
    let service = host.take().unwrap();
    let (recorder, mut log) = (Recorder::new(), FailureLog::default());
    let size = || {
        let names = watcher.client.list("").unwrap();
        names.iter().map(|name| watcher.client.stat(name).unwrap()).sum::<u64>()
    };
    let bytes = size();
    let mut pass = |seconds: u64| {
        for _ in 0..seconds {
            domain.world.sleep_until_ns(domain.world.now_ns() + 1_000_000_000);
            service.renew();
            log.look(&[service.renewals()], &recorder);
        }
        service.renewals()
    };
    let cut_off = |seconds: u64| {
        let now_ns = domain.world.now_ns();
        domain.world.cut_off(&host.client.instance(), now_ns..now_ns + seconds * 1_000_000_000);
    };
    cut_off(20);
    let stat = pass(5);
    let failure = stat.failure.as_ref().unwrap();
    assert!(failure.tries >= 5 && failure.since_ns >= 5_000_000_000, "{stat:?}");
    assert!(stat.warning().unwrap().starts_with("lease fails since "), "{stat:?}");
    assert_eq!(pass(30).failure, None);
    assert_eq!(service.lease_state().check(), Ok(()));
    assert_eq!((recorder.warnings().len(), recorder.logged().len()), (1, 1));
    cut_off(600);
    let tries = pass(300).failures;
    assert!(tries < 400, "{tries} tries");
    assert_eq!(service.lease_state().check(), Err(Ended::LeaseOver));
    assert_eq!((recorder.warnings().len(), recorder.logged().len()), (2, 1));
    assert_eq!(size(), bytes);
}

/// Looks at fences that fail are told once, and tried with growing pauses. The member is served all
/// the while: the fences only last for longer.
#[test]
fn looks_at_fences_that_fail_are_told_once_and_seldom_repeated() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    let (recorder, mut log) = (Recorder::new(), FailureLog::default());
    let mut pass = |seconds: u64| {
        for _ in 0..seconds {
            domain.world.sleep_until_ns(domain.world.now_ns() + 1_000_000_000);
            service.tend_fences();
            log.look(&[service.fences()], &recorder);
        }
        service.fences()
    };
    let cut_off = |seconds: u64| {
        let now_ns = domain.world.now_ns();
        domain.world.cut_off(&host.client.instance(), now_ns..now_ns + seconds * 1_000_000_000);
    };
    assert_eq!(pass(70).failures, 0);
    cut_off(20);
    assert_eq!(pass(20).failures, 0, "the next look is not due yet");
    cut_off(600);
    let stat = pass(600);
    let warning = stat.warning().unwrap();
    assert!(warning.starts_with("fences fails since "), "{warning}");
    assert!((5..30).contains(&stat.failures), "{stat:?}");
    assert_eq!(recorder.warnings().len(), 1);
    assert_eq!(pass(120).failure, None);
    assert_eq!((recorder.warnings().len(), recorder.logged().len()), (1, 1));
}
