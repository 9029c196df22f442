//! `gemelo support`: what it collects, and what it leaves out.

use crate::common::{Ran, gemelo};
use crate::served::{TestPool, done, flip_first, noise};
use serde_json::Value;
use std::fs;

const SECRET: &str = "payroll-of-acme";

fn pool_with_secret() -> (TestPool, Vec<u8>) {
    let pool = TestPool::new(&["--finder-delay", "3s"]);
    let source = pool.file("source");
    let content = noise(7, 4096);
    fs::write(&source, &content).unwrap();
    done(&["volume", "import", &source, &pool.volume(SECRET)]);
    done(&["volume", "clone", &pool.volume(SECRET), "copy-of-it"]);
    (pool, content)
}

fn support(pool: &TestPool, options: &[&str]) -> Value {
    let out = pool.file("support.json");
    let path = pool.path();
    let words = [&["support", &path, "--json", &out, "--force"], options].concat();
    let Ran { status, err, .. } = gemelo(&words);
    assert_eq!(status, 0, "{err}");
    serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap()
}

#[test]
fn a_support_file_has_figures_and_no_names_unless_asked() {
    let (pool, content) = pool_with_secret();
    for is_served in [false, true] {
        let served = is_served.then(|| pool.serve(&[]));
        let file = support(&pool, &[]);
        let result = &file["result"];
        assert_eq!(result["missing"], serde_json::json!([]));
        assert_eq!(result["check"]["is_served"], is_served);
        assert_eq!(result["check"]["problems"], serde_json::json!([]));
        assert_eq!(result["settings"][0]["name"], "finder-delay");
        assert_eq!(result["stat"]["pool"]["block_bytes"], 4096);
        let names: Vec<&Value> = (0..2).map(|at| &result["stat"]["volumes"][at]["name"]).collect();
        assert_eq!(names, ["volume-1", "volume-2"]);
        assert_eq!(result["stat"]["volumes"][0]["origin"]["name"], "volume-2");
        assert!(file["provenance"]["kernel"].as_str().unwrap().starts_with("Linux"));
        let named = support(&pool, &["--names"]);
        assert_eq!(named["result"]["stat"]["volumes"][1]["name"], SECRET);
        drop(served);
    }
    // Problems name the volumes that they are of.
    flip_first(&pool, &content);
    assert_eq!(gemelo(&["pool", "check", &pool.path(), "--data"]).status, 4);
    let served = pool.serve(&[]);
    let out = pool.file("out");
    assert_ne!(gemelo(&["volume", "export", &pool.volume(SECRET), &out]).status, 0);
    let text = support(&pool, &[]).to_string();
    assert!(!text.contains(SECRET) && !text.contains("copy-of-it"), "{text}");
    drop(served);
}

#[test]
fn a_support_file_of_a_damaged_pool_says_what_is_missing() {
    let (pool, _) = pool_with_secret();
    fs::write(pool.file("pool/settings.toml"), "nonsense = 1\n").unwrap();
    let file = support(&pool, &[]);
    let missing = file["result"]["missing"].to_string();
    assert!(missing.contains("pool/settings.toml: line 1"), "{missing}");
    assert_eq!(file["result"]["check"]["problems"], serde_json::json!([]));
    let said = gemelo(&["support", &pool.file("nowhere")]);
    assert_eq!(said.status, 2, "{}", said.err);
}
