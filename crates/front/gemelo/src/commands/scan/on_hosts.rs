//! A scan of the data of several hosts: each host scans its paths and sends its fingerprint set,
//! and the sets are merged here.

use super::arguments::ScanArguments;
use super::finish;
use super::outputs::Saving;
use crate::commands::host::Task;
use crate::commands::hosts::{self, Fleet, Handling, HostColumns};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use gemelo_base::units::{format_count, format_duration_ns, format_rate, format_size};
use gemelo_base::{name_of_text, text_of_name};
use gemelo_record::{HostRecord, ResultFile};
use gemelo_scan::{Counting, MAX_SETS, ScanInput, ScanOptions, ScanRequest, ScanResult};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Scans the paths on each host, in which `{host}` and `{index}` are replaced, and merges the sets.
pub(super) fn run(
    arguments: &ScanArguments,
    fleet: &Fleet,
    context: &Context,
) -> crate::Result<Outcome> {
    let request = arguments.to_request();
    if matches!(request.counting, Counting::Estimate { .. }) {
        return Err(refused!(
            "--estimate saves no set that could be merged: leave it out, or leave out --hosts"
        ));
    }
    if fleet.names().len() > MAX_SETS {
        return Err(refused!("the sets of at most {MAX_SETS} hosts can be merged"));
    }
    ScanOptions::new(request.clone())?;
    let saving = Saving::begin(&arguments.outputs)?;
    let named = |(index, host): (usize, &String)| (host.clone(), on_host(&request, host, index));
    let hosts: Vec<(String, ScanRequest)> = fleet.names().iter().enumerate().map(named).collect();
    let tasks = hosts.iter().map(|(_, request)| Task::Scan { request: Box::new(request.clone()) });
    let tasks: Vec<Task> = tasks.collect();
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let path = |number: usize| directory.path().join(format!("{number}.parquet"));
    let files = (0..hosts.len()).map(|number| std::fs::File::create_new(path(number)));
    let files = files.collect::<Result<Vec<std::fs::File>, _>>().context("cannot keep the sets")?;
    let receive = |number: usize, bytes: &[u8]| {
        let Some(mut file) = files.get(number) else { return Ok(()) };
        file.write_all(bytes).map_err(|error| format!("cannot keep what it sent: {error}"))
    };
    let handling = Handling { agree: &|_| Ok(()), receive: &receive, goes_on: true };
    let scans: Vec<HostScan> = hosts::records(fleet.run(&tasks, &handling, context)?)?;
    for (scan, failure) in scans.iter().filter_map(|scan| Some((scan, scan.failure.as_ref()?))) {
        context.monitor.warn(&format!("host {}: {failure}", scan.host));
    }
    let there = || scans.iter().filter(|scan| scan.file.is_some()).map(|scan| scan.index as usize);
    let sets: Vec<PathBuf> = there().map(path).collect();
    let saved =
        gemelo_scan::merge_sets(&sets, saving.file(), context.monitor.as_ref(), &context.stop)?;
    let scanned = there().filter_map(|number| hosts.get(number)).flat_map(named_paths);
    let input = ScanInput::Scan(Box::new(ScanRequest { paths: scanned.collect(), ..request }));
    let is_whole = scans.iter().all(|scan| scan.failure.is_none());
    let outcome = finish(saved, saving, input, scans, &arguments.outputs, context)?;
    Ok(if is_whole { outcome } else { Outcome::Partial })
}

/// Returns the scan of a host.
fn on_host(request: &ScanRequest, host: &str, index: usize) -> ScanRequest {
    let mut request = request.clone();
    for path in &mut request.paths {
        let text = text_of_name(path.as_os_str()).replace("{host}", host);
        *path = name_of_text(&text.replace("{index}", &index.to_string())).into();
    }
    // Progress stays over there.
    request.find_total = false;
    request
}

/// The paths of a host with its name, as the result keeps them.
fn named_paths((host, request): &(String, ScanRequest)) -> Vec<PathBuf> {
    let named = |path: &PathBuf| {
        let mut name = OsString::from(format!("{host}:"));
        name.push(path);
        PathBuf::from(name)
    };
    request.paths.iter().map(named).collect()
}

/// The scan of one host. Those that have a file have sent their whole set.
pub(super) type HostScan = HostRecord<ScanInput, ScanResult>;

/// The bytes that a scan read a second.
pub(super) fn bytes_per_s(file: &ResultFile<ScanInput, ScanResult>) -> f64 {
    let ScanResult { files, effort, .. } = &file.result;
    let read_bytes = files.data_bytes.saturating_sub(files.hole_bytes);
    read_bytes as f64 / (effort.elapsed_ns.max(1) as f64 / 1e9)
}

/// Returns the hosts side by side; nothing for a scan without other hosts.
pub(super) fn table(scans: &[HostScan]) -> String {
    if scans.is_empty() {
        return String::new();
    }
    let row = |scan: &HostScan| -> Option<Vec<String>> {
        let file = scan.file.as_ref()?;
        let figures = &file.result;
        Some(vec![
            scan.host.clone(),
            format_count(figures.files.files),
            format_size(figures.files.data_bytes),
            format_duration_ns(figures.effort.elapsed_ns),
            format_rate(bytes_per_s(file)),
        ])
    };
    let columns = HostColumns {
        headings: &["files", "data", "time", "rate"],
        rows: &|scan| row(scan).into_iter().collect(),
        rate: &|scan| scan.file.as_ref().map(bytes_per_s),
        format: &format_rate,
    };
    format!("\nHosts\n{}", hosts::table(scans, &columns))
}
