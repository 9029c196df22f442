//! A panic in the thread of a connection: that connection ends without an acknowledgement, it is
//! logged and counted, and all others go on.

use crate::support::memory::{Fault, MemoryDevice};
use crate::support::{PATIENCE, TestServer, eventually};
use gemelo_nbd::client::{ReplyWait, Submission};
use std::sync::Arc;

const BAD: u64 = 1 << 20;

#[test]
fn a_panic_ends_its_connection_without_an_answer_and_leaves_the_others() {
    let device = Arc::new(MemoryDevice::new(4 << 20));
    device.fail(BAD..BAD + 4096, Fault::Panic);
    let server = TestServer::of(Arc::clone(&device) as _);
    let mut other = server.client(4);
    let data = vec![7; 4096];
    for long in [false, true] {
        // Long writes are executed by a thread beside that of the connection.
        let data = if long { vec![7; 256 << 10] } else { data.clone() };
        let mut client = server.client(4);
        let write = |offset| Submission::Write { offset, data: &data, durable: true };
        client.submit(0, write(BAD)).unwrap();
        // The connection may have ended by now.
        let _ = client.submit(1, write(0));
        let mut answered = Vec::new();
        let wait = ReplyWait::AtMost(PATIENCE);
        while client.reap(wait, |done| answered.push((done.handle, done.error))).is_ok() {}
        let is_bad =
            |(handle, error): &(u64, gemelo_nbd::wire::ErrorCode)| *handle == 0 && error.is_none();
        assert!(!answered.iter().any(is_bad), "{answered:?}");
        let write = Submission::Write { offset: 8192, data: &[3; 4096], durable: true };
        assert!(other.run(write, |done| done.error.is_none()).unwrap(), "others go on");
    }
    eventually("their places are free", || server.server.connections(None) == 1);
    assert_eq!(server.server.counts().broken, 2);
    let warnings = server.heard.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("panicked")), "{warnings:?}");
    let mut again = server.client(1);
    assert!(again.run(Submission::Flush, |done| done.error.is_none()).unwrap());
}
