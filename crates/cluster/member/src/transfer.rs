//! Lists of reads and writes as operations on objects, many of them in flight.

use crate::cut::{Part, Piece, Requested, cut};
use crate::disk::{DiskContext, LIST_OPERATIONS, MemberDisk, kind_of, text_of};
use gemelo_disk::{DiskRead, DiskWrite};
use gemelo_objects::{ObjectError, Objects, Operation, Request};
use std::io;

/// The most bytes of one list that are in flight together.
const LIST_BYTES: usize = 16 << 20;
/// Attempts to read: a read that is repeated changes nothing.
const READ_ATTEMPTS: u32 = 3;

/// The outcome of a piece, which all its requests get.
type Outcome = Result<(), (io::ErrorKind, String)>;

/// A disk, and the objects in which it lies.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) disk: MemberDisk,
    pub(crate) objects: &'a dyn Objects,
    pub(crate) context: &'a DiskContext,
}

/// Executes writes that end within the disk.
pub(crate) fn write_pieces(
    Target { disk, objects, context }: Target<'_>,
    name: impl Fn(u64) -> String,
    writes: &mut [DiskWrite<'_>],
) {
    let ranges = writes.iter().enumerate();
    let pieces = cut(
        disk,
        ranges.map(|(request, write)| Requested {
            request,
            offset: write.offset,
            length: write.bytes.len(),
        }),
    );
    for pieces in lists(&pieces) {
        let outcomes = write_list(objects, context, &name, (pieces, writes));
        assert_eq!(outcomes.len(), pieces.len(), "each piece that was written has an outcome");
        for (piece, outcome) in pieces.iter().zip(outcomes) {
            for part in &piece.parts {
                if let Some(write) = writes.get_mut(part.request) {
                    note(&mut write.outcome, &outcome);
                }
            }
        }
    }
}

fn write_list(
    objects: &dyn Objects,
    context: &DiskContext,
    name: &impl Fn(u64) -> String,
    (pieces, writes): (&[Piece], &[DiskWrite<'_>]),
) -> Vec<Outcome> {
    let _in_flight = context.flight.enter(bytes_of(pieces));
    // It is checked after it counts as in flight, so that a release that waits misses none.
    if let Err(error) = context.check_writable() {
        return pieces.iter().map(|_| Err((error.kind(), error.to_string()))).collect();
    }
    let merged: Vec<Option<Vec<u8>>> = pieces.iter().map(|piece| merge(piece, writes)).collect();
    let mut bytes = pieces.iter().zip(&merged).map(|(piece, merged)| {
        let first = || piece.parts.first().map_or(&[][..], |part| slice(part, writes));
        (piece.offset, merged.as_deref().unwrap_or_else(first))
    });
    // Pieces of one object that follow one another cost one operation.
    let of_objects: Vec<&[Piece]> =
        pieces.chunk_by(|one, next| one.object == next.object).collect();
    let names: Vec<String> =
        of_objects.iter().flat_map(|of| of.first()).map(|piece| name(piece.object)).collect();
    let request = |(of, name): (&&[Piece], _)| {
        Request::new(name, Operation::Write { parts: bytes.by_ref().take(of.len()).collect() })
    };
    let mut requests: Vec<Request<'_>> =
        of_objects.iter().zip(names.iter().map(String::as_str)).map(request).collect();
    objects.execute(&mut requests);
    let judge = |(request, of): (Request<'_>, &&[Piece])| {
        let outcome: Outcome = request.outcome.map_err(|error| {
            context.lease_state.judge("write", request.object, &error);
            (kind_of(&error), text_of(&error))
        });
        std::iter::repeat_n(outcome, of.len())
    };
    requests.into_iter().zip(&of_objects).flat_map(judge).collect()
}

/// Executes the reads whose outcome is good so far; they end within the disk.
pub(crate) fn read_pieces(
    Target { disk, objects, context }: Target<'_>,
    name: impl Fn(u64) -> String,
    reads: &mut [DiskRead<'_>],
) {
    let good = reads.iter().enumerate().filter(|(_, read)| read.outcome.is_ok());
    let pieces = cut(
        disk,
        good.map(|(request, read)| Requested {
            request,
            offset: read.offset,
            length: read.buffer.len(),
        }),
    );
    for pieces in lists(&pieces) {
        let _in_flight = context.flight.enter(bytes_of(pieces));
        let outcomes = read_list(objects, &name, pieces, reads);
        assert_eq!(outcomes.len(), pieces.len(), "each piece that was read has an outcome");
        for (piece, outcome) in pieces.iter().zip(outcomes) {
            for part in &piece.parts {
                if let Some(read) = reads.get_mut(part.request) {
                    note(&mut read.outcome, &outcome);
                }
            }
        }
    }
}

fn read_list(
    objects: &dyn Objects,
    name: &impl Fn(u64) -> String,
    pieces: &[Piece],
    reads: &mut [DiskRead<'_>],
) -> Vec<Outcome> {
    let names: Vec<String> = pieces.iter().map(|piece| name(piece.object)).collect();
    let parts = parts_of(pieces, reads);
    let mut requests = Vec::with_capacity(pieces.len());
    for ((parts, piece), name) in parts.into_iter().zip(pieces).zip(&names) {
        requests.push(Request::new(name, Operation::read_parts(piece.offset, parts)));
    }
    objects.execute(&mut requests);
    for request in &mut requests {
        for _ in 1..READ_ATTEMPTS {
            if !request.outcome.as_ref().is_err_and(ObjectError::is_unknown) {
                break;
            }
            objects.execute(std::slice::from_mut(request));
        }
    }
    requests.into_iter().map(fill_with_zeros).collect()
}

/// Lends the buffers of the reads to the pieces, in the order of both.
fn parts_of<'b>(pieces: &[Piece], reads: &'b mut [DiskRead<'_>]) -> Vec<Vec<&'b mut [u8]>> {
    let mut reads = reads.iter_mut().enumerate();
    let mut rest: (usize, &mut [u8]) = (usize::MAX, &mut []);
    let parts_of = |piece: &Piece| {
        let mut parts = Vec::with_capacity(piece.parts.len());
        for part in &piece.parts {
            while rest.0 != part.request {
                let Some((at, read)) = reads.next() else { break };
                rest = (at, &mut *read.buffer);
            }
            let (head, tail) = std::mem::take(&mut rest.1).split_at_mut(part.bytes.len());
            rest.1 = tail;
            parts.push(head);
        }
        parts
    };
    pieces.iter().map(parts_of).collect()
}

/// Completes a read: what the store does not have is zeros.
fn fill_with_zeros(request: Request<'_>) -> Outcome {
    let Operation::ReadParts { parts, filled, .. } = request.operation else { return Ok(()) };
    let mut filled = match request.outcome {
        Ok(()) => filled,
        Err(ObjectError::NotFound { .. }) => 0,
        Err(error) => return Err((kind_of(&error), text_of(&error))),
    };
    for part in parts {
        if let Some(missing) = part.get_mut(filled..) {
            missing.fill(0);
        }
        filled = filled.saturating_sub(part.len());
    }
    Ok(())
}

/// Parts pieces into lists that are in flight together.
fn lists(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |piece: &&Piece| {
            bytes += piece.length;
            bytes <= LIST_BYTES
        };
        let count = rest.iter().take(LIST_OPERATIONS).take_while(fits).count().max(1);
        let (list, others) = rest.split_at_checked(count)?;
        rest = others;
        Some(list)
    })
}

fn bytes_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.length as u64).sum()
}

/// Returns the bytes of a part. A part without bytes would be acknowledged and not written.
fn slice<'w>(part: &Part, writes: &[DiskWrite<'w>]) -> &'w [u8] {
    let bytes = writes.get(part.request).and_then(|write| write.bytes.get(part.bytes.clone()));
    assert!(bytes.is_some(), "a part lies within its request");
    bytes.unwrap_or_default()
}

/// Brings the parts of a piece together, if it has several.
fn merge(piece: &Piece, writes: &[DiskWrite<'_>]) -> Option<Vec<u8>> {
    if piece.parts.len() == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(piece.length);
    piece.parts.iter().for_each(|part| bytes.extend_from_slice(slice(part, writes)));
    assert_eq!(bytes.len(), piece.length, "the parts of a piece make up its length");
    Some(bytes)
}

/// Notes the outcome of a piece at a request of it. The first error of a request stays.
fn note(place: &mut io::Result<()>, outcome: &Outcome) {
    if let (Ok(()), Err((kind, text))) = (&place, outcome) {
        *place = Err(io::Error::new(*kind, text.clone()));
    }
}
