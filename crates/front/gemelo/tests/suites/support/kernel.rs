//! The kernel that tests boot as a guest under QEMU. `scripts/setup.sh` fetches it.

use crate::archive::Archive;
use gemelo_tools::missing;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// An unpacked kernel.
pub(crate) struct GuestKernel {
    pub(crate) image: PathBuf,
    modules: PathBuf,
}

impl GuestKernel {
    /// Says that the kernel is missing, if it is.
    pub(crate) fn find() -> Option<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target =
            target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target"));
        let (boot, modules) = (target.join("guest/boot"), target.join("guest/modules"));
        let mut files = fs::read_dir(boot).into_iter().flatten().flatten();
        let found = files.next().filter(|_| modules.join("order").exists());
        if found.is_none() {
            missing("a kernel for the guest in target/guest (scripts/setup.sh fetches it)");
        }
        Some(Self { image: found?.path(), modules })
    }

    /// Adds /modules/NAME.ko, and /modules/order with the names in the order of loading.
    pub(crate) fn add_modules(&self, archive: &mut Archive) {
        let order = fs::read_to_string(self.modules.join("order")).unwrap();
        archive.directory("modules");
        archive.file("modules/order", order.as_bytes());
        for name in order.lines().map(|name| format!("{name}.ko")) {
            let module = fs::read(self.modules.join(&name)).unwrap();
            archive.file(&format!("modules/{name}"), &module);
        }
    }
}

/// Runs a program that may hang. What it prints goes to the file meanwhile.
pub(crate) fn finish_in_time(command: &mut Command, console: PathBuf, longest: Duration) -> Output {
    let file = fs::File::create(&console).unwrap();
    let mut child =
        command.stdin(Stdio::null()).stdout(file).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > longest {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut output = child.wait_with_output().unwrap();
    output.stdout = fs::read(console).unwrap();
    output
}
