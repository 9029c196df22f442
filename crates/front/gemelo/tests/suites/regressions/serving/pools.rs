//! Loads and results that went to a pool by the path of its directory or of its files.

use crate::served::{TestPool, done, refused};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SCRIPT: &str = "define fileset name=pool,path=$dir,entries=2,dirwidth=5,size=4k\n\
    define process name=p { thread name=t,memsize=1m { flowop createfile name=new,filesetname=pool,fd=1\n\
    flowop closefile name=close,fd=1\nflowop finishoncount name=done,value=1,target=close } }\nrun 1\n";

const TRACE: &str = "1 7 p 8 8 W 6 0 0123456789abcdef0123456789abcdef\n";

/// Every way to write by a path, with the pool as `POOL`.
const LOADS: &[&[&str]] = &[
    &["bench", "--bytes", "64k", "--target"],
    &["bench", "--bytes", "64k", "--force", "--target"],
    &["bench", "--operation", "read", "--bytes", "64k", "--target"],
    &["suite", "--file-size", "64k", "--force", "--target"],
    &["replay", "TRACE", "--force", "--target"],
];

const WRITERS: &[&[&str]] = &[
    &["generate", "--bytes", "16k", "OUT"],
    &["generate", "--bytes", "16k", "--force", "OUT"],
    &["bench", "--target", "null:", "--file-size", "16k", "--json", "OUT"],
    &["bench", "--target", "null:", "--file-size", "16k", "--force", "--log", "OUT"],
    &["bench", "--target", "null:", "--file-size", "16k", "--report", "OUT"],
    &["trace", "convert", "TRACE", "--to", "fiu", "--force", "--output", "OUT"],
    &["trace", "synthesize", "--preset", "web", "--records", "9", "--output", "OUT"],
    &["scan", "TRACE", "--json", "OUT"],
    &["distribution", "convert", "personal", "--output", "OUT"],
    &["volume", "export", "POOL/web", "--force", "OUT"],
];

/// The files of a directory with their contents.
fn contents(directory: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            (entry.file_name().to_str().unwrap().to_owned(), bytes)
        })
        .collect()
}

fn pool_with_a_volume() -> TestPool {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("web"), "--size", "1m"]);
    fs::write(pool.file("trace"), TRACE).unwrap();
    pool
}

fn filled<'a>(pool: &TestPool, words: &[&'a str], out: &str) -> Vec<String> {
    let word = |word: &&'a str| match *word {
        "OUT" => out.to_owned(),
        "TRACE" => pool.file("trace"),
        other => other.replace("POOL", &pool.path()),
    };
    words.iter().map(word).collect()
}

