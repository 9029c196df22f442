//! Tests of devices as guests see them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../nbd/tests/doubles/memory.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest of the module")]
mod memory;
#[expect(dead_code, reason = "the other tests use the rest of the module")]
mod support;

use gemelo_base::{Classified, FailureKind, Silent};
use gemelo_device::{
    BlockDevice, Export, ExportTable, FrontEnd, Geometry, Memory, Operation, Request, SocketAccess,
};
use gemelo_vhost::VhostFrontEnd;
use memory::{Fault, MemoryDevice};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{DATA, INDIRECT, QUEUE_SIZE, Segment, Served, Vm, wait_until};

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
const FLUSH_FEATURE: u64 = 1 << 9;
const EVENT_INDEX: u64 = 1 << 29;

fn from_guest(address: u64, bytes: u32) -> Segment {
    Segment { address, bytes, is_writable: false }
}

fn to_guest(address: u64, bytes: u32) -> Segment {
    Segment { address, bytes, is_writable: true }
}

fn read(device: &MemoryDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    let operation = Operation::Read { offset, buffer: &mut buffer };
    device.execute(&mut [Request { operation, outcome: Ok(()) }]);
    buffer
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn scattered_data_is_written_and_read_on_each_queue_and_the_socket_has_its_mode() {
    let device = Arc::new(MemoryDevice::new(64 << 20));
    let served = Served::new(device.clone());
    let mode = std::fs::metadata(served.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for queue in [0, 1, 15] {
        let mut vm = Vm::connect(&served.socket(), queue, FLUSH_FEATURE | EVENT_INDEX);
        assert_eq!(vm.config()[..8], (64u64 << 11).to_le_bytes());
        let bytes = pattern(queue as u8, 8192);
        vm.put(DATA + 7, &bytes[..5000]);
        vm.put(DATA + 10_000, &bytes[5000..]);
        let data = [from_guest(DATA + 7, 5000), from_guest(DATA + 10_000, 3192)];
        assert_eq!(vm.execute(WRITE, 8 + queue as u64, &data), 0);
        assert!(vm.was_called());
        assert_eq!(read(&device, (8 + queue as u64) * 512, 8192), bytes);
        let data = [to_guest(DATA + 50_001, 100), to_guest(DATA + 70_000, 8092)];
        assert_eq!(vm.execute(READ, 8 + queue as u64, &data), 0);
        assert_eq!(vm.get(DATA + 50_001, 100), bytes[..100]);
        assert_eq!(vm.get(DATA + 70_000, 8092), bytes[100..]);
        drop(vm);
        wait_until("the client has left", || served.front_end.connections(Some("disk")) == 0);
    }
    assert_eq!(served.front_end.figures().accepted, 3);
    assert_eq!(served.front_end.figures().broken, 0, "{:?}", served.monitor.warnings());
}

#[test]
fn many_requests_are_one_batch_and_long_ones_go_in_pieces() {
    let device = Arc::new(MemoryDevice::new(64 << 20));
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, FLUSH_FEATURE);
    let before = device.batches.load(Ordering::Relaxed);
    for at in 0..32 {
        vm.put(DATA + at * 4096, &pattern(at as u8, 4096));
        vm.request(WRITE, at * 8, &[from_guest(DATA + at * 4096, 4096)], at);
    }
    vm.finish();
    // The server may look into the queue while it is being filled.
    assert!(device.batches.load(Ordering::Relaxed) <= before + 8);
    for at in 0..32 {
        assert_eq!(read(&device, at * 4096, 4096), pattern(at as u8, 4096));
    }
    let long = pattern(3, 5 << 20);
    vm.put(DATA, &long);
    assert_eq!(vm.execute(WRITE, 1, &[from_guest(DATA, 5 << 20)]), 0);
    assert_eq!(read(&device, 512, 5 << 20), long);
    vm.put(DATA, &vec![0; 5 << 20]);
    assert_eq!(vm.execute(READ, 1, &[to_guest(DATA, 5 << 20)]), 0);
    assert_eq!(vm.get(DATA, 5 << 20), long);
}

#[test]
fn indirect_descriptors_discards_zeroes_and_identity() {
    let device = Arc::new(MemoryDevice::new(64 << 20));
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, 1 << 28);
    vm.put(DATA, &[7; 8192]);
    let (header, status) = vm.frame(WRITE, 0, 0);
    let table = DATA + 0x10_0000;
    vm.put_descriptor(table, header, 1, 1);
    vm.put_descriptor(table + 16, from_guest(DATA, 8192), 1, 2);
    vm.put_descriptor(table + 32, status, 0, 0);
    vm.put_descriptor(support::DESCRIPTORS, from_guest(table, 48), INDIRECT, 0);
    vm.offer_head(0);
    vm.finish();
    assert_eq!(vm.get(status.address, 1), [0]);
    assert_eq!(read(&device, 0, 8192), [7; 8192]);

    let range = |sector: u64, sectors: u32, flags: u32| {
        let mut bytes = sector.to_le_bytes().to_vec();
        bytes.extend(sectors.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes
    };
    vm.put(DATA, &[range(0, 2, 0), range(4, 2, 1)].concat());
    assert_eq!(vm.execute(WRITE_ZEROES, 0, &[from_guest(DATA, 32)]), 0);
    let expected = [[0; 1024], [7; 1024], [0; 1024], [7; 1024]].concat();
    assert_eq!(read(&device, 0, 4096), expected);
    vm.put(DATA, &range(8, 8, 0));
    assert_eq!(vm.execute(DISCARD, 0, &[from_guest(DATA, 16)]), 0);
    vm.put(DATA, &range(8, 8, 2));
    assert_eq!(vm.execute(DISCARD, 0, &[from_guest(DATA, 16)]), 2, "an unknown flag");
    vm.put(DATA, &range(u64::MAX / 512, 8, 0));
    assert_eq!(vm.execute(DISCARD, 0, &[from_guest(DATA, 16)]), 1, "beyond the end");
    assert_eq!(vm.execute(GET_ID, 0, &[to_guest(DATA, 20)]), 0);
    assert_eq!(vm.get(DATA, 5), b"disk\0");
    assert_eq!(vm.execute(99, 0, &[]), 2);
}

#[test]
fn changes_are_durable_at_once_for_a_driver_that_cannot_flush_and_flushed_at_the_end_for_others() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(vm.execute(WRITE, 0, &[from_guest(DATA, 512)]), 0);
    assert_eq!(device.immediate.load(Ordering::Relaxed), 1);
    drop(vm);
    wait_until("the client has left", || served.front_end.connections(None) == 0);

    let flushes = device.flushes.load(Ordering::Relaxed);
    let mut vm = Vm::connect(&served.socket(), 0, FLUSH_FEATURE);
    assert_eq!(vm.execute(WRITE, 0, &[from_guest(DATA, 512)]), 0);
    assert_eq!(device.immediate.load(Ordering::Relaxed), 1);
    assert_eq!(vm.execute(FLUSH, 0, &[]), 0);
    assert_eq!(device.flushes.load(Ordering::Relaxed), flushes + 1);
    drop(vm);
    wait_until("a last flush", || device.flushes.load(Ordering::Relaxed) > flushes + 1);
}

