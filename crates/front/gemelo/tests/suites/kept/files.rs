//! Kept files: results, sets, logs, profiles, traces, job files, plans, streams, a campaign.

use super::{keeps_anew, kept, pack, unpack};
use crate::served::{TestPool, done, noise};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A kept file.
struct File {
    name: &'static str,
    /// The command that makes it as `OUT`, in the directory of [`sources`]; or the file of the
    /// repository that is kept.
    maker: &'static str,
    /// The command that reads it as `IN`.
    reader: &'static str,
    /// A part of what that says.
    said: &'static str,
}

const FILES: [File; 13] = [
    File {
        name: "bench.json",
        maker: "bench --target null: --file-size 64k --bytes 64k --distribution unique --json OUT",
        reader: "compare IN IN",
        said: "write/operations_per_s",
    },
    File {
        name: "repetitions.json",
        maker: "bench --target null: --file-size 64k --bytes 64k --distribution unique \
                --repetitions 2 --json OUT",
        reader: "compare IN IN",
        said: "write/operations_per_s",
    },
    File {
        name: "replay.json",
        maker: "replay trace.fiu --target null: --speed max --json OUT",
        reader: "compare IN IN",
        said: "/operations_per_s",
    },
    File {
        name: "filebench.json",
        maker: "filebench script.f --dir files --json OUT",
        reader: "compare IN IN",
        said: "fill",
    },
    File {
        name: "pool.json",
        maker: "pool stat pool --json OUT",
        reader: "compare IN IN",
        said: "space/data_bytes",
    },
    File {
        name: "scan.json",
        maker: "scan data --json OUT",
        reader: "report IN --output report.html",
        said: "",
    },
    File {
        name: "data.set",
        maker: "scan data --save OUT",
        reader: "scan merge IN",
        said: "dedup ratio with zeros        2.0000",
    },
    File {
        name: "operations.log",
        maker: "bench --target null: --file-size 64k --bytes 64k --distribution unique --log OUT",
        reader: "log IN",
        said: "0,write,15,",
    },
    File {
        name: "profile.toml",
        maker: "distribution convert personal --output OUT",
        reader: "distribution check IN",
        said: "sound, 62 classes, 29,530,586 blocks",
    },
    File {
        name: "distribution.txt",
        maker: "distribution convert primary --output OUT",
        reader: "distribution check IN",
        said: "sound",
    },
    File {
        name: "trace.fiu",
        maker: "trace synthesize --preset web --records 9 --output OUT",
        reader: "trace stat IN",
        said: "records",
    },
    File {
        name: "job.toml",
        maker: "examples/bench/suite.toml",
        reader: "bench IN --target null: --file-size 8m --bytes 64k",
        said: "sequential rewrite",
    },
    File {
        name: "plan.toml",
        maker: "plans/quick.toml",
        reader: "campaign run IN --plan",
        said: "volume-inline",
    },
];
/// A script, as [`FILES`] has its result.
const SCRIPT: &str = "set $dir=/nowhere\nset mode quit firstdone\n\
    define fileset name=set,path=$dir,entries=2,size=16k\n\
    define process name=p { thread name=t,memsize=1m { flowop createfile name=new,filesetname=set,fd=1\n\
    flowop writewholefile name=fill,fd=1,iosize=16k\nflowop closefile name=close,fd=1\n\
    flowop finishoncount name=done,value=2,target=fill } }\nrun 20\n";
/// A campaign, and its plan.
const CAMPAIGN: &str = "campaign.tar.zst";
const PLAN: &str = "[campaign]\nname = 'kept'\nrepetitions = 2\nbaseline = 'directory'\n\
    [[target]]\nname = 'directory'\ndirectory = {}\n\
    [[target]]\nname = 'volume'\nvolume = { mode = 'inline', size = '1m' }\n\
    [[workload]]\nname = 'fill'\nbench = { file-size = '1m', distribution = 'unique' }\n";
/// The stream of a snapshot, and that of the differences of a later one.
const STREAM: &str = "volume.stream";
const DIFFERENCES: &str = "differences.stream";
/// The same, compressed.
const COMPRESSED: [&str; 2] = ["compressed.stream", "compressed-differences.stream"];

fn content() -> Vec<u8> {
    [noise(3, 40 << 10), noise(3, 40 << 10)].concat()
}

/// Runs the program in a directory by its name, so that no result has a path of this machine.
fn run(directory: &Path, text: &str, file: &Path, input: Stdio) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    command.arg0("gemelo").current_dir(directory).stdin(input);
    for word in text.split_whitespace() {
        match word {
            "IN" => command.arg(file),
            word => command.arg(word),
        };
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}: {said}");
    said
}

