//! Each kind of object and of key once on Ceph, with one fault after another.

use crate::base::{Base, SHORT_JOURNAL};
use crate::case::run;
use crate::ceph::Ceph;
use crate::faults::{Case, Fault, cases};
use crate::matrix::judge;
use gemelo_domain::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The kind of what a case changes: the name of the object without its numbers, and the key.
fn kind_of(case: &str) -> String {
    let words: Vec<&str> = case.split(' ').collect();
    let (object, key) = match words[..] {
        ["all", "of", part, _] => return format!("all of {}", part.split('.').next().unwrap()),
        [object, "key", key, _] => (object, key),
        _ => (words[0], ""),
    };
    let is_page = object.starts_with("ledger.") && object.matches('.').count() > 1;
    let object = object.split('.').next().unwrap();
    format!("{object}{} {}", if is_page { " page" } else { "" }, key.split('.').next().unwrap())
}

/// Returns one case of each kind. The faults take turns, as far as a kind has them.
fn one_of_each_kind(base: &Base) -> Vec<Case> {
    let faults = [Fault::Lost, Fault::Older, Fault::Half, Fault::Flipped];
    let mut kinds: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in faults.into_iter().flat_map(|fault| cases(base, fault)) {
        kinds.entry(kind_of(&case.name)).or_default().push(case);
    }
    let of_kind = |(number, mut cases): (usize, Vec<Case>)| {
        // The cases of a fault follow one another.
        let at = cases.len() * (number % faults.len()) / faults.len();
        cases.swap_remove(at)
    };
    kinds.into_values().enumerate().map(of_kind).collect()
}

#[test]
fn one_loss_of_each_kind_on_ceph() {
    let Some(ceph) = Ceph::start() else { return };
    let connect = |namespace: &str| -> Arc<dyn Client> {
        Arc::new(ceph.connect("gemelo", namespace, TIMEOUT).unwrap())
    };
    let outlive = || std::thread::sleep(Duration::from_secs(1));
    let base = Base::make(&|| connect("base"), &outlive, None, SHORT_JOURNAL);
    let cases = one_of_each_kind(&base);
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert!(names.len() > 30, "{names:?}");
    let mut bad = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let namespace = format!("case{number}");
        let seen = run(case, &base.images, &|| connect(&namespace), true);
        bad.extend(judge(case, &seen));
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
