//! The values of a domain, which other hosts write: shards, entries, intents, and the groups of a
//! ledger.

use gemelo_domain::codec::Writer;
use gemelo_domain::{
    Action, Change, Entry, Intent, MemberId, Shard, ShardHeader, ShardState, ShardView, plan,
    recode_value,
};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_member::{DomainUri, MemberUri};
use gemelo_sharing::recode_ledger_value;

/// The bytes of a frame before the fields, and those of the checksum.
const FRAME_BYTES: (usize, usize) = (4, 4);

/// A fuzzer does not find a checksum, so it changes the fields only: a tag and the rest.
fn framed(key: &str, bytes: &[u8]) -> Vec<u8> {
    let (tag, fields) = bytes.split_first().unwrap_or((&0, &[]));
    Writer::new(*tag).bytes(fields).finish(key)
}

/// Removes the frame again.
fn unframed(value: &[u8]) -> Vec<u8> {
    let tag = value.get(1).copied().unwrap_or_default();
    let end = value.len().saturating_sub(FRAME_BYTES.1);
    let fields = value.get(FRAME_BYTES.0..end).unwrap_or_default();
    std::iter::once(tag).chain(fields.iter().copied()).collect()
}

/// Reads the intent of a ledger. What it asks for must be computable, and it survives its encoding.
pub(crate) fn intent(bytes: &[u8]) {
    let Ok(intent) = Intent::decode(&framed("", bytes)) else { return };
    let again = Intent::decode(&intent.encode());
    assert_eq!(again.as_ref(), Ok(&intent), "an intent must survive its encoding");
    let update = intent.update();
    assert!(update.set.len() >= 2, "the header and the receipt are set");
    assert_eq!(intent.effects().count(), intent.steps.len(), "each change has an effect");
}

/// Reads the header and an entry of a shard, and plans a change of it.
pub(crate) fn shard(bytes: &[u8]) {
    let fingerprint = Fingerprint::from_bytes([7; 16]);
    let keys = ShardView::keys(std::iter::once(fingerprint));
    let (header, entry) = bytes.split_at(bytes.len().min(HEADER_BYTES));
    let entry = (!entry.is_empty()).then(|| framed(&keys[1], entry));
    let Ok(view) = ShardView::decode(&keys, &[Some(framed(&keys[0], header)), entry]) else {
        return;
    };
    let change = Change { fingerprint, action: Action::Share };
    let Some(whole) = Shard::new(0, 0) else { return };
    // Members change open shards only.
    if view.header.state == ShardState::Open && view.entries.len() == 1 {
        let _ = plan(whole, MemberId(1), &view, &[change]).update();
    }
}

/// A key of each kind in a ledger, but of intents.
const LEDGER_KEYS: [&str; 5] = ["k.00000001", "f.00000001", "version", "p.0001", "s.01.00000001"];
/// The key of the intent that the seeds have.
const INTENT_KEY: &str = "i.00.00000000.0000000000000001";

/// Reads the values of a ledger. A value that can be read survives its encoding.
pub(crate) fn ledger(bytes: &[u8]) {
    for key in LEDGER_KEYS {
        let Ok(value) = recode_ledger_value(key, &framed(key, bytes)) else { continue };
        assert_eq!(recode_ledger_value(key, &value).as_ref(), Ok(&value));
        assert_eq!(value.len(), bytes.len() + FRAME_BYTES.0 + FRAME_BYTES.1 - 1);
    }
    // An intent in flight: blocks that it releases, and the intent with a checksum of its own.
    let (blocks, intent) = bytes.split_at(bytes.len().min(RELEASED_BYTES));
    let blocks = Writer::new(0).u32(RELEASED_BYTES as u32 / 4).bytes(blocks);
    let value = blocks.bytes(&framed("", intent)).finish("");
    if let Ok(again) = recode_ledger_value(INTENT_KEY, &value) {
        assert_eq!(again, value, "an intent in flight must survive its encoding");
    }
}

/// Bytes of the blocks that the changes of an intent release: the seeds have two changes.
const RELEASED_BYTES: usize = 8;

/// A key of each kind in the objects of a domain, its members and its shards.
const DOMAIN_KEYS: [&str; 10] = [
    "config",
    "fingerprint",
    "data-pool",
    "header",
    "f.-----------------------",
    "r.00000001",
    "name.one",
    "next",
    "holder",
    "fenced.v1:10.0.0.1:0/7",
];

/// Reads the values of a domain. A value that can be read survives its encoding.
pub(crate) fn values(bytes: &[u8]) {
    for key in DOMAIN_KEYS {
        let Ok(value) = recode_value(key, &framed(key, bytes)) else { continue };
        assert_eq!(recode_value(key, &value).as_ref(), Ok(&value), "{key}");
    }
}

