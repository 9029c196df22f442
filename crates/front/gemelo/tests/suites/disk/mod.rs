//! Tests of volumes as disks of a kernel, in a guest that QEMU boots without hardware support:
//! `init` is its first process, `first` and `second` are what it does at two boots. The
//! guest has the pool on a virtual disk, and serves it itself.

use crate::archive::Archive;
use crate::common::gemelo;
use crate::support::kernel::GuestKernel;
use crate::support::{MIB, TestPool, small};
use gemelo_format::DedupMode;
use gemelo_tools::{all_there, tool};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time of a boot with all that the guest does, on a busy machine.
const LONGEST: Duration = Duration::from_secs(400);
/// The longest time until a guest reports its first check.
const LONGEST_START: Duration = Duration::from_secs(90);
const DISK_BYTES: u64 = 4 << 30;

/// The processor of the guest. Without AVX, because QEMU 10.0 reads 32 bytes for an operand of
/// `vinsertf128` that has 16: at the end of a mapping, a hash of its last bytes is a fault then.
const PROCESSOR: &str = "max,-avx,-avx2,-fma,-f16c";

/// Programs of this host that the guest has, with their libraries.
const PROGRAMS: [&str; 6] = ["fio", "mkfs.ext4", "mkfs.xfs", "e2fsck", "udevadm", "setpriv"];
/// Rules of udev that give devices their properties.
const RULES: [&str; 2] = ["50-udev-default.rules", "60-block.rules"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn script(name: &str) -> String {
    let path = repository().join("crates/front/gemelo/tests/suites/disk").join(name);
    fs::read_to_string(path).unwrap()
}

/// The initial memory disk of the guest.
#[derive(Default)]
struct MemoryDisk {
    archive: Archive,
    names: BTreeSet<String>,
}

impl MemoryDisk {
    fn directories_of(&mut self, name: &str) {
        let ancestors: Vec<_> = Path::new(name).ancestors().skip(1).collect();
        for directory in ancestors.into_iter().rev().filter_map(Path::to_str) {
            if !directory.is_empty() && self.names.insert(directory.to_owned()) {
                self.archive.directory(directory);
            }
        }
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        if self.names.insert(name.to_owned()) {
            self.directories_of(name);
            self.archive.file(name, content);
        }
    }

    /// Adds a program of this host, and the libraries that it names.
    fn program(&mut self, source: &Path, name: &str) {
        self.file(name, &fs::read(source).unwrap());
        let needed = Command::new("ldd").arg(source).output().unwrap().stdout;
        let needed = String::from_utf8(needed).unwrap();
        for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
            self.file(library.trim_start_matches('/'), &fs::read(library).unwrap());
        }
    }

    fn new(kernel: &GuestKernel, job: &str) -> Self {
        let mut disk = Self::default();
        for directory in ["bin", "dev", "proc", "sys", "tmp", "run", "etc"] {
            disk.names.insert(directory.to_owned());
            disk.archive.directory(directory);
        }
        disk.archive.device("dev/console", 5, 1);
        kernel.add_modules(&mut disk.archive);
        for (name, text) in
            [("init", &*script("init")), ("lib.sh", &script("library")), ("job.sh", job)]
        {
            disk.file(name, text.as_bytes());
        }
        disk.file("etc/passwd", b"root:x:0:0::/:/bin/sh\ngemelo:x:900:900::/:/bin/sh\n");
        disk.file("etc/group", b"root:x:0:\ndisk:x:6:\ngemelo:x:900:\n");
        disk.program(Path::new(env!("CARGO_BIN_EXE_gemelo")), "gemelo");
        let path = |name| PathBuf::from(tool(name).unwrap().get_program());
        disk.program(&path("busybox"), "bin/busybox");
        for name in PROGRAMS {
            disk.program(&path(name), &format!("usr/bin/{name}"));
        }
        disk.program(&path("udevadm"), "lib/systemd/systemd-udevd");
        for rules in RULES {
            let text = fs::read(Path::new("/lib/udev/rules.d").join(rules)).unwrap_or_default();
            disk.file(&format!("lib/udev/rules.d/{rules}"), &text);
        }
        let ours = fs::read(repository().join("contrib/udev/60-gemelo.rules")).unwrap();
        disk.file("lib/udev/rules.d/60-gemelo.rules", &ours);
        disk
    }
}

/// A guest with its disk.
struct Guest {
    kernel: GuestKernel,
    directory: tempfile::TempDir,
}

