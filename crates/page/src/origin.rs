//! The origin of results: program, machine, time and command line.

use crate::document::Text;
use gemelo_base::units::{format_line, format_size};
use gemelo_report::Provenance;

/// Returns the facts of a provenance.
pub(crate) fn facts(provenance: &Provenance) -> Vec<(String, Text)> {
    let mut facts = vec![
        ("Started".to_owned(), provenance.started_at.clone().into()),
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
