//! The quantity of a figure, by the last word of its name.

/// The unit in which a figure is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A time in nanoseconds (`_ns`).
    Nanoseconds,
    /// Bytes a second (`bytes_per_s`).
    BytesPerSecond,
    /// Other events a second (`_per_s`).
    PerSecond,
    /// A size in bytes (`_bytes`).
    Bytes,
    /// A share of one (`_share`).
    Share,
    /// A number without a unit, such as a ratio or a count.
    Number,
}

/// Returns the quantity of the figure with this name.
#[must_use]
pub fn quantity(name: &str) -> Quantity {
    let endings = [
        ("_ns", Quantity::Nanoseconds),
        ("bytes_per_s", Quantity::BytesPerSecond),
        ("_per_s", Quantity::PerSecond),
        ("_bytes", Quantity::Bytes),
        ("_share", Quantity::Share),
    ];
    let found = endings.into_iter().find(|(ending, _)| name.ends_with(ending));
    found.map_or(Quantity::Number, |(_, quantity)| quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_the_unit() {
        assert_eq!(quantity("write/latency_p99.9_ns"), Quantity::Nanoseconds);
        assert_eq!(quantity("job.write/bytes_per_s"), Quantity::BytesPerSecond);
        assert_eq!(quantity("all/operations_per_s"), Quantity::PerSecond);
        assert_eq!(quantity("space/dedup_ratio"), Quantity::Number);
    }
}
