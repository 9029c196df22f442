//! Test of a Linux guest that QEMU boots from volumes, without hardware support. Its root file
//! system is on one volume, and it writes another one as a raw disk. Its report on the written data
//! is compared with the export. `scripts/setup.sh` fetches the kernel.

use crate::archive::Archive;
use crate::support::kernel::{GuestKernel, finish_in_time};
use crate::support::{MIB, TestPool, small};
use gemelo_format::DedupMode;
use gemelo_tools::{all_of, all_there, run, tool};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

const ROOT_BYTES: u64 = 64 * MIB;
const RAW_BYTES: u64 = 16 * MIB;
/// A boot takes 4 s of processor time; machines may be busy.
const LONGEST_BOOT: Duration = Duration::from_secs(180);
/// First process of the initial memory disk: loads drivers and goes over to the volume.
const BEFORE_ROOT: &str = "#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs none /dev
for m in $($b cat /modules/order); do $b insmod /modules/$m.ko; done
$b mount -t ext4 -o discard /dev/vda /root && exec $b switch_root /root /sbin/init
echo 'GUEST: no root'
$b poweroff -f
";

/// First process on the volume. At the first boot it writes files, copies and a raw disk; at each
/// it checks them.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t devtmpfs none /dev
cd /data
if [ ! -e boots ]; then
    seq 1 100000 > numbers
    for copy in 1 2 3 4 5; do cp numbers copy-$copy; done
    seq 1 200000 > removed
    sync
    dd if=numbers of=/dev/vdb bs=64k seek=16 conv=fsync 2>/dev/null
    rm removed copy-5
    sync
    fstrim /
    sha256sum numbers copy-* > sums
fi
echo boot >> boots
sync
echo 3 > /proc/sys/vm/drop_caches
sha256sum -c sums >/dev/null && echo 'GUEST: files are right'
dd if=/dev/vdb bs=64k skip=16 2>/dev/null | head -c $(stat -c %s numbers) | cmp - numbers && echo 'GUEST: disk is right'
echo \"GUEST: boot $(wc -l < boots)\"
mount -o remount,ro /
poweroff -f
";

/// The way in which a guest reaches volumes.
#[derive(Debug, Clone, Copy)]
enum Way {
    Nbd,
    SharedMemory,
}

impl Way {
    /// The options of QEMU for a disk.
    fn disk(self, pool: &TestPool, volume: &str) -> Vec<String> {
        let (uri, socket) = (pool.uri(volume), pool.file(&format!("{volume}.sock")));
        match self {
            Self::Nbd => vec![
                "-drive".to_owned(),
                format!("file={uri},format=raw,if=virtio,discard=unmap,detect-zeroes=unmap"),
            ],
            Self::SharedMemory => vec![
                "-chardev".to_owned(),
                format!("socket,id={volume},path={},reconnect=1", socket.display()),
                "-device".to_owned(),
                format!("vhost-user-blk-pci,chardev={volume}"),
            ],
        }
    }
}

struct Guest {
    kernel: GuestKernel,
    busybox: PathBuf,
}

impl Guest {
    fn find() -> Option<Self> {
        if !all_there(&[
            "qemu-system-x86_64",
            "qemu-img",
            "busybox",
            "mkfs.ext4",
            "debugfs",
            "e2fsck",
        ]) {
            return None;
        }
        let busybox = PathBuf::from(tool("busybox")?.get_program());
        Some(Self { kernel: GuestKernel::find()?, busybox })
    }

    /// The initial memory disk.
    fn memory_disk(&self) -> Vec<u8> {
        let mut archive = Archive::default();
        for directory in ["bin", "dev", "root"] {
            archive.directory(directory);
        }
        archive.device("dev/console", 5, 1);
        archive.file("init", BEFORE_ROOT.as_bytes());
        archive.file("bin/busybox", &fs::read(&self.busybox).unwrap());
        self.kernel.add_modules(&mut archive);
        archive.finish()
    }

