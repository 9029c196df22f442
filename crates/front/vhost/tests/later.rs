//! Tests of requests that complete later: with a region for requests in flight the answers come in
//! any order, and a virtual machine that lost its server loses no request.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../nbd/tests/doubles/gated.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest of the module")]
mod gated;
#[path = "../../nbd/tests/doubles/memory.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest of the module")]
mod memory;
#[expect(dead_code, reason = "the other tests use the rest of the module")]
mod support;

use gated::Gated;
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use std::io::Read;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use support::{DATA, Segment, Served, Vm, wait_until};
use vhost::vhost_user::VhostUserFrontend;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const FLUSH_FEATURE: u64 = 1 << 9;
const SIZE_BYTES: u64 = 8 << 20;
/// Time in which something happens that must not happen.
const TIME_TO_FAIL: Duration = Duration::from_millis(100);

/// Makes a device whose block `n` has bytes `n`.
fn device(device: Gated) -> Arc<Gated> {
    for block in 0..64u64 {
        let data = [block as u8; 4096];
        let operation =
            Operation::Write { offset: block * 4096, data: &data, durability: Durability::Flushed };
        device.memory.execute(&mut [Request { operation, outcome: Ok(()) }]);
    }
    Arc::new(device)
}

fn blocks(blocks: Range<u64>) -> Range<u64> {
    blocks.start * 4096..blocks.end * 4096
}

/// Sends a read of a block.
fn read(vm: &mut Vm, block: u64) {
    let data = Segment { address: DATA + block * 4096, bytes: 4096, is_writable: true };
    vm.request(READ, block * 8, &[data], block);
}

fn has_block(vm: &Vm, block: u64) -> bool {
    vm.get(DATA + block * 4096, 4096) == [block as u8; 4096]
}

fn write(vm: &mut Vm, block: u64, number: u64, byte: u8) {
    let address = DATA + number * 4096;
    vm.put(address, &[byte; 4096]);
    vm.request(WRITE, block * 8, &[Segment { address, bytes: 4096, is_writable: false }], number);
}

fn answered(vm: &Vm, answers: u16) {
    wait_until("requests are answered", || vm.used_index() == answers);
}

#[test]
fn data_in_memory_does_not_wait_for_reads_of_the_medium() {
    let device = device(Gated::over_medium(SIZE_BYTES));
    let served = Served::new(device.clone());
    let mut vm = Vm::connect_tracked(&served.socket(), 0, FLUSH_FEATURE);
    device.hold_reads(blocks(2..6));
    (0..8).for_each(|block| read(&mut vm, block));
    vm.kick.write(1).unwrap();
    answered(&vm, 4);
    assert!([0, 1, 6, 7].into_iter().all(|block| has_block(&vm, block)));
    // Later requests do not wait either, unless they change what is read.
    write(&mut vm, 10, 20, 0xaa);
    vm.request(FLUSH, 0, &[], 21);
    vm.kick.write(1).unwrap();
    answered(&vm, 6);
    write(&mut vm, 3, 22, 0xbb);
    vm.kick.write(1).unwrap();
    std::thread::sleep(TIME_TO_FAIL);
    assert_eq!(vm.used_index(), 6);
    device.open();
    answered(&vm, 11);
    assert!((0..8).all(|block| has_block(&vm, block)), "the write came after the read");
    read(&mut vm, 3);
    vm.finish();
    assert_eq!(vm.get(DATA + 3 * 4096, 4096), [0xbb; 4096]);
}

#[test]
fn all_that_waits_for_other_machines_waits_together() {
    let device = device(Gated::new(SIZE_BYTES, true));
    let served = Served::with(gemelo_device::Export::new("disk", device.clone()), false);
    let mut vm = Vm::connect_tracked(&served.socket(), 3, FLUSH_FEATURE);
    device.hold_reads(blocks(0..64));
    device.hold_flushes();
    (0..16).for_each(|block| read(&mut vm, block));
    vm.request(FLUSH, 0, &[], 30);
    vm.kick.write(1).unwrap();
    assert!(device.has_reads_waiting(16) && device.has_flushes_waiting(1));
    write(&mut vm, 40, 31, 1);
    vm.kick.write(1).unwrap();
    answered(&vm, 1);
    device.open();
    answered(&vm, 18);
    assert!((0..16).all(|block| has_block(&vm, block)));
    // A driver that cannot flush has durable writes, which keep their data.
    drop(vm);
    wait_until("the client has left", || served.front_end.connections(None) == 0);
    let mut vm = Vm::connect_tracked(&served.socket(), 0, 0);
    device.hold_flushes();
    (0..3).for_each(|at| write(&mut vm, at, at, 0xc0 + at as u8));
    vm.kick.write(1).unwrap();
    assert!(device.has_flushes_waiting(3));
    device.open();
    vm.finish();
    (0..3).for_each(|block| read(&mut vm, block));
    vm.finish();
    assert!((0..3).all(|at| vm.get(DATA + at * 4096, 4096) == [0xc0 + at as u8; 4096]));
}

