//! A device for which nothing may be answered any more: its connections end without a reply.

use crate::support::TestServer;
use crate::support::memory::MemoryDevice;
use crate::support::raw::{negotiated, read_simple_reply, request};
use gemelo_device::{BlockDevice, DeviceError, Export, Extent, Geometry, Request, Waiting};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{COMMAND_FLAG_FUA, Command, ErrorCode};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that loses its lease while it executes a request, which then fails.
struct Displaced {
    device: MemoryDevice,
    is_remote: bool,
    is_displaced: AtomicBool,
    may_answer: AtomicBool,
}

impl BlockDevice for Displaced {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn may_answer(&self) -> bool {
        self.may_answer.load(Ordering::Relaxed)
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        self.device.execute(batch);
        if self.is_displaced.load(Ordering::Relaxed) {
            self.may_answer.store(false, Ordering::Relaxed);
            for request in batch {
                request.outcome = Err(std::io::Error::other("the lease is over").into());
            }
        }
    }

    /// A remote device leaves all requests.
    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        if self.is_remote && waiting == Waiting::None {
            return (0..batch.len()).collect();
        }
        self.execute(batch);
        Vec::new()
    }

    fn waiters(&self) -> usize {
        if self.is_remote { 16 } else { 1 }
    }

    fn extents(&self, at: u64, length: u64, most: usize) -> Result<Vec<Extent>, DeviceError> {
        self.device.extents(at, length, most)
    }
}

#[test]
fn no_request_is_answered_and_the_connection_ends() {
    let long = 20 << 20;
    let requests = [
        (Command::READ, 0, 4096),
        (Command::READ, 0, long),
        (Command::FLUSH, 0, 0),
        (Command::TRIM, 0, 4096),
        (Command::TRIM, COMMAND_FLAG_FUA, 4096),
    ];
    for is_remote in [false, true] {
        for (command, flags, length) in requests {
            let device = Arc::new(Displaced {
                device: MemoryDevice::new(64 << 20),
                is_remote,
                is_displaced: AtomicBool::new(false),
                may_answer: AtomicBool::new(true),
            });
            let exports = vec![Export::new("disk", Arc::clone(&device) as _)];
            let server = TestServer::start(exports, ServerConfig::default(), &[]);
            let mut client = negotiated(&server);
            client.write_all(&request(Command::FLUSH, 0, 0, 0)).unwrap();
            assert_eq!(read_simple_reply(&mut client), ErrorCode::NONE);
            device.is_displaced.store(true, Ordering::Relaxed);
            client.write_all(&request(command, flags, 0, length)).unwrap();
            let mut answered = Vec::new();
            // The connection may be reset instead of closed.
            let _ = client.read_to_end(&mut answered);
            assert!(answered.is_empty(), "{command:?} of {length} bytes was answered");
        }
    }
}
