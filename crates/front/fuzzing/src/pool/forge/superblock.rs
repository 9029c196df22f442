//! Changes of the superblock.

use super::edit::Edit;
use super::{Forge, put};
use crate::disk::disk_of;
use gemelo_format::{
    Compression, Features, FingerprintKind, Pbn, StoreKind, Superblock, WordForm, move_header_copy,
};

impl Forge<'_> {
    pub(super) fn change_superblock(&mut self, edit: Edit) {
        let superblock = &mut self.superblock;
        match edit.own_field() {
            0 => edit.change_u32(&mut superblock.block_bytes),
            1 => edit.change(&mut superblock.ring_pages),
            2 => {
                let kind = FingerprintKind::from_byte(edit.value as u8);
                superblock.fingerprint = kind.unwrap_or_default();
            }
            3 => {
                let number = superblock.header_copy.map_or(0, Pbn::number);
                superblock.header_copy = Pbn::new(edit.new_value(number));
            }
            4 => {
                superblock.store = match superblock.store {
                    StoreKind::Plain => StoreKind::Packed(Compression::Lz4),
                    StoreKind::Packed(_) => StoreKind::Plain,
                }
            }
            5 => {
                superblock.words = match superblock.words {
                    WordForm::Wide => WordForm::Narrow,
                    WordForm::Narrow => WordForm::Wide,
                }
            }
            6 => {
                let number = superblock.header_copy.map_or(0, Pbn::number);
                self.moved_copy = Pbn::new(edit.new_value(number));
            }
            7 => {
                let Features { incompatible, read_compatible, compatible } =
                    &mut superblock.unknown;
                edit.change(match edit.which % 3 {
                    0 => incompatible,
                    1 => read_compatible,
                    _ => compatible,
                });
            }
            8 => edit.change_u8(&mut superblock.pool_id[edit.which % 16]),
            9 => superblock.store = StoreKind::Packed(Compression::Zstd(edit.value as u8)),
            10 => {
                // A number of the first version, whatever the kind of the store.
                superblock.header_copy = Pbn::new(edit.value % 2048);
                self.moved_copy = superblock.header_copy;
            }
            _ => edit.change_u8(&mut superblock.key[edit.which % 32]),
        }
    }

    /// Writes both copies.
    pub(super) fn put_superblock(&mut self) {
        let page = self.superblock.encode();
        for place in Superblock::offsets() {
            put(&mut self.metadata, place as usize, &*page);
        }
        if let Some(to) = self.moved_copy {
            let disk = disk_of(std::mem::take(&mut self.metadata));
            // It is refused if the superblock is not one that can be read.
            let _ = move_header_copy(&*disk, to);
            self.metadata = disk.image();
        }
    }
}
