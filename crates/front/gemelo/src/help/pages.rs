//! The sections of manual pages that are not in the definition of the commands.

use super::examples_of;
use crate::exit::STATUSES;
use clap_mangen::roff::{Roff, bold, roman};

/// Files of pools and of the shipped units: the name, and what it is.
const OF_POOLS: [(&str, &str); 5] = [
    ("POOL/data, POOL/metadata", "contents and metadata, unless the pool was created with devices"),
    ("POOL/settings.toml", "what 'gemelo pool set' and 'gemelo volume set' have chosen"),
    ("POOL/scrub.json, POOL/schedule.json", "the last scrub, and the snapshots of schedules"),
    ("/etc/default/gemelo-NAME", "GEMELO_OPTIONS of the unit gemelo@NAME.service"),
    ("/run/gemelo/NAME.sock", "the socket of that unit"),
];

/// Returns the sections of a command: examples, exit status, files, and other pages.
pub(crate) fn sections(words: &str, others: &[String]) -> Vec<u8> {
    let mut page = Roff::new();
    if let Some(lines) = examples_of(words) {
        page.control("SH", ["EXAMPLES"]);
        for line in lines {
            page.control("PP", []).control("EX", []).text([roman(*line)]).control("EE", []);
        }
    }
    let list = |page: &mut Roff, heading: &str, items: &[(&str, &str)]| {
        page.control("SH", [heading]);
        for (name, text) in items {
            page.control("TP", []).text([bold(*name)]).text([roman(*text)]);
        }
    };
    let statuses: Vec<(String, &str)> =
        STATUSES.iter().map(|(status, text)| (status.to_string(), *text)).collect();
    let statuses: Vec<(&str, &str)> =
        statuses.iter().map(|(status, text)| (status.as_str(), *text)).collect();
    list(&mut page, "EXIT STATUS", &statuses);
    let first = words.split(' ').next().unwrap_or_default();
    if matches!(first, "" | "pool" | "volume" | "serve" | "attach" | "detach") {
        list(&mut page, "FILES", &OF_POOLS);
    }
    page.control("SH", ["SEE ALSO"]);
    let pages: Vec<String> = others.iter().map(|name| format!("{name}(1)")).collect();
    page.text([roman(pages.join(", "))]);
    page.to_roff().into_bytes()
}
