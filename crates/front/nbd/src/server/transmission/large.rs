//! Executes requests in pieces, one request at a time, if they are longer than a request that is
//! executed whole, or longer than the memory that is granted.
//!
//! A write goes to the device as it arrives. The data of a read is sent in several chunks if the
//! client has agreed on structured replies. A simple reply must begin by saying whether the read
//! succeeds. Such a read is executed whole if memory is granted. Otherwise its pieces are read
//! twice: first to find out whether the read succeeds, then to send them.

use super::{Transmission, ask};
use crate::server::check::{Rules, check};
use crate::server::error::SessionError;
use crate::wire::{
    CHUNK_FLAG_DONE, COMMAND_FLAG_DF, COMMAND_FLAG_FUA, Command, ErrorCode, REQUEST_BYTES,
    RequestHeader, SimpleReply, encode_error_chunk, encode_offset_data_header,
    encode_offset_data_part,
};
use gemelo_device::{DeviceError, Durability, Operation};
use std::sync::Arc;

/// The use of pieces that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// Drops them.
    Nothing,
    /// Sends them after a header that covers all of them.
    Data,
    /// Sends each as a chunk.
    Chunks,
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    offset: u64,
    bytes: usize,
}

/// Returns the next piece of the rest of a request: as long as fits, and ending at a block boundary
/// of the device, so that no block is read and written twice.
fn next_piece(offset: u64, left_bytes: usize, capacity: usize, rules: &Rules) -> Piece {
    if left_bytes <= capacity {
        return Piece { offset, bytes: left_bytes };
    }
    let whole_blocks = |block: u32| {
        let end = (offset + capacity as u64) / u64::from(block) * u64::from(block);
        usize::try_from(end.saturating_sub(offset)).unwrap_or(0)
    };
    let bytes = match (whole_blocks(rules.sizes.preferred), whole_blocks(rules.sizes.minimum)) {
        (0, 0) => capacity,
        (0, bytes) | (bytes, _) => bytes,
    };
    Piece { offset, bytes }
}

