//! Tests of the driver against the devices of this crate.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../nbd/tests/doubles/memory.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest of the module")]
mod memory;
#[expect(dead_code, reason = "the other tests use the rest of the module")]
mod support;

use gemelo_base::{Classified, FailureKind};
use gemelo_device::{BlockDevice, DeviceError, Export, Extent, Geometry, Operation, Request};
use gemelo_vhost::{Driver, DriverQueue, DriverRequest, Finished};
use memory::{Fault, MemoryDevice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::{Served, wait_until};

const BLOCK: usize = 4096;

fn started(served: &Served, queues: usize, depth: usize) -> (Driver, Vec<DriverQueue>) {
    let driver = Driver::connect(&served.socket()).unwrap();
    let queues = (0..queues).map(|_| driver.start(depth, 64 << 10).unwrap()).collect();
    (driver, queues)
}

/// Executes one request. Returns whether the device did it.
fn run(queue: &mut DriverQueue, request: DriverRequest<'_>) -> bool {
    queue.submit(0, request).unwrap();
    queue.notify().unwrap();
    let mut finished = Vec::new();
    assert_eq!(queue.reap(Some(None), |one| finished.push(one)).unwrap(), 1);
    assert_eq!(finished[0].slot, 0);
    finished[0].is_done
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + seed * 7) as u8).collect()
}

#[test]
fn data_that_queues_write_is_read_back_and_discarded() {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let served = Served::new(device.clone());
    let (driver, mut queues) = started(&served, 3, 32);
    assert_eq!((driver.size_bytes(), driver.is_read_only()), (8 << 20, false));
    assert_eq!(driver.max_queues(), 16);
    for (number, queue) in queues.iter_mut().enumerate() {
        // More rounds than the index of the rings has numbers between two wraps.
        for round in 0..10 {
            let offset = |slot: usize| ((number * 32 + slot) * BLOCK) as u64;
            let mut left = 0;
            for slot in 0..32 {
                let data = pattern(number + slot + round, BLOCK);
                let write = DriverRequest::Write { offset: offset(slot), data: &data };
                queue.submit(slot, write).unwrap();
                left += 1;
            }
            queue.notify().unwrap();
            while left > 0 {
                let longest = Some(Some(Duration::from_secs(20)));
                left -= queue.reap(longest, |one| assert!(one.is_done)).unwrap();
            }
            for slot in 0..32 {
                let read = DriverRequest::Read { offset: offset(slot), bytes: BLOCK };
                queue.submit(slot, read).unwrap();
            }
            queue.notify().unwrap();
            let mut finished: Vec<Finished> = Vec::new();
            while finished.len() < 32 {
                queue.reap(Some(None), |one| finished.push(one)).unwrap();
            }
            for Finished { slot, is_done } in finished {
                let mut data = vec![0; BLOCK];
                queue.copy_data(slot, &mut data).unwrap();
                assert!(is_done && data == pattern(number + slot + round, BLOCK));
            }
        }
        let first = (number * 32 * BLOCK) as u64;
        assert!(run(queue, DriverRequest::Discard { offset: first, bytes: BLOCK as u64 }));
        let flushes = device.flushes.load(Ordering::Relaxed);
        assert!(run(queue, DriverRequest::Flush));
        assert_eq!(device.flushes.load(Ordering::Relaxed), flushes + 1);
        assert!(run(queue, DriverRequest::Read { offset: first, bytes: BLOCK }));
        let mut data = vec![1; BLOCK];
        queue.copy_data(0, &mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == 0));
    }
    assert_eq!(queues[0].reap(None, |_| panic!("nothing is in flight")).unwrap(), 0);
    let soon = Some(Some(Duration::from_millis(5)));
    assert_eq!(queues[0].reap(soon, |_| panic!("nothing is in flight")).unwrap(), 0);
}

#[test]
fn a_queue_that_was_dropped_starts_again() {
    let served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    let (driver, queues) = started(&served, 2, 4);
    let mut other = queues.into_iter().next_back().unwrap();
    let many: Vec<_> = (0..15).map(|_| driver.start(341, 4096).unwrap()).collect();
    assert!(driver.start(1, 4096).is_err(), "all 16 are in use");
    drop(many);
    assert!(driver.start(342, 512).is_err() && driver.start(300, 1 << 20).is_err());
    for _ in 0..3 {
        let mut queue = driver.start(4, 4096).unwrap();
        for _ in 0..5 {
            assert!(run(&mut queue, DriverRequest::Read { offset: 0, bytes: BLOCK }));
            assert!(run(&mut other, DriverRequest::Flush));
        }
    }
    assert!(served.monitor.warnings().is_empty(), "{:?}", served.monitor.warnings());
}

