//! Reads a set row by row, after its checksum was verified.

use super::columns::{column, schema};
use super::error::SavedSetError;
use super::{HEAD_KEY, SET_FORMAT, SetHead, SizeHead, VersionedHead, checksum};
use crate::fingerprint::ScanFingerprint;
use crate::levels::{MAX_LEVEL, highest_low};
use crate::nature::Nature;
use crate::set::ContentLocation;
use crate::tally::Row;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The number of rows that are read from the columns at once.
const BATCH_ROWS: usize = 1024;

pub(super) struct SetReader {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    pub(super) head: SetHead,
    next_group: usize,
    columns: Option<Columns>,
    rows: VecDeque<(u32, Row)>,
    last: Option<(u32, ScanFingerprint)>,
}

/// The readers of the columns of one row group.
struct Columns {
    block_bytes: ColumnReaderImpl<Int32Type>,
    fingerprints: ColumnReaderImpl<FixedLenByteArrayType>,
    length_bytes: ColumnReaderImpl<Int32Type>,
    copies: ColumnReaderImpl<Int64Type>,
    zero: ColumnReaderImpl<BoolType>,
    place_paths: ColumnReaderImpl<ByteArrayType>,
    place_offsets: ColumnReaderImpl<Int64Type>,
    lz4_bytes: ColumnReaderImpl<Int32Type>,
    zstd_bytes: ColumnReaderImpl<Int32Type>,
    entropies: ColumnReaderImpl<DoubleType>,
    positions: ColumnReaderImpl<ByteArrayType>,
}

impl SetReader {
    pub(super) fn open(path: &Path) -> Result<Self, SavedSetError> {
        let owned = || path.to_owned();
        let file =
            File::open(path).map_err(|source| SavedSetError::Read { path: owned(), source })?;
        checksum::verify(&file, path)?;
        let columns = |source| SavedSetError::Columns { path: owned(), source };
        let reader = SerializedFileReader::new(file).map_err(columns)?;
        let metadata = reader.metadata().file_metadata();
        if metadata.schema_descr().root_schema_ptr() != schema().map_err(columns)? {
            let what = "its columns are not those of a fingerprint set";
            return Err(SavedSetError::Invalid { path: owned(), what });
        }
        let head = head_of(metadata.key_value_metadata(), path)?;
        Ok(Self {
            path: owned(),
            reader,
            head,
            next_group: 0,
            columns: None,
            rows: VecDeque::new(),
            last: None,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn invalid(&self, what: &'static str) -> SavedSetError {
        SavedSetError::Invalid { path: self.path.clone(), what }
    }

    /// Returns the next row, with its block size.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Row)>, SavedSetError> {
        while self.rows.is_empty() {
            if !self.fill()? {
                return Ok(None);
            }
        }
        let Some((block_bytes, mut row)) = self.rows.pop_front() else { return Ok(None) };
        let key = Some((block_bytes, row.fingerprint));
        if self.last >= key {
            return Err(self.invalid("its rows are not in ascending order"));
        }
        self.last = key;
        let Some(size) = self.head.sizes.iter().find(|size| size.block_bytes == block_bytes) else {
            return Err(self.invalid("a row has a block size that its head does not list"));
        };
        if row.copies == 0 || row.length_bytes == 0 || row.length_bytes > block_bytes {
            return Err(self.invalid("a row has no copies, or a length outside its block size"));
        }
        if row.nature.is_some_and(|nature| !(0.0..=8.0).contains(&nature.entropy_bits)) {
            return Err(self.invalid("a row has an entropy outside of 0 to 8 bits a byte"));
        }
        // A row above the level is no longer part of the sample.
        if row.fingerprint.low > highest_low(size.nature_level) {
            row.nature = None;
        }
        if row.fingerprint.low > highest_low(size.locality_level) {
            row.positions.clear();
        }
        Ok(Some((block_bytes, row)))
    }

    fn fill(&mut self) -> Result<bool, SavedSetError> {
        let failed = |source| SavedSetError::Columns { path: self.path.clone(), source };
        if self.columns.is_none() {
            if self.next_group == self.reader.num_row_groups() {
                return Ok(false);
            }
            let columns = open_columns(&self.reader, self.next_group).map_err(failed)?;
            self.columns = Some(columns);
            self.next_group += 1;
        }
        if let Some(columns) = &mut self.columns {
            self.rows.extend(columns.read().map_err(failed)?);
            if self.rows.is_empty() {
                self.columns = None;
            }
        }
        Ok(true)
    }
}

fn head_of(
    metadata: Option<&Vec<parquet::file::metadata::KeyValue>>,
    path: &Path,
) -> Result<SetHead, SavedSetError> {
    let invalid = |what| SavedSetError::Invalid { path: path.to_owned(), what };
    let text = metadata
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == HEAD_KEY))
        .and_then(|pair| pair.value.as_deref())
        .ok_or_else(|| invalid("its head is missing"))?;
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| invalid("its head is not JSON"))?;
    let found = value.get("format").and_then(|format| format.as_str()).unwrap_or("none");
    if found != SET_FORMAT {
        return Err(SavedSetError::Version { path: path.to_owned(), found: found.to_owned() });
    }
    let versioned: VersionedHead = serde_json::from_value(value)
        .map_err(|_| invalid("a field of its head is missing or has a wrong type"))?;
    let sizes = &versioned.head.sizes;
    if !sizes.is_sorted_by(|one, next| one.block_bytes < next.block_bytes) {
        return Err(invalid("its block sizes are not in ascending order"));
    }
    let is_possible = |size: &SizeHead| {
        let totals = &size.totals;
        totals.zero_blocks <= totals.blocks
            && totals.zero_bytes <= totals.data_bytes
            && size.nature_level.max(size.locality_level) <= MAX_LEVEL
    };
    if !sizes.iter().all(is_possible) {
        return Err(invalid("its totals or its sample levels are impossible"));
    }
    Ok(versioned.head)
}

