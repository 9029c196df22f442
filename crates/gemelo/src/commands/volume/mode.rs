//! How a volume deduplicates, by name.

use clap::ValueEnum;
use gemelo_format::DedupMode;

/// How a volume deduplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Not at all: every write gets a block of its own
    Off,
    /// Before a write is acknowledged
    Inline,
    /// In the background, after it was
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

/// The name of a mode.
pub(crate) const fn name_of(mode: DedupMode) -> &'static str {
    match mode {
        DedupMode::Off => "off",
        DedupMode::Inline => "inline",
        DedupMode::Offline => "offline",
    }
}
