//! Tests of the rules by which every command writes results. Files appear complete or not at all
//! and keep their mode. Outputs that are not regular files are written directly and never replaced.
//! Outputs that cannot be written are refused before any work is done.

use crate::common::gemelo;
use gemelo::list::COMMANDS;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A trace of two records, as `WRITER`s read it.
const TRACE: &str = "1 7 p 8 8 W 6 0 0123456789abcdef0123456789abcdef\n2 7 p 16 8 R 6 0 0123456789abcdef0123456789abcde0\n";

/// A script of Filebench's language that runs for a moment.
const SCRIPT: &str = "set $dir=/nowhere\nset mode quit firstdone\n\
    define fileset name=set,path=$dir,entries=2,dirwidth=5,size=4k,prealloc=50\n\
    define process name=p { thread name=t,memsize=1m { flowop createfile name=new,filesetname=set,fd=1\n\
    flowop closefile name=close,fd=1\nflowop finishoncount name=done,value=1,target=close } }\nrun 1\n";

/// Every call that writes a file, with `OUT` in its place, and `TRACE`, `SCRIPT` and `DIR` for what
/// it reads.
fn writers() -> impl Iterator<Item = Vec<&'static str>> {
    COMMANDS.iter().flat_map(|command| command.writers.iter().map(|one| command.words(one)))
}

struct TestDirectory {
    directory: tempfile::TempDir,
}

impl TestDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("trace"), TRACE).unwrap();
        fs::write(directory.path().join("script"), SCRIPT).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// The words of a writer, its output being `out`.
    fn words(&self, writer: &[&str], out: &str, more: &[&str]) -> Vec<String> {
        let word = |word: &&str| match *word {
            "OUT" => out.to_owned(),
            "TRACE" => self.path("trace"),
            "SCRIPT" => self.path("script"),
            "DIR" => self.path("dir"),
            other => other.to_owned(),
        };
        writer.iter().chain(more).map(word).collect()
    }

    /// Returns the files that gemelo created and did not remove.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.directory.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".gemelo-")).collect()
    }
}

fn succeeds(words: &[String]) {
    let ran = gemelo(words);
    assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
}

