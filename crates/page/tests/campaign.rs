//! The report of a made-up campaign.

#![expect(missing_docs, reason = "tests")]

#[path = "support/sample.rs"]
mod sample;

use gemelo_page::Report;

#[test]
fn write_out() {
    let directory = std::path::PathBuf::from("/tmp/page-out");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    sample::write_campaign(&directory, 5);
    let start = std::time::Instant::now();
    let report = Report::of_campaign(&directory).unwrap();
    eprintln!("document {:?}", start.elapsed());
    let start = std::time::Instant::now();
    eprintln!("page {} bytes", report.page().unwrap().len());
    eprintln!("page {:?}", start.elapsed());
    let start = std::time::Instant::now();
    for file in report.files().unwrap() {
        let path = directory.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.bytes).unwrap();
    }
    eprintln!("files {:?}", start.elapsed());
}

#[test]
fn single_out() {
    let dir = std::path::Path::new("/tmp/page-samples");
    for (name, files) in [
        ("bench", vec!["bench.json", "acc.txt"]),
        ("suite", vec!["suite.json"]),
        ("scan", vec!["scan.json"]),
        ("many", vec!["bench.json", "two.json"]),
    ] {
        let files: Vec<_> = files.iter().map(|f| dir.join(f)).collect();
        let report = Report::of_results(&files).unwrap();
        std::fs::write(format!("/tmp/page-out/{name}.html"), report.page().unwrap()).unwrap();
        std::fs::write(format!("/tmp/page-out/{name}.md"), report.markdown()).unwrap();
    }
}