    /// The guest's root file system as an image.
    fn root_image(&self, directory: &Path) -> PathBuf {
        let root = directory.join("root");
        for name in ["bin", "sbin", "proc", "dev", "data"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::copy(&self.busybox, root.join("bin/busybox")).unwrap();
        fs::write(root.join("sbin/init"), INIT).unwrap();
        fs::set_permissions(root.join("sbin/init"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("busybox", root.join("bin/sh")).unwrap();
        let image = directory.join("root.img");
        fs::File::create(&image).unwrap().set_len(ROOT_BYTES).unwrap();
        run(tool("mkfs.ext4")
            .unwrap()
            .args(["-q", "-F", "-b", "4096", "-d"])
            .arg(&root)
            .arg(&image));
        image
    }

    /// Boots from the volumes; gives what the guest says on its console.
    fn boot(&self, pool: &TestPool, way: Way) -> Output {
        let mut qemu = tool("qemu-system-x86_64").unwrap();
        let object = "memory-backend-memfd,id=ram,size=256M,share=on";
        qemu.args(["-machine", "q35,accel=tcg,memory-backend=ram", "-m", "256", "-object", object])
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1"])
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(pool.file("initrd"))
            .args(["root", "raw"].into_iter().flat_map(|volume| way.disk(pool, volume)));
        finish_in_time(&mut qemu, pool.file("console"), LONGEST_BOOT)
    }
}

fn numbers() -> Vec<u8> {
    (1..=100_000).map(|number| format!("{number}\n")).collect::<String>().into_bytes()
}

#[test]
fn a_guest_boots_from_a_volume_writes_it_and_finds_it_again() {
    boot_twice([Way::Nbd, Way::Nbd]);
}

#[test]
fn a_guest_writes_by_shared_memory_and_finds_it_again_over_nbd() {
    boot_twice([Way::SharedMemory, Way::Nbd]);
}

#[test]
fn a_guest_finds_by_shared_memory_what_it_wrote_over_nbd() {
    boot_twice([Way::Nbd, Way::SharedMemory]);
}

fn boot_twice(ways: [Way; 2]) {
    let Some(guest) = Guest::find() else { return };
    let volumes = [("root", ROOT_BYTES, DedupMode::Inline), ("raw", RAW_BYTES, DedupMode::Inline)];
    let pool = TestPool::new(&small(256 * MIB), &volumes);
    fs::write(pool.file("initrd"), guest.memory_disk()).unwrap();
    let image = guest.root_image(pool.directory.path());
    let directory = pool.directory.path().display().to_string();
    let serve = || pool.serve_with(&["--vhost-user", &directory]);
    let server = serve();
    let mut import = tool("qemu-img").unwrap();
    run(import.args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&image).arg(pool.uri("root")));
    let mut server = Some(server);
    for (boot, way) in (1..).zip(ways) {
        let output = guest.boot(&pool, way);
        let said = all_of(&output);
        for line in
            ["GUEST: files are right", "GUEST: disk is right", &format!("GUEST: boot {boot}")]
        {
            assert!(said.contains(line), "boot {boot}: no '{line}' in\n{said}");
        }
        // The guest has shut down in an orderly way, so nothing that it wrote may depend on the
        // server's.
        server.take().unwrap().kill();
        pool.check();
        server = Some(serve());
    }
    let (root, raw) = (pool.file("after.img"), pool.file("raw.img"));
    run(tool("qemu-img")
        .unwrap()
        .args(["convert", "-O", "raw", "-f", "raw"])
        .arg(pool.uri("root"))
        .arg(&root));
    run(tool("qemu-img")
        .unwrap()
        .args(["convert", "-O", "raw", "-f", "raw"])
        .arg(pool.uri("raw"))
        .arg(&raw));
    run(tool("e2fsck").unwrap().args(["-f", "-n"]).arg(&root));
    for file in ["numbers", "copy-1", "copy-4"] {
        let found =
            run(tool("debugfs").unwrap().args(["-R", &format!("cat /data/{file}")]).arg(&root));
        assert!(found.into_bytes() == numbers(), "{file}");
    }
    let disk = fs::read(raw).unwrap();
    assert!(disk[MIB as usize..].starts_with(&numbers()));
    server.take().unwrap().stop();
    pool.check();
    // The copies and the raw disk have the same contents; what was removed was trimmed.
    pool.change(|open| {
        let stat = open.stat().unwrap();
        eprintln!("{} logical blocks, {} stored", stat.logical_blocks, stat.physical_blocks);
        let copies = numbers().len() as u64 / 4096 * 5;
        assert!(stat.logical_blocks - stat.physical_blocks >= copies, "{stat:?}");
    });
}
