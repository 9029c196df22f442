//! The systemd units, beside the documents and examples that use them.

use super::{files_below, root, text_of};
use crate::served::{TestPool, done, noise, refused};
use gemelo_tools::has_tool;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::process::Command;

/// The units that are installed.
const UNITS: [&str; 7] = [
    "gemelo@.service",
    "gemelo@.socket",
    "gemelo-member@.service",
    "gemelo-tick@.service",
    "gemelo-tick@.timer",
    "gemelo-copy@.service",
    "gemelo-copy@.timer",
];
const UNIT: &str = "contrib/systemd/gemelo@.service";
const PROGRAM: &str = env!("CARGO_BIN_EXE_gemelo");

/// Number of the user and of the group of sockets in the test of a confined server.
const USER: u32 = 64_999;
const SOCKET_GROUP: u32 = 64_998;

/// The directories that the unit may write.
fn writable() -> Vec<String> {
    let unit = text_of(UNIT);
    assert!(unit.contains("\nProtectSystem=strict\n"), "{unit}");
    let paths = unit.lines().filter_map(|line| line.strip_prefix("ReadWritePaths="));
    paths.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The directories that exist after the installation, with their modes.
fn directories() -> Vec<(String, String)> {
    let text = text_of("contrib/systemd/gemelo.tmpfiles");
    let lines = text.lines().filter(|line| line.starts_with("d "));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| (words[1].to_owned(), words[2].to_owned())).collect()
}

/// The paths in a text that begin with this.
fn paths_in(text: &str, start: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "/._-@%".contains(letter);
    let starts = text.match_indices(start).map(|(at, _)| at);
    starts
        .map(|at| text[at..].chars().take_while(|letter| is_part(*letter)).collect::<String>())
        .map(|path| path.trim_end_matches(['.', '-']).to_owned())
        .collect()
}

fn is_below(path: &str, directory: &str) -> bool {
    path == directory || path.starts_with(&format!("{directory}/"))
}

/// The documents and the example for libvirt use sockets that the unit could not make: read-only
/// file system.
#[test]
fn the_units_may_write_where_documents_and_examples_have_pools_and_sockets() {
    let (writable, made) = (writable(), directories());
    let (users, mut groups) = (text_of("contrib/systemd/gemelo.sysusers"), 0);
    let mut texts = files_below("docs/guide");
    texts.extend(
        [files_below("docs/reference"), files_below("examples"), files_below("contrib")].concat(),
    );
    texts.push(root().join("README.md"));
    let mut checked = BTreeSet::new();
    for file in texts {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for path in ["/run/gemelo", "/var/lib/gemelo"].map(|start| paths_in(&text, start)).concat()
        {
            let is_writable = writable.iter().any(|directory| is_below(&path, directory));
            assert!(is_writable, "{}: {path}", file.display());
            checked.insert(path);
        }
        for line in text.lines() {
            // Not a path that a user replaces, such as DIR.
            let Some((_, after)) = line.split_once("--vhost-user /") else { continue };
            let directory = paths_in(&format!("/{after}"), "/").swap_remove(0);
            let is_made = made.iter().any(|(path, _)| *path == directory);
            assert!(is_made, "{}: {directory}", file.display());
            let group = line.split_once("--socket-group ").map(|(_, group)| group);
            let group = group.and_then(|group| group.split([' ', '.']).next());
            let member = format!("\nm gemelo {}\n", group.unwrap_or_default());
            assert!(group.is_none() || users.contains(&member), "{}: {line}", file.display());
            groups += usize::from(group.is_some());
        }
    }
    assert!(checked.len() >= 5 && groups >= 2, "{checked:?}, {groups} groups");
    for (path, _) in made {
        assert!(writable.iter().any(|directory| is_below(&path, directory)), "{path}");
    }
}

