//! The origin of results: program, machine, time and command line.

use crate::document::Text;
use gemelo_base::units::{format_line, format_size};
use gemelo_record::Provenance;

/// Returns the facts of a provenance.
pub(crate) fn facts(provenance: &Provenance) -> Vec<(String, Text)> {
    let mut facts = vec![
        ("Started".to_owned(), readable_time(&provenance.started_at).into()),
        ("Host".to_owned(), provenance.host.clone().into()),
        (
            "Machine".to_owned(),
            format!(
                "{}, {} processors, {} of memory",
                provenance.cpu,
                provenance.cpu_count,
                format_size(provenance.memory_bytes)
            )
            .into(),
        ),
        ("Kernel".to_owned(), provenance.kernel.clone().into()),
        ("Program".to_owned(), format!("gemelo {}", provenance.version).into()),
        ("Command".to_owned(), format_line(&provenance.command_line.join(" ")).into()),
    ];
    if let Some(target) = &provenance.target {
        facts.push(("Target".to_owned(), target.clone().into()));
    }
    if let Some(seed) = provenance.seed {
        facts.push(("Seed".to_owned(), seed.to_string().into()));
    }
    facts
}

/// Writes a time of RFC 3339 in UTC for a reader: `2026-11-20 09:00 UTC`. Other texts stay as they
/// are.
pub(crate) fn readable_time(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..16), time.ends_with('Z')) {
        (Some(date), Some("T"), Some(minute), true) => format!("{date} {minute} UTC"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::readable_time;

    #[test]
    fn times_are_written_for_readers() {
        assert_eq!(readable_time("2026-11-20T09:00:05Z"), "2026-11-20 09:00 UTC");
        assert_eq!(readable_time("yesterday"), "yesterday");
    }
}
