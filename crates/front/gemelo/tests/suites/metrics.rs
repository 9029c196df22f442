//! Tests of the metrics that `gemelo serve` has for Prometheus.

use crate::served::{Served, TestPool, done, noise};
use gemelo_base::SystemClock;
use gemelo_format::DedupMode;
use gemelo_nbd::client::{Client, Submission};
use gemelo_tools::has_tool;
use gemelo_volume::{Pool, Tuning};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Returns a page of the server's metrics, without the headers.
fn page(served: &Served, path: &str) -> String {
    let address = served.said[1].strip_prefix("metrics at http://").unwrap();
    let mut stream = TcpStream::connect(address.split('/').next().unwrap()).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

fn write(client: &mut Client, offset: u64, data: &[u8]) {
    let submission = Submission::Write { offset, data, durable: false };
    assert!(client.run(submission, |done| done.error).unwrap().is_none());
}

/// Fails unless the page has all of these lines.
fn assert_lines(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|found| found == *line), "{line} in {page}");
    }
}

/// Fails unless Prometheus finds nothing to mend in the page.
fn assert_checked_by_promtool(page: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn pages_have_the_pool_and_each_volume() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    done(&["volume", "create", &pool.volume("idle"), "--size", "8m"]);
    let served = pool.serve(&["--metrics", "localhost:0"]);
    let uri = pool.uri("a").parse().unwrap();
    let mut client = Client::connect(&uri, 8, Duration::from_secs(20)).unwrap();
    let block = noise(1, 4096);
    for offset in [0, 4096, 8192] {
        write(&mut client, offset, &block);
    }
    write(&mut client, 0, &block);
    write(&mut client, 4096, &[0; 4096]);
    client.run(Submission::Flush, |_| ()).unwrap();
    let whole = page(&served, "/metrics");
    assert_lines(
        &whole,
        &[
            "gemelo_pool_logical_blocks 2",
            "gemelo_pool_physical_blocks 1",
            "gemelo_pool_dedup_ratio 2",
            "gemelo_volumes_writes_total 5",
            "gemelo_volumes_latency_seconds_count{operation=\"write\"} 5",
            "gemelo_volumes_latency_seconds_bucket{operation=\"flush\",le=\"+Inf\"} 1",
            "gemelo_volumes_batch_requests_count 6",
            "gemelo_pool_warnings 0",
            "gemelo_server_memory_bytes 131072",
            "gemelo_server_memory_limit_bytes 268435456",
        ],
    );
    let each = page(&served, "/metrics/volumes");
    assert_lines(
        &each,
        &[
            "gemelo_volume_writes_total{volume=\"a\"} 5",
            "gemelo_volume_unique_blocks_total{volume=\"a\"} 1",
            "gemelo_volume_duplicate_blocks_total{volume=\"a\"} 2",
            "gemelo_volume_unchanged_blocks_total{volume=\"a\"} 1",
            "gemelo_volume_zero_blocks_total{volume=\"a\"} 1",
            "gemelo_volume_latency_seconds_count{volume=\"a\",operation=\"write\"} 5",
            "gemelo_volume_latency_seconds_bucket{volume=\"a\",operation=\"flush\",le=\"+Inf\"} 1",
            "gemelo_volume_batch_requests_count{volume=\"a\"} 6",
            "gemelo_volume_connections{volume=\"a\"} 1",
            "gemelo_volume_connections{volume=\"idle\"} 0",
        ],
    );
    // No metric is on both pages, and each line is a comment, or a name, labels and a number.
    let names = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
    };
    assert!(names(&whole).is_disjoint(&names(&each)));
    for line in whole.lines().chain(each.lines()) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(line.starts_with("# ") || value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(!whole.contains("nanoseconds") && !each.contains("nanoseconds"));
    if has_tool("promtool") {
        [whole, each].iter().for_each(|text| assert_checked_by_promtool(text));
    }
    drop(client);
    assert_eq!(served.stop(), (0, String::new()));
}

#[test]
fn sums_over_all_volumes_do_not_fall_when_a_volume_is_removed() {
    let pool = TestPool::new(&[]);
    std::fs::write(pool.file("raw"), noise(5, 1 << 20)).unwrap();
    let served = pool.serve(&["--metrics", "127.0.0.1:0"]);
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    let written = |text: String| -> u64 {
        let line = text.lines().find_map(|line| {
            line.strip_prefix("gemelo_volumes_written_bytes_total ").map(str::to_owned)
        });
        line.unwrap().parse().unwrap()
    };
    assert_eq!(written(page(&served, "/metrics")), 1 << 20);
    done(&["volume", "rm", &pool.volume("a"), "--force"]);
    assert_eq!(written(page(&served, "/metrics")), 1 << 20);
    assert!(!page(&served, "/metrics/volumes").contains("volume=\"a\""));
    assert_eq!(served.stop(), (0, String::new()));
}

/// A scrape every 15 s has to stay small, however many volumes there are.
#[test]
fn a_thousand_volumes_do_not_make_the_page_of_the_pool_longer() {
    const VOLUMES: usize = 1000;
    let pool = TestPool::new(&[]);
    let clock = Arc::new(SystemClock::new());
    let open = Pool::open(Path::new(&pool.path()), Tuning::default(), clock).unwrap();
    for number in 0..VOLUMES {
        open.create_volume(&format!("v{number}"), 1 << 20, DedupMode::Inline).unwrap();
    }
    open.close().unwrap();
    let served = pool.serve(&["--metrics", "127.0.0.1:0"]);
    let whole = page(&served, "/metrics");
    assert!(series(&whole) < 400, "{} series", series(&whole));
    assert!(whole.len() < 64 << 10, "{} bytes", whole.len());
    assert!(!whole.contains("volume=\""));
    let each = page(&served, "/metrics/volumes");
    assert!((30 * VOLUMES..60 * VOLUMES).contains(&series(&each)), "{} series", series(&each));
    if has_tool("promtool") {
        [whole, each].iter().for_each(|text| assert_checked_by_promtool(text));
    }
    assert_eq!(served.stop(), (0, String::new()));
}