#[test]
fn without_a_region_the_answers_keep_their_order() {
    let device = device(Gated::over_medium(SIZE_BYTES));
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, FLUSH_FEATURE);
    device.hold_reads(blocks(0..1));
    (0..8).for_each(|block| read(&mut vm, block));
    vm.kick.write(1).unwrap();
    assert!(device.has_reads_waiting(1));
    std::thread::sleep(TIME_TO_FAIL);
    assert_eq!(vm.used_index(), 0);
    device.open();
    answered(&vm, 8);
    assert!((0..8).all(|block| has_block(&vm, block)));
}

#[test]
fn a_server_that_was_lost_leaves_requests_without_an_answer_to_the_next() {
    for held in [4..5, 0..8, 1..3] {
        let first_device = device(Gated::over_medium(SIZE_BYTES));
        let first = Served::new(first_device.clone());
        let mut vm = Vm::connect_tracked(&first.socket(), 0, FLUSH_FEATURE);
        // The ring has wrapped before.
        for _ in 0..5 {
            (0..60).for_each(|block| read(&mut vm, block % 8));
            vm.finish();
        }
        let before = vm.used_index();
        (0..8).for_each(|block| vm.put(DATA + block * 4096, &[0xee; 4096]));
        first_device.hold_reads(blocks(held.clone()));
        (0..8).for_each(|block| read(&mut vm, block));
        vm.kick.write(1).unwrap();
        let lost = (held.end - held.start) as u16;
        wait_until("they are left", || first_device.reads_left() == usize::from(lost));
        answered(&vm, before + 8 - lost);
        assert!((0..8).all(|block| has_block(&vm, block) != held.contains(&block)));
        // Two more that nobody takes: the first server is busy with a change that has to wait.
        write(&mut vm, held.start, 20, 0xdd);
        write(&mut vm, 40, 21, 0xdd);
        vm.kick.write(1).unwrap();
        std::thread::sleep(TIME_TO_FAIL);

        let next_device = device(Gated::over_medium(SIZE_BYTES));
        let next = Served::new(next_device.clone());
        let mut again = vm.connect_again(&next.socket(), FLUSH_FEATURE);
        answered(&again, before + 10);
        assert!((0..8).all(|block| has_block(&again, block)), "{held:?}");
        assert_eq!(again.available, before + 10);
        again.put(DATA, &[0; 4096]);
        read(&mut again, 40);
        again.finish();
        assert!(again.get(DATA + 40 * 4096, 4096) == [0xdd; 4096], "each is executed");
        assert!(next.monitor.warnings().is_empty(), "{:?}", next.monitor.warnings());
        drop((again, next));
        first_device.open();
    }
}

#[test]
fn a_virtual_machine_learns_that_its_device_has_another_size() {
    let device = Arc::new(memory::MemoryDevice::new(2 << 20));
    device.resize(1 << 20);
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, FLUSH_FEATURE);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    vm.frontend.set_backend_request_fd(&theirs).unwrap();
    assert_eq!(vm.config()[..8], (1u64 << 11).to_le_bytes());
    for sectors in [1u64 << 12, 1 << 11] {
        device.resize(sectors * 512);
        let mut notice = [0; 12];
        ours.read_exact(&mut notice).unwrap();
        assert_eq!(notice, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(vm.config()[..8], sectors.to_le_bytes());
    }
    // Nothing is told twice.
    ours.set_read_timeout(Some(3 * TIME_TO_FAIL)).unwrap();
    assert!(ours.read(&mut [0; 12]).is_err());
}
