//! Results of fio that were misread or refused.

use crate::common::gemelo;
use std::fs;
use std::path::Path;

fn version_3(iops: f64, list: &str) -> String {
    format!(
        "{{\n  \"fio version\" : \"fio-3.33\",\n  \"{list}\" : [ {{ \"jobname\" : \"j\", \
         \"error\" : 0, \"job_runtime\" : 1000, \"read\" : {{ \"io_bytes\" : 4096000, \
         \"bw_bytes\" : 4096000, \"iops\" : {iops}, \"total_ios\" : 1000, \"lat_ns\" : \
         {{ \"min\" : 10, \"max\" : 900, \"mean\" : 100.0 }} }} }} ]\n}}\n"
    )
}

fn compared(directory: &Path, text: &str) -> crate::common::Ran {
    let (one, other) = (directory.join("one.json"), directory.join("other.json"));
    fs::write(&one, text).unwrap();
    fs::write(&other, version_3(1000.0, "jobs")).unwrap();
    gemelo(&[
        "compare".as_ref(),
        one.as_os_str(),
        other.as_os_str(),
        "--all".as_ref(),
        "--json".as_ref(),
        "-".as_ref(),
    ])
}

/// The read rate of the first side.
fn rate(ran: &crate::common::Ran) -> f64 {
    assert_eq!(ran.status, 0, "{}", ran.err);
    let file: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let rows = file["result"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["figure"] == "read/operations_per_s").unwrap();
    row["before"]["median"].as_f64().unwrap()
}

#[test]
fn results_of_fio_2_are_refused_because_their_units_differ() {
    let place = tempfile::tempdir().unwrap();
    let ran = compared(
        place.path(),
        "{ \"fio version\" : \"fio-2.10\", \"jobs\" : [ { \"jobname\" : \"j\", \"read\" : \
         { \"io_bytes\" : 89304, \"bw\" : 2976, \"iops\" : 744.13, \"total_ios\" : 22326, \
         \"clat\" : { \"mean\" : 124.10 } } } ] }",
    );
    assert_eq!(ran.status, 2, "{}", ran.out);
    assert!(ran.err.contains("fio-2.10") && ran.err.contains("fio 3"), "{}", ran.err);
}

#[test]
fn text_after_the_document_several_documents_and_clients_are_read() {
    let place = tempfile::tempdir().unwrap();
    let normal =
        version_3(700.0, "jobs") + "\nj: (groupid=0, jobs=1): err= 0: pid=1\n  read: IOPS=1\n";
    assert_eq!(rate(&compared(place.path(), &normal)), 700.0);
    let status = version_3(900.0, "jobs") + &version_3(800.0, "jobs");
    let ran = compared(place.path(), &status);
    assert_eq!(rate(&ran), 800.0, "the last document is of the whole run");
    assert!(ran.err.contains("2 documents"), "{}", ran.err);
    assert_eq!(rate(&compared(place.path(), &version_3(600.0, "client_stats"))), 600.0);
    let cut = version_3(900.0, "jobs").replace("]\n}\n", "");
    assert_eq!(compared(place.path(), &cut).status, 2);
}
