//! Tests of this server with programs that people use with NBD.

use crate::support::memory::MemoryDevice;
use crate::support::{TestServer, bytes, run, tool};
use gemelo_device::{BlockDevice, Export, Operation, Request};
use gemelo_nbd::server::ServerConfig;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn content(device: &MemoryDevice, length: u64) -> Vec<u8> {
    let mut all = vec![0; length as usize];
    device.execute(&mut [Request {
        operation: Operation::Read { offset: 0, buffer: &mut all },
        outcome: Ok(()),
    }]);
    all
}

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

#[test]
fn nbdcopy_copies_both_ways_over_several_connections() {
    let Some(mut nbdcopy) = tool("nbdcopy") else { return };
    let device = Arc::new(MemoryDevice::new(48 * MIB));
    let server = TestServer::of(Arc::clone(&device) as _);
    let (from, to) = (server.directory.path().join("from"), server.directory.path().join("to"));
    let mut data = bytes(1, 48 * MIB as usize);
    data[MIB as usize..9 * MIB as usize].fill(0);
    std::fs::write(&from, &data).unwrap();
    run(nbdcopy
        .args(["--connections=4", "--threads=4", "--requests=32", "--flush"])
        .arg(&from)
        .arg(server.uri()));
    assert!(content(&device, 48 * MIB) == data);
    assert!(server.server.counts().accepted >= 4);
    run(tool("nbdcopy")
        .unwrap()
        .args(["--connections=4", "--threads=4"])
        .arg(server.uri())
        .arg(&to));
    assert!(std::fs::read(&to).unwrap() == data);
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if tool("qemu-img").is_none() {
        return;
    }
    let qemu_img = || tool("qemu-img").unwrap();
    let device = Arc::new(MemoryDevice::new(16 * MIB));
    let server = TestServer::of(Arc::clone(&device) as _);
    let raw = server.directory.path().join("raw");
    let qcow = server.directory.path().join("qcow2");
    let mut data = bytes(2, 16 * MIB as usize);
    data[3 * MIB as usize..11 * MIB as usize].fill(0);
    std::fs::write(&raw, &data).unwrap();

    run(qemu_img().args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&raw).arg(server.uri()));
    assert!(content(&device, 16 * MIB) == data);
    run(qemu_img().args(["convert", "-f", "raw", "-O", "qcow2"]).arg(server.uri()).arg(&qcow));
    run(qemu_img().args(["compare", "-f", "raw", "-F", "qcow2"]).arg(server.uri()).arg(&qcow));
    let map = run(qemu_img().args(["map", "--output=json", "-f", "raw"]).arg(server.uri()));
    assert!(map.contains("\"zero\": true, \"data\": false"), "{map}");
    let info = run(qemu_img().arg("info").arg(server.uri()));
    assert!(info.contains("16 MiB (16777216 bytes)"), "{info}");
}

#[test]
fn qemu_io_writes_and_verifies_patterns() {
    let Some(mut qemu_io) = tool("qemu-io") else { return };
    let device = Arc::new(MemoryDevice::new(16 * MIB));
    let server = TestServer::of(Arc::clone(&device) as _);
    let steps = [
        "write -P 0x55 1000 70000",
        "read -P 0x55 1000 70000",
        "read -P 0 0 1000",
        "write -f -P 0xaa 4096 4096",
        "aio_write -P 0x11 1M 1M",
        "aio_write -P 0x22 2M 1M",
        "aio_flush",
        "read -P 0x11 1M 1M",
        "read -P 0x22 2M 1M",
        "write -z 1M 512k",
        "read -P 0 1M 512k",
        "write -z -u 1536k 64k",
        "discard 2M 4k",
        "read -P 0 2M 4k",
        "read -P 0xaa 4096 4096",
        "flush",
    ];
    qemu_io.args(["-f", "raw"]).args(steps.iter().flat_map(|step| ["-c", step])).arg(server.uri());
    let said = run(&mut qemu_io);
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    use std::sync::atomic::Ordering::Relaxed;
    assert!(device.immediate.load(Relaxed) > 0 || device.flushes.load(Relaxed) > 1);
}

#[test]
fn fio_verifies_what_several_jobs_wrote_at_depth_32() {
    let Some(mut fio) = tool("fio") else { return };
    if !run(tool("fio").unwrap().arg("--enghelp")).contains("nbd") {
        return;
    }
    let server = TestServer::of(Arc::new(MemoryDevice::new(64 * MIB)));
    fio.args([
        "--name=verify",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bssplit=512/20:4k/60:64k/20",
        "--iodepth=32",
    ])
    .args([
        "--numjobs=4",
        "--size=16m",
        "--offset_increment=16m",
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_state_save=0",
    ])
    .args(["--group_reporting", "--end_fsync=1"])
    .arg(format!("--uri={}", server.uri()));
    let said = run(&mut fio);
    assert!(said.contains("err= 0"), "{said}");
    let counts = server.server.counts();
    assert!(counts.batches < counts.requests, "{counts:?}");
    assert_eq!(counts.broken, 0);
}
