//! Guests and virtual machines that break the protocol: their device stops, and nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../nbd/tests/doubles/memory.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest of the module")]
mod memory;
#[expect(dead_code, reason = "the other tests use the rest of the module")]
mod support;

use gemelo_device::Export;
use memory::{Fault, MemoryDevice};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{
    AVAILABLE, DATA, DESCRIPTORS, INDIRECT, MEMORY_BYTES, Segment, Served, Vm, wait_until,
};
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserInflight;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vm_memory::{Bytes, GuestAddress};

const READ: u32 = 0;
const WRITE: u32 = 1;

fn segment(address: u64, bytes: u32, is_writable: bool) -> Segment {
    Segment { address, bytes, is_writable }
}

/// Has a guest lie, and checks that it alone is cut off: the guest of another device goes on, and
/// the device serves the next virtual machine.
fn attack(name: &str, warning: &str, lie: impl FnOnce(&mut Vm)) {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let served = Served::new(device.clone());
    served.table.insert(Export::new("other", Arc::new(MemoryDevice::new(1 << 20))));
    let other = served.directory.path().join("other.sock");
    wait_until("a socket appears", || other.exists());
    let mut bystander = Vm::connect(&other, 0, 0);
    let mut liar = Vm::connect(&served.socket(), 0, 1 << 28);
    assert_eq!(liar.execute(READ, 0, &[segment(DATA, 512, true)]), 0, "{name}");
    lie(&mut liar);
    liar.kick.write(1).unwrap();
    wait_until(name, || served.front_end.figures().broken == 1);
    assert!(liar.is_cut_off(), "{name}");
    let warnings = served.monitor.warnings();
    assert!(warnings.iter().any(|told| told.contains(warning)), "{name}: {warnings:?}");
    assert_eq!(bystander.execute(READ, 0, &[segment(DATA, 512, true)]), 0, "{name}");
    drop(liar);
    let mut next = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(next.execute(WRITE, 0, &[segment(DATA, 512, false)]), 0, "{name}");
}

#[test]
fn the_last_flush_of_a_device_that_is_stopped_is_not_forgotten() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let served = Served::new(device.clone());
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(vm.execute(WRITE, 0, &[segment(DATA, 512, false)]), 0);
    device.fails_flushes.store(true, Ordering::Relaxed);
    vm.request(READ, 0, &[segment(MEMORY_BYTES, 512, true)], 0);
    vm.kick.write(1).unwrap();
    wait_until("its connection ends", || served.front_end.figures().broken == 1);
    let warnings = served.monitor.warnings();
    assert!(warnings.iter().any(|told| told.contains("data is lost")), "{warnings:?}");
}

#[test]
fn places_outside_of_memory_stop_the_device() {
    for (name, data) in [
        ("behind the end", segment(MEMORY_BYTES, 512, true)),
        ("across the end", segment(MEMORY_BYTES - 256, 512, true)),
        ("at the end of all", segment(u64::MAX - 100, 512, true)),
        ("too long", segment(DATA, u32::MAX, true)),
    ] {
        attack(name, "a request of the guest has", |vm| {
            vm.request(READ, 0, &[data], 0);
        });
    }
}

#[test]
fn requests_without_header_or_status_stop_the_device() {
    attack("no header", "no header", |vm| {
        vm.offer(&[segment(DATA, 15, false), segment(DATA + 512, 1, true)]);
    });
    attack("no status", "no place for its status", |vm| {
        let (header, _) = vm.frame(READ, 0, 0);
        vm.offer(&[header]);
    });
    attack("a chain without an end", "no ", |vm| {
        let place = |number: u64| DESCRIPTORS + 16 * number;
        vm.put_descriptor(place(0), segment(DATA, 8, false), 1, 1);
        vm.put_descriptor(place(1), segment(DATA, 0, false), 1, 0);
        vm.put_descriptor(place(1), segment(DATA, 1, false), 1, 1);
        vm.offer_head(0);
    });
    attack("a descriptor that is not there", "no ", |vm| {
        vm.put_descriptor(DESCRIPTORS, segment(DATA, 16, false), 1, 60_000);
        vm.offer_head(0);
    });
    attack("an indirect table of indirect tables", "no valid table", |vm| {
        let table = DATA + 0x10_0000;
        vm.put_descriptor(table, segment(table, 16, false), INDIRECT, 0);
        vm.put_descriptor(DESCRIPTORS, segment(table, 16, false), INDIRECT, 0);
        vm.offer_head(0);
    });
}

#[test]
fn indices_that_jump_stop_the_device() {
    attack("more than the queue has", "queue of the guest", |vm| {
        let index = vm.available.wrapping_add(5000);
        vm.memory.write_obj(index, GuestAddress(AVAILABLE + 2)).unwrap();
    });
    attack("a head that is no descriptor", "no descriptor", |vm| vm.offer_head(50_000));
}

#[test]
fn regions_for_requests_in_flight_that_do_not_fit_end_the_connection() {
    let served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    let lies =
        [(64, 16, 256), (4096, 16, 256), (1 << 20, 16, 256), (1 << 20, 17, 8), (1 << 20, 1, 2000)];
    for (number, (bytes, queues, size)) in (1..).zip(lies) {
        let mut vm = Vm::connect(&served.socket(), 0, 0);
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let lie = VhostUserInflight::new(bytes, 0, queues, size);
        // The message itself may be refused, or the answer to the next one does not come.
        let _ = vm.frontend.set_inflight_fd(&lie, std::os::fd::AsRawFd::as_raw_fd(&file));
        assert!(vm.is_cut_off(), "lie {number}");
        drop(vm);
        wait_until("it is cut off", || served.front_end.figures().accepted >= number);
    }
    let mut tracked = Vm::connect_tracked(&served.socket(), 0, 0);
    assert_eq!(tracked.execute(READ, 0, &[segment(DATA, 512, true)]), 0);
}

#[test]
fn memory_beyond_the_end_of_its_file_ends_the_connection() {
    let served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let lie = VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: 2 << 20,
        userspace_addr: 0,
        mmap_offset: 0,
        mmap_handle: std::os::fd::AsRawFd::as_raw_fd(&file),
    };
    let _ = vm.frontend.set_mem_table(&[lie]);
    assert!(vm.is_cut_off());
    let mut next = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(next.execute(READ, 0, &[segment(DATA, 512, true)]), 0);
}

#[test]
fn a_device_that_panics_stops_for_its_guest_alone() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let served = Served::new(device.clone());
    device.fail(0..512, Fault::Panic);
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    vm.request(READ, 0, &[segment(DATA, 512, true)], 0);
    vm.kick.write(1).unwrap();
    wait_until("it is stopped", || served.front_end.figures().broken == 1);
    assert!(vm.is_cut_off());
    let mut next = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(next.execute(READ, 8, &[segment(DATA, 512, true)]), 0);
}

#[test]
fn nonsense_in_place_of_messages_ends_the_connection() {
    let served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    for _ in 0..50 {
        let mut stream = UnixStream::connect(served.socket()).unwrap();
        stream.write_all(&[0x5a; 64]).unwrap();
    }
    wait_until("all are cut off", || served.front_end.figures().broken == 50);
    assert!(served.monitor.warnings().len() <= 20, "reports are bounded");
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(vm.execute(READ, 0, &[segment(DATA, 512, true)]), 0);
}
