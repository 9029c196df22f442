//! A block that is to be read.

use gemelo_format::{Checksum, Lbn, Pbn};

/// A block to be read: where it is in a volume, which content it has, and the checksum of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) lbn: Lbn,
    pub(crate) pbn: Pbn,
    pub(crate) checksum: Checksum,
}
