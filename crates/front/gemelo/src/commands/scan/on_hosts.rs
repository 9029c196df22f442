//! A scan of the data of several hosts: each host scans its paths and sends its fingerprint set,
//! and the sets are merged here.

use super::arguments::ScanArguments;
use super::finish;
use super::outputs::Saving;
use crate::commands::host::Task;
use crate::commands::hosts::Fleet;
use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use anyhow::{Context as _, anyhow};
use gemelo_fleet::{Finished, HostEnd};
use gemelo_scan::{Counting, MAX_SETS, ScanOptions, ScanRequest};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// Scans the paths on each host, in which `{host}` and `{index}` are replaced, and merges the sets.
pub(super) fn run(
    arguments: &ScanArguments,
    fleet: &Fleet,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let request = arguments.to_request();
    if matches!(request.counting, Counting::Estimate { .. }) {
        return Err(bad_input(anyhow!(
            "--estimate saves no set that could be merged: leave it out, or leave out --hosts"
        )));
    }
    if fleet.names().len() > MAX_SETS {
        return Err(bad_input(anyhow!("the sets of at most {MAX_SETS} hosts can be merged")));
    }
    ScanOptions::new(request.clone())?;
    let saving = Saving::begin(&arguments.outputs)?;
    let named = |(index, host): (usize, &String)| (host.clone(), on_host(&request, host, index));
    let hosts: Vec<(String, ScanRequest)> = fleet.names().iter().enumerate().map(named).collect();
    let tasks = hosts.iter().map(|(_, request)| Task::Scan { request: Box::new(request.clone()) });
    let tasks: Vec<Task> = tasks.collect();
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let path = |number: usize| directory.path().join(format!("{number}.parquet"));
    let files = (0..hosts.len()).map(|number| File::create_new(path(number)));
    let files = files.collect::<Result<Vec<File>, _>>().context("cannot keep the sets")?;
    let receive = |number: usize, bytes: &[u8]| {
        let Some(mut file) = files.get(number) else { return Ok(()) };
        file.write_all(bytes).map_err(|error| format!("cannot keep what it sent: {error}"))
    };
    let finished = fleet.collect(&tasks, receive, context)?;
    let there = with_set(&finished, context);
    let sets: Vec<PathBuf> = there.iter().map(|number| path(*number)).collect();
    if sets.is_empty() {
        return Err(anyhow!("no host has sent its fingerprint set"));
    }
    let saved = gemelo_scan::merge_sets(
        &sets,
        request.zeros,
        saving.file(),
        context.monitor.as_ref(),
        &context.stop,
    )?;
    let scanned = there.iter().filter_map(|number| hosts.get(*number)).flat_map(named_paths);
    let input = ScanRequest { paths: scanned.collect(), ..request };
    let outcome = finish(saved, saving, &input, &arguments.outputs, context)?;
    let is_whole = finished.iter().all(is_complete);
    Ok(if is_whole { outcome } else { Outcome::Partial })
}

/// Returns the scan of a host.
fn on_host(request: &ScanRequest, host: &str, index: usize) -> ScanRequest {
    let mut request = request.clone();
    for path in &mut request.paths {
        let text = path.to_string_lossy().replace("{host}", host);
        *path = PathBuf::from(text.replace("{index}", &index.to_string()));
    }
    // Progress stays over there.
    request.find_total = false;
    request
}

/// The paths of a host with its name, as the result keeps them.
fn named_paths((host, request): &(String, ScanRequest)) -> Vec<PathBuf> {
    let named = |path: &PathBuf| PathBuf::from(format!("{host}:{}", path.display()));
    request.paths.iter().map(named).collect()
}

fn is_complete(finished: &Finished) -> bool {
    matches!(&finished.end, HostEnd::Done(done) if done.is_complete)
}

/// Returns the numbers of the hosts that have sent a whole set, and warns of the others.
fn with_set(finished: &[Finished], context: &Context) -> Vec<usize> {
    let mut there = Vec::new();
    for (number, one) in finished.iter().enumerate() {
        let reason = match &one.end {
            HostEnd::Done(done) => {
                there.push(number);
                if done.is_complete { continue } else { "it did not read all of its data" }
            }
            HostEnd::Failed(refusal) => &refusal.message,
            HostEnd::Lost(reason) => reason,
        };
        context.monitor.warn(&format!("host {}: {reason}", one.host));
    }
    there
}
