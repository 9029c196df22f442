//! Campaigns in directories whose names are not UTF-8: their journals could not be written.

use crate::common::gemelo;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

const HEAD: &str = "[campaign]\nname = 'x'\nrepetitions = 1\nwarm-up-runs = 0\n";

const MADE: &str = r#"
[[target]]
name = "made"
commands = { place = "$WORK/made", make = 'mkdir "$PLACE"', unmake = 'test -d "$WORK" && touch BESIDE/unmade' }
[[workload]]
name = "script"
command = 'test -d "$PLACE" && touch BESIDE/begun; sleep SECONDS'
targets = ["made"]
"#;

const OTHERS: &str = r#"
[[target]]
name = "plain"
directory = {}
[[target]]
name = "volume"
volume = { size = "8m", mode = "inline" }
[[workload]]
name = "load"
bench = { operation = "write", bytes = "64k", file-size = "64k" }
"#;

fn words(words: &[&OsStr]) -> Vec<OsString> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn plan(place: &Path, parts: &[&str], seconds: u32) -> OsString {
    let path = place.join("plan.toml");
    let text = [&[HEAD], parts].concat().concat();
    let text = text.replace("BESIDE", place.to_str().unwrap());
    fs::write(&path, text.replace("SECONDS", &seconds.to_string())).unwrap();
    path.into()
}

#[test]
fn a_campaign_runs_in_a_directory_of_any_name() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join(OsStr::from_bytes(b"caf\xe9 \\xe9"));
    let plan = plan(place.path(), &[MADE, OTHERS], 0);
    let run = ["campaign".as_ref(), "run".as_ref(), plan.as_os_str(), "--out".as_ref()];
    let ran = gemelo(&[words(&run), words(&[out.as_os_str()])].concat());
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("4 runs complete in "), "{}", ran.out);
    assert!(!out.join("work").exists());
    assert_eq!(fs::read(out.join("journal.jsonl")).unwrap(), b"");
    assert!(!ran.out.contains('\u{fffd}') && !ran.err.contains('\u{fffd}'), "{}", ran.out);
}

#[test]
fn what_a_killed_campaign_made_is_found_by_its_name() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join(OsStr::from_bytes(b"caf\xe9"));
    let mut campaign = Command::new(env!("CARGO_BIN_EXE_gemelo"))
        .args(["campaign", "run"])
        .arg(plan(place.path(), &[MADE], 600))
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    gemelo_tools::wait_until("the script runs", || place.path().join("begun").exists());
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    let journal = fs::read_to_string(out.join("journal.jsonl")).unwrap();
    assert!(journal.contains(r"caf\\xe9"), "{journal}");
    let ran = gemelo(&words(&["campaign".as_ref(), "clean".as_ref(), out.as_os_str()]));
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(!out.join("work").exists() && place.path().join("unmade").exists());
    assert_eq!(fs::read(out.join("journal.jsonl")).unwrap(), b"");
}
