//! Checks requests, and chooses the errors of those that are refused ("Error values").

use super::exports::block_sizes;
use crate::wire::{
    BlockSizes, COMMAND_FLAG_DF, COMMAND_FLAG_FAST_ZERO, Command, ErrorCode, RequestHeader,
};
use gemelo_device::Geometry;

/// The options that both sides agreed on in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NegotiatedOptions {
    /// `true` if reads are answered in chunks.
    pub(crate) structured_replies: bool,
    /// `true` if block status of `base:allocation` may be requested.
    pub(crate) base_allocation: bool,
    /// `true` if block status of `gemelo:since=` may be requested.
    pub(crate) since: bool,
    /// `true` if FAST_ZERO may succeed.
    pub(crate) zeroes_are_fast: bool,
}

/// The rules for requests: the agreed options, and the present size and limits of the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) agreed: NegotiatedOptions,
    pub(crate) size_bytes: u64,
    pub(crate) sizes: BlockSizes,
    pub(crate) read_only: bool,
}

impl Rules {
    pub(crate) fn new(agreed: NegotiatedOptions, geometry: &Geometry) -> Self {
        Self {
            agreed,
            size_bytes: geometry.size_bytes,
            sizes: block_sizes(geometry),
            read_only: geometry.read_only,
        }
    }
}

/// Checks a request. Returns the error to reply with if the request is refused.
pub(crate) fn check(request: &RequestHeader, rules: &Rules) -> Result<(), ErrorCode> {
    check_command(request, rules.agreed)?;
    if request.command == Command::FLUSH {
        let is_bare = request.offset == 0 && request.length == 0;
        return if is_bare { Ok(()) } else { Err(ErrorCode::INVALID) };
    }
    let writes = matches!(request.command, Command::WRITE | Command::WRITE_ZEROES | Command::TRIM);
    if writes && rules.read_only {
        return Err(ErrorCode::PERM);
    }
    check_range(request, rules)?;
    if request.flags & COMMAND_FLAG_FAST_ZERO != 0 && !rules.agreed.zeroes_are_fast {
        return Err(ErrorCode::NOT_SUPPORTED);
    }
    Ok(())
}

fn check_command(request: &RequestHeader, agreed: NegotiatedOptions) -> Result<(), ErrorCode> {
    let known = match request.command {
        Command::READ
        | Command::WRITE
        | Command::FLUSH
        | Command::TRIM
        | Command::CACHE
        | Command::WRITE_ZEROES => true,
        Command::BLOCK_STATUS => agreed.base_allocation || agreed.since,
        _ => false,
    };
    let flags_are_valid = request.flags & !request.command.valid_flags() == 0
        && (agreed.structured_replies || request.flags & COMMAND_FLAG_DF == 0);
    if known && flags_are_valid { Ok(()) } else { Err(ErrorCode::INVALID) }
}