#[test]
fn a_file_is_replaced_whole_through_links_and_keeps_its_mode() {
    let directory = TestDirectory::new();
    for writer in writers() {
        let (file, link) = (directory.path("file"), directory.path("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        let ran = gemelo(&directory.words(&writer, &link, &[]));
        assert!(ran.status == 2 && ran.err.contains("--force"), "{writer:?}: {}", ran.err);
        assert_eq!(fs::read(&file).unwrap(), b"old", "{writer:?}");
        if writer != ["generate", "--bytes", "16k", "OUT"] {
            assert_eq!(ran.out, "", "{writer:?}");
        }
        succeeds(&directory.words(&writer, &link, &["--force"]));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{writer:?}");
        let status = fs::metadata(&file).unwrap();
        assert_eq!(status.mode() & 0o777, 0o640, "{writer:?}");
        assert!(status.ino() != inode && fs::read(&file).unwrap() != b"old", "{writer:?}");
        assert_eq!(directory.leftovers(), [""; 0], "{writer:?}");
        fs::remove_file(&file).unwrap();
        // The link alone overwrites nothing.
        succeeds(&directory.words(&writer, &link, &[]));
        assert!(fs::metadata(&file).unwrap().is_file(), "{writer:?}");
        fs::remove_file(&file).unwrap();
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn what_is_no_file_is_written_through_with_and_without_force() {
    let directory = TestDirectory::new();
    let (null, pipe) = (directory.path("null"), directory.path("pipe"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let device = rustix::fs::makedev(1, 3);
    let is_root =
        mknodat(CWD, &null, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, device).is_ok();
    if !is_root {
        gemelo_tools::missing("root, for device nodes");
    }
    for writer in writers() {
        for more in [&[][..], &["--force"]] {
            if is_root {
                succeeds(&directory.words(&writer, &null, more));
                let kind = fs::symlink_metadata(&null).unwrap().file_type();
                assert!(kind.is_char_device(), "{writer:?} replaced the device");
            }
            let read = std::thread::scope(|scope| {
                let reader = scope.spawn(|| fs::read(&pipe).unwrap());
                succeeds(&directory.words(&writer, &pipe, more));
                reader.join().unwrap()
            });
            assert!(!read.is_empty(), "{writer:?}");
            assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo(), "{writer:?}");
        }
    }
}

#[test]
fn descriptors_take_results_without_force() {
    let directory = TestDirectory::new();
    let gemelo = env!("CARGO_BIN_EXE_gemelo");
    for writer in writers() {
        let words = |out: &str| -> String {
            let quoted = directory.words(&writer, out, &[]).into_iter();
            quoted
                .map(|word| if word == out { word } else { format!("'{word}'") })
                .collect::<Vec<_>>()
                .join(" ")
        };
        let file = directory.path("copy");
        // The shell does not wait for what is in >( ): the pipe of its standard output does.
        let script = format!(
            "{gemelo} {} 2>&1 >/dev/null | cat; cat {file}",
            words(&format!(">(cat > {file})"))
        );
        let script =
            format!("{script} >/dev/null; test -s {file} || {{ sleep 1; test -s {file}; }}");
        let through_shell = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(
            through_shell.status.success(),
            "{writer:?}: {}",
            String::from_utf8_lossy(&through_shell.stderr)
        );
        fs::remove_file(&file).unwrap();
        let script = format!("{gemelo} {} > {file}", words("/dev/stdout"));
        let ran = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(ran.status.success(), "{writer:?}: {}", String::from_utf8_lossy(&ran.stderr));
        let by_name = fs::read(&file).unwrap();
        assert!(!by_name.is_empty());
        if writer.contains(&"--json") {
            serde_json::from_slice::<serde_json::Value>(&by_name)
                .unwrap_or_else(|_| panic!("{writer:?}"));
        }
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_any_work() {
    let directory = TestDirectory::new();
    fs::create_dir(directory.path("directory")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(directory.path("socket")).unwrap();
    for writer in writers() {
        for (out, message) in [
            // Nobody makes files there, not even root.
            ("/proc/gemelo.out", "cannot create a file in /proc"),
            ("/no/such/directory/out", "/no/such/directory is not a directory"),
            (&directory.path("directory"), "is a directory: name a file in it"),
            (&directory.path("new/"), "names a directory"),
            (&directory.path("socket"), "is a socket"),
            ("/dev/fd/987", "is not an open descriptor"),
        ] {
            for more in [&[][..], &["--force"]] {
                let ran = gemelo(&directory.words(&writer, out, more));
                assert_eq!(
                    (ran.status, ran.out.as_str()),
                    (2, ""),
                    "{writer:?} {out}: {}",
                    ran.err
                );
                assert!(ran.err.contains(message), "{writer:?} {out}: {}", ran.err);
            }
        }
    }
    drop(socket);
}

#[test]
fn two_results_in_one_file_are_refused() {
    let directory = TestDirectory::new();
    let out = directory.path("out");
    for words in [
        &["scan", &directory.path("trace"), "--json", &out, "--distribution", &out][..],
        &[
            "trace",
            "stat",
            &directory.path("trace"),
            "--json",
            &out,
            "--job",
            &format!("{}/./out", directory.path(".")),
        ],
        &["bench", "--target", "null:", "--bytes", "4k", "--json", "/dev/stdout", "--log", "-"],
    ] {
        let ran = gemelo(words);
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
        assert!(ran.err.contains("two results would be written to"), "{words:?}: {}", ran.err);
    }
    assert!(!Path::new(&out).exists());
}

/// A file system of 1 MiB, for root alone.
struct Small(tempfile::TempDir);

impl Small {
    fn mounted() -> Option<Self> {
        let small = Self(tempfile::tempdir().unwrap());
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(small.0.path())
            .stderr(Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            gemelo_tools::missing("root, for mounting");
        }
        mounted.then_some(small)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_leaves_no_half_file_and_costs_no_other_result() {
    let directory = TestDirectory::new();
    let Some(small) = Small::mounted() else { return };
    let on_small = |name: &str| small.0.path().join(name).to_str().unwrap().to_owned();
    let names = || fs::read_dir(small.0.path()).unwrap().count();
    // A hundred thousand contents make a set that is larger.
    let data = directory.path("data");
    succeeds(&directory.words(
        &["generate", "--bytes", "64m", "--block-size", "512", "OUT"],
        &data,
        &[],
    ));
    let set = on_small("set");
    let ran = gemelo(&[
        "scan",
        &data,
        "--block-size",
        "512",
        "--save",
        &set,
        "--json",
        &directory.path("scan.json"),
    ]);
    assert_eq!(ran.status, 5, "{}", ran.err);
    assert!(ran.out.contains("dedup ratio"), "the result is told: {}", ran.out);
    assert!(ran.err.contains("set was not written"), "{}", ran.err);
    assert!(Path::new(&directory.path("scan.json")).exists());
    assert_eq!(names(), 0);
    for words in [
        vec!["generate", "--bytes", "4m"],
        vec!["generate", "--bytes", "4m", "--files", "9"],
        vec!["trace", "synthesize", "--preset", "web", "--records", "50000", "--output"],
    ] {
        let ran = gemelo(&[words.clone(), vec![&on_small("out")]].concat());
        assert_eq!(ran.status, 5, "{words:?}: {}", ran.err);
        assert!(ran.err.contains("No space left"), "{words:?}: {}", ran.err);
        assert_eq!(names(), 0, "{words:?}");
    }
    let log = on_small("log");
    let bench = ["bench", "--target", "null:", "--bytes", "400m", "--file-size", "400m", "--log"];
    let ran = gemelo(&[&bench[..], &[&log]].concat());
    assert_eq!(ran.status, 1, "{}", ran.out);
    assert!(ran.out.contains("the log of operations could not be written"), "{}", ran.out);
    assert_eq!(names(), 0);
}

/// A command that is interrupted after a while.
fn interrupted(words: &[String]) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    child
}

#[test]
fn ctrl_c_leaves_what_was_measured_and_nothing_that_is_half_written() {
    let directory = TestDirectory::new();
    let out = directory.path("out");
    for (words, is_kept) in [
        (&["generate", "--bytes", "200g", "OUT"][..], false),
        (&["generate", "--bytes", "200g", "--files", "4000", "OUT"], false),
        (
            &[
                "trace",
                "synthesize",
                "--preset",
                "web",
                "--records",
                "100000000",
                "--output",
                "OUT",
            ],
            false,
        ),
        (&["bench", "--target", "null:", "--time", "1h", "--rate", "10", "--json", "OUT"], true),
        (&["bench", "--target", "null:", "--time", "1h", "--rate", "10", "--log", "OUT"], true),
        (
            &["replay", "TRACE", "--target", "null:", "--speed", "0.00000000001", "--json", "OUT"],
            true,
        ),
    ] {
        let child = interrupted(&directory.words(words, &out, &[]));
        let ran = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{words:?}: {err}");
        assert_eq!(Path::new(&out).exists(), is_kept, "{words:?}: {err}");
        assert_eq!(directory.leftovers(), [""; 0], "{words:?}");
        if is_kept {
            fs::remove_file(&out).unwrap();
        }
    }
}

#[test]
fn on_a_terminal_ctrl_c_says_how_to_end_a_command_that_waits() {
    let bench =
        concat!("exec ", env!("CARGO_BIN_EXE_gemelo"), " bench --target null: --time 1h --rate 10");
    let mut child = Command::new("script")
        .args(["-qefc", bench, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    // The run has begun when its progress appears.
    let mut begun = [0; 64];
    assert!(out.read(&mut begun).unwrap() > 0);
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("press Ctrl-C again to end at once"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn control_characters_in_names_are_shown_and_end_no_line() {
    let directory = TestDirectory::new();
    let name = "a\nb\u{1b}[31mred";
    let (file, shown) = (directory.path(name), "a\\nb\\u{1b}[31mred");
    fs::write(&file, [7; 8192]).unwrap();
    let generate =
        directory.words(&["generate", "--bytes", "16k", "OUT"], &directory.path("c\nd"), &[]);
    for (words, status) in [
        (vec!["scan".to_owned(), file.clone()], 0),
        (vec!["scan".to_owned(), directory.path("no\nfile\u{1b}")], 2),
        (directory.words(&["distribution", "check", "OUT"], &file, &[]), 2),
        (generate, 0),
    ] {
        let ran = gemelo(&words);
        assert_eq!(ran.status, status, "{words:?}: {}", ran.err);
        let said = ran.out + &ran.err;
        assert!(
            !said.contains('\u{1b}') && !said.contains("a\nb") && !said.contains("c\nd"),
            "{said:?}"
        );
        assert!(
            said.contains(shown) || said.contains("c\\nd") || said.contains("no\\nfile"),
            "{said}"
        );
    }
}
