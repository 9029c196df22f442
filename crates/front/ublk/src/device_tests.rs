//! Tests of a device whose driver has no kernel.

use super::*;
use gemelo_device::{BlockDevice, DeviceError, Extent, Geometry, Request};
use std::sync::atomic::AtomicUsize;

/// A device of 64 KiB that has no data.
struct Nothing;

impl BlockDevice for Nothing {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: 1 << 16,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 1 << 20,
            read_only: false,
        }
    }

    fn execute(&self, _batch: &mut [Request<'_>]) {}

    fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(Vec::new())
    }
}

/// A driver whose queues do what the test says.
struct FalseDriver {
    bodies: Mutex<Vec<QueueBody>>,
    started: AtomicUsize,
    removed: AtomicUsize,
}

impl FalseDriver {
    fn new(bodies: Vec<QueueBody>) -> Arc<Self> {
        let (started, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { bodies: Mutex::new(bodies), started, removed })
    }
}

impl Driver for FalseDriver {
    fn look(&self, _number: u32) -> Option<DeviceInfo> {
        None
    }

    fn add(
        &self,
        number: u32,
        queues: u16,
        max_request_bytes: u32,
        owner_data: u64,
    ) -> Result<Option<DeviceInfo>, UblkError> {
        let (depth, state, process, features) = (64, State::Dead, 0, 0);
        Ok(Some(DeviceInfo {
            queues,
            depth,
            state,
            max_request_bytes,
            number,
            process,
            features,
            owner_data,
        }))
    }

    fn start(
        &self,
        _info: &DeviceInfo,
        _geometry: &Geometry,
        _write_through: bool,
    ) -> Result<(), UblkError> {
        self.started.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn begin_recovery(&self, _info: &DeviceInfo) -> Result<(), Errno> {
        Err(Errno::BUSY)
    }

    fn end_recovery(&self, _number: u32) -> Result<(), UblkError> {
        Ok(())
    }

    fn resize(&self, _number: u32, _size_bytes: u64) -> Result<bool, UblkError> {
        Ok(true)
    }

    fn stop(&self, _number: u32) -> Result<(), UblkError> {
        Ok(())
    }

    fn remove(&self, _number: u32) -> Result<(), UblkError> {
        self.removed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn queues(&self, _info: &DeviceInfo, _side: &Arc<Side>) -> Result<Vec<QueueBody>, UblkError> {
        Ok(std::mem::take(&mut self.bodies.lock().unwrap()))
    }
}

/// A queue that serves once all can, and ends at once.
fn good() -> QueueBody {
    Box::new(|ticket| if ticket.pass() { Ended::Removed } else { Ended::Stopped })
}

fn bad() -> QueueBody {
    Box::new(|_ticket| Ended::Failed(io::Error::other("no memory for it")))
}

/// Makes a disk with these queues.
fn add(driver: &Arc<FalseDriver>) -> Result<ServedDevice, UblkError> {
    let directory = tempfile::tempdir().unwrap();
    let host = Host {
        kind: DriverKind::Ublk,
        driver: Arc::clone(driver) as Arc<dyn Driver>,
        records: Records::new(directory.path().join("records")),
        kept: directory.path().join("kept"),
        write_through: false,
        guard: None,
    };
    let export = Export::new("a", Arc::new(Nothing));
    let record = Record::of(&export, "pool").unwrap();
    ServedDevice::add(&host, export, &record)
}

#[test]
fn a_disk_starts_when_all_its_queues_can_serve() {
    let driver = FalseDriver::new(vec![good(), good()]);
    add(&driver).unwrap().leave();
    assert_eq!(driver.started.load(Ordering::Relaxed), 1);
    assert_eq!(driver.removed.load(Ordering::Relaxed), 0);
}

#[test]
fn a_disk_without_one_of_its_queues_is_not_started_but_removed() {
    for bodies in [vec![good(), bad()], vec![bad(), good()], vec![bad()]] {
        let driver = FalseDriver::new(bodies);
        let Err(error) = add(&driver) else { panic!("it was started") };
        assert!(with_causes(&error).ends_with("no memory for it"), "{}", with_causes(&error));
        assert_eq!(driver.started.load(Ordering::Relaxed), 0);
        assert_eq!(driver.removed.load(Ordering::Relaxed), 1);
    }
}