fn make(file: &File, path: &Path, directory: &Path) {
    let given = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file.maker);
    if given.is_file() {
        fs::copy(given, path).unwrap();
        return;
    }
    run(directory, &file.maker.replace("OUT", file.name), path, Stdio::null());
    fs::copy(directory.join(file.name), path).unwrap();
}

/// Writes what the commands that make kept files read.
fn sources(directory: &Path) {
    fs::write(directory.join("data"), content()).unwrap();
    if keeps_anew() {
        fs::copy(kept("files/trace.fiu"), directory.join("trace.fiu")).unwrap();
        fs::write(directory.join("script.f"), SCRIPT).unwrap();
        for words in ["pool create pool --capacity 16m", "volume import data pool/data"] {
            run(directory, words, directory, Stdio::null());
        }
    }
}

#[test]
fn kept_files_are_read_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    sources(directory.path());
    for file in &FILES {
        let path = kept(&format!("files/{}", file.name));
        if keeps_anew() && !path.exists() {
            make(file, &path, directory.path());
        }
        let said = run(directory.path(), file.reader, &path, Stdio::null());
        assert!(said.contains(file.said), "{}: {said}", file.name);
    }
    let found = fs::read_dir(kept("files")).unwrap().count();
    assert_eq!(found, FILES.len() + 5, "each file is of the list, a stream or the campaign");
}

#[test]
fn a_kept_campaign_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (archive, path) = (kept(&format!("files/{CAMPAIGN}")), directory.path().join("kept"));
    if keeps_anew() && !archive.exists() {
        fs::write(directory.path().join("plan.toml"), PLAN).unwrap();
        run(directory.path(), "campaign run plan.toml --out made", &path, Stdio::null());
        pack(&directory.path().join("made"), &archive);
    }
    fs::create_dir(&path).unwrap();
    unpack(&archive, &path);
    for report in ["report.html", "report.md", "figures.csv"] {
        let _ = fs::remove_file(path.join(report));
    }
    run(directory.path(), "campaign report IN", &path, Stdio::null());
    let report = fs::read_to_string(path.join("report.md")).unwrap();
    assert!(report.contains("volume") && report.contains("fill"), "{report}");
    assert!(path.join("figures.csv").exists());
}

/// Sends a snapshot of a pool to a kept file, unless it is there.
fn keep_stream(name: &str, pool: &TestPool, words: &[&str]) {
    let path = kept(&format!("files/{name}"));
    if !keeps_anew() || path.exists() {
        return;
    }
    let mut send = Command::new(env!("CARGO_BIN_EXE_gemelo"));
    send.args(["volume", "send"]).args(words).current_dir(pool.directory.path());
    let output = send.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    fs::write(&path, output.stdout).unwrap();
}

/// Makes the kept streams that are missing.
fn keep_streams() {
    let pool = TestPool::new(&["--compression", "lz4"]);
    for (number, name) in ["first", "second"].into_iter().enumerate() {
        let source = pool.file(name);
        fs::write(&source, content_of(number)).unwrap();
        let volume = pool.volume("v");
        let import = ["volume", "import", &source, &volume, "--force"];
        done(if number == 0 { &import[..4] } else { &import });
        done(&["volume", "snapshot", &pool.volume("v"), name]);
    }
    keep_stream(STREAM, &pool, &["pool/first"]);
    keep_stream(DIFFERENCES, &pool, &["pool/second", "--since", "pool/first"]);
    let [whole, differences] = COMPRESSED;
    let compress = ["--compress", "3"];
    keep_stream(whole, &pool, &[&["pool/first"], &compress[..]].concat());
    let words = ["pool/second", "--since", "pool/first"];
    keep_stream(differences, &pool, &[&words[..], &compress].concat());
}

/// The contents of the first and of the second snapshot, of which a part can be compressed.
fn content_of(number: usize) -> Vec<u8> {
    let mut content = [content(), b"gemelo".repeat(7 << 10)].concat();
    content[..4096].fill(number as u8);
    content
}

#[test]
fn kept_streams_are_received() {
    if keeps_anew() {
        keep_streams();
    }
    for [whole, differences] in [[STREAM, DIFFERENCES], COMPRESSED] {
        let pool = TestPool::new(&[]);
        receive_in_order(&pool, [(whole, "first"), (differences, "second")]);
    }
}

fn receive_in_order(pool: &TestPool, received: [(&str, &str); 2]) {
    for (number, (stream, name)) in received.into_iter().enumerate() {
        let path = kept(&format!("files/{stream}"));
        let input = fs::File::open(&path).unwrap();
        run(pool.directory.path(), &format!("volume receive pool/{name}"), &path, input.into());
        let out = pool.file(&format!("out of {name}"));
        done(&["volume", "export", &pool.volume(name), &out]);
        assert!(fs::read(out).unwrap() == content_of(number), "{stream}");
    }
}
