//! The scripts of the Debian package, run by themselves with programs that note how they are
//! called.

use super::root;
use gemelo_tools::has_tool;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Programs that change the system, replaced by ones that note their words in the file `calls`.
/// Those that speak to systemd end with the status in the file `status`.
fn make_programs(directory: &Path) {
    let note =
        format!("#!/bin/sh\necho \"$(basename \"$0\") $*\" >>{}/calls\n", directory.display());
    let ends = format!("exit $(cat {}/status)\n", directory.display());
    // It takes an action and units, and prints its usage otherwise.
    let invokes = format!("[ $# -ge 2 ] || {{ echo usage; exit 1; }}\n{ends}");
    for (name, rest) in [
        ("systemd-sysusers", ""),
        ("systemd-tmpfiles", ""),
        ("systemctl", &ends),
        ("udevadm", &ends),
        ("deb-systemd-invoke", &invokes),
    ] {
        let path = directory.join(name);
        fs::write(&path, format!("{note}{rest}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs a script of the package where systemd runs, in a namespace with a `/run` of its own.
/// Returns the end of the script, and the calls of programs.
fn run(script: &str, words: &[&str], status: i32) -> (Output, String) {
    let directory = tempfile::tempdir().unwrap();
    make_programs(directory.path());
    fs::write(directory.path().join("status"), status.to_string()).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let in_namespace = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", in_namespace, "sh", "sh"])
        .arg(root().join("packaging/debian").join(script))
        .args(words)
        .env("PATH", path)
        .env_remove("DPKG_ROOT")
        .output()
        .unwrap();
    let calls = fs::read_to_string(directory.path().join("calls")).unwrap_or_default();
    (output, calls)
}

fn can_run() -> bool {
    has_tool("unshare") && gemelo_tools::is_root("a namespace of mounts")
}

/// `deb-systemd-invoke daemon-reload` printed its usage, which `|| true` hid: after an upgrade the
/// old unit ran.
#[test]
fn the_package_has_units_loaded_again_and_tells_when_that_fails() {
    if !can_run() {
        return;
    }
    let reload = "systemctl --system daemon-reload\n";
    for (script, words, is_loaded) in [
        ("postinst", &["configure", "0.0.1"][..], true),
        ("postinst", &["configure"], true),
        ("postinst", &["abort-upgrade", "0.0.1"], false),
        ("postrm", &["remove"], true),
        ("postrm", &["purge"], true),
        ("postrm", &["upgrade", "0.0.2"], false),
    ] {
        let (output, calls) = run(script, words, 0);
        assert!(output.status.success(), "{script} {words:?}: {output:?}");
        assert_eq!(calls.contains(reload), is_loaded, "{script} {words:?}: {calls}");
        assert!(output.stderr.is_empty(), "{script} {words:?}: {output:?}");
        let (output, _) = run(script, words, 1);
        assert!(output.status.success(), "the package is there all the same");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("run systemctl daemon-reload"), is_loaded, "{script}: {said}");
        let reads_rules = is_loaded && script == "postinst";
        assert_eq!(calls.contains("udevadm control --reload\n"), reads_rules, "{calls}");
        assert_eq!(said.contains("run udevadm control --reload"), reads_rules, "{said}");
    }
    let (_, calls) = run("postinst", &["configure"], 0);
    assert!(
        calls.starts_with("systemd-sysusers gemelo.conf\nsystemd-tmpfiles --create"),
        "{calls}"
    );
}

#[test]
fn servers_are_stopped_before_the_program_is_removed_and_not_before_it_is_replaced() {
    if !can_run() {
        return;
    }
    let (output, calls) = run("prerm", &["remove"], 0);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        calls,
        "deb-systemd-invoke stop gemelo@*.socket gemelo@*.service gemelo-member@*.service \
         gemelo-tick@*.timer gemelo-copy@*.timer\n"
    );
    let (output, calls) = run("prerm", &["upgrade", "0.0.2"], 0);
    assert!(output.status.success() && calls.is_empty(), "{calls}");
    let (output, _) = run("prerm", &["remove"], 1);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("do not stop"), "{said}");
}