impl Guest {
    fn new() -> Option<Self> {
        let needed = ["qemu-system-x86_64", "busybox", "ldd"];
        if !all_there(&needed) || !all_there(&PROGRAMS) {
            return None;
        }
        let kernel = GuestKernel::find()?;
        let directory = tempfile::Builder::new().prefix("gemelo-").tempdir().unwrap();
        let disk = fs::File::create(directory.path().join("disk")).unwrap();
        disk.set_len(DISK_BYTES).unwrap();
        Some(Self { kernel, directory })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, processors: &str) -> Command {
        let mut qemu = tool("qemu-system-x86_64").unwrap();
        qemu.args(["-machine", "q35,accel=tcg", "-cpu", PROCESSOR, "-smp", processors])
            .args(["-m", "2048"])
            .args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"])
            .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off", "-drive"])
            .arg(format!("file={},if=virtio,format=raw,discard=unmap", self.file("disk").display()))
            .arg("-initrd")
            .arg(self.file("initrd"))
            .arg("-kernel")
            .arg(&self.kernel.image);
        qemu
    }

    /// Boots until the guest says the word, which may be its last, and ends it then. Returns what
    /// it said. The second emulated processor now and then gets no ticks while the kernel starts:
    /// a guest that has not come to its job is started again, at last with one processor.
    fn boot(&self, job: &str, until: &str) -> String {
        let disk = MemoryDisk::new(&self.kernel, job);
        fs::write(self.file("initrd"), disk.archive.finish()).unwrap();
        let mut said = String::new();
        for processors in ["2", "2", "1"] {
            said = self.boot_once(processors, until);
            if said.contains("DISK: ") {
                break;
            }
        }
        said
    }

    fn boot_once(&self, processors: &str, until: &str) -> String {
        let console = self.file("console");
        let output = fs::File::create(&console).unwrap();
        let mut qemu =
            self.command(processors).stdin(Stdio::null()).stdout(output).spawn().unwrap();
        let begun = Instant::now();
        let mut said = String::new();
        let mut goes_on = true;
        while goes_on {
            std::thread::sleep(Duration::from_millis(50));
            let ended = qemu.try_wait().unwrap().is_some();
            said = String::from_utf8_lossy(&fs::read(&console).unwrap()).into_owned();
            let longest = if said.contains("DISK: ") { LONGEST } else { LONGEST_START };
            goes_on = !ended && !said.contains(until) && begun.elapsed() < longest;
        }
        qemu.kill().unwrap();
        qemu.wait().unwrap();
        said
    }
}

/// Asserts that each check of a job succeeded, and that the job came to its end.
fn assert_good(job: &str, said: &str, end: &str) {
    let report: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once("DISK: "))
        .map(|(_, line)| line.trim())
        .collect();
    assert!(report.last() == Some(&end) && !said.contains("FAILED"), "{said}");
    let checks = job.lines().filter(|line| line.trim_start().starts_with("check '")).count();
    let good = report.iter().filter(|line| line.starts_with("ok ")).count();
    assert!(good >= checks, "{good} of {checks} checks in\n{said}");
}

#[test]
fn a_volume_is_no_disk_without_a_server_or_without_the_driver() {
    let pool = TestPool::new(&small(64 * MIB), &[("web", MIB, DedupMode::Inline)]);
    let volume = format!("{}/web", pool.path().display());
    for command in ["attach", "detach"] {
        let ran = gemelo(&[command, &volume]);
        assert_eq!(ran.status, 2, "{}", ran.err);
        assert!(ran.err.contains("no process serves the pool"), "{}", ran.err);
        assert!(ran.err.contains("gemelo serve POOL --ublk"), "{}", ran.err);
    }
    if Path::new("/dev/ublk-control").exists() {
        return;
    }
    let path = pool.path().display().to_string();
    let ran = gemelo(&["serve", &path, "--ublk", "web"]);
    assert!(ran.status == 2 && ran.err.contains("modprobe ublk_drv"), "{}", ran.err);
    let server = pool.serve();
    for (command, why) in [("attach", "modprobe ublk_drv"), ("detach", "is not attached")] {
        let ran = gemelo(&[command, &volume]);
        assert!(ran.status == 2 && ran.err.contains(why), "{}", ran.err);
    }
    server.stop();
}

#[test]
fn volumes_are_disks_that_survive_their_server_and_a_loss_of_power() {
    let Some(guest) = Guest::new() else { return };
    let [first, second] = ["first", "second"].map(script);
    for (job, end) in [(first, "power"), (second, "done")] {
        let said = guest.boot(&job, &format!("DISK: {end}"));
        assert_good(&job, &said, end);
    }
}
