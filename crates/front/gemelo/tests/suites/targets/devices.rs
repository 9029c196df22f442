//! Tests of load on vhost-user-blk devices: those of this program and of QEMU.

use super::directory::{OtherServer, TestDirectory, open, refused, run};
use super::exports::use_all;
use gemelo_base::{Silent, StopFlag};
use gemelo_device::{Export, ExportTable, FrontEnd, Memory, SocketAccess};
use gemelo_format::DedupMode;
use gemelo_vhost::VhostFrontEnd;
use gemelo_volume::Pool;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

const MIB: u64 = 1 << 20;

fn target(socket: &Path) -> String {
    format!("vhost-user:{}", socket.display())
}

/// This program's front end over the volume `disk` of a pool.
struct OwnDevice {
    stop: StopFlag,
    serving: Option<JoinHandle<()>>,
    pool: Option<Pool>,
}

impl OwnDevice {
    /// The socket of the device is `disk.sock` in the directory of sockets.
    fn start(pool: &Path, sockets: &Path, read_only: bool) -> Self {
        let pool = open(pool);
        let table = ExportTable::new();
        let mut export = Export::new("disk", Arc::new(pool.volume("disk").unwrap()));
        export.read_only = read_only;
        table.insert(export);
        let front_end = Box::new(VhostFrontEnd {
            directory: sockets.to_owned(),
            socket_access: SocketAccess::default(),
            memory: Memory::default(),
            write_through: false,
            log_connections: false,
        });
        let listening = front_end.listen(Arc::new(table), Arc::new(Silent)).unwrap();
        let stop = StopFlag::new();
        let stopped = stop.clone();
        let serving = std::thread::spawn(move || listening.run(&stopped).unwrap());
        Self { stop, serving: Some(serving), pool: Some(pool) }
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

#[test]
fn this_programs_devices_take_load() {
    let directory = TestDirectory::new();
    directory.volume("pool", 8 * MIB, DedupMode::Inline);
    let mut device = OwnDevice::start(&directory.path("pool"), &directory.path("."), false);
    let target = target(&directory.path("disk.sock"));
    use_all(&target, 2);
    let target = ["--target", &*target];
    refused("bench", &target, "use --force");
    refused("bench --force --file-size 16m", &target, "but the job needs 16.00 MiB");
    refused("bench --force --sync both", &target, "does not support direct I/O");
    refused("bench --force --processes 17 --file-size 256k", &target, "has 16 queues");
    let pool = device.pool.take().unwrap();
    assert!(pool.prove(10).unwrap().is_empty());
}

#[test]
fn a_read_only_device_is_read_and_not_written() {
    let directory = TestDirectory::new();
    directory.volume("pool", 4 * MIB, DedupMode::Inline);
    let _device = OwnDevice::start(&directory.path("pool"), &directory.path("."), true);
    let target = target(&directory.path("disk.sock"));
    refused("bench --target", &[&target], "is read-only");
    let ran = run("bench --operation read --populate none --queue-depth 8 --target", &[&target]);
    assert_eq!(ran.status, 0, "{}", ran.err);
}

#[test]
fn a_device_that_is_not_there_is_told() {
    let directory = TestDirectory::new();
    let ran = run("bench --target", &[&target(&directory.path("socket"))]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("cannot connect to") && ran.err.contains("socket"), "{}", ran.err);
    refused("bench --target", &["vhost-user:"], "names no socket");
}

#[test]
fn a_device_of_qemu_takes_load() {
    let directory = TestDirectory::new();
    let (file, socket) = (directory.path("file"), directory.path("socket"));
    std::fs::File::create(&file).unwrap().set_len(8 * MIB).unwrap();
    let file = format!("driver=file,filename={},node-name=disk", file.display());
    let export = format!(
        "vhost-user-blk,id=disk,addr.type=unix,addr.path={},node-name=disk,writable=on,num-queues=8",
        socket.display()
    );
    let arguments = ["--blockdev", &file, "--export", &export];
    let Some(_server) = OtherServer::start("qemu-storage-daemon", &arguments, &socket) else {
        return;
    };
    use_all(&target(&socket), 2);
}
