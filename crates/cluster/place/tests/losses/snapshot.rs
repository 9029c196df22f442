//! All objects of a domain as values, so that each case begins with a copy.

use gemelo_objects::{KeyRange, MAX_PAGE_KEYS, Objects, Update};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    pub(crate) keys: BTreeMap<String, Vec<u8>>,
}

/// Objects by their names. Cases share those that they do not change: all of them together would
/// take gigabytes.
pub(crate) type Snapshot = BTreeMap<String, Arc<Object>>;

/// Reads all objects.
pub(crate) fn take(store: &dyn Objects) -> Snapshot {
    let names = store.list("").unwrap();
    names.into_iter().map(|name| (name.clone(), Arc::new(read(store, &name)))).collect()
}

fn read(store: &dyn Objects, name: &str) -> Object {
    let mut bytes = vec![0; store.stat(name).unwrap() as usize];
    let filled = store.read(name, 0, &mut bytes).unwrap();
    bytes.truncate(filled);
    let (mut keys, mut after) = (BTreeMap::new(), String::new());
    loop {
        let range = KeyRange { after: &after, prefix: "", limit: MAX_PAGE_KEYS };
        let page = store.list_keys(name, range).unwrap();
        if let Some((last, _)) = page.entries.last() {
            after.clone_from(last);
        }
        keys.extend(page.entries);
        if !page.has_more {
            return Object { bytes, keys };
        }
    }
}

/// Writes all objects into an empty store.
pub(crate) fn put(store: &dyn Objects, snapshot: &Snapshot) {
    for (name, object) in snapshot {
        store.create(name).unwrap();
        if !object.bytes.is_empty() {
            store.write(name, 0, &object.bytes).unwrap();
        }
        let keys: Vec<(String, Vec<u8>)> = object.keys.clone().into_iter().collect();
        for set in keys.chunks(500) {
            store.update(name, &Update { set: set.to_vec(), ..Update::default() }).unwrap();
        }
    }
}

/// The blocks of the contents of all members that are in the store.
pub(crate) fn contents(snapshot: &Snapshot, block: usize) -> BTreeSet<Vec<u8>> {
    let data = snapshot.iter().filter(|(name, _)| name.starts_with("data."));
    let blocks = data.flat_map(|(_, object)| object.bytes.chunks(block));
    blocks.filter(|block| block.iter().any(|byte| *byte != 0)).map(<[u8]>::to_vec).collect()
}
