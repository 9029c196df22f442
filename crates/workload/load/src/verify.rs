//! Reads all blocks back and compares them with a history, after a run or at any later time.

use crate::check::{Checker, MAX_MISMATCHES, WrongBlock};
use crate::contents::Contents;
use crate::environment::Environment;
use crate::history::{Expected, History};
use crate::open_end::Held;
use crate::populate::carry_out;
use crate::result::{FoundContent, Mismatch, OperationFailure, ProcessBlock, Verification};
use gemelo_base::Unit;
use gemelo_base::threads::together;
use gemelo_content::{BlockContent, ContentId, Examination};
use gemelo_target::{Engine, QueueOptions, Target, TargetOperation, TargetRequest};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of one read.
const CHUNK_BYTES: usize = 256 << 10;

/// The result of checking one process's place.
struct Checked {
    checked: u64,
    unknown: u64,
    wrong_count: u64,
    wrong: Vec<(u32, WrongBlock)>,
    is_complete: bool,
    failure: Option<OperationFailure>,
}

/// The wrong blocks of all processes, before the origins of their contents are known.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) verification: Verification,
    pub(crate) wrong: Vec<(u32, WrongBlock)>,
}

impl Findings {
    pub(crate) fn add(&mut self, process: u32, checker: &Checker<'_>) {
        self.add_counts(checker.checked, checker.unknown, checker.wrong_count);
        let room = MAX_MISMATCHES.saturating_sub(self.wrong.len());
        self.wrong.extend(checker.wrong.iter().take(room).map(|wrong| (process, *wrong)));
    }

    const fn add_counts(&mut self, checked: u64, unknown: u64, wrong: u64) {
        self.verification.checked_blocks += checked;
        self.verification.unknown_blocks += unknown;
        self.verification.wrong_blocks += wrong;
    }

    /// Adds the names of expected contents and the origins of the found ones.
    pub(crate) fn finish(
        mut self,
        history: &History,
        contents: &Contents,
        target: &dyn Target,
    ) -> Verification {
        let origins = origins(&self.wrong, history, contents);
        let mismatches = self.wrong.iter().map(|(process, wrong)| Mismatch {
            process: *process,
            place: target.place(*process),
            offset_bytes: wrong.block * history.block_bytes as u64,
            expected: match wrong.expected {
                Expected::Content(content) => content.to_string(),
                Expected::Unknown => "unknown".to_owned(),
            },
            found: found(wrong.found, *process, wrong.block, &origins, history.block_bytes),
        });
        self.verification.mismatches = mismatches.collect();
        self.verification
    }
}

/// Process and block of each write of a content.
type Origins = HashMap<ContentId, Vec<(u32, u64)>>;

/// Origins of one content that are kept.
const MAX_ORIGINS: usize = 1000;

/// Finds the places to which the contents of wrong blocks were written, by replaying all writes.
fn origins(wrong: &[(u32, WrongBlock)], history: &History, contents: &Contents) -> Origins {
    let others = wrong.iter().filter_map(|(_, wrong)| match wrong.found {
        Examination::Other(id) => Some((id, Vec::new())),
        _ => None,
    });
    let mut origins: Origins = others.collect();
    if !origins.is_empty() {
        for process in 0..history.processes {
            history.replay(process, &contents.assignment, |write| {
                let Expected::Content(BlockContent::Id(id)) = write.expected else { return };
                if let Some(places) =
                    origins.get_mut(&id).filter(|places| places.len() < MAX_ORIGINS)
                {
                    places.push((process, write.block));
                }
            });
        }
    }
    origins
}

fn found(
    found: Examination,
    process: u32,
    block: u64,
    origins: &Origins,
    block_bytes: usize,
) -> FoundContent {
    match found {
        Examination::Match | Examination::Zeros => FoundContent::Zeros,
        Examination::Other(id) => {
            let places = origins.get(&id).map_or(&[][..], Vec::as_slice);
            let here = places.iter().find(|place| **place == (process, block));
            let written_to = here.or(places.first()).map(|(process, block)| ProcessBlock {
                process: *process,
                offset_bytes: block * block_bytes as u64,
            });
            FoundContent::Content { content: id.to_string(), written_to }
        }
        Examination::Torn { intact_sectors, sectors, other } => {
            FoundContent::Torn { intact_sectors, sectors, other: other.map(|id| id.to_string()) }
        }
        Examination::Garbage { first_difference, different_bytes } => {
            FoundContent::Garbage { first_difference, different_bytes }
        }
    }
}

/// Reads every block of every place back and checks it against the history. There is one thread for
/// each core; each reads one place at a time with a table of 8 bytes a block.
///
/// A read that fails ends the check of its place. The failure is returned beside the verification.
pub fn verify(
    history: &History,
    contents: &Contents,
    target: &dyn Target,
    environment: &Environment<'_>,
) -> (Verification, Option<OperationFailure>) {
    let mut findings = Findings::default();
    findings.verification.is_complete = true;
    let failure = check_all(&mut findings, history, contents, target, environment);
    (findings.finish(history, contents, target), failure)
}

