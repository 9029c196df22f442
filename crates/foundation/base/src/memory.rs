//! The memory of the machine.

/// Returns the bytes of memory of this machine.
#[must_use]
pub fn of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    // The cast is safe: it has the width of a word of the machine.
    (info.totalram as u64).saturating_mul(unit.max(1))
}