fn wrong_type() -> ParquetError {
    ParquetError::General("a column does not have the expected type".to_owned())
}

fn open_columns(
    reader: &SerializedFileReader<File>,
    group: usize,
) -> Result<Columns, ParquetError> {
    let group = reader.get_row_group(group)?;
    let open = |index| group.get_column_reader(index);
    Ok(Columns {
        block_bytes: int32(open(column::BLOCK_BYTES)?)?,
        fingerprints: match open(column::FINGERPRINT)? {
            ColumnReader::FixedLenByteArrayColumnReader(reader) => reader,
            _ => return Err(wrong_type()),
        },
        length_bytes: int32(open(column::LENGTH_BYTES)?)?,
        copies: int64(open(column::COPIES)?)?,
        zero: match open(column::ZERO)? {
            ColumnReader::BoolColumnReader(reader) => reader,
            _ => return Err(wrong_type()),
        },
        place_paths: bytes(open(column::PLACE_PATH)?)?,
        place_offsets: int64(open(column::PLACE_OFFSET)?)?,
        lz4_bytes: int32(open(column::LZ4_BYTES)?)?,
        zstd_bytes: int32(open(column::ZSTD_BYTES)?)?,
        entropies: match open(column::ENTROPY)? {
            ColumnReader::DoubleColumnReader(reader) => reader,
            _ => return Err(wrong_type()),
        },
        positions: bytes(open(column::POSITIONS)?)?,
    })
}

fn int32(reader: ColumnReader) -> Result<ColumnReaderImpl<Int32Type>, ParquetError> {
    if let ColumnReader::Int32ColumnReader(reader) = reader {
        Ok(reader)
    } else {
        Err(wrong_type())
    }
}

fn int64(reader: ColumnReader) -> Result<ColumnReaderImpl<Int64Type>, ParquetError> {
    if let ColumnReader::Int64ColumnReader(reader) = reader {
        Ok(reader)
    } else {
        Err(wrong_type())
    }
}

fn bytes(reader: ColumnReader) -> Result<ColumnReaderImpl<ByteArrayType>, ParquetError> {
    if let ColumnReader::ByteArrayColumnReader(reader) = reader {
        Ok(reader)
    } else {
        Err(wrong_type())
    }
}

/// Reads the next values of a column that has a value in every row.
fn required<Kind: DataType>(
    reader: &mut ColumnReaderImpl<Kind>,
) -> Result<Vec<Kind::T>, ParquetError> {
    let mut values = Vec::with_capacity(BATCH_ROWS);
    reader.read_records(BATCH_ROWS, None, None, &mut values)?;
    Ok(values)
}

/// Reads the next values of a column that may lack a value; those rows give `None`.
fn optional<Kind: DataType>(
    reader: &mut ColumnReaderImpl<Kind>,
) -> Result<Vec<Option<Kind::T>>, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::with_capacity(BATCH_ROWS));
    reader.read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)?;
    let mut values = values.into_iter();
    Ok(levels.iter().map(|level| if *level > 0 { values.next() } else { None }).collect())
}

