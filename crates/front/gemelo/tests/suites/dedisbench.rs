//! Tests of `gemelo dedisbench`: its translation, and a run.

use crate::common::gemelo;
use std::fs;

#[test]
fn the_older_command_line_is_translated() {
    let ran =
        gemelo(&["dedisbench", "--dry-run", "-p", "-w", "-t1", "-b1024", "-c1", "-vabc123", "-a0"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with(
            "gemelo bench --target . --processes 1 --file-size 2048m --operation write"
        )
    );
    assert!(
        ran.out.contains("--pattern sequential --peak --time 1m")
            && ran.out.contains("--block-size 1024")
    );
    assert!(ran.err.contains("-vabc123: the seed "), "{}", ran.err);
}

#[test]
fn a_command_line_with_its_configuration_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("data")).unwrap();
    let text = format!(
        "[execution]\nnprocs=2\nfilesize=1\naccess_type=0\nseed=5\n[results]\ntempfilespath={}\n\
         general_results={}:0:0\naccess_results={}\n",
        path("data"),
        path("out.json"),
        path("accesses")
    );
    fs::write(path("conf.ini"), text).unwrap();
    let ran = gemelo(&["dedisbench", "-p", "-w", "-s2", &format!("-f{}", path("conf.ini"))]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.starts_with("gemelo bench --target "), "{}", ran.out);
    let result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path("out.json")).unwrap()).unwrap();
    assert_eq!(result["schema"], "gemelo.bench/1");
    assert!(fs::metadata(path("accesses")).unwrap().len() > 0);
    assert_eq!(fs::read_dir(path("data")).unwrap().count(), 0, "files are removed");
}

#[test]
fn what_is_wrong_is_named_with_its_place_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("conf.ini");
    fs::write(&path, "[execution]\n\nsync=7\n").unwrap();
    let ran = gemelo(&["dedisbench", "-p", "-w", "-t1", "-f", path.to_str().unwrap()]);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains(&format!("{}:3: sync: must be from 0 to 3", path.display())),
        "{}",
        ran.err
    );
    let ran = gemelo(&["dedisbench", "-p", "-w"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("lacks -t<MINUTES> or -s<MB>"), "{}", ran.err);
}
