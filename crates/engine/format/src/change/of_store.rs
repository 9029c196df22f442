//! Changes of the data store and of its blocks, as bytes.

use super::{Change, checksum_from, put_pbn};
use crate::codec::{Reader, put_varint};
use crate::types::{Fingerprint, Pbn};

impl Change {
    /// Appends an encoded change of the data store or of a block.
    pub(super) fn encode_of_store(&self, out: &mut Vec<u8>) {
        match self {
            Self::Grow { data_blocks } => {
                out.push(10);
                put_varint(out, *data_blocks);
            }
            Self::Move { from, to, checksum } => {
                out.push(25);
                put_pbn(out, *from);
                put_pbn(out, *to);
                out.extend_from_slice(&checksum.0.to_le_bytes());
            }
            Self::Cut { data_blocks } => {
                out.push(26);
                put_varint(out, *data_blocks);
            }
            Self::Identify { pbn, fingerprint } => {
                out.push(16);
                put_pbn(out, *pbn);
                out.extend_from_slice(&fingerprint.to_bytes());
            }
            Self::Suspect { pbn, is_suspect } => {
                out.push(17);
                put_pbn(out, *pbn);
                out.push(u8::from(*is_suspect));
            }
            _ => {}
        }
    }

    /// Decodes a change of the data store or of a block.
    pub(super) fn decode_of_store(
        tag: u8,
        reader: &mut Reader<'_>,
        pbn_of: impl Fn(u64) -> Option<Pbn>,
    ) -> Option<Self> {
        let size_or_pbn = reader.varint()?;
        Some(match tag {
            10 => Self::Grow { data_blocks: size_or_pbn },
            26 => Self::Cut { data_blocks: size_or_pbn },
            16 => Self::Identify {
                pbn: pbn_of(size_or_pbn)?,
                fingerprint: Fingerprint::from_bytes(reader.array()?),
            },
            17 => Self::Suspect { pbn: pbn_of(size_or_pbn)?, is_suspect: reader.flag()? },
            25 => Self::Move {
                from: pbn_of(size_or_pbn)?,
                to: pbn_of(reader.varint()?)?,
                checksum: checksum_from(reader)?,
            },
            _ => return None,
        })
    }
}
