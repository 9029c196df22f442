//! A device in a process that has no file left. The limit is that of the process, so this test is
//! alone in its program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../nbd/tests/doubles/memory.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest of the module")]
mod memory;
#[expect(dead_code, reason = "the other tests use the rest of the module")]
mod support;

use memory::MemoryDevice;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;
use support::{DATA, Segment, Served, Vm};

const READ: u32 = 0;

#[test]
fn a_virtual_machine_that_cannot_be_let_in_yet_waits() {
    let served = Served::new(Arc::new(MemoryDevice::new(1 << 20)));
    let early = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let limit = getrlimit(Resource::Nofile);
    // Those that are open stay.
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    connect(&early, &SocketAddrUnix::new(served.socket()).unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    setrlimit(Resource::Nofile, limit).unwrap();
    drop(early);
    let attempts = served.front_end.figures().accepted;
    assert!((1..=30).contains(&attempts), "{attempts} attempts");
    let data = Segment { address: DATA, bytes: 512, is_writable: true };
    let mut vm = Vm::connect(&served.socket(), 0, 0);
    assert_eq!(vm.execute(READ, 0, &[data]), 0);
}
