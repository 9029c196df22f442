//! Tests of manual pages, completions, `make install` and the Debian package.

use crate::common::{Ran, commands_in, gemelo};
use gemelo_tools::{has_tool, tool};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gemelo");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Runs a program that has to succeed; gives all that it said.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// All files below a directory, relative to it.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The names under "Commands:" of a help text.
fn commands(words: &[&str]) -> Vec<String> {
    let help = gemelo(&[words, &["--help"]].concat()).out;
    commands_in(&help)
}

/// The names of the manual pages that there should be.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("gemelo.1")];
    for name in commands(&[]) {
        pages.push(format!("gemelo-{name}.1").into());
        pages.extend(
            commands(&[&name]).iter().map(|below| format!("gemelo-{name}-{below}.1").into()),
        );
    }
    pages.sort();
    pages
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("new/man1");
    let words = ["manual", directory.to_str().unwrap()];
    let Ran { status, out, err } = gemelo(&words);
    assert_eq!((status, err.as_str()), (0, ""));
    let pages = pages();
    assert!(
        pages.len() > 40 && out.ends_with(&format!(": {} manual pages\n", pages.len())),
        "{out}"
    );
    assert_eq!(files(&directory), pages);
    for page in &pages {
        let text = fs::read_to_string(directory.join(page)).unwrap();
        for heading in [
            ".SH NAME",
            ".SH SYNOPSIS",
            ".SH DESCRIPTION",
            ".SH OPTIONS",
            ".SH \"EXIT STATUS\"",
            ".SH \"SEE ALSO\"",
        ] {
            assert!(text.contains(heading), "{heading} in {}", page.display());
        }
        let version = format!("\"gemelo {}\"", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&version), "{version} in {}", page.display());
        let stem = page.to_str().unwrap().trim_end_matches(".1");
        let has_commands =
            pages.iter().any(|one| one.to_str().unwrap().starts_with(&format!("{stem}-")));
        assert!(has_commands || text.contains("\n.SH EXAMPLES\n"), "examples in {stem}");
        let is_of_pools = ["pool", "volume", "serve"]
            .iter()
            .any(|name| stem[6..].starts_with(&format!("-{name}")));
        assert!(!is_of_pools || text.contains("\n.SH FILES\n"), "files in {stem}");
    }
    // Existing pages stay, unless that is asked for.
    fs::write(directory.join("gemelo-bench.1"), "mine").unwrap();
    fs::remove_file(directory.join("gemelo.1")).unwrap();
    let refused = gemelo(&words);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(!directory.join("gemelo.1").exists());
    assert_eq!(fs::read_to_string(directory.join("gemelo-bench.1")).unwrap(), "mine");
    assert_eq!(gemelo(&["manual", "--force", words[1]]).status, 0);
    assert_eq!(files(&directory), pages);
}

/// The completions of bash for the last of these words.
fn suggested_by_bash(script: &Path, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let last = words.len() - 1;
    let complete = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={last}; _gemelo gemelo '{}' '{}'; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words[last],
        words[last - 1]
    );
    run(Command::new("bash").args(["-c", &complete])).lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_plans_patterns_and_distributions() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("gemelo.bash");
    fs::write(&script, gemelo(&["completions", "bash"]).out).unwrap();
    for (words, expected) in [
        (&["gemelo", "campaign", "run", "qu"][..], &["quick"][..]),
        (&["gemelo", "bench", "--pattern", "u"], &["uniform"]),
        (&["gemelo", "bench", "--distribution", "pers"], &["personal"]),
        (&["gemelo", "generate", "--distribution", "pers"], &["personal"]),
        (&["gemelo", "distribution", "show", "pers"], &["personal"]),
    ] {
        assert_eq!(suggested_by_bash(&script, words), expected, "{words:?}");
    }
    let zsh = gemelo(&["completions", "zsh"]).out;
    for part in [":_gemelo_distributions'", "_gemelo_distributions() {", ":_gemelo_plans'"] {
        assert!(zsh.contains(part), "{part}");
    }
    let fish = gemelo(&["completions", "fish"]).out;
    assert!(fish.contains("-l distribution") && fish.contains("-r -F -a"));
    assert!(fish.contains("-a \"quick "));
}

