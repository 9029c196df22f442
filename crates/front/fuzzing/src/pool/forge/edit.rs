//! The edits of an input: which field changes, and in which way.

/// Bytes of an edit.
pub(super) const EDIT_BYTES: usize = 14;
/// Kinds of structs.
const STRUCTS: u8 = 10;
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

    /// The new value of a field.
    pub(super) fn new_value(&self, old: u64) -> u64 {
        match self.operation % 6 {
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