impl Transmission<'_> {
    /// Executes the request at the front, whose header has arrived. Returns `false`
    /// at the end of the stream.
    pub(super) fn perform_large(&mut self, header: RequestHeader) -> Result<bool, SessionError> {
        // The pieces of a reply must not mix with other replies.
        self.lanes.wait_for_all();
        let rules = self.rules();
        self.intake.discard(REQUEST_BYTES);
        let checked = check(&header, &rules);
        if header.command == Command::WRITE {
            return self.write_in_pieces(header, checked, &rules);
        }
        let is_in_chunks = self.chosen.agreed.structured_replies && !header.has(COMMAND_FLAG_DF);
        let is_whole = checked.is_err() || !(header.command == Command::READ && is_in_chunks);
        if is_whole && self.batch.push(header, 0..0, &rules) {
            self.execute_batch()?;
        } else {
            self.read_in_pieces(header, is_in_chunks, &rules)?;
        }
        Ok(true)
    }

    fn write_in_pieces(
        &mut self,
        header: RequestHeader,
        checked: Result<(), ErrorCode>,
        rules: &Rules,
    ) -> Result<bool, SessionError> {
        let mut done = checked;
        let (mut offset, mut left_bytes) = (header.offset, header.payload_bytes());
        while left_bytes > 0 && done.is_ok() {
            let piece = next_piece(offset, left_bytes, self.intake.capacity(), rules);
            assert!(
                (1..=left_bytes).contains(&piece.bytes) && offset >= header.offset,
                "a piece is a part of its request"
            );
            let Some(data) = self.intake.held().get(..piece.bytes) else {
                self.is_in_request = true;
                self.intake.expect(piece.bytes);
                if !self.receive()? {
                    return Ok(false);
                }
                continue;
            };
            self.written += 1;
            let durability = Durability::Flushed;
            done = of_device(ask(
                &*self.chosen.export.device,
                Operation::Write { offset, data, durability },
            ));
            let dropped = self.intake.discard(piece.bytes);
            assert!(dropped == piece.bytes, "a piece that was written is taken out as a whole");
            offset += piece.bytes as u64;
            left_bytes -= piece.bytes;
        }
        if !self.drop_data(left_bytes)? {
            return Ok(false);
        }
        if done.is_ok() && header.has(COMMAND_FLAG_FUA) {
            done = of_device(self.flush());
        }
        self.reply(header, done.err().unwrap_or(ErrorCode::NONE))?;
        Ok(true)
    }

    fn read_in_pieces(
        &mut self,
        header: RequestHeader,
        is_in_chunks: bool,
        rules: &Rules,
    ) -> Result<(), SessionError> {
        let RequestHeader { cookie, offset, length, .. } = header;
        if header.command == Command::CACHE || !is_in_chunks {
            let readable = self.read_pieces(header, rules, Sending::Nothing)?;
            if header.command == Command::CACHE || readable.is_err() {
                return self.reply(header, readable.err().unwrap_or(ErrorCode::NONE));
            }
            if self.chosen.agreed.structured_replies {
                self.send(&encode_offset_data_header(cookie, offset, length))?;
            } else {
                self.send(&SimpleReply { error: ErrorCode::NONE, cookie }.encode())?;
            }
        }
        self.counters.count_batch(1);
        self.traffic.requests += 1;
        let sending = if is_in_chunks { Sending::Chunks } else { Sending::Data };
        match self.read_pieces(header, rules, sending)? {
            Ok(()) => Ok(()),
            Err(error) if is_in_chunks => self.send(&encode_error_chunk(cookie, error)),
            // The reply already says that the read succeeds, so the protocol allows only ending the
            // connection.
            Err(_) => Err(SessionError::ReadFailed),
        }
    }

    /// Reads the pieces in order, up to the first failure.
    fn read_pieces(
        &mut self,
        header: RequestHeader,
        rules: &Rules,
        sending: Sending,
    ) -> Result<Result<(), ErrorCode>, SessionError> {
        let device = Arc::clone(&self.chosen.export.device);
        let (mut offset, mut left_bytes) = (header.offset, header.length as usize);
        while left_bytes > 0 {
            let buffer = self.batch.piece_buffer();
            let piece = next_piece(offset, left_bytes, buffer.len(), rules);
            assert!(
                (1..=left_bytes.min(buffer.len())).contains(&piece.bytes),
                "a piece is a part of its request and fits into the buffer"
            );
            let buffer = buffer.get_mut(..piece.bytes).unwrap_or_default();
            if let Err(error) = ask(&*device, Operation::Read { offset, buffer }) {
                return Ok(Err(ErrorCode::of_device(&error)));
            }
            offset += piece.bytes as u64;
            left_bytes -= piece.bytes;
            let flags = if left_bytes == 0 { CHUNK_FLAG_DONE } else { 0 };
            // A piece is not longer than its request, whose length has 32 bits.
            let head =
                encode_offset_data_part(header.cookie, piece.offset, piece.bytes as u32, flags);
            self.check_may_answer()?;
            let data = self.batch.piece_buffer().get(..piece.bytes).unwrap_or_default();
            assert!(data.len() == piece.bytes, "a header is followed by all of its data");
            let sent = match sending {
                Sending::Nothing => Ok(()),
                Sending::Data => self.stream.write_all(data),
                Sending::Chunks => {
                    self.stream.write_all(&head).and_then(|()| self.stream.write_all(data))
                }
            };
            sent.map_err(|error| SessionError::of_send(error, self.send_timeout))?;
            if sending != Sending::Nothing {
                self.traffic.read_bytes += piece.bytes as u64;
            }
        }
        Ok(Ok(()))
    }
}

fn of_device(outcome: Result<(), DeviceError>) -> Result<(), ErrorCode> {
    outcome.map_err(|error| ErrorCode::of_device(&error))
}

#[cfg(test)]
mod tests;