#[test]
fn shells_understand_the_completions() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let Ran { status, out, err } = gemelo(&["completions", shell]);
        assert_eq!((status, err.as_str()), (0, ""), "{shell}");
        for word in ["snapshot", "write-share"] {
            assert!(out.contains(word), "{word} for {shell}");
        }
        if has_tool(shell) {
            let path = directory.path().join(shell);
            fs::write(&path, out).unwrap();
            run(Command::new(shell).arg("-n").arg(&path));
        }
    }
    // Completes `gemelo pool statu`.
    let script = r#"source "$0" && COMP_WORDS=(gemelo pool statu) COMP_CWORD=2 &&
        _gemelo gemelo statu pool && echo "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    let said = run(bash.args(["-c", script]).arg(directory.path().join("bash")));
    assert_eq!(said, "status\n");
}

fn make(goal: &str, destination: &Path) {
    let mut make = Command::new("make");
    make.arg(goal).arg(format!("DESTDIR={}", destination.display())).arg("PREFIX=/opt/x");
    run(make.arg(format!("BINARY={PROGRAM}")).current_dir(root()));
}

#[test]
fn what_is_installed_works_and_can_be_removed() {
    if !has_tool("make") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    make("install", directory.path());
    let installed = directory.path().join("opt/x");
    let version = run(Command::new(installed.join("bin/gemelo")).arg("--version"));
    assert_eq!(version, format!("gemelo {}\n", env!("CARGO_PKG_VERSION")));
    for path in [
        "share/man/man1/gemelo-volume-snapshot.1",
        "share/bash-completion/completions/gemelo",
        "share/zsh/site-functions/_gemelo",
        "share/fish/vendor_completions.d/gemelo.fish",
        "lib/systemd/system/gemelo@.socket",
        "lib/sysusers.d/gemelo.conf",
        "lib/tmpfiles.d/gemelo.conf",
        "share/doc/gemelo/LICENSE-MIT",
        "share/doc/gemelo/docs/README.md",
        "share/doc/gemelo/schemas/scan.schema.json",
        "share/doc/gemelo/examples/bench/suite.toml",
    ] {
        assert!(fs::metadata(installed.join(path)).unwrap().len() > 0, "{path}");
    }
    let unit = fs::read_to_string(installed.join("lib/systemd/system/gemelo@.service")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/x/bin/gemelo serve "), "{unit}");
    // Files of others stay.
    fs::write(installed.join("bin/other"), "").unwrap();
    fs::write(installed.join("share/man/man1/gemelos.1"), "").unwrap();
    make("uninstall", directory.path());
    let left = [PathBuf::from("opt/x/bin/other"), "opt/x/share/man/man1/gemelos.1".into()];
    assert_eq!(files(directory.path()), left);
}

/// Builds the package in a directory.
fn build_package(directory: &Path) -> PathBuf {
    let mut script = Command::new(root().join("scripts/deb.sh"));
    // Compressing well would take a minute.
    script.arg(directory).env("BINARY", PROGRAM).env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    run(&mut script).trim_end().into()
}

#[test]
fn the_debian_package_installs_and_leaves_pools_alone() {
    if !has_tool("dpkg-deb") || !has_tool("readelf") || !has_tool("strip") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let package = build_package(directory.path());
    let extracted = directory.path().join("extracted");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&extracted));
    let version = run(Command::new(extracted.join("usr/bin/gemelo")).arg("--version"));
    assert_eq!(version, format!("gemelo {}\n", env!("CARGO_PKG_VERSION")));
    let fields = run(Command::new("dpkg-deb").arg("-f").arg(&package));
    assert!(fields.contains(&format!("\nVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{fields}");
    assert!(fields.contains("\nDepends: libc6 (>= 2."), "{fields}");
    if has_tool("lintian") {
        let mut lintian = Command::new("lintian");
        let said = run(lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(&package));
        assert_eq!(said, "");
    }
    install_and_purge(&package, &directory.path().join("root"));
}

/// Makes a release of the program of the tests, signed with the secret key if there is one.
fn release(directory: &Path, key: Option<&PathBuf>) -> Vec<PathBuf> {
    let mut script = Command::new(root().join("scripts/release.sh"));
    script.arg(directory).env("BINARY", PROGRAM).env("LEVEL", "1");
    script.env("SOURCE_DATE_EPOCH", "1700000000");
    run(script.envs(key.map(|key| ("MINISIGN_KEY", key))));
    files(directory)
}

#[test]
fn a_release_has_the_same_bytes_signed_or_not_and_every_package_the_same_files() {
    for tool in ["rpmbuild", "rpm2cpio", "cpio", "dpkg-deb", "git"] {
        if !has_tool(tool) {
            return;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
    let found = release(&one, None);
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        "SHA256SUMS".to_owned(),
        "THIRD-PARTY.txt".to_owned(),
        format!("gemelo-{version}-1.x86_64.rpm"),
        format!("gemelo-{version}-x86_64-linux.tar.gz"),
        format!("gemelo-{version}.cdx.json"),
        format!("gemelo_{version}_amd64.deb"),
    ];
    assert_eq!(found, expected.each_ref().map(PathBuf::from));
    let key = signing_key(directory.path());
    let mut with_signature = release(&two, key.as_ref().map(|[_, secret]| secret));
    with_signature.retain(|name| name != Path::new("SHA256SUMS.minisig"));
    assert_eq!(with_signature, found);
    let sums = |directory: &Path| fs::read_to_string(directory.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&one), sums(&two));
    if let Some([public, _]) = key {
        assert_signed(&two, &public);
    }
    run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&one));
    let [_, notices, rpm, tarball, list, deb] = expected.map(|name| one.join(name));

    let unpacked = ["tar", "deb", "rpm"].map(|name| directory.path().join(name));
    unpacked.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let [tar, of_deb, of_rpm] = &unpacked;
    let strip = "--strip-components=1";
    run(Command::new("tar").arg("-xf").arg(tarball).arg(strip).arg("-C").arg(tar));
    run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(of_deb));
    let pipe = "rpm2cpio \"$0\" | cpio --quiet -idm";
    run(Command::new("sh").args(["-c", pipe]).arg(rpm).current_dir(of_rpm));
    let program = fs::read(tar.join("bin/gemelo")).unwrap();
    let installed = files(&of_rpm.join("usr"));
    // Debian has its own places for completions of zsh, the licence and the list of changes.
    assert_eq!(installed, files(&tar_with_packed_pages(tar)));
    for of_package in [of_deb, of_rpm] {
        assert!(fs::read(of_package.join("usr/bin/gemelo")).unwrap() == program);
        let there = fs::read(of_package.join("usr/share/doc/gemelo/THIRD-PARTY.txt")).unwrap();
        assert!(there == fs::read(&notices).unwrap());
    }
    let list: serde_json::Value = serde_json::from_slice(&fs::read(list).unwrap()).unwrap();
    let names: Vec<&str> = list["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for (name, is_linked) in
        [("gemelo-volume", true), ("zstd-sys", true), ("proptest", false), ("syn", false)]
    {
        assert_eq!(names.contains(&name), is_linked, "{name}");
    }
}