fn refusal(words: &[String]) -> String {
    let err = refused(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(!err.contains("--force"), "{words:?}: {err}");
    assert!(err.contains("pool"), "{words:?}: {err}");
    err
}

/// `bench --target p/web` without `pool:` measured a plain file in the pool's directory; `--target
/// p/data` of an idle pool was refused with the advice --force, which destroyed the pool.
#[test]
fn a_path_in_a_pool_is_no_target() {
    let pool = pool_with_a_volume();
    let before = contents(&pool.path());
    for load in LOADS {
        for target in ["", "/web", "/data", "/metadata", "/config"] {
            let target = format!("{}{target}", pool.path());
            let words = [filled(&pool, load, ""), vec![target.clone()]].concat();
            let err = refusal(&words);
            assert!(err.contains(&format!("pool:{}/", pool.path())), "{words:?}: {err}");
        }
    }
    let err = refusal(&filled(&pool, &["bench", "--target", "POOL/web"], ""));
    assert!(err.contains(&format!("pool:{}/web", pool.path())), "the volume is named: {err}");
    assert_eq!(contents(&pool.path()), before);
    pool.assert_clean();
}

#[test]
fn a_path_in_a_pool_is_no_place_for_a_result() {
    let pool = pool_with_a_volume();
    let before = contents(&pool.path());
    for writer in WRITERS {
        for out in ["/new", "/data", "/metadata"] {
            refusal(&filled(&pool, writer, &format!("{}{out}", pool.path())));
        }
    }
    for words in [
        &["manual", "POOL/man"][..],
        &["generate", "--bytes", "16k", "--files", "2", "POOL/tree"],
        &["campaign", "run", "quick", "--out", "POOL"],
        &["campaign", "run", "quick", "--out", "POOL/campaign"],
    ] {
        refusal(&filled(&pool, words, ""));
    }
    assert_eq!(contents(&pool.path()), before);
    pool.assert_clean();
}

/// A pool in the directory of another one had the name of its volume, and a campaign or a script
/// wrote deeper in it.
#[test]
fn a_path_in_a_pool_is_no_place_for_a_pool_and_no_directory_below_it_is_written() {
    let pool = pool_with_a_volume();
    let before = contents(&pool.path());
    fs::write(pool.file("script"), SCRIPT).unwrap();
    let plan = "[campaign]\nname='x'\nrepetitions=1\nwarm-up-runs=0\nwork='POOL'\n[[target]]\n\
        name='a'\ndirectory={}\n[[workload]]\nname='w'\ncommand='true'\n";
    fs::write(pool.file("plan.toml"), plan.replace("POOL", &pool.path())).unwrap();
    let [script, plan, new, out] =
        ["script", "plan.toml", "new", "out"].map(|name| pool.file(name));
    for words in [
        &["pool", "create", "POOL/new", "--capacity", "64m"][..],
        &["pool", "create", &new, "--capacity", "64m", "--data", "POOL/more"],
        &["pool", "create", &new, "--capacity", "64m", "--force", "--data", "POOL/data"],
        &["pool", "create", &new, "--capacity", "64m", "--metadata", "POOL/more"],
        &["pool", "create", &new, "--capacity", "64m", "--metadata", "POOL"],
        &["filebench", &script, "--dir", "POOL/deep/deeper"],
        &["campaign", "run", &plan, "--out", &out],
        &["generate", "--bytes", "16k", "POOL/deep/file"],
    ] {
        let err = refusal(&filled(&pool, words, ""));
        assert!(
            err.contains("is in the directory of the pool") || err.contains("is the dir"),
            "{err}"
        );
        assert!(!Path::new(&new).exists() && !Path::new(&out).exists(), "{words:?}");
    }
    assert_eq!(contents(&pool.path()), before);
    // Beside a disk of a pool whose directory is elsewhere, anything may be.
    fs::create_dir(pool.file("ssd")).unwrap();
    done(&["pool", "create", &new, "--capacity", "64m", "--metadata", &pool.file("ssd")]);
    done(&["pool", "create", &pool.file("ssd/p"), "--capacity", "64m"]);
    done(&["scan", &script, "--json", &pool.file("ssd/file")]);
}

/// The tree of a fileset is removed with --force, and it may be a pool, or have one.
#[test]
fn a_fileset_removes_no_pool() {
    let pool = pool_with_a_volume();
    let script = pool.file("script");
    let before = contents(&pool.path());
    let run = |directory: &str| {
        vec![
            "filebench".to_owned(),
            script.clone(),
            "--dir".to_owned(),
            directory.to_owned(),
            "--force".to_owned(),
        ]
    };
    fs::write(&script, SCRIPT).unwrap();
    refusal(&run(pool.directory.path().to_str().unwrap()));
    fs::write(&script, SCRIPT.replace("=pool", "=set")).unwrap();
    refusal(&run(&pool.path()));
    // A directory above the pool.
    let name = pool.directory.path().file_name().unwrap().to_str().unwrap();
    fs::write(&script, SCRIPT.replace("=pool", &format!("={name}"))).unwrap();
    let above = pool.directory.path().parent().unwrap();
    refusal(&run(above.to_str().unwrap()));
    assert!(Path::new(&pool.path()).exists());
    assert_eq!(contents(&pool.path()), before);
}

/// A disk elsewhere is known by its mark.
#[test]
fn a_disk_of_a_pool_elsewhere_is_no_target() {
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    done(&["pool", "create", &name("p"), "--capacity", "64m", "--data", &name("blocks")]);
    for force in [&[][..], &["--force"]] {
        let target = name("blocks");
        let words = [&["bench", "--bytes", "64k", "--target", &target], force].concat();
        let err = refusal(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(err.contains("is a disk of a pool"), "{err}");
    }
    done(&["pool", "rm", &name("p"), "--force"]);
    assert!(!Path::new(&name("p")).exists(), "the removal of a pool still removes it");
}
