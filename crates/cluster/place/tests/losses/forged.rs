//! Values with other fields and right checksums, as another program or a flaw may write them: they
//! are refused in words or taken, and nothing panics.

use crate::base::{Base, new_world};
use crate::case::run;
use crate::faults::Case;
use crate::snapshot::{Object, Snapshot};
use gemelo_base::random::Random;
use gemelo_domain::Client;
use gemelo_domain::codec::{Writer, digest};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Cases of a run; `FORGED_CASES` sets another number.
const CASES: u64 = 60;
/// Bytes before the fields, and of the checksum.
const HEAD: usize = 4;
const SUM: usize = 4;

/// Changes the fields of a value: a byte, or a number to an extreme one, or cuts them.
fn change(fields: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(fields.len() as u64 + 1) as usize;
    let end = |bytes: usize| (at + bytes).min(fields.len());
    match random.below(6) {
        0 => fields.truncate(at),
        1 => {
            let end = end(4);
            fields[at..end].fill(0);
        }
        2 => {
            let end = end(8);
            fields[at..end].fill(0xff);
        }
        3 => {
            let end = end(4);
            fields[at..end].fill(0xff);
        }
        _ => {
            if let Some(byte) = fields.get_mut(at) {
                *byte = byte.wrapping_add(1 + random.below(3) as u8);
            }
        }
    }
}

/// Takes a value apart and puts it together with other fields; sometimes with another tag.
fn forge(key: &str, value: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let fields = value.get(HEAD..value.len().checked_sub(SUM)?)?;
    let tag = if random.below(8) == 0 { random.below(8) as u8 } else { value[1] };
    if !key.starts_with("i.") {
        let mut fields = fields.to_vec();
        change(&mut fields, random);
        return Some(Writer::new(tag).bytes(&fields).finish(key));
    }
    // The intent in an entry of the ledger has a checksum of its own.
    let count = u32::from_le_bytes(*fields.first_chunk()?) as usize;
    let (blocks, intent) = fields.split_at_checked(4 + 4 * count)?;
    let mut blocks = blocks.to_vec();
    let mut fields = intent.get(HEAD..intent.len().checked_sub(SUM)?)?.to_vec();
    match random.below(3) {
        0 => change(&mut blocks, random),
        _ => change(&mut fields, random),
    }
    let intent = Writer::new(intent[1]).bytes(&fields).finish("");
    Some(Writer::new(0).bytes(&blocks).bytes(&intent).finish(""))
}

/// Makes the seal of an object of a ledger agree with its keys.
fn seal(object: &mut Object) {
    let Some(seal) = object.keys.remove("version") else { return };
    let sum = |fingerprints: bool| {
        let keys = object.keys.iter().filter(|(key, _)| key.starts_with("f.") == fingerprints);
        keys.map(|(key, value)| digest(key, value)).fold(0, u64::wrapping_add)
    };
    let versions = &seal[HEAD..HEAD + 16];
    let value = Writer::new(seal[1]).bytes(versions).u64(sum(false)).u64(sum(true));
    object.keys.insert("version".into(), value.finish("version"));
}

/// Forges a value of a domain. Returns its name.
fn forge_one(objects: &mut Snapshot, random: &mut Random) -> Option<String> {
    let names: Vec<String> = objects.keys().cloned().collect();
    let name = &names[random.below(names.len() as u64) as usize];
    let object = Arc::make_mut(objects.get_mut(name)?);
    let keys: Vec<String> = object.keys.keys().cloned().collect();
    // Half of the time one of the keys that are not fingerprints.
    let few: Vec<&String> = keys.iter().filter(|key| !key.starts_with("f.")).collect();
    let key = match random.below(2) {
        0 if !few.is_empty() => few[random.below(few.len() as u64) as usize].clone(),
        _ => keys.get(random.below(keys.len().max(1) as u64) as usize)?.clone(),
    };
    let value = forge(&key, &object.keys[&key], random)?;
    object.keys.insert(key.clone(), value);
    if name.starts_with("ledger.") && key != "version" {
        seal(object);
    }
    Some(format!("{name} {key}"))
}

#[test]
fn forged_values_are_refused_or_taken_and_nothing_panics() {
    let cases = std::env::var("FORGED_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let base = Base::simulated(None);
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let mut objects = base.now.clone();
        let forged: Vec<String> =
            (0..3).filter_map(|_| forge_one(&mut objects, &mut random)).collect();
        let world = new_world();
        let connect = || -> Arc<dyn Client> { Arc::new(world.client()) };
        let case = Case { name: format!("{forged:?}"), objects };
        let run = AssertUnwindSafe(|| drop(run(&case, &base.images, &connect, false)));
        assert!(catch_unwind(run).is_ok(), "seed {seed}: {}", case.name);
    }
}