/// Reads everything back and adds the result to `findings`. Returns the first failure.
pub(crate) fn check_all(
    findings: &mut Findings,
    history: &History,
    contents: &Contents,
    target: &dyn Target,
    environment: &Environment<'_>,
) -> Option<OperationFailure> {
    let place_bytes = history.place_blocks * history.block_bytes as u64;
    environment.monitor.begin(
        "verifying",
        Unit::Bytes,
        Some(place_bytes * u64::from(history.processes)),
    );
    let next = AtomicU32::new(0);
    let workers =
        std::thread::available_parallelism().map_or(1, usize::from).min(target.max_queues());
    let work = || {
        let mut all = Vec::new();
        loop {
            let process = next.fetch_add(1, Ordering::Relaxed);
            if process >= history.processes {
                return all;
            }
            all.push(check_place(process, history, contents, target, environment));
        }
    };
    let checked: Vec<Checked> = together(workers, work).into_iter().flatten().collect();
    let mut failure = None;
    for place in checked {
        findings.add_counts(place.checked, place.unknown, place.wrong_count);
        findings.verification.is_complete &= place.is_complete;
        let room = MAX_MISMATCHES.saturating_sub(findings.wrong.len());
        findings.wrong.extend(place.wrong.into_iter().take(room));
        failure = failure.or(place.failure);
    }
    failure
}

fn check_place(
    process: u32,
    history: &History,
    contents: &Contents,
    target: &dyn Target,
    environment: &Environment<'_>,
) -> Checked {
    let mut checker = Checker::new(contents);
    let outcome = read_place(process, history, contents, target, environment, &mut checker);
    Checked {
        checked: checker.checked,
        unknown: checker.unknown,
        wrong_count: checker.wrong_count,
        wrong: checker.wrong.into_iter().map(|wrong| (process, wrong)).collect(),
        is_complete: matches!(outcome, Ok(true)),
        failure: outcome.err(),
    }
}

/// Returns whether all of the place was read.
fn read_place(
    process: u32,
    history: &History,
    contents: &Contents,
    target: &dyn Target,
    environment: &Environment<'_>,
    checker: &mut Checker<'_>,
) -> Result<bool, OperationFailure> {
    let no_memory = |error| OperationFailure::of_memory(process, &target.place(process), &error);
    if let Some(open) = history.open {
        let mut held = Vec::new();
        let size = usize::try_from(history.place_blocks).unwrap_or(usize::MAX);
        held.try_reserve_exact(size).map_err(no_memory)?;
        let is_complete = read_blocks(process, history, target, environment, |_, bytes| {
            held.push(checker.held(bytes));
        })?;
        let found = Held { process, history, open, held };
        found.check(contents, checker).map_err(no_memory)?;
        return Ok(is_complete);
    }
    let table = history.table(process, &contents.assignment).map_err(no_memory)?;
    read_blocks(process, history, target, environment, |block, bytes| {
        let bits = table.get(block as usize).copied().unwrap_or(Expected::Unknown.to_bits());
        checker.check(block, Expected::from_bits(bits), bytes);
    })
}

/// Calls `each` with every block of a place, in order. Returns whether all of it was read.
fn read_blocks(
    process: u32,
    history: &History,
    target: &dyn Target,
    environment: &Environment<'_>,
    mut each: impl FnMut(u64, &[u8]),
) -> Result<bool, OperationFailure> {
    let block_bytes = history.block_bytes;
    let chunk_blocks = (CHUNK_BYTES / block_bytes).max(1);
    let options =
        QueueOptions { engine: Engine::Psync, depth: 1, buffer_bytes: chunk_blocks * block_bytes };
    let mut queue = target
        .open(process, &options)
        .map_err(|error| OperationFailure::of_open(process, &target.place(process), &error))?;
    for first in (0..history.place_blocks).step_by(chunk_blocks) {
        if environment.stop.is_raised() {
            return Ok(false);
        }
        let bytes = (history.place_blocks - first).min(chunk_blocks as u64) as usize * block_bytes;
        let offset = first * block_bytes as u64;
        let request = TargetRequest { operation: TargetOperation::Read, offset, bytes };
        carry_out(queue.as_mut(), request)
            .map_err(|failure| OperationFailure::of_io(process, &failure))?;
        let blocks = queue.buffer(0)[..bytes].chunks(block_bytes);
        for (block, bytes) in (first..).zip(blocks) {
            each(block, bytes);
        }
        environment.monitor.advance(bytes as u64);
    }
    Ok(true)
}
