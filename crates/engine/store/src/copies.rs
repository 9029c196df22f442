//! Copies of a pool's contents that other pools have.

use gemelo_format::Fingerprint;

/// Reads contents of other pools that share contents with this one.
pub trait Copies: Send + Sync {
    /// Looks for contents with these fingerprints, and calls `found` with the bytes of each that
    /// was read. The caller proves that they are the content. A content that no other pool has,
    /// or that cannot be read at present, is left out.
    fn read(&self, wanted: &[Fingerprint], found: &mut dyn FnMut(&[u8]));
}
