//! Rows as Parquet: every column typed, missing values null.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use csv::StringRecord;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;

use super::row::{COLUMNS, Kind};

/// So many rows stand together, column by column.
const GROUP: usize = 1 << 16;

/// Writes all rows.
pub fn write(file: &mut File, rows: &[StringRecord]) -> Result<()> {
    let schema = Arc::new(parse_message_type(&schema())?);
    // Not compressed: values that repeat are in dictionaries anyway.
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::default()))?;
    for rows in rows.chunks(GROUP) {
        let mut group = writer.next_row_group()?;
        for (column, (name, kind)) in COLUMNS.iter().enumerate() {
            let mut to = group.next_column()?.context("a column less than there are")?;
            let values = rows.iter().map(|row| row.get(column).unwrap_or_default());
            let put = match kind {
                Kind::Text => put::<ByteArrayType>(&mut to, values, |text| Ok(ByteArray::from(text))),
                // Whole numbers are unsigned; their bits are what is written.
                Kind::Whole => put::<Int64Type>(&mut to, values, |text| Ok(text.parse::<u64>()?.cast_signed())),
                Kind::Real => put::<DoubleType>(&mut to, values, |text| Ok(text.parse()?)),
            };
            put.with_context(|| format!("column {name}"))?;
            to.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn schema() -> String {
    let mut schema = "message sweep {".to_owned();
    for (name, kind) in COLUMNS {
        let _ = match kind {
            Kind::Text => write!(schema, " optional binary {name} (STRING);"),
            Kind::Whole => write!(schema, " optional int64 {name} (INTEGER(64,false));"),
            Kind::Real => write!(schema, " optional double {name};"),
        };
    }
    schema + " }"
}

/// Writes a column; empty texts are missing values.
fn put<'a, T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    texts: impl Iterator<Item = &'a str>,
    value: impl Fn(&str) -> Result<T::T>,
) -> Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for text in texts {
        levels.push(i16::from(!text.is_empty()));
        if !text.is_empty() {
            values.push(value(text).with_context(|| format!("{text:?}"))?);
        }
    }
    to.typed::<T>().write_batch(&values, Some(&levels), None)?;
    Ok(())
}

/// All rows of the file at `path`.
pub fn read(path: &Path) -> Result<Vec<StringRecord>> {
    let reader = SerializedFileReader::new(File::open(path).context("it cannot be opened")?)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let names_agree = fields.iter().map(|field| field.name()).eq(COLUMNS.iter().map(|(name, _)| *name));
    ensure!(names_agree, "it is no file of a sweep by this version");
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None)? {
        rows.push(row?.get_column_iter().map(|(_, field)| text(field)).collect::<Result<StringRecord>>()?);
    }
    Ok(rows)
}

fn text(field: &Field) -> Result<String> {
    Ok(match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::ULong(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => anyhow::bail!("it holds {other}, which no sweep writes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let value = |kind: Kind, row: u64| match kind {
            _ if row % 3 == 2 => String::new(),
            Kind::Text => format!("text, \"{row}\""),
            Kind::Whole => (u64::MAX - row).to_string(),
            Kind::Real => (1.0 / (row + 3) as f64).to_string(),
        };
        let rows: Vec<StringRecord> =
            (0..70_000).map(|row| COLUMNS.iter().map(|&(_, kind)| value(kind, row)).collect()).collect();
        write(file.as_file_mut(), &rows).unwrap();
        assert_eq!(read(file.path()).unwrap(), rows);
    }

    #[test]
    fn what_is_no_number_is_not_written_as_one() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let row: StringRecord = COLUMNS.iter().map(|_| "many").collect();
        assert!(format!("{:#}", write(file.as_file_mut(), &[row]).unwrap_err()).contains("column schema"));
    }
}
