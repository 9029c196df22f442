//! The disks and the lease of a member over the simulated store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod features;
mod lengths;
mod serving;

use gemelo_base::random::Random;
use gemelo_base::{Classified, Clock, FailureKind};
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_domain::DomainError;
use gemelo_format::FingerprintKind;
use gemelo_member::{DomainClient, Ended, MemberError, NewDomain, Service};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{ObjectError, Objects, Request};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);
const OBJECT: u64 = 4 << 20;

/// A domain with the member "one".
struct Domain {
    world: World,
}

/// A host of the domain.
struct Host {
    client: Client,
    domain: Arc<DomainClient>,
}

impl Domain {
    fn new(seed: u64) -> Self {
        let world = World::new(seed, Faults::NONE);
        let new = NewDomain {
            block_bytes: 4096,
            depth: 1,
            fingerprint: FingerprintKind::Blake3,
            data_pool: None,
        };
        new.create_in(&world.client()).unwrap();
        let domain = Self { world };
        domain.host().domain.register("one").unwrap();
        domain
    }

    fn host(&self) -> Host {
        let client = self.world.client();
        let objects = Arc::new(client.clone());
        let domain = Arc::new(DomainClient::new(objects.clone(), objects).unwrap());
        Host { client, domain }
    }

    /// Lets the lease of every holder end.
    fn pass_lease(&self) {
        let lease_ns = u64::try_from(LEASE.as_nanos()).unwrap();
        self.world.sleep_until_ns(self.world.now_ns() + lease_ns + 1_000_000_000);
    }
}

impl Host {
    fn take(&self) -> Result<Service, MemberError> {
        let clock: Arc<dyn Clock> = Arc::new(self.client.clock());
        Service::take(&self.domain, "one", &clock, LEASE)
    }
}

fn data(service: &Service) -> Arc<dyn Disk> {
    service.disks().data
}

/// A disk and the bytes that it must have; most are zeros.
struct Compared {
    disk: Arc<dyn Disk>,
    bytes: Vec<u8>,
    /// Bytes that were discarded, which may read as anything.
    unknown: Vec<Range<u64>>,
}

impl Compared {
    /// A range near the border of an object, where cutting matters.
    fn range(&self, random: &mut Random) -> Range<u64> {
        let border = random.below(self.bytes.len() as u64 / OBJECT + 1) * OBJECT;
        let begin = (border + random.below(20_000)).saturating_sub(10_000);
        let begin = begin.min(self.bytes.len() as u64);
        begin..(begin + random.below(12_000)).min(self.bytes.len() as u64)
    }

    /// Adjacent and separate ranges that do not overlap.
    fn ranges(&self, random: &mut Random) -> Vec<Range<u64>> {
        let whole = self.range(random);
        let mut ranges = Vec::new();
        let mut at = whole.start;
        while at < whole.end {
            let end = (at + 1 + random.below(4000)).min(whole.end);
            if random.below(5) > 0 {
                ranges.push(at..end);
            }
            at = end;
        }
        ranges
    }

    fn write(&mut self, random: &mut Random) {
        let ranges = self.ranges(random);
        let first = random.below(255);
        let fill = |(number, range): (u64, &Range<u64>)| {
            vec![1 + ((first + number) % 255) as u8; (range.end - range.start) as usize]
        };
        let contents: Vec<Vec<u8>> = (0..).zip(&ranges).map(fill).collect();
        let mut writes: Vec<DiskWrite<'_>> = ranges
            .iter()
            .zip(&contents)
            .map(|(range, bytes)| DiskWrite::new(range.start, bytes))
            .collect();
        self.disk.write_all(&mut writes).unwrap();
        for (range, bytes) in ranges.into_iter().zip(contents) {
            self.bytes[range.start as usize..range.end as usize].copy_from_slice(&bytes);
            self.unknown = self.unknown.iter().flat_map(|gone| without(gone, &range)).collect();
        }
    }

    fn read(&self, random: &mut Random) {
        let ranges = self.ranges(random);
        let mut buffers: Vec<Vec<u8>> =
            ranges.iter().map(|range| vec![0xEE; (range.end - range.start) as usize]).collect();
        let mut reads: Vec<DiskRead<'_>> = ranges
            .iter()
            .zip(&mut buffers)
            .map(|(range, buffer)| DiskRead::new(range.start, buffer))
            .collect();
        self.disk.read_many(&mut reads);
        assert!(reads.iter().all(|read| read.outcome.is_ok()));
        for (range, buffer) in ranges.into_iter().zip(buffers) {
            for (at, byte) in range.zip(buffer) {
                let is_known = !self.unknown.iter().any(|gone| gone.contains(&at));
                assert!(!is_known || self.bytes[at as usize] == byte, "byte {at}");
            }
        }
    }

    fn resize(&mut self, random: &mut Random) {
        let length = random.below(3 * OBJECT);
        self.disk.set_len(length).unwrap();
        self.bytes.resize(length as usize, 0);
        let cut = |gone: &Range<u64>| gone.start..gone.end.min(length);
        self.unknown = self.unknown.iter().map(cut).filter(|gone| !gone.is_empty()).collect();
    }
}

