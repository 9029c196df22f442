//! The whole matrix on objects in files.

use crate::base::{Base, FAULTS};
use crate::case::{Seen, run};
use crate::faults::{Case, Fault, cases};
use gemelo_domain::Client;
use gemelo_format::Compression;
use gemelo_objects::simulated::World;
use std::sync::Arc;

/// Returns what is wrong with the outcome of a case.
pub(crate) fn judge(case: &Case, seen: &Seen) -> Option<String> {
    let what = if !seen.wrong.is_empty() {
        format!("wrong bytes were read: {:?}", seen.wrong)
    } else if !seen.gone.is_empty() {
        format!("{} intact contents were destroyed: {:?}", seen.gone.len(), seen.gone)
    } else if !seen.failed.is_empty() && seen.said.is_empty() {
        format!("no check said it before: {:?}", seen.failed)
    } else if case.name.contains("ledger.")
        && (seen.unrepaired.is_some() || !seen.failed_after.is_empty())
    {
        format!("it is not repaired: {:?}, {:?}", seen.unrepaired, seen.failed_after)
    } else {
        return None;
    };
    Some(format!("{}: {}", case.name, what.chars().take(600).collect::<String>()))
}

/// Runs the cases of a fault whose names begin with a prefix. Returns how many they are.
fn run_all(fault: Fault, compression: Option<Compression>, prefix: &str) -> usize {
    run_cases(&Base::simulated(compression), fault, compression, prefix)
}

pub(crate) fn run_cases(
    base: &Base,
    fault: Fault,
    compression: Option<Compression>,
    prefix: &str,
) -> usize {
    let mut bad = Vec::new();
    let mut cases = cases(base, fault);
    cases.retain(|case| case.name.starts_with(prefix));
    for case in &cases {
        let seen = in_files(case, base, compression);
        if std::env::var_os("SHOW_CASES").is_some() {
            let first = |list: &[String]| (list.len(), list.first().cloned());
            eprintln!(
                "{}: said {:?}, failed {:?}, repair {:?}, after {:?}, wrong {}, gone {}",
                case.name,
                first(&seen.said),
                first(&seen.failed),
                seen.unrepaired,
                first(&seen.failed_after),
                seen.wrong.len(),
                seen.gone.len(),
            );
        }
        bad.extend(judge(case, &seen));
    }
    assert!(bad.is_empty(), "{} of {} cases:\n{}", bad.len(), cases.len(), bad.join("\n"));
    cases.len()
}

/// Runs a case on objects in files. Each process reads them anew.
fn in_files(case: &Case, base: &Base, compression: Option<Compression>) -> Seen {
    let directory = tempfile::tempdir().unwrap();
    let connect = || -> Arc<dyn Client> {
        Arc::new(World::in_directory(1, FAULTS, directory.path()).unwrap().client())
    };
    run(case, &base.images, &connect, compression.is_none())
}

#[test]
fn a_domain_without_a_fault_is_whole() {
    for compression in [None, Some(Compression::Lz4)] {
        let base = Base::simulated(compression);
        let case = Case { name: "nothing".into(), objects: base.now.clone() };
        let seen = in_files(&case, &base, compression);
        let nothing = (&seen.said, &seen.failed, &seen.failed_after, &seen.wrong);
        assert_eq!(nothing, (&vec![], &vec![], &vec![], &vec![]));
        assert_eq!((seen.unrepaired, seen.gone), (None, vec![]));
    }
}

#[test]
fn what_is_lost_takes_nothing_else_with_it() {
    assert!(run_all(Fault::Lost, None, "") > 40);
}

#[test]
fn what_is_cut_in_half_takes_nothing_else_with_it() {
    assert!(run_all(Fault::Half, None, "") > 40);
}

#[test]
fn a_flipped_bit_takes_nothing_else_with_it() {
    assert!(run_all(Fault::Flipped, None, "") > 40);
}

#[test]
fn what_is_older_than_the_rest_takes_nothing_else_with_it() {
    assert!(run_all(Fault::Older, None, "") > 20);
}

/// Contents share blocks in a store that compresses.
#[test]
fn the_same_holds_for_members_that_compress() {
    let lz4 = Some(Compression::Lz4);
    let count = run_all(Fault::Lost, lz4, "ledger.") + run_all(Fault::Older, lz4, "ledger.");
    assert!(count > 20, "{count}");
}
