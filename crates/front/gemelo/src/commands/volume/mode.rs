//! The modes of deduplication as values of options.

use gemelo_format::DedupMode;
use gemelo_job::choice;

choice!(
    /// A mode of deduplication.
    pub(crate) Mode is DedupMode {
        /// Writes are not deduplicated: each block written is stored
        Off,
        /// Writes are deduplicated before they are acknowledged
        Inline,
        /// Writes are deduplicated in the background after they were acknowledged
        Offline,
    }
);