fn without(gone: &Range<u64>, written: &Range<u64>) -> Vec<Range<u64>> {
    let before = gone.start..gone.end.min(written.start);
    let after = gone.start.max(written.end)..gone.end;
    [before, after].into_iter().filter(|part| !part.is_empty()).collect()
}

#[test]
fn a_disk_of_objects_is_a_disk() {
    for seed in 0..20 {
        let domain = Domain::new(seed);
        let host = domain.host();
        let service = host.take().unwrap();
        let mut random = Random::new(seed);
        let disk = data(&service);
        let mut compared = Compared { disk, bytes: Vec::new(), unknown: Vec::new() };
        compared.resize(&mut random);
        for _ in 0..150 {
            service.renew();
            match random.below(20) {
                0 => compared.resize(&mut random),
                1 | 2 => {
                    let range = compared.range(&mut random);
                    compared.disk.discard(range.start, range.end - range.start).unwrap();
                    compared.unknown.push(range);
                }
                3 => {
                    // Another process reads the same.
                    compared.disk.sync().unwrap();
                    assert_eq!(compared.disk.len().unwrap(), compared.bytes.len() as u64);
                }
                4..12 => compared.write(&mut random),
                _ => compared.read(&mut random),
            }
        }
        service.release().unwrap();
        let other = domain.host().take().unwrap();
        compared.disk = data(&other);
        assert_eq!(compared.disk.len().unwrap(), compared.bytes.len() as u64);
        (0..20).for_each(|_| compared.read(&mut random));
    }
}

#[test]
fn reads_beyond_the_end_fail_alone_and_writes_beyond_it_extend_the_disk() {
    let domain = Domain::new(1);
    let service = domain.host().take().unwrap();
    let disk = data(&service);
    disk.set_len(1000).unwrap();
    let (mut inside, mut across) = ([1; 10], [1; 10]);
    let mut reads = [DiskRead::new(990, &mut inside), DiskRead::new(991, &mut across)];
    disk.read_many(&mut reads);
    assert!(reads[0].outcome.is_ok());
    let error = reads[1].outcome.as_ref().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(inside, [0; 10]);
    disk.write_at(OBJECT + 5, b"beyond").unwrap();
    assert_eq!(disk.len().unwrap(), 2 * OBJECT);
}

#[test]
fn a_removed_object_reads_as_zeros_and_takes_no_space() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    let disk = data(&service);
    disk.set_len(2 * OBJECT).unwrap();
    disk.write_at(OBJECT, b"bytes").unwrap();
    disk.write_at(0, b"bytes").unwrap();
    assert_eq!(host.client.list("data.").unwrap().len(), 2);
    disk.discard(0, OBJECT).unwrap();
    assert_eq!(host.client.list("data.").unwrap(), ["data.00000001.1"]);
    let mut buffer = [1; 5];
    disk.read_at(0, &mut buffer).unwrap();
    assert_eq!(buffer, [0; 5]);
}

