//! Names that are not UTF-8: a panic after the whole work, a result that was not written, and
//! replacement characters.

use crate::common::gemelo;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

fn assert_kept(text: &str) {
    assert!(text.contains("caf\\xe9"), "{text}");
    assert!(!text.contains('\u{fffd}'), "{text}");
}

#[test]
fn a_scan_keeps_names_byte_for_byte() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join(OsStr::from_bytes(b"\xff\xfe")), [[7u8; 4096]; 3].concat()).unwrap();
    let output = |name: &[u8]| place.path().join(OsStr::from_bytes(name)).into_os_string();
    let (found, json) = (output(b"found\xe9"), output(b"result\xe9.json"));
    let words: Vec<OsString> = vec![
        "scan".into(),
        data.clone().into(),
        "--by-directory".into(),
        "--distribution".into(),
        found.clone(),
        "--json".into(),
        json.clone(),
    ];
    let ran = gemelo(&words);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_kept(&ran.out);
    assert_eq!(fs::read_to_string(&found).unwrap(), "2 1\n");
    let mut profile = found;
    profile.push(".toml");
    assert_kept(&fs::read_to_string(profile).unwrap());
    let text = fs::read_to_string(json).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_kept(file["input"]["paths"][0].as_str().unwrap());
    assert_kept(file["provenance"]["command_line"][2].as_str().unwrap());
    let place = &file["result"]["block_sizes"][0]["max_repeated"][0]["place"]["path"];
    assert!(place.as_str().unwrap().ends_with("caf\\xe9/\\xff\\xfe"), "{place}");
    let missing: Vec<OsString> = vec!["scan".into(), output(b"caf\xe9-missing")];
    let ran = gemelo(&missing);
    assert_eq!(ran.status, 2, "{}", ran.out);
    assert_kept(&ran.err);
}

#[test]
fn generated_data_and_traces_may_have_such_names() {
    let place = tempfile::tempdir().unwrap();
    let made = place.path().join(OsStr::from_bytes(b"caf\xe9"));
    let words: Vec<OsString> =
        vec!["generate".into(), made.clone().into(), "--bytes".into(), "1m".into()];
    let ran = gemelo(&words);
    assert_eq!((ran.status, fs::metadata(&made).unwrap().len()), (0, 1 << 20), "{}", ran.err);
    assert_kept(&ran.out);
    let trace = place.path().join(OsStr::from_bytes(b"caf\xe9.trace"));
    fs::write(&trace, "1 7 p 8 8 W 6 0 0123456789abcdef0123456789abcdef\n").unwrap();
    let words: Vec<OsString> =
        vec!["trace".into(), "stat".into(), trace.into(), "--json".into(), "-".into()];
    let ran = gemelo(&words);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_kept(
        &serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["input"]["traces"][0]
            .to_string()
            .replace("\\\\", "\\"),
    );
}

/// Targets were refused by the parser of the command line, or shown with replacement characters.
#[test]
fn load_runs_on_targets_with_such_names() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| place.path().join(OsStr::from_bytes(name)).into_os_string();
    let run = |words: &[&OsStr]| gemelo(&words.iter().map(OsString::from).collect::<Vec<_>>());
    let os = OsStr::new::<str>;
    let (target, json) = (at(b"caf\xe9 \\xe9"), at(b"caf\xe9.json"));
    let counts = at(b"caf\xe9.txt");
    fs::write(&counts, "0 3\n1 1\n").unwrap();
    let load = ["bench", "--operation", "write", "--file-size", "64k", "--keep"].map(os);
    let more = [os("--distribution"), &counts, os("--json"), &json];
    let ran = run(&[&load[..], &[os("--target"), &target], &more].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_kept(&ran.out);
    assert!(std::path::Path::new(&target).exists());
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let named = result["input"][0]["target"].as_str().unwrap();
    assert!(named.ends_with(r"caf\xe9 \x5cxe9"), "{named}");
    let ran = run(&[os("verify"), &json]);
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert_kept(&ran.out);

    let pool = at(b"caf\xe9.pool");
    let volume = at(b"caf\xe9.pool/disk");
    let ran = run(&[os("pool"), os("create"), &pool, os("--capacity"), os("16m")]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_kept(&ran.out);
    let ran = run(&[os("volume"), os("create"), &volume, os("--size"), os("4m")]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_kept(&ran.out);
    let mut uri = OsString::from("pool:");
    uri.push(&volume);
    let ran = run(&[&load[..5], &[os("--target"), &uri]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_kept(&ran.out);
    let ran = run(&[&load[..5], &[os("--target"), &volume]].concat());
    assert_eq!(ran.status, 2, "{}", ran.out);
    assert_kept(&ran.err);

    let script = at(b"caf\xe9.f");
    let text = "set $dir=/nowhere\ndefine file name=f,path=$dir,size=16k,prealloc\n\
                define process name=p { thread name=t,memsize=1m {\n\
                flowop read name=r,filename=f,iosize=4k\n\
                flowop finishoncount name=c,value=3 } }\nrun 1\n";
    fs::write(&script, text).unwrap();
    let files = at(b"caf\xe9.files");
    let ran = run(&[os("filebench"), &script, os("--dir"), &files, os("--keep")]);
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(fs::read_dir(&files).unwrap().next().is_some(), "{}", ran.out);
}
