//! The end of a process that may not act for a member of a domain any more.

use super::{Failure, status};
use gemelo_base::FailureKind;
use gemelo_member::{MemberError, on_loss};
use std::ffi::c_int;
use std::io::Write;

unsafe extern "C" {
    /// Ends the process at once, without the handlers of libraries, whose threads may wait for a
    /// store that does not answer.
    safe fn _exit(status: c_int) -> !;
}

/// Ends this process, with the reason on standard error, as soon as it may not act for a member any
/// more.
pub(crate) fn end_at_loss() {
    on_loss(|why| {
        let failure = Failure::from(MemberError::from(why.clone()));
        let _ = writeln!(std::io::stderr(), "gemelo: {}", failure.message());
        _exit(c_int::from(status(FailureKind::Displaced)))
    });
}
