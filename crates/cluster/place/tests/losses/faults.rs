//! The faults: each object, each kind of its keys, and all objects of a part of a member.

use crate::base::Base;
use crate::snapshot::{Object, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What happens to an object or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Lost,
    Half,
    Flipped,
    Older,
}

/// A case: its name, and the objects after the fault.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) objects: Snapshot,
}

/// Returns the cases of a fault.
pub(crate) fn cases(base: &Base, fault: Fault) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, object) in &base.now {
        if let Some(changed) = changed_object(base, name, object, fault) {
            cases.push(case(base, format!("{name} {fault:?}"), [(name.clone(), changed)]));
        }
        for (kind, key) in kinds_of_keys(object) {
            let old = base.before.get(name).and_then(|object| object.keys.get(&key));
            if let Some(changed) = changed_key(object, &key, old, fault) {
                let changed = [(name.clone(), Some(changed))];
                cases.push(case(base, format!("{name} key {kind} {fault:?}"), changed));
            }
        }
    }
    if fault == Fault::Older {
        cases.extend(parts(base));
    }
    cases
}

fn case<const N: usize>(base: &Base, name: String, changed: [(String, Option<Object>); N]) -> Case {
    let mut objects = base.now.clone();
    for (name, object) in changed {
        match object {
            Some(object) => objects.insert(name, Arc::new(object)),
            None => objects.remove(&name),
        };
    }
    Case { name, objects }
}

/// Returns the object after the fault, [`None`] in it if it is lost, or nothing if the fault does
/// not apply.
fn changed_object(
    base: &Base,
    name: &str,
    object: &Object,
    fault: Fault,
) -> Option<Option<Object>> {
    let mut changed = object.clone();
    match fault {
        Fault::Lost => return Some(None),
        Fault::Half => {
            changed.bytes.truncate(object.bytes.len() / 2);
            let kept = object.keys.len() / 2;
            changed.keys = object.keys.clone().into_iter().take(kept).collect();
        }
        Fault::Flipped => {
            // In a block in the middle that has something.
            let blocks: Vec<usize> = (0..object.bytes.len())
                .step_by(4096)
                .filter(|at| object.bytes[*at..].iter().take(4096).any(|byte| *byte != 0))
                .collect();
            let at = *blocks.get(blocks.len() / 2)?;
            let at = (at + 2048).min(object.bytes.len() - 1);
            changed.bytes[at] ^= 0x10;
        }
        Fault::Older => changed = Object::clone(base.before.get(name)?),
    }
    (changed != *object).then_some(Some(changed))
}

/// Returns a key of each kind.
fn kinds_of_keys(object: &Object) -> BTreeMap<String, String> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in object.keys.keys() {
        let is_many = ["f.", "k.", "r.", "p.", "s."].iter().any(|one| key.starts_with(one));
        let is_mail = key.len() > 40;
        let kind = match key.split_once('.') {
            _ if is_mail => "mail",
            Some((kind, _)) if is_many => kind,
            _ => key,
        };
        kinds.entry(kind.to_owned()).or_default().push(key.clone());
    }
    let middle = |keys: Vec<String>| keys[keys.len() / 2].clone();
    kinds.into_iter().map(|(kind, keys)| (kind, middle(keys))).collect()
}

fn changed_key(object: &Object, key: &str, old: Option<&Vec<u8>>, fault: Fault) -> Option<Object> {
    let mut changed = object.clone();
    let value = changed.keys.get_mut(key)?;
    match fault {
        Fault::Lost => drop(changed.keys.remove(key)),
        // A value is never empty.
        Fault::Half if value.len() < 2 => return None,
        Fault::Half => value.truncate(value.len() / 2),
        Fault::Flipped => {
            let at = value.len() / 2;
            value[at] ^= 0x10;
        }
        Fault::Older => value.clone_from(old?),
    }
    (changed != *object).then_some(changed)
}

/// All objects of a part of a member, or of the index, as they were earlier.
fn parts(base: &Base) -> Vec<Case> {
    let prefixes = [
        "meta.00000001",
        "data.00000001",
        "ledger.00000001",
        "meta.00000002",
        "ledger.00000002",
        "data.00000002",
        "index.",
    ];
    let older = |prefix: &&str| {
        let mut objects = base.now.clone();
        objects.retain(|name, _| !name.starts_with(prefix));
        let old = base.before.iter().filter(|(name, _)| name.starts_with(prefix));
        objects.extend(old.map(|(name, object)| (name.clone(), Arc::clone(object))));
        Case { name: format!("all of {prefix} Older"), objects }
    };
    prefixes.iter().map(older).collect()
}
