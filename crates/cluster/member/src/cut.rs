//! Cuts lists of byte ranges into pieces, each within one object. Ranges that follow one another
//! in one object become one piece, so that they cost one operation.

use crate::disk::MemberDisk;
use gemelo_format::{FlushMarks, PAGE_BYTES};
use std::ops::Range;

/// Bytes of an object. Ceph's own block devices use the same size.
pub const OBJECT_BYTES: u64 = 4 << 20;

/// Stands for the number of the object that has the flush marks of the metadata. They lie apart
/// from the root and the journal, so that an object of these which was put back as it was is older
/// than the marks.
pub(crate) const MARKS_OBJECT: u64 = u64::MAX;
const MARK_BYTES: u64 = PAGE_BYTES as u64;

/// Returns the object in which a byte of a disk lies, the place there, and how many bytes from
/// there on follow one another.
fn place_of(disk: MemberDisk, at: u64) -> (u64, u64, u64) {
    let (object, offset) = (at / OBJECT_BYTES, at % OBJECT_BYTES);
    let mut room = OBJECT_BYTES - offset;
    if disk == MemberDisk::Metadata {
        for (mark, offset) in FlushMarks::OFFSETS.into_iter().zip([0, MARK_BYTES]) {
            match at.checked_sub(mark) {
                Some(within) if within < MARK_BYTES => {
                    return (MARKS_OBJECT, offset + within, MARK_BYTES - within);
                }
                Some(_) => {}
                None => room = room.min(mark - at),
            }
        }
    }
    (object, offset, room)
}

/// A part of one request of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The place of the request in the list.
    pub(crate) request: usize,
    /// The bytes of the request.
    pub(crate) bytes: Range<usize>,
}

/// A range within one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of the object.
    pub(crate) object: u64,
    /// The first byte in the object.
    pub(crate) offset: u64,
    /// The length in bytes.
    pub(crate) length: usize,
    /// The parts of requests that make up the piece, in order.
    pub(crate) parts: Vec<Part>,
}

/// The range of a request of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requested {
    /// The place of the request in the list.
    pub(crate) request: usize,
    /// The first byte on the disk.
    pub(crate) offset: u64,
    /// The length in bytes.
    pub(crate) length: usize,
}

/// Cuts ranges of a disk.
pub(crate) fn cut(disk: MemberDisk, ranges: impl IntoIterator<Item = Requested>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for Requested { request, offset: begin, length } in ranges {
        let mut done = 0;
        while done < length {
            let at = begin + done as u64;
            let (object, offset, room) = place_of(disk, at);
            let count = (length - done).min(usize::try_from(room).unwrap_or(usize::MAX));
            let part = Part { request, bytes: done..done + count };
            match pieces.last_mut() {
                Some(last)
                    if last.object == object && last.offset + last.length as u64 == offset =>
                {
                    last.length += count;
                    last.parts.push(part);
                }
                _ => pieces.push(Piece { object, offset, length: count, parts: vec![part] }),
            }
            done += count;
        }
        assert_eq!(done, length, "the pieces of a range make up its length");
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<const N: usize>(ranges: [(usize, u64, usize); N]) -> Vec<Piece> {
        cut_of(MemberDisk::Data, ranges)
    }

    fn cut_of<const N: usize>(disk: MemberDisk, ranges: [(usize, u64, usize); N]) -> Vec<Piece> {
        let requested = |(request, offset, length)| Requested { request, offset, length };
        super::cut(disk, ranges.map(requested))
    }

    fn shape(pieces: &[Piece]) -> Vec<(u64, u64, usize, usize)> {
        let shape = |piece: &Piece| (piece.object, piece.offset, piece.length, piece.parts.len());
        pieces.iter().map(shape).collect()
    }

    #[test]
    fn adjacent_ranges_become_one_piece_and_none_crosses_an_object() {
        let pieces = cut([(0, 0, 4096), (1, 4096, 4096), (2, 12288, 4096)]);
        assert_eq!(shape(&pieces), [(0, 0, 8192, 2), (0, 12288, 4096, 1)]);
        let border = OBJECT_BYTES - 100;
        let pieces = cut([(0, border, 50), (1, border + 50, 100), (2, border + 150, 1)]);
        assert_eq!(shape(&pieces), [(0, border, 100, 2), (1, 0, 51, 2)]);
        assert_eq!(pieces[1].parts[0], Part { request: 1, bytes: 50..100 });
        assert_eq!(cut([(0, 7, 0)]), []);
        let length = 3 * OBJECT_BYTES as usize;
        assert_eq!(cut([(0, 1, length)]).len(), 4);
    }
    #[test]
    fn the_flush_marks_of_the_metadata_lie_in_an_object_of_their_own() {
        let [first, second] = FlushMarks::OFFSETS;
        let whole = [(0, 0, OBJECT_BYTES as usize + 1)];
        let rest = |from: u64, to: u64| (0, from, (to - from) as usize, 1);
        let expected = [
            rest(0, first),
            (MARKS_OBJECT, 0, 4096, 1),
            rest(first + 4096, second),
            (MARKS_OBJECT, 4096, 4096, 1),
            rest(second + 4096, OBJECT_BYTES),
            (1, 0, 1, 1),
        ];
        assert_eq!(shape(&cut_of(MemberDisk::Metadata, whole)), expected);
        assert_eq!(shape(&cut(whole)).len(), 2);
        let within = [(0, second + 4000, 200)];
        let expected = [(MARKS_OBJECT, 4096 + 4000, 96, 1), (0, second + 4096, 104, 1)];
        assert_eq!(shape(&cut_of(MemberDisk::Metadata, within)), expected);
    }
}
