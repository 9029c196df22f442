//! Writes a set row by row, in ascending order.

use super::columns::schema;
use super::error::SavedSetError;
use super::{HEAD_KEY, SET_FORMAT, SetHead, VersionedHead, checksum};
use crate::tally::Row;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

/// The number of rows in a row group. They stay in memory, about 10 MiB, until the group is
/// written.
const GROUP_ROWS: usize = 128 * 1024;

/// The most bytes of a page, which is what a reader holds of every column.
const PAGE_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Group {
    block_bytes: Vec<i32>,
    fingerprints: Vec<FixedLenByteArray>,
    length_bytes: Vec<i32>,
    copies: Vec<i64>,
    zero: Vec<bool>,
    place_paths: Optional<ByteArray>,
    place_offsets: Optional<i64>,
    lz4_bytes: Optional<i32>,
    zstd_bytes: Optional<i32>,
    entropies: Optional<f64>,
    positions: Optional<ByteArray>,
}

/// A column that has no value in most rows.
struct Optional<Value> {
    values: Vec<Value>,
    levels: Vec<i16>,
}

impl<Value> Default for Optional<Value> {
    fn default() -> Self {
        Self { values: Vec::new(), levels: Vec::new() }
    }
}

impl<Value> Optional<Value> {
    fn push(&mut self, value: Option<Value>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

pub(crate) struct SetWriter<'file> {
    file: &'file File,
    writer: SerializedFileWriter<BufWriter<&'file File>>,
    group: Group,
}

fn properties() -> Result<WriterProperties, ParquetError> {
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_column_compression(ColumnPath::from("fingerprint"), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(ColumnPath::from("fingerprint"), false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_dictionary_page_size_limit(PAGE_BYTES)
        .set_created_by(concat!("gemelo ", env!("CARGO_PKG_VERSION")).to_owned())
        .build())
}

impl<'file> SetWriter<'file> {
    pub(crate) fn create(file: &'file File) -> Result<Self, SavedSetError> {
        let created = schema().and_then(|schema| {
            SerializedFileWriter::new(BufWriter::new(file), schema, Arc::new(properties()?))
        });
        let writer = created.map_err(SavedSetError::WriteColumns)?;
        Ok(Self { file, writer, group: Group::default() })
    }

    pub(crate) fn add(&mut self, block_bytes: u32, row: &Row) -> Result<(), SavedSetError> {
        self.group.add(block_bytes, row);
        if self.group.zero.len() == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), SavedSetError> {
        let group = std::mem::take(&mut self.group);
        let written = self.writer.next_row_group().and_then(|writer| group.write(writer));
        written.map_err(SavedSetError::WriteColumns)
    }

    pub(crate) fn finish(mut self, head: &SetHead) -> Result<(), SavedSetError> {
        if !self.group.zero.is_empty() {
            self.write_group()?;
        }
        let head = VersionedHead { format: SET_FORMAT.to_owned(), head: head.clone() };
        let text = serde_json::to_string(&head)
            .map_err(|error| SavedSetError::Write(std::io::Error::from(error)))?;
        self.writer.append_key_value_metadata(KeyValue::new(HEAD_KEY.to_owned(), text));
        let (key, value) = checksum::placeholder();
        self.writer.append_key_value_metadata(KeyValue::new(key, value));
        let inner = self.writer.into_inner().map_err(SavedSetError::WriteColumns)?;
        inner.into_inner().map_err(|error| SavedSetError::Write(error.into_error()))?;
        checksum::seal(self.file).map_err(SavedSetError::Write)
    }
}

/// Writes a set, if one is requested. The first error ends only the writing, because the figures do
/// not need the set.
pub(crate) struct Saving<'file> {
    writer: Option<SetWriter<'file>>,
    outcome: Result<(), SavedSetError>,
}

impl<'file> Saving<'file> {
    pub(crate) fn begin(file: Option<&'file File>) -> Self {
        match file.map(SetWriter::create).transpose() {
            Ok(writer) => Self { writer, outcome: Ok(()) },
            Err(error) => Self { writer: None, outcome: Err(error) },
        }
    }

    pub(crate) fn add(&mut self, block_bytes: u32, row: &Row) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.add(block_bytes, row)
        {
            self.writer = None;
            self.outcome = Err(error);
        }
    }

    pub(crate) fn finish(self, head: &SetHead) -> Result<(), SavedSetError> {
        self.outcome?;
        self.writer.map_or(Ok(()), |writer| writer.finish(head))
    }
}

impl Group {
    fn add(&mut self, block_bytes: u32, row: &Row) {
        // Block sizes are at most 1 MiB, so the cast is exact.
        self.block_bytes.push(block_bytes as i32);
        self.fingerprints.push(ByteArray::from(row.fingerprint.to_bytes().to_vec()).into());
        self.length_bytes.push(row.length_bytes as i32);
        self.copies.push(i64::try_from(row.copies).unwrap_or(i64::MAX));
        self.zero.push(row.zero);
        let place = row.place.as_ref();
        self.place_paths.push(place.map(|place| ByteArray::from(place.path.as_str())));
        self.place_offsets
            .push(place.map(|place| i64::try_from(place.offset_bytes).unwrap_or(i64::MAX)));
        self.lz4_bytes.push(row.nature.map(|nature| nature.lz4_bytes as i32));
        self.zstd_bytes.push(row.nature.map(|nature| nature.zstd_bytes as i32));
        self.entropies.push(row.nature.map(|nature| nature.entropy_bits));
        let packed: Vec<u8> = row.positions.iter().flat_map(|place| place.to_le_bytes()).collect();
        self.positions.push((!packed.is_empty()).then(|| ByteArray::from(packed)));
    }

    fn write<W: std::io::Write + Send>(
        self,
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        required::<Int32Type, _>(&mut group, &self.block_bytes)?;
        required::<FixedLenByteArrayType, _>(&mut group, &self.fingerprints)?;
        required::<Int32Type, _>(&mut group, &self.length_bytes)?;
        required::<Int64Type, _>(&mut group, &self.copies)?;
        required::<BoolType, _>(&mut group, &self.zero)?;
        optional::<ByteArrayType, _>(&mut group, &self.place_paths)?;
        optional::<Int64Type, _>(&mut group, &self.place_offsets)?;
        optional::<Int32Type, _>(&mut group, &self.lz4_bytes)?;
        optional::<Int32Type, _>(&mut group, &self.zstd_bytes)?;
        optional::<DoubleType, _>(&mut group, &self.entropies)?;
        optional::<ByteArrayType, _>(&mut group, &self.positions)?;
        group.close().map(|_| ())
    }
}

fn required<Kind: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[Kind::T],
) -> Result<(), ParquetError> {
    write_column::<Kind, W>(group, values, None)
}

fn optional<Kind: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Optional<Kind::T>,
) -> Result<(), ParquetError> {
    write_column::<Kind, W>(group, &column.values, Some(&column.levels))
}

fn write_column<Kind: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[Kind::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".to_owned()));
    };
    let untyped: &mut ColumnWriter<'_> = column.untyped();
    let Some(typed) = Kind::get_column_writer_mut(untyped) else {
        return Err(ParquetError::General("a column does not have the expected type".to_owned()));
    };
    typed.write_batch(values, levels, None)?;
    column.close()
}
