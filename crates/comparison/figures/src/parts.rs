//! The parts of a figure's name.

/// The parts of a figure's name, such as `nurand-write.write/latency_p99_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// Part of a suite or sweep, such as `nurand-write`.
    pub job: Option<&'a str>,
    /// Kind of operation or the thing that was measured, such as `write` or `system`. It is empty
    /// for a name without a slash.
    pub kind: &'a str,
    /// The quantity with its unit, such as `latency_p99_ns`.
    pub quantity: &'a str,
    /// The name without its job.
    pub bare: &'a str,
}

/// Returns the parts of the name of a figure.
#[must_use]
pub fn name_parts(name: &str) -> NameParts<'_> {
    let (before, quantity) = name.rsplit_once('/').unwrap_or(("", name));
    match before.rsplit_once('.') {
        Some((job, kind)) => {
            let bare = name.get(job.len() + 1..).unwrap_or(name);
            NameParts { job: Some(job), kind, quantity, bare }
        }
        None => NameParts { job: None, kind: before, quantity, bare: name },
    }
}

/// Kinds of figures that are computed from data and not timed.
const COUNTED_KINDS: [&str; 6] = ["space", "scan", "written", "entropy", "content", "accesses"];

/// Returns `true` for a figure that is counted and not timed: space in use, shares and ratios of
/// contents, their entropy, and accesses of blocks. The same data give the same count, so
/// repetitions that do not differ say that the count is exact. For a figure that is timed, they
/// would say that its clock is too coarse.
#[must_use]
pub fn is_counted(name: &str) -> bool {
    let NameParts { kind, quantity, .. } = name_parts(name);
    COUNTED_KINDS.contains(&kind) && !quantity.ends_with("_per_s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_job_a_kind_and_a_quantity() {
        let parts = name_parts("nurand-write.write/latency_p99.9_ns");
        assert_eq!((parts.job, parts.kind), (Some("nurand-write"), "write"));
        assert_eq!((parts.quantity, parts.bare), ("latency_p99.9_ns", "write/latency_p99.9_ns"));
        let plain = name_parts("elapsed_ns");
        assert_eq!((plain.job, plain.kind, plain.bare), (None, "", "elapsed_ns"));
    }

    #[test]
    fn space_is_counted_and_rates_are_timed() {
        for (name, counted) in [
            ("space/data_bytes", true),
            ("job.space/dedup_ratio", true),
            ("4096.scan/saved_bytes", true),
            ("entropy/file_bits", true),
            ("scan/bytes_per_s", false),
            ("write/operations_per_s", false),
            ("run/elapsed_ns", false),
        ] {
            assert_eq!(is_counted(name), counted, "{name}");
        }
    }
}