#[test]
fn a_full_store_refuses_a_write_and_the_disk_goes_on() {
    let domain = Domain::new(1);
    let service = domain.host().take().unwrap();
    let disk = data(&service);
    disk.set_len(OBJECT).unwrap();
    domain.world.set_capacity(1);
    let full = disk.write_at(0, &[1; 4096]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    domain.world.set_capacity(1 << 40);
    disk.write_at(0, &[1; 4096]).unwrap();
    disk.sync().unwrap();
}

#[test]
fn after_a_write_of_unknown_fate_nothing_is_written_and_the_next_host_fences() {
    let domain = Domain::new(1);
    let host = domain.host();
    let service = host.take().unwrap();
    let disk = data(&service);
    disk.set_len(OBJECT).unwrap();
    disk.write_at(0, b"old").unwrap();
    // This write arrives after its sender has given up.
    domain.world.set_faults(Faults { late_calls: 1000, ..Faults::NONE });
    assert_eq!(disk.write_at(0, b"new").unwrap_err().kind(), io::ErrorKind::TimedOut);
    domain.world.set_faults(Faults::NONE);
    for outcome in [
        disk.write_at(0, b"NEW"),
        disk.sync(),
        disk.discard(0, OBJECT),
        disk.set_len(1),
        disk.write_at(100, b"elsewhere"),
    ] {
        assert!(outcome.unwrap_err().to_string().contains("acknowledge"));
    }
    assert!(matches!(service.lease_state().check(), Err(Ended::Unknown { .. })));
    // Reading changes nothing, and is answered.
    let mut buffer = [0; 3];
    disk.read_at(0, &mut buffer).unwrap();
    let error = service.release().unwrap_err();
    assert_eq!(error.kind(), FailureKind::Displaced);
    assert!(matches!(host.take(), Err(MemberError::Ended(_))), "this process never serves again");
    domain.pass_lease();
    let next = domain.host().take().unwrap();
    let disk = data(&next);
    disk.read_at(0, &mut buffer).unwrap();
    assert!(&buffer == b"old" || &buffer == b"new", "{buffer:?}");
    assert!(host.client.write("data.00000001.0", 0, b"late").is_err(), "it is fenced");
}

/// A store of contents that is full for the first change of a list, and does not answer the others.
struct Silent {
    client: Client,
    is_silent: AtomicBool,
}

impl Objects for Silent {
    fn execute(&self, requests: &mut [Request<'_>]) {
        if !self.is_silent.load(Ordering::Relaxed) {
            return self.client.execute(requests);
        }
        for (number, request) in requests.iter_mut().enumerate() {
            let (action, object) = (request.operation.verb(), request.object.to_owned());
            request.outcome = Err(match number {
                0 => ObjectError::Full { object },
                _ => ObjectError::TimedOut { action, object },
            });
        }
    }

    fn list(&self, prefix: &str) -> gemelo_objects::Result<Vec<String>> {
        self.client.list(prefix)
    }
}

/// A change that is not answered may be any one of a list, also after one with another error. The
/// member is not handed over then: the next process has to fence this one.
#[test]
fn after_a_removal_of_unknown_fate_the_next_host_fences() {
    let removals: [fn(&Service) -> bool; 2] = [
        |service| data(service).discard(0, 2 * OBJECT).is_err(),
        |service| service.clear().is_err(),
    ];
    for fails in removals {
        let domain = Domain::new(1);
        let client = domain.world.client();
        let silent = Arc::new(Silent { client: client.clone(), is_silent: false.into() });
        let objects = Arc::clone(&silent) as Arc<dyn Objects>;
        let host = DomainClient::new(Arc::new(client.clone()), objects).unwrap();
        let host = Host { client, domain: Arc::new(host) };
        let service = host.take().unwrap();
        data(&service).write_at(OBJECT - 1, b"on two objects").unwrap();
        silent.is_silent.store(true, Ordering::Relaxed);
        assert!(fails(&service));
        let ended = service.lease_state().check();
        assert!(matches!(ended, Err(Ended::Unknown { .. })), "{ended:?}");
        assert!(service.release().is_err());
        let refused = domain.host().take().err().unwrap();
        assert!(matches!(refused, MemberError::Domain(DomainError::InUse { .. })));
    }
}

#[test]
fn after_the_removal_of_a_value_of_unknown_fate_the_member_is_not_handed_over() {
    let domain = Domain::new(1);
    let service = domain.host().take().unwrap();
    domain.world.set_faults(Faults { late_calls: 1000, ..Faults::NONE });
    assert!(service.finish_creation().is_err());
    domain.world.set_faults(Faults::NONE);
    assert!(matches!(service.lease_state().check(), Err(Ended::Unknown { .. })));
}

/// A write of metadata that was sent before the take-over arrives long after it.
#[test]
fn no_late_write_of_the_last_process_changes_metadata_that_were_not_read_yet() {
    for number in 0..12 {
        let domain = Domain::new(number);
        // The names of the objects, and with them their servers, differ.
        let setter = domain.host();
        (0..number).for_each(|other| {
            setter.domain.register(&format!("other {other}")).unwrap();
        });
        setter.domain.register("last").unwrap();
        let take = |host: &Host| {
            let clock: Arc<dyn Clock> = Arc::new(host.client.clock());
            Service::take(&host.domain, "last", &clock, LEASE).unwrap()
        };
        let host = domain.host();
        let service = take(&host);
        let metadata = service.disks().metadata;
        metadata.write_at(3 * OBJECT, b"old").unwrap();
        let timeout_ns = 100_000_000_000;
        domain.world.set_faults(Faults { late_calls: 1000, timeout_ns, ..Faults::NONE });
        assert!(metadata.write_at(3 * OBJECT, b"new").is_err());
        domain.world.set_faults(Faults::NONE);
        let next = take(&domain.host());
        domain.world.sleep_until_ns(domain.world.now_ns() + 2 * timeout_ns);
        let mut buffer = [0; 3];
        next.disks().metadata.read_at(3 * OBJECT, &mut buffer).unwrap();
        assert_eq!(&buffer, b"old", "with {number} other members");
    }
}

#[test]
fn reads_are_repeated() {
    let domain = Domain::new(1);
    let service = domain.host().take().unwrap();
    let disk = data(&service);
    disk.set_len(OBJECT).unwrap();
    disk.write_at(0, b"bytes").unwrap();
    domain.world.set_faults(Faults { lost_replies: 200, timeout_ns: 1_000_000, ..Faults::NONE });
    let mut buffer = [0; 5];
    // Three attempts fail together in one of 125 cases.
    let failed = (0..100).filter(|_| disk.read_at(0, &mut buffer).is_err()).count();
    assert!(failed < 10, "{failed} of 100");
    assert_eq!(&buffer, b"bytes");
}
