//! A Ceph cluster for a test, by `scripts/ceph.sh`.

use gemelo_objects::rados::{ConnectError, Rados, RadosOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// A cluster that ends with the test.
pub(crate) struct Ceph {
    _parent: tempfile::TempDir,
    directory: PathBuf,
}

fn script(action: &str, directory: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/ceph.sh");
    Command::new(script).arg(action).arg(directory).output().unwrap()
}

impl Ceph {
    /// Starts a cluster; `None` without its programs.
    pub(crate) fn start() -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("ceph");
        let output = script("start", &directory);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if message.contains("not installed") {
            gemelo_tools::missing(&message);
            return None;
        }
        assert!(output.status.success(), "{message}");
        Some(Self { _parent: parent, directory })
    }

    /// The directory with `ceph.conf` and the files of the processes.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn connect(
        &self,
        pool: &str,
        namespace: &str,
        timeout: Duration,
    ) -> Result<Rados, ConnectError> {
        Rados::connect(&RadosOptions {
            configuration: Some(&self.directory.join("ceph.conf")),
            user: "admin",
            pool,
            namespace,
            timeout,
        })
    }
}

impl Drop for Ceph {
    fn drop(&mut self) {
        let output = script("stop", &self.directory);
        if !std::thread::panicking() {
            assert!(output.status.success(), "{output:?}");
        }
    }
}
