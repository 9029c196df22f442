//! Contents that lie in other members' stores.

use gemelo_domain::MemberId;
use gemelo_format::Pbn;
use std::io;

/// A read of a content of another member, or of a part of it.
#[derive(Debug)]
pub struct ForeignRead<'a> {
    /// The member in whose store the content lies.
    pub home: MemberId,
    /// The content's block there.
    pub pbn: Pbn,
    /// The offset of the first byte to read, within the content.
    pub within: usize,
    /// Filled by [`ForeignContents::read`]. After an error its bytes are undefined.
    pub buffer: &'a mut [u8],
    /// Set by [`ForeignContents::read`].
    pub outcome: io::Result<()>,
}

/// The stores of the other members, to be read only. All methods may be called from many threads at
/// once.
pub trait ForeignContents: Send + Sync {
    /// Reads contents together, and sets the outcome of each read. A content that does not exist is
    /// an error of kind `NotFound` or `UnexpectedEof`.
    fn read(&self, reads: &mut [ForeignRead<'_>]);
}