impl Columns {
    fn read(&mut self) -> Result<Vec<(u32, Row)>, ParquetError> {
        let block_bytes = required(&mut self.block_bytes)?;
        let mut fingerprints = required(&mut self.fingerprints)?.into_iter();
        let mut length_bytes = required(&mut self.length_bytes)?.into_iter();
        let mut copies = required(&mut self.copies)?.into_iter();
        let mut zero = required(&mut self.zero)?.into_iter();
        let mut paths = optional(&mut self.place_paths)?.into_iter();
        let mut offsets = optional(&mut self.place_offsets)?.into_iter();
        let mut lz4_bytes = optional(&mut self.lz4_bytes)?.into_iter();
        let mut zstd_bytes = optional(&mut self.zstd_bytes)?.into_iter();
        let mut entropies = optional(&mut self.entropies)?.into_iter();
        let mut positions = optional(&mut self.positions)?.into_iter();
        let short = || ParquetError::General("a column is shorter than others".to_owned());
        let mut rows = Vec::with_capacity(block_bytes.len());
        for block_bytes in block_bytes {
            let fingerprint = fingerprints.next().ok_or_else(short)?;
            let fingerprint = *fingerprint.data().first_chunk::<16>().ok_or_else(short)?;
            let place = (paths.next().ok_or_else(short)?, offsets.next().ok_or_else(short)?);
            let nature = (
                lz4_bytes.next().ok_or_else(short)?,
                zstd_bytes.next().ok_or_else(short)?,
                entropies.next().ok_or_else(short)?,
            );
            let row = Row {
                fingerprint: ScanFingerprint::from_bytes(fingerprint),
                length_bytes: unsigned(length_bytes.next().ok_or_else(short)?)?,
                copies: u64::try_from(copies.next().ok_or_else(short)?).map_err(|_| negative())?,
                zero: zero.next().ok_or_else(short)?,
                place: place_of(place),
                nature: nature_of(nature)?,
                positions: positions_of(positions.next().ok_or_else(short)?),
            };
            rows.push((unsigned(block_bytes)?, row));
        }
        Ok(rows)
    }
}

fn negative() -> ParquetError {
    ParquetError::General("a figure is negative".to_owned())
}

fn unsigned(value: i32) -> Result<u32, ParquetError> {
    u32::try_from(value).map_err(|_| negative())
}

fn place_of((path, offset): (Option<ByteArray>, Option<i64>)) -> Option<ContentLocation> {
    let path = String::from_utf8_lossy(path?.data()).into_owned();
    Some(ContentLocation { path, offset_bytes: u64::try_from(offset?).ok()? })
}

fn nature_of(
    (lz4_bytes, zstd_bytes, entropy_bits): (Option<i32>, Option<i32>, Option<f64>),
) -> Result<Option<Nature>, ParquetError> {
    let (Some(lz4_bytes), Some(zstd_bytes), Some(entropy_bits)) =
        (lz4_bytes, zstd_bytes, entropy_bits)
    else {
        return Ok(None);
    };
    Ok(Some(Nature {
        lz4_bytes: unsigned(lz4_bytes)?,
        zstd_bytes: unsigned(zstd_bytes)?,
        entropy_bits,
    }))
}

fn positions_of(packed: Option<ByteArray>) -> Vec<u64> {
    let Some(packed) = packed else { return Vec::new() };
    let words = packed.data().chunks_exact(8);
    words.filter_map(|word| word.first_chunk().map(|word| u64::from_le_bytes(*word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::write::SetWriter;
    use crate::tally::BlockTotals;

    /// Reads a set with one row, whose content has this entropy.
    fn with_entropy(entropy_bits: f64) -> Result<Option<(u32, Row)>, SavedSetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (nature_level, locality_level) = (0, 0);
        let totals = BlockTotals::default();
        let head = SetHead {
            partial: false,
            fingerprint: crate::ScanFingerprintKind::default(),
            tail: crate::TailPolicy::default(),
            files: crate::FileCounts::default(),
            position_bytes: 0,
            sizes: vec![SizeHead { block_bytes: 512, totals, nature_level, locality_level }],
        };
        let row = Row {
            fingerprint: ScanFingerprint::from(1),
            length_bytes: 512,
            copies: 1,
            zero: false,
            place: None,
            nature: Some(Nature { lz4_bytes: 1, zstd_bytes: 1, entropy_bits }),
            positions: Vec::new(),
        };
        let mut writer = SetWriter::create(file.as_file()).unwrap();
        writer.add(512, &row).unwrap();
        writer.finish(&head).unwrap();
        SetReader::open(file.path())?.next()
    }

    #[test]
    fn an_entropy_that_no_content_has_is_refused() {
        assert!(with_entropy(8.0).unwrap().is_some() && with_entropy(0.0).unwrap().is_some());
        for entropy in [-0.5, 8.5, f64::NAN, f64::INFINITY] {
            assert!(matches!(with_entropy(entropy), Err(SavedSetError::Invalid { .. })));
        }
    }
}