/// A key of minisign without a password: its public and its secret part.
fn signing_key(directory: &Path) -> Option<[PathBuf; 2]> {
    let mut generate = tool("minisign")?;
    let [public, secret] = ["key.pub", "key.sec"].map(|name| directory.join(name));
    run(generate.args(["-G", "-W", "-p"]).arg(&public).arg("-s").arg(&secret));
    Some([public, secret])
}

/// The sums of a release are signed, and nothing but these sums.
fn assert_signed(release: &Path, public: &Path) {
    let sums = release.join("SHA256SUMS");
    let verify = || {
        let mut minisign = tool("minisign").unwrap();
        minisign.arg("-V").arg("-p").arg(public).arg("-m").arg(&sums);
        minisign.output().unwrap().status.success()
    };
    assert!(verify());
    fs::write(&sums, "").unwrap();
    assert!(!verify(), "the signature is of the sums");
}

/// The files of the tarball, with manual pages that are packed as in the packages.
fn tar_with_packed_pages(tar: &Path) -> PathBuf {
    for page in fs::read_dir(tar.join("share/man/man1")).unwrap() {
        run(Command::new("gzip").arg(page.unwrap().path()));
    }
    tar.to_owned()
}

#[test]
fn both_packages_stop_every_unit_that_an_administrator_enables_and_remove_its_links() {
    let rpm = "packaging/rpm/gemelo.spec.in";
    let scripts = ["packaging/debian/prerm", rpm];
    let mut enabled = 0;
    for unit in files(&root().join("contrib/systemd")) {
        let text = fs::read_to_string(root().join("contrib/systemd").join(&unit)).unwrap();
        if text.contains("[Install]") {
            let instances = format!("'{}'", unit.to_str().unwrap().replace('@', "@*"));
            for script in scripts {
                let text = fs::read_to_string(root().join(script)).unwrap();
                assert!(text.contains(&instances), "{instances} in {script}");
            }
            let template = unit.to_str().unwrap().split_once('@').unwrap().0;
            let links = format!("/etc/systemd/system/*.wants/{template}@*.*");
            for script in ["packaging/debian/postrm", rpm] {
                let text = fs::read_to_string(root().join(script)).unwrap();
                assert!(text.contains(&links), "{links} in {script}");
            }
            enabled += 1;
        }
    }
    assert!(enabled > 3, "{enabled}");
}