fn check_range(request: &RequestHeader, rules: &Rules) -> Result<(), ErrorCode> {
    let beyond_the_end = match request.command {
        Command::WRITE | Command::WRITE_ZEROES => ErrorCode::NO_SPACE,
        _ => ErrorCode::INVALID,
    };
    let length = u64::from(request.length);
    match request.offset.checked_add(length) {
        Some(end) if end <= rules.size_bytes => {}
        _ => return Err(beyond_the_end),
    }
    let has_payload = matches!(request.command, Command::READ | Command::WRITE);
    let minimum = u64::from(rules.sizes.minimum);
    if length == 0
        || has_payload && request.length > rules.sizes.maximum
        || !request.offset.is_multiple_of(minimum)
        || !length.is_multiple_of(minimum)
    {
        return Err(ErrorCode::INVALID);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{COMMAND_FLAG_FUA, COMMAND_FLAG_NO_HOLE, COMMAND_FLAG_REQ_ONE};

    const GEOMETRY: Geometry = Geometry {
        size_bytes: 1 << 30,
        minimum_block_bytes: 512,
        preferred_block_bytes: 4096,
        maximum_request_bytes: 1 << 20,
        read_only: false,
    };
    const AGREED: NegotiatedOptions = NegotiatedOptions {
        structured_replies: true,
        base_allocation: true,
        since: false,
        zeroes_are_fast: true,
    };

    fn outcome(command: Command, flags: u16, offset: u64, length: u32) -> Result<(), ErrorCode> {
        check(
            &RequestHeader { flags, command, cookie: 0, offset, length },
            &Rules::new(AGREED, &GEOMETRY),
        )
    }

    #[test]
    fn what_is_within_the_device_is_done() {
        for command in [
            Command::READ,
            Command::WRITE,
            Command::TRIM,
            Command::WRITE_ZEROES,
            Command::BLOCK_STATUS,
        ] {
            assert_eq!(outcome(command, COMMAND_FLAG_FUA, (1 << 30) - 4096, 4096), Ok(()));
        }
        assert_eq!(outcome(Command::FLUSH, 0, 0, 0), Ok(()));
        assert_eq!(outcome(Command::WRITE_ZEROES, COMMAND_FLAG_NO_HOLE, 0, 1 << 30), Ok(()));
        assert_eq!(outcome(Command::BLOCK_STATUS, COMMAND_FLAG_REQ_ONE, 0, 1 << 30), Ok(()));
    }

    #[test]
    fn what_goes_beyond_the_end_is_refused_by_kind() {
        assert_eq!(outcome(Command::WRITE, 0, 1 << 30, 512), Err(ErrorCode::NO_SPACE));
        assert_eq!(
            outcome(Command::WRITE_ZEROES, 0, (1 << 30) - 512, 1024),
            Err(ErrorCode::NO_SPACE)
        );
        assert_eq!(outcome(Command::READ, 0, 1 << 30, 512), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::TRIM, 0, u64::MAX - 511, 512), Err(ErrorCode::INVALID));
    }

    #[test]
    fn unaligned_empty_and_over_long_requests_are_refused() {
        assert_eq!(outcome(Command::READ, 0, 1, 512), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::WRITE, 0, 0, 513), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::READ, 0, 0, 0), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::READ, 0, 0, (1 << 20) + 512), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::FLUSH, 0, 0, 512), Err(ErrorCode::INVALID));
    }

    #[test]
    fn unknown_commands_and_flags_are_refused() {
        assert_eq!(outcome(Command(99), 0, 0, 512), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::READ, COMMAND_FLAG_NO_HOLE, 0, 512), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::WRITE, COMMAND_FLAG_DF, 0, 512), Err(ErrorCode::INVALID));
        assert_eq!(outcome(Command::READ, 1 << 15, 0, 512), Err(ErrorCode::INVALID));
    }

    #[test]
    fn what_was_not_agreed_on_is_refused() {
        let none = NegotiatedOptions {
            structured_replies: false,
            base_allocation: false,
            since: false,
            zeroes_are_fast: false,
        };
        for (command, flags, expected) in [
            (Command::READ, COMMAND_FLAG_DF, ErrorCode::INVALID),
            (Command::BLOCK_STATUS, 0, ErrorCode::INVALID),
            (Command::WRITE_ZEROES, COMMAND_FLAG_FAST_ZERO, ErrorCode::NOT_SUPPORTED),
        ] {
            let request = RequestHeader { flags, command, cookie: 0, offset: 0, length: 512 };
            assert_eq!(check(&request, &Rules::new(none, &GEOMETRY)), Err(expected));
        }
    }

    #[test]
    fn a_read_only_device_permits_no_writes() {
        let geometry = Geometry { read_only: true, ..GEOMETRY };
        for command in [Command::WRITE, Command::WRITE_ZEROES, Command::TRIM] {
            let request = RequestHeader { flags: 0, command, cookie: 0, offset: 0, length: 512 };
            assert_eq!(check(&request, &Rules::new(AGREED, &geometry)), Err(ErrorCode::PERM));
        }
    }
}
