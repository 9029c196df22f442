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
