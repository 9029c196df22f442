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