pub(crate) fn value_seeds() -> Vec<Vec<u8>> {
    let number = |number: u64| number.to_le_bytes().to_vec();
    let process = b"boot 4026531836 7 12345";
    let seeds = [
        // The config, the fingerprint, and a text: the name of a pool.
        [vec![1], vec![0, 16, 0, 0, 2, 0, 0, 0], vec![7; 16]].concat(),
        [vec![0], vec![7; 32]].concat(),
        b"\0contents".to_vec(),
        // A header, an entry, a receipt, a member, and the next number.
        [vec![1], number(7), number(9)].concat(),
        [vec![0], vec![2, 0, 0, 0], number(9), vec![2, 0, 0, 0]].concat(),
        [vec![0], number(7)].concat(),
        [vec![0], vec![1, 0, 0, 0], number(7)].concat(),
        vec![0, 2, 0, 0, 0],
        // A holder, and a fenced client.
        [vec![0], number(7), b"v1:10.0.0.1:0/7\n".to_vec(), process.to_vec()].concat(),
        [vec![1], number(7), process.to_vec()].concat(),
    ];
    for seed in &seeds {
        let read = DOMAIN_KEYS.iter().any(|key| recode_value(key, &framed(key, seed)).is_ok());
        assert!(read, "a seed is the value of a key: {seed:?}");
    }
    seeds.into()
}

pub(crate) fn ledger_seeds() -> Vec<Vec<u8>> {
    let set = [[1; 4], [0; 4]].concat().repeat(4);
    // Published blocks and borrowed ones, of 8 places; then the fingerprints of two blocks.
    let borrowed = [set.iter().map(|byte| byte << 1).collect(), [7; 8].repeat(16)].concat();
    let kinds = [vec![0b1010], set, borrowed].concat();
    let fingerprints = [vec![0, 3, 0, 0, 0], vec![7; 32]].concat();
    let seal = [vec![3], [7_u64, 5, 1, 2].map(u64::to_le_bytes).concat()].concat();
    let version = [vec![0], vec![7, 0, 0, 0, 0, 0, 0, 0]].concat();
    let mut seeds = vec![kinds, fingerprints, seal, version];
    for seed in &seeds {
        let is_read = |key: &&str| recode_ledger_value(key, &framed(key, seed)).is_ok();
        assert!(LEDGER_KEYS.iter().any(is_read), "a seed is a value: {seed:?}");
    }
    seeds.extend(
        intent_seeds().into_iter().map(|seed| [vec![0, 0, 0, 0, 9, 0, 0, 0], seed].concat()),
    );
    seeds
}

/// The tag and the two fields of a header.
const HEADER_BYTES: usize = 17;

pub(crate) fn intent_seeds() -> Vec<Vec<u8>> {
    let view = |entries| ShardView { header: ShardHeader::new(ShardState::Open), entries };
    let change = |byte, action| Change { fingerprint: Fingerprint::from_bytes([byte; 16]), action };
    let Some((whole, pbn)) = Shard::new(0, 0).zip(Pbn::new(9)) else { return Vec::new() };
    let entry = Entry { home: MemberId(2), pbn, members: 2, is_suspect: true };
    let changes = [change(1, Action::Publish(pbn)), change(2, Action::Release)];
    let intent = plan(whole, MemberId(1), &view(vec![None, Some(entry)]), &changes);
    vec![unframed(&intent.encode())]
}

pub(crate) fn shard_seeds() -> Vec<Vec<u8>> {
    let fingerprint = Fingerprint::from_bytes([7; 16]);
    let Some((whole, pbn)) = Shard::new(0, 0).zip(Pbn::new(9)) else { return Vec::new() };
    let header = ShardHeader::new(ShardState::Open);
    let view = ShardView { header, entries: vec![None] };
    let change = Change { fingerprint, action: Action::Publish(pbn) };
    let update = plan(whole, MemberId(2), &view, &[change]).update();
    let header = unframed(&header.encode());
    let entry = update.set.first().map(|(_, value)| unframed(value)).unwrap_or_default();
    vec![header.clone(), [header, entry].concat()]
}

/// Reads the names of domains and members. A printed name must parse to the same name.
pub(crate) fn names(text: &str) {
    if let Ok(domain) = text.parse::<DomainUri>() {
        assert_eq!(domain.to_string().parse(), Ok(domain));
    }
    if let Ok(member) = text.parse::<MemberUri>() {
        assert_eq!(member.to_string().parse(), Ok(member));
    }
    if let Ok((member, volume)) = MemberUri::with_volume(text) {
        struct Written<'a>(&'a MemberUri, &'a str);
        impl std::fmt::Display for Written<'_> {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.write_volume(self.1, formatter)
            }
        }
        let again = MemberUri::with_volume(&Written(&member, &volume).to_string());
        assert_eq!(again, Ok((member.clone(), volume.clone())));
    }
}