#[test]
fn failures_and_requests_that_have_no_place_are_told() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    device.fail(4096..8192, Fault::Io);
    let export = Export { read_only: true, ..Export::new("disk", device) };
    let served = Served::with_export(export);
    let (driver, mut queues) = started(&served, 1, 4);
    assert!(driver.is_read_only());
    let queue = &mut queues[0];
    assert!(run(queue, DriverRequest::Read { offset: 0, bytes: BLOCK }));
    assert!(!run(queue, DriverRequest::Read { offset: 4096, bytes: BLOCK }));
    assert!(!run(queue, DriverRequest::Write { offset: 0, data: &[0; 512] }));
    // A device that refuses writes has no discard, so there is nothing to do.
    assert!(run(queue, DriverRequest::Discard { offset: 0, bytes: 512 }));
    assert!(queue.submit(4, DriverRequest::Flush).is_err(), "there is no such slot");
    assert!(queue.submit(0, DriverRequest::Read { offset: 0, bytes: 1 << 20 }).is_err());
    assert!(queue.copy_data(0, &mut vec![0; 1 << 20]).is_err());
}

/// A device that takes its time for each batch.
struct Slow(MemoryDevice);

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        std::thread::sleep(Duration::from_millis(2));
        self.0.execute(batch);
    }

    fn extents(&self, offset: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DeviceError> {
        self.0.extents(offset, bytes, most)
    }
}

/// A queue with more requests than a batch takes is never empty, as long as each is made again.
#[test]
fn a_device_whose_guest_never_rests_is_closed() {
    let served = Served::new(Arc::new(Slow(MemoryDevice::new(1 << 20))));
    let (_driver, mut queues) = started(&served, 1, 341);
    let mut queue = queues.pop().unwrap();
    let (answered, answers) = channel();
    let read = DriverRequest::Read { offset: 0, bytes: 512 };
    let guest = std::thread::spawn(move || {
        let mut free: Vec<usize> = (0..341).collect();
        loop {
            free.drain(..).for_each(|slot| queue.submit(slot, read).unwrap());
            queue.notify().unwrap();
            let longest = Some(Some(Duration::from_secs(1)));
            match queue.reap(longest, |one| free.push(one.slot)) {
                Ok(1..) => answered.send(()).unwrap(),
                _ => return,
            }
        }
    });
    (0..20).for_each(|_| answers.recv().unwrap());
    served.table.remove("disk");
    let begun = Instant::now();
    served.front_end.disconnect("disk");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    guest.join().unwrap();
}

/// A device whose flushes wait for those of another one, but not for ever.
struct Together {
    device: MemoryDevice,
    flushing: Arc<AtomicU64>,
}

impl BlockDevice for Together {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        if batch.iter().any(|request| matches!(request.operation, Operation::Flush)) {
            self.flushing.fetch_add(1, Ordering::Relaxed);
            let end = Instant::now() + Duration::from_secs(10);
            while self.flushing.load(Ordering::Relaxed) < 2 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.device.execute(batch);
    }

    fn extents(&self, offset: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DeviceError> {
        self.device.extents(offset, bytes, most)
    }
}

/// A service manager that stops the server would end it before the last flushes of many machines.
#[test]
fn the_last_flushes_of_all_machines_run_side_by_side() {
    let flushing = Arc::new(AtomicU64::new(0));
    let device = || {
        let (device, flushing) = (MemoryDevice::new(1 << 20), Arc::clone(&flushing));
        Arc::new(Together { device, flushing })
    };
    let mut served = Served::new(device());
    served.table.insert(Export::new("other", device()));
    let other = served.directory.path().join("other.sock");
    wait_until("a socket appears", || other.exists());
    let mut drivers = Vec::new();
    for socket in [served.socket(), other] {
        let driver = Driver::connect(&socket).unwrap();
        let mut queue = driver.start(1, BLOCK).unwrap();
        assert!(run(&mut queue, DriverRequest::Write { offset: 0, data: &[7; BLOCK] }));
        drivers.push((driver, queue));
    }
    let begun = Instant::now();
    served.stop();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_device_that_is_not_there_or_goes_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let missing = Driver::connect(&directory.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), FailureKind::BadInput, "{missing}");
    let mut served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    let (driver, mut queues) = started(&served, 1, 4);
    wait_until("it is served", || served.front_end.connections(None) == 1);
    served.stop();
    queues[0].submit(0, DriverRequest::Flush).unwrap();
    queues[0].notify().unwrap();
    assert!(queues[0].reap(Some(None), |_| panic!("no answer")).is_err());
    drop(driver);
}
