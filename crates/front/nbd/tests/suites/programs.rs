//! What `nbdinfo` tells of this server. The tests of the program have more programs that people use
//! with NBD, over volumes.

use crate::support::memory::MemoryDevice;
use crate::support::{TestServer, run, tool};
use gemelo_device::{BlockDevice, Export, Operation, Request};
use gemelo_nbd::server::ServerConfig;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

#[test]
fn nbdinfo_tells_all_fields() {
    let Some(mut nbdinfo) = tool("nbdinfo") else { return };
    let mut export = Export::new("disk", Arc::new(MemoryDevice::new(8 * MIB)));
    export.description = "two of a kind".to_owned();
    let server = TestServer::start(vec![export], ServerConfig::default(), &[]);
    let told = run(nbdinfo.arg(server.uri()));
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export=\"disk\"",
        "description: two of a kind",
        "export-size: 8388608",
        "base:allocation",
        "is_rotational: false",
        "is_read_only: false",
        "can_block_status_payload: false",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 1",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        // Older versions of the program omit fields that they do not know.
        let field = line.split(':').next().unwrap();
        assert!(told.contains(line) || !told.contains(field), "no '{line}' in\n{told}");
    }
}

#[test]
fn nbdinfo_lists_exports_and_maps_holes() {
    let Some(mut nbdinfo) = tool("nbdinfo") else { return };
    let device = Arc::new(MemoryDevice::new(MIB));
    device.execute(&mut [Request {
        operation: Operation::Write {
            offset: 65536,
            data: &[7; 4096],
            durability: Default::default(),
        },
        outcome: Ok(()),
    }]);
    let other = Export::new("other", Arc::new(MemoryDevice::new(MIB)));
    let server =
        TestServer::start(vec![Export::new("disk", device), other], ServerConfig::default(), &[]);
    let map = run(nbdinfo.args(["--map", &server.uri()]));
    let rows: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [
            vec!["0", "65536", "3", "hole,zero"],
            vec!["65536", "4096", "0", "data"],
            vec!["69632", "978944", "3", "hole,zero"],
        ]
    );
    let listed = run(tool("nbdinfo").unwrap().args(["--list", &server.uri_of("").to_string()]));
    assert!(listed.contains("export=\"disk\"") && listed.contains("export=\"other\""), "{listed}");
}
