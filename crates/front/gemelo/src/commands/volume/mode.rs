//! The modes of deduplication as values of options.

use clap::ValueEnum;
use gemelo_format::DedupMode;

/// A mode of deduplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Writes are not deduplicated: each block written is stored
    Off,
    /// Writes are deduplicated before they are acknowledged
    Inline,
    /// Writes are deduplicated in the background after they were acknowledged
    Offline,
}

impl From<Mode> for DedupMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Off => Self::Off,
            Mode::Inline => Self::Inline,
            Mode::Offline => Self::Offline,
        }
    }
}

/// Returns the name of a mode.
pub(crate) const fn name_of(mode: DedupMode) -> &'static str {
    match mode {
        DedupMode::Off => "off",
        DedupMode::Inline => "inline",
        DedupMode::Offline => "offline",
    }
}
