//! Tests of load on exports of NBD servers: those of this program, of nbdkit and of QEMU.

use super::directory::{OtherServer, OwnServer, TestDirectory, json, refused, run};
use gemelo_format::DedupMode;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn uri(name: &str, socket: &Path) -> String {
    format!("nbd+unix:///{name}?socket={}", socket.display())
}

/// Writes, rewrites and reads, verified, with several processes where the server allows that.
pub(crate) fn use_all(target: &str, processes: u32) {
    let words = format!(
        "bench --processes {processes} --file-size 4m --queue-depth 16 --sync fsync --fsync-every 50"
    );
    let found = json(&words, &["--verify", "final", "--target", target]);
    assert_eq!(found["result"][0]["verification"]["checked_blocks"], 1024 * processes);
    assert_eq!(found["result"][0]["verification"]["wrong_blocks"], 0);
    let mixed = "--operation mixed --pattern uniform --bytes 8m --verify both --force --target";
    let ran = run(&format!("{words} {mixed}"), &[target]);
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("all as written"), "{}", ran.out);
}

/// Filters and keys of an nbdkit with blocks of 4 KiB and requests of at most 16 KiB.
const NARROW: [&str; 5] = [
    "--filter=blocksize-policy",
    "blocksize-minimum=4096",
    "blocksize-preferred=4096",
    "blocksize-maximum=16384",
    "blocksize-error-policy=error",
];

fn nbdkit(socket: &Path, export: &[&str]) -> Option<OtherServer> {
    let arguments = [&["-f", "-U", socket.to_str().unwrap()], export].concat();
    OtherServer::start("nbdkit", &arguments, socket)
}

#[test]
fn this_programs_server_takes_load() {
    let directory = TestDirectory::new();
    directory.volume("pool", 8 * MIB, DedupMode::Inline);
    let socket = directory.path("socket");
    let mut server = OwnServer::start(&directory.path("pool"), &socket, false);
    let target = uri("disk", &socket);
    use_all(&target, 2);
    let ran = run("suite --queue-depth 4 --force --target", &[&target]);
    assert_eq!(ran.status, 0, "{}", ran.err);

    let target = ["--target", &*target];
    refused("bench", &target, "use --force");
    refused(
        "bench --force --file-size 16m",
        &target,
        "has 8.00 MiB (8388608 bytes), but the job needs 16.00 MiB (16777216 bytes)",
    );
    refused("bench --force --sync both", &target, "does not support direct I/O");
    refused("bench --target", &[&uri("nobody", &socket)], "the server has no such export");
    let pool = server.pool.take().unwrap();
    assert!(pool.prove(10).unwrap().is_empty());
}

#[test]
fn a_read_only_export_is_read_and_not_written() {
    let directory = TestDirectory::new();
    directory.volume("pool", 4 * MIB, DedupMode::Inline);
    let socket = directory.path("socket");
    let _server = OwnServer::start(&directory.path("pool"), &socket, true);
    let target = uri("disk", &socket);
    refused("bench --target", &[&target], "is read-only");
    let ran = run("bench --operation read --populate none --queue-depth 8 --target", &[&target]);
    assert_eq!(ran.status, 0, "{}", ran.err);
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let directory = TestDirectory::new();
    let ran = run("bench --target", &[&uri("disk", &directory.path("socket"))]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("cannot use nbd+unix:///disk"), "{}", ran.err);
    assert!(ran.err.contains("No such file or directory"), "{}", ran.err);
}

#[test]
fn nbdkit_takes_load() {
    let directory = TestDirectory::new();
    let socket = directory.path("socket");
    let Some(_server) = nbdkit(&socket, &["memory", "8M"]) else { return };
    use_all(&uri("", &socket), 2);
}

/// With blocks longer than the server's longest request, and one connection at a time.
#[test]
fn an_nbdkit_with_narrow_limits_takes_load_from_one_process() {
    let directory = TestDirectory::new();
    let socket = directory.path("socket");
    let export = ["--filter=multi-conn", "memory", "8M", "multi-conn-mode=disable"];
    let Some(_server) = nbdkit(&socket, &[&export[..], &NARROW].concat()) else { return };
    let target = uri("", &socket);
    refused("bench --processes 2 --file-size 4m --target", &[&target], "one connection at a time");
    refused(
        "bench --block-size 1k --target",
        &[&target],
        "needs a multiple of its block size, 4096 bytes",
    );
    use_all(&target, 1);
    let ran =
        run("bench --block-size 64k --queue-depth 4 --verify final --force --target", &[&target]);
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn data_beyond_the_longest_request_of_an_nbdkit_is_not_overwritten() {
    let directory = TestDirectory::new();
    let socket = directory.path("socket");
    let export = [&["data", "@0x10000 1", "size=8M"][..], &NARROW].concat();
    let Some(_server) = nbdkit(&socket, &export) else { return };
    refused("bench --file-size 4m --target", &[&uri("", &socket)], "holds data");
}

#[test]
fn qemu_nbd_takes_load() {
    let directory = TestDirectory::new();
    let (socket, image) = (directory.path("socket"), directory.path("image"));
    std::fs::File::create(&image).unwrap().set_len(8 * MIB).unwrap();
    let paths = [socket.to_str().unwrap(), image.to_str().unwrap()];
    let arguments = ["-f", "raw", "--persistent", "--shared=8", "-k", paths[0], paths[1]];
    let Some(_server) = OtherServer::start("qemu-nbd", &arguments, &socket) else { return };
    use_all(&uri("", &socket), 2);
}

#[test]
fn a_qemu_nbd_for_one_client_takes_load_from_one_process() {
    let directory = TestDirectory::new();
    let (socket, image) = (directory.path("socket"), directory.path("image"));
    std::fs::File::create(&image).unwrap().set_len(4 * MIB).unwrap();
    let paths = [socket.to_str().unwrap(), image.to_str().unwrap()];
    let arguments = ["-f", "raw", "--persistent", "-k", paths[0], paths[1]];
    let Some(_server) = OtherServer::start("qemu-nbd", &arguments, &socket) else { return };
    use_all(&uri("", &socket), 1);
}
