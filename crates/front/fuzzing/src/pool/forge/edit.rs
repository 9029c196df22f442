//! The edits of an input: which field changes, and in which way.

use gemelo_base::random::{Random, mix_pair};

/// Bytes of an edit before its value.
pub(crate) const EDIT_HEAD_BYTES: usize = 6;
/// Bytes of an edit.
pub(super) const EDIT_BYTES: usize = EDIT_HEAD_BYTES + size_of::<u64>();
/// Kinds of structs.
const STRUCTS: u8 = 10;
/// Fields of the structs of each kind. The fields of pages and of commits are chosen by the
/// operation as well, and pages have two kinds.
const FIELDS: [u8; STRUCTS as usize] = [12, 10, 20, 10, 24, 0, 16, 2, 8, 4];
/// Ways of changing a value.
const WAYS: u8 = 6;
/// Values at the bounds of fields.
const BOUNDS: [u64; 16] = [
    0,
    1,
    2,
    255,
    4096,
    u16::MAX as u64,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 35,
    1 << 40,
    (1 << 62) - 1,
    1 << 63,
    u64::MAX,
];

/// A change of a field.
#[derive(Clone, Copy)]
pub(super) struct Edit {
    pub(super) target: u8,
    /// The struct among those of its kind.
    pub(super) which: usize,
    pub(super) field: usize,
    pub(super) operation: u8,
    pub(super) value: u64,
}

impl Edit {
    pub(super) fn of(bytes: [u8; EDIT_BYTES]) -> Self {
        let [target, operation, w0, w1, f0, f1, value @ ..] = bytes;
        Self {
            target: target % STRUCTS,
            which: usize::from(u16::from_le_bytes([w0, w1])),
            field: usize::from(u16::from_le_bytes([f0, f1])),
            operation,
            value: u64::from_le_bytes(value),
        }
    }

    /// The number of the field among those of its struct.
    pub(super) fn own_field(&self) -> usize {
        self.field % usize::from(FIELDS[usize::from(self.target)]).max(1)
    }

    /// The new value of a field.
    pub(super) fn new_value(&self, old: u64) -> u64 {
        match self.operation % WAYS {
            0 => BOUNDS[(self.value % BOUNDS.len() as u64) as usize],
            1 => old ^ 1 << (self.value % 64),
            2 => old.wrapping_add(self.value % 17).wrapping_sub(8),
            3 => self.value % 2048,
            4 => self.value,
            _ => old.wrapping_mul(2).wrapping_add(self.value % 2),
        }
    }

    pub(super) fn change(&self, field: &mut u64) {
        *field = self.new_value(*field);
    }

    pub(super) fn change_u32(&self, field: &mut u32) {
        *field = self.new_value(u64::from(*field)) as u32;
    }

    pub(super) fn change_u8(&self, field: &mut u8) {
        *field = self.new_value(u64::from(*field)) as u8;
    }
}

/// Returns edits that change a field of each kind of struct.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let one = |target| vec![target, 2, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    (0..STRUCTS).map(one).chain([Vec::new()]).collect()
}

/// Returns edits that together change each field of each kind of struct. The ways differ from turn
/// to turn.
pub(crate) fn of_each_field(turn: u64) -> Vec<[u8; EDIT_BYTES]> {
    let mut random = Random::new(mix_pair(turn, u64::from(STRUCTS)));
    let of_kind = |target: u8| (0..FIELDS[usize::from(target)]).map(move |field| (target, field));
    let edit = |(target, field): (u8, u8)| {
        let [way, w0, w1, f0, f1, ..] = random.next_u64().to_le_bytes();
        let [low, high] = match target {
            // Behind the field of a commit is the change of its payload.
            6 => [field | f0 << 4, f1],
            // Tables and contents are bytes.
            8 | 9 => [f0, f1],
            _ => [field, 0],
        };
        let mut edit = [0; EDIT_BYTES];
        let (head, value) = edit.split_at_mut(EDIT_HEAD_BYTES);
        head.copy_from_slice(&[target, field * WAYS + way % WAYS, w0, w1, low, high]);
        value.copy_from_slice(&random.next_u64().to_le_bytes());
        edit
    };
    (0..STRUCTS).flat_map(of_kind).map(edit).collect()
}