#[test]
fn a_read_only_export_refuses_changes_and_failures_are_those_of_their_requests() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    device.fail(4096..8192, Fault::Damaged);
    let export = Export { read_only: true, ..Export::new("disk", device.clone()) };
    let served = Served::with_export(export);
    let mut vm = Vm::connect(&served.socket(), 0, 1 << 5);
    assert_eq!(vm.execute(WRITE, 0, &[from_guest(DATA, 512)]), 1);
    assert_eq!(vm.execute(READ, 0, &[to_guest(DATA, 4096)]), 0);
    assert_eq!(vm.execute(READ, 8, &[to_guest(DATA, 4096)]), 1);
    assert_eq!(vm.execute(READ, 2047, &[to_guest(DATA, 1024)]), 1, "beyond the end");
    assert_eq!(vm.execute(READ, u64::MAX, &[to_guest(DATA, 512)]), 1);
    assert_eq!(vm.execute(READ, 0, &[to_guest(DATA, 511)]), 1, "a part of a sector");
    assert_eq!(vm.execute(READ, 0, &[to_guest(DATA, 512)]), 0);
}

#[test]
fn a_machine_that_lost_the_server_sends_its_requests_again_and_goes_on() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let first = Served::new(device.clone());
    let mut vm = Vm::connect(&first.socket(), 0, FLUSH_FEATURE);
    assert_eq!(vm.execute(WRITE, 0, &[from_guest(DATA, 512)]), 0);
    // The queue stops, and then the guest sends three requests that nobody takes.
    assert_eq!(vm.stop_queue(), 1);
    for at in 0..3 {
        vm.put(DATA + at * 512, &[at as u8 + 1; 512]);
        vm.request(WRITE, 8 + at, &[from_guest(DATA + at * 512, 512)], at);
    }
    let used = vm.used_index();
    let memory = vm.into_memory();
    drop(first);

    let second = Served::new(device.clone());
    let mut vm = Vm::with_memory(&second.socket(), 0, FLUSH_FEATURE, memory);
    assert_eq!(vm.available, used + 3);
    vm.finish();
    assert_eq!(read(&device, 8 * 512, 1536), [[1; 512], [2; 512], [3; 512]].concat());
}

