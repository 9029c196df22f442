//! The whole matrix on objects in files.

use crate::base::{Base, FAULTS, MEMBERS, Process};
use crate::case::{Seen, run};
use crate::faults::{Case, Fault, cases};
use crate::snapshot::{put, take};
use gemelo_domain::Client;
use gemelo_format::Compression;
use gemelo_objects::simulated::World;
use gemelo_place::Use;
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

/// Objects that are older than the rest are refused with the advice to put the newest ones back,
/// and nothing is changed: who follows it has all members as they were.
#[test]
fn the_newest_copies_put_back_end_what_older_ones_brought() {
    let base = Base::simulated(None);
    let mut followed = 0;
    for case in cases(&base, Fault::Older) {
        let directory = tempfile::tempdir().unwrap();
        let connect = || -> Arc<dyn Client> {
            Arc::new(World::in_directory(1, FAULTS, directory.path()).unwrap().client())
        };
        put(&*connect(), &case.objects);
        let refuses = |name: &&str| {
            let refused = Process::new(connect()).map(|one| one.open(name, Use::Hold, false));
            let Ok(Err(refused)) = refused else { return false };
            refused.to_string().contains("Put the newest copy of the object back")
        };
        let Some(name) = MEMBERS.iter().copied().find(&refuses) else { continue };
        let (store, now) = (connect(), take(&*connect()));
        let mut newest = base.now.clone();
        newest.retain(|name, object| case.objects.get(name) != Some(object));
        let lost = case.objects.keys().filter(|name| !base.now.contains_key(*name));
        for name in newest.keys().chain(lost).filter(|name| now.contains_key(*name)) {
            store.remove(name).unwrap();
        }
        put(&*store, &newest);
        drop(store);
        let opened = Process::new(connect()).unwrap().open(name, Use::Hold, false);
        opened.unwrap_or_else(|error| panic!("{}: {error}", case.name)).close().unwrap();
        followed += 1;
        if !case.name.starts_with("all of") {
            continue;
        }
        let whole = Case { name: case.name.clone(), objects: take(&*connect()) };
        let seen = in_files(&whole, &base, None);
        assert_eq!((seen.wrong, seen.gone, seen.failed), (vec![], vec![], vec![]), "{}", case.name);
    }
    assert!(followed > 2, "{followed}");
}