/// Serves a pool as the unit does: as a user of its own in a file system where only the unit's
/// directories can be written.
fn confined(writable: &[String]) -> String {
    let mut script = "set -e\nmount -t tmpfs none /run\nmount -t tmpfs none /var/lib\n".to_owned();
    script += &format!("install -m 755 {PROGRAM} /var/lib/program\n");
    for (path, mode) in directories() {
        script += &format!("mkdir {path}\nchown {USER}:{USER} {path}\nchmod {mode} {path}\n");
    }
    let run = format!(
        "setpriv --reuid {USER} --regid {USER} --groups {SOCKET_GROUP} --no-new-privs \
         --inh-caps=-all /var/lib/program"
    );
    for path in writable {
        script += &format!("mount --bind {path} {path}\n");
    }
    for path in ["/run", "/var/lib", "/"] {
        script += &format!("mount -o remount,bind,ro {path}\n");
    }
    script += &format!(
        "if touch /var/lib/other 2>/dev/null; then echo 'the file system is not read-only'; fi\n\
         {run} pool create /var/lib/gemelo/vms --capacity 64m\n\
         {run} volume create /var/lib/gemelo/vms/web --size 1m\n\
         {run} serve /var/lib/gemelo/vms --listen unix:/run/gemelo/second.sock \
         --vhost-user /run/gemelo/vhost --socket-group {SOCKET_GROUP} 2>&1 &\n\
         server=$!\n\
         for i in $(seq 300); do\n\
         [ -S /run/gemelo/vhost/web.sock ] && [ -S /run/gemelo/second.sock ] && break\n\
         kill -0 $server || break; sleep 0.1\ndone\n\
         for socket in /run/gemelo/vhost/web.sock /run/gemelo/second.sock; do\n\
         stat -c '%n %g %a' $socket || true\ndone\n\
         /var/lib/program bench --target 'nbd+unix:///web?socket=/run/gemelo/second.sock' --bytes 64k \
         >/dev/null && echo 'second: served' || true\n\
         /var/lib/program bench --target vhost-user:/run/gemelo/vhost/web.sock --bytes 64k --force \
         >/dev/null && echo 'vhost: served' || true\n\
         kill $server; wait $server || true\n"
    );
    let mut unshare = Command::new("unshare");
    let output = unshare.args(["--mount", "bash", "-c", &script]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_server_with_the_rights_of_the_unit_serves_virtual_machines_and_a_second_socket() {
    let tools = ["unshare", "setpriv", "bash"].iter().all(|tool| has_tool(tool));
    if !tools || !gemelo_tools::is_root("a namespace of mounts") {
        return;
    }
    let said = confined(&writable());
    for part in [
        format!("/run/gemelo/vhost/web.sock {SOCKET_GROUP} 660"),
        format!("/run/gemelo/second.sock {SOCKET_GROUP} 660"),
        "second: served".to_owned(),
        "vhost: served".to_owned(),
    ] {
        assert!(said.contains(&part), "{part} in: {said}");
    }
    assert!(!said.contains("is not read-only"), "{said}");
    // The test shows the defect: without the directory of the sockets nothing is served.
    let said = confined(&["/var/lib/gemelo".to_owned()]);
    assert!(said.contains("Read-only file system") && !said.contains("served"), "{said}");
}

#[test]
fn systemd_understands_the_units() {
    if !has_tool("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for unit in UNITS {
        let text = text_of(&format!("contrib/systemd/{unit}"));
        let text = text.replace("/usr/local/bin/gemelo", PROGRAM).replace("Documentation=", "#");
        fs::write(directory.path().join(unit), text).unwrap();
    }
    for unit in UNITS {
        let mut analyze = Command::new("systemd-analyze");
        analyze.arg("verify").arg(directory.path().join(unit.replace('@', "@vms")));
        let path = format!("{}:", directory.path().display());
        let output = analyze.env("SYSTEMD_UNIT_PATH", path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let about_ours: Vec<_> = said.lines().filter(|line| line.contains("gemelo")).collect();
        assert!(about_ours.is_empty(), "{said}");
    }
}

#[test]
fn the_services_are_exposed_as_little_as_they_can_be() {
    if !has_tool("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for unit in UNITS.into_iter().filter(|unit| unit.ends_with(".service")) {
        let path = directory.path().join(unit.replace('@', "@vms"));
        fs::write(&path, text_of(&format!("contrib/systemd/{unit}"))).unwrap();
        let mut analyze = Command::new("systemd-analyze");
        let analyze = analyze.args(["security", "--offline=true", "--no-pager", "--threshold=19"]);
        let output = analyze.arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The threshold is in tenths.
        assert!(output.status.success(), "{unit}: {}", said.lines().last().unwrap_or_default());
    }
}

/// The unit left a snapshot in the pool at each run, which nobody removed.
#[test]
fn the_unit_of_copies_makes_one_and_leaves_the_last_snapshot_to_build_on() {
    let (from, to) = (TestPool::new(&[]), TestPool::new(&[]));
    fs::write(from.file("raw"), noise(1, 1 << 16)).unwrap();
    done(&["volume", "import", &from.file("raw"), &from.volume("web")]);
    done(&["volume", "snapshot", &from.volume("web"), "web@2026-11-28T180000Z"]);
    // As systemd reads it.
    let unit = text_of("contrib/systemd/gemelo-copy@.service").replace("\\\n", "");
    let script = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -euc "));
    let script = script.unwrap().trim_matches('\'').replace("$$", "$").replace("%%", "%");
    let script = script.replace("/usr/local/bin/gemelo", PROGRAM);
    let names = |pool: &TestPool| {
        let volumes = pool.stat("/volumes");
        let name = |volume: &serde_json::Value| volume["name"].as_str().unwrap().to_owned();
        volumes.as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    for run in 0..3 {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-euc", &script]).env("POOL", from.path()).env("VOLUME", "web");
        let output = shell.env("TO", to.path()).env("KEEP", "2").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && error.is_empty(), "{error}");
        assert_eq!(said.contains("sent as what differs from web@copy-"), run > 0, "{said}");
        // Names have seconds.
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    let (here, there) = (names(&from), names(&to));
    assert_eq!((here.len(), there.len()), (3, 2), "{here:?} {there:?}");
    assert_eq!(here[..2], ["web", "web@2026-11-28T180000Z"], "what it has not made stays");
    assert_eq!(here[2], there[1], "both have the last one");
}

#[test]
fn the_rights_of_a_unit_follow_from_the_disks_of_its_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (pool, fast) = (path("vms"), path("fast disk"));
    fs::create_dir(&fast).unwrap();
    done(&["pool", "create", &pool, "--capacity", "64m", "--metadata", &fast]);
    let said = done(&["pool", "unit", &pool]);
    assert!(said.starts_with("# /etc/systemd/system/gemelo@vms.service.d/"), "{said}");
    assert!(said.contains(&format!("\nReadWritePaths=\"{fast}\"\n")), "{said}");
    assert!(said.contains("\n# gemelo-tick@vms.service, "), "{said}");
    assert!(!said.contains("Device"), "{said}");
    assert!(refused(&["pool", "unit", &path("none")]).contains("no disk of a pool"));
    // A device of this host stands for one with a pool.
    let device = fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
    let device = device
        .filter(|path| fs::metadata(path).is_ok_and(|status| status.file_type().is_block_device()));
    let Some(device) = device.map(|path| path.canonicalize().unwrap()).min() else { return };
    fs::remove_file(format!("{pool}/data")).unwrap();
    std::os::unix::fs::symlink(&device, format!("{pool}/data")).unwrap();
    let said = done(&["pool", "unit", &pool]);
    let allowed = said.split_once("\nPrivateDevices=no\nDeviceAllow=").map(|(_, after)| after);
    let allowed = allowed.and_then(|after| Some(after.split_once(" rw\n")?.0)).expect(&said);
    assert_eq!(fs::canonicalize(allowed).unwrap(), device, "{said}");
}

/// The unit once removed what a server of disks keeps for the next one, and the guide's line of
/// fstab had systemd unmount a disk whose server started again.
#[test]
fn a_disk_survives_its_server_under_systemd() {
    let drop_in = text_of("contrib/systemd/disks.conf");
    let needed = [
        "RemoveIPC=no",
        "StartLimitIntervalSec=0",
        "RestrictAddressFamilies=AF_NETLINK",
        "RestartKillSignal=SIGUSR1",
        "AmbientCapabilities=CAP_SYS_ADMIN CAP_SYS_RESOURCE",
    ];
    for line in needed {
        assert!(drop_in.lines().any(|other| other == line), "{line} is missing in\n{drop_in}");
    }
    let guide = text_of("docs/guide/disk.md");
    let mut mounts = guide.lines().filter(|line| line.starts_with("/dev/gemelo/"));
    assert!(mounts.next().is_some_and(|line| line.contains("x-systemd.after=gemelo@")), "{guide}");
    assert!(mounts.all(|line| !line.contains("x-systemd.requires=")), "{guide}");
}

/// A kernel without a driver for NBD is named, by each command that needs it.
#[test]
fn the_driver_for_nbd_is_asked_for_by_name() {
    if std::path::Path::new("/sys/module/nbd").exists() {
        return;
    }
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("v"), "--size", "1m"]);
    let said = refused(&["serve", &pool.path(), "--nbd-device", "v"]);
    assert!(said.contains("modprobe nbd"), "{said}");
    let served = pool.serve(&[]);
    let said = refused(&["attach", "--nbd", &pool.volume("v")]);
    assert!(said.contains("modprobe nbd"), "{said}");
    assert!(refused(&["detach", &pool.volume("v")]).contains("is not attached"));
    assert_eq!(served.stop().0, 0);
}

/// A restart once removed the disks of programs that do not claim them, such as QEMU.
#[test]
fn a_server_ends_in_good_order_at_the_signal_of_a_restart() {
    let pool = TestPool::new(&[]);
    let mut served = pool.serve(&[]);
    let process = i32::try_from(served.process_id()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::USR1).unwrap();
    assert_eq!(served.wait().0, 0);
    pool.assert_clean();
}

/// Two disks of one volume would each cache what the other one changes.
#[test]
fn a_volume_is_a_disk_by_one_driver_only() {
    let pool = TestPool::new(&[]);
    let path = pool.path();
    let serve = |options: &[&str]| refused(&[&["serve", &path], options].concat());
    let said = serve(&["--ublk", "a", "b", "--nbd-device", "c", "b"]);
    assert!(said.contains("volume 'b'") && said.contains("one disk only"), "{said}");
    for all in [&["--ublk", "--nbd-device", "a"], &["--ublk", "a", "--nbd-device"]] {
        let said = serve(all);
        assert!(said.contains("each has to name its volumes"), "{said}");
    }
}