/// Installs the package in a root of its own, as root only.
fn install_and_purge(package: &Path, root: &Path) {
    if !gemelo_tools::is_root("installing the package") {
        return;
    }
    if !has_tool("systemd-sysusers") || !has_tool("systemd-tmpfiles") {
        return;
    }
    for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |action: &str, what: &Path| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        dpkg.args(["--force-script-chrootless", "--force-depends", action]).arg(what);
        run(&mut dpkg)
    };
    dpkg("--install", package);
    let version = run(Command::new(root.join("usr/bin/gemelo")).arg("--version"));
    assert!(version.starts_with("gemelo "), "{version}");
    let users = fs::read_to_string(root.join("etc/passwd")).unwrap();
    let user = users.lines().find_map(|line| line.strip_prefix("gemelo:x:")).unwrap();
    let pools = root.join("var/lib/gemelo");
    let status = fs::metadata(&pools).unwrap();
    assert_eq!(status.mode() & 0o7777, 0o750);
    assert!(user.starts_with(&format!("{}:", status.uid())), "{user}");
    // A pool, as it would be there.
    fs::create_dir(pools.join("vms")).unwrap();
    fs::write(pools.join("vms/data"), "blocks").unwrap();
    // Links that `systemctl enable` makes for an instance of each unit, and one of somebody else.
    let wants = root.join("etc/systemd/system/sockets.target.wants");
    fs::create_dir_all(&wants).unwrap();
    let mut units = files(&crate::packaging::root().join("contrib/systemd"));
    units.retain(|unit| unit.to_str().unwrap().contains('@'));
    let units: Vec<String> =
        units.iter().map(|unit| unit.to_str().unwrap().replace('@', "@vms")).collect();
    assert!(units.len() >= 7, "{units:?}");
    for unit in units.iter().map(String::as_str).chain(["other@vms.socket"]) {
        std::os::unix::fs::symlink("/usr/lib/systemd/system/x", wants.join(unit)).unwrap();
    }
    dpkg("--remove", Path::new("gemelo"));
    let linked = fs::read_dir(&wants).unwrap().count();
    assert_eq!(linked, units.len() + 1, "an administrator may install it again");
    let said = dpkg("--purge", Path::new("gemelo"));
    let left: Vec<_> =
        fs::read_dir(&wants).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["other@vms.socket"]);
    assert!(said.contains("are kept"), "{said}");
    assert!(!root.join("usr/bin/gemelo").exists());
    assert_eq!(fs::read_to_string(pools.join("vms/data")).unwrap(), "blocks");
}