#[test]
fn sockets_follow_the_exports_and_a_second_machine_waits() {
    let device = || Arc::new(MemoryDevice::new(1 << 20));
    let mut served = Served::new(device());
    let other = served.directory.path().join("other.sock");
    served.table.insert(Export::new("other", device()));
    wait_until("a socket appears", || other.exists());
    let mut vm = Vm::connect(&other, 0, 0);
    assert_eq!(vm.execute(READ, 0, &[to_guest(DATA, 512)]), 0);
    assert_eq!(served.front_end.connections(Some("other")), 1);
    let waiting = std::thread::spawn({
        let other = other.clone();
        move || Vm::connect(&other, 0, 0).execute(READ, 0, &[to_guest(DATA, 512)])
    });
    drop(vm);
    assert_eq!(waiting.join().unwrap(), 0);

    let mut vm = Vm::connect(&other, 0, 0);
    wait_until("it is admitted", || served.front_end.connections(Some("other")) == 1);
    served.table.remove("other");
    served.front_end.disconnect("other");
    assert!(vm.is_cut_off());
    wait_until("the socket goes", || !other.exists());
    served.stop();
    assert!(!served.socket().exists(), "no socket is left behind");
}

#[test]
fn the_index_of_a_queue_wraps() {
    let served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    let mut vm = Vm::connect(&served.socket(), 0, EVENT_INDEX);
    for _ in 0..700 {
        for number in 0..u64::from(QUEUE_SIZE / 4) {
            vm.request(READ, 0, &[to_guest(DATA, 512)], number);
        }
        vm.finish();
    }
    assert!(served.monitor.warnings().is_empty());
}

#[test]
fn a_larger_device_shows_its_size() {
    let device = Arc::new(MemoryDevice::with_geometry(Geometry {
        size_bytes: 2 << 20,
        minimum_block_bytes: 1,
        preferred_block_bytes: 4096,
        maximum_request_bytes: 1 << 20,
        read_only: false,
    }));
    device.resize(1 << 20);
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(vm.execute(READ, 2048, &[to_guest(DATA, 512)]), 1);
    device.resize(2 << 20);
    assert_eq!(vm.config()[..8], 4096u64.to_le_bytes());
    assert_eq!(vm.execute(READ, 2048, &[to_guest(DATA, 512)]), 0);
    assert_eq!(vm.execute(READ, 0, &[to_guest(DATA, 2 << 20)]), 1, "longer than is allowed");
}

#[test]
fn directories_and_sockets_that_cannot_be_used_are_refused() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let served = Served::new(device.clone());
    let front_end = |directory: std::path::PathBuf| {
        Box::new(VhostFrontEnd {
            directory,
            socket_access: SocketAccess::default(),
            memory: Memory::default(),
            write_through: true,
            log_connections: false,
        })
    };
    let missing = front_end(served.directory.path().join("missing")).check().unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
    let file = served.directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let refused = front_end(file).check().unwrap_err();
    assert!(refused.to_string().contains("not a directory"), "{refused}");

    let listen = || {
        let table = Arc::new(ExportTable::new());
        table.insert(Export::new("disk", device.clone()));
        front_end(served.directory.path().to_owned()).listen(table, Arc::new(Silent))
    };
    let in_use = listen().err().unwrap();
    assert_eq!(in_use.kind(), FailureKind::InUse, "{in_use}");
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(vm.execute(READ, 0, &[to_guest(DATA, 512)]), 0, "the socket is as before");
}

#[test]
fn all_changes_are_durable_at_once_if_that_is_wanted() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let served = Served::with(Export::new("disk", device.clone()), true);
    let mut vm = Vm::connect(&served.socket(), 0, FLUSH_FEATURE);
    assert_eq!(vm.execute(WRITE, 0, &[from_guest(DATA, 512)]), 0);
    assert_eq!(device.immediate.load(Ordering::Relaxed), 1);
}
