//! A volume as a disk of this machine: `nbdfuse` makes it a file, a loop device makes the file a
//! disk, and a file system on the disk is mounted. All steps need root.

use super::{PATIENCE, TestPool};
use gemelo_tools::{all_of, missing, run, tool};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns whether the test may use loop devices and FUSE. Prints what is missing.
pub(crate) fn can_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let devices = ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists());
    if !is_root || !devices {
        missing("root, /dev/fuse or /dev/loop-control");
    }
    is_root && devices
}

/// A volume as a loop device.
pub(crate) struct Attached {
    fuse: Child,
    directory: PathBuf,
    device: Option<PathBuf>,
}

impl Attached {
    pub(crate) fn new(pool: &TestPool, volume: &str) -> Self {
        let directory = pool.file(&format!("fuse-{volume}"));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("nbd");
        let mut fuse = tool("nbdfuse").unwrap();
        fuse.arg("--connections=2").arg(&directory).arg(pool.uri(volume)).stderr(Stdio::null());
        let mut attached = Self { fuse: fuse.spawn().unwrap(), directory, device: None };
        let begun = Instant::now();
        while !file.exists() {
            assert!(
                begun.elapsed() < PATIENCE && attached.fuse.try_wait().unwrap().is_none(),
                "nbdfuse"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        let losetup = run(tool("losetup").unwrap().args(["--find", "--show"]).arg(&file));
        attached.device = Some(losetup.trim().into());
        attached
    }

    pub(crate) fn device(&self) -> &Path {
        self.device.as_deref().unwrap()
    }

    /// Gives all back, in order; everything written is flushed.
    pub(crate) fn detach(mut self) {
        run(tool("losetup").unwrap().arg("--detach").arg(self.device.take().unwrap()));
        run(tool("umount").unwrap().arg(&self.directory));
        assert!(self.fuse.wait().unwrap().success());
    }

    /// Takes it away although its server is gone.
    pub(crate) fn abandon(self) {
        drop(self);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            quietly(Command::new("losetup").arg("--detach").arg(device));
        }
        quietly(Command::new("umount").arg("--lazy").arg(&self.directory));
        let _ = (self.fuse.kill(), self.fuse.wait());
    }
}

/// A mounted file system.
pub(crate) struct Mounted {
    directory: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    pub(crate) fn new(device: &Path, directory: PathBuf, options: &str) -> Self {
        std::fs::create_dir_all(&directory).unwrap();
        let output = tool("mount")
            .unwrap()
            .args(["-o", options])
            .arg(device)
            .arg(&directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", all_of(&output));
        Self { directory, is_mounted: true }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn unmount(mut self) {
        run(tool("umount").unwrap().arg(&self.directory));
        self.is_mounted = false;
    }

    /// Takes it away although its disk is gone; what the system still has in memory is lost.
    pub(crate) fn abandon(mut self) {
        // The first attempt may fail while the system notices that nothing can be written any more.
        let begun = Instant::now();
        while !Command::new("umount")
            .arg(&self.directory)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
        {
            assert!(begun.elapsed() < PATIENCE, "cannot be unmounted");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.is_mounted = false;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            quietly(Command::new("umount").arg("--lazy").arg(&self.directory));
        }
    }
}

fn quietly(command: &mut Command) {
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
