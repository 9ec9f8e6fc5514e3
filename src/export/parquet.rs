//! The long table as a file of Parquet, with each row's histogram.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::table::{column_name, columns, rows};
use crate::model::histogram::{Histogram, upper_edge};
use crate::model::{Figure, Interval};
use crate::render::cells::{Cell, Field};

/// Rows that are held in memory until they are written.
const ROWS_OF_GROUP: usize = 10_000;

/// What has gathered of a column. Numbers beyond 63 bits are the greatest of these.
#[derive(Clone)]
enum Values {
    Text(Vec<ByteArray>),
    Count(Vec<i64>),
    Number(Vec<f64>),
    Flag(Vec<bool>),
    /// Milliseconds since the epoch.
    Time(Vec<i64>),
}

#[derive(Clone)]
struct Column {
    field: Field,
    values: Values,
    /// For each row 1, or 0 where it has no value.
    is_there: Vec<i16>,
}

impl Column {
    fn of(field: Field) -> Column {
        let values = match field {
            Field::Start | Field::End => Values::Time(Vec::new()),
            Field::Duration => Values::Number(Vec::new()),
            Field::Pid | Field::Tid | Field::Inode | Field::Generation => Values::Count(Vec::new()),
            Field::Figure(Figure::Syncs | Figure::Errors | Figure::Bytes) => Values::Count(Vec::new()),
            Field::Figure(Figure::ErrorNames | Figure::Completion) => Values::Text(Vec::new()),
            Field::Open | Field::Figure(Figure::MaxExact) => Values::Flag(Vec::new()),
            Field::Figure(_) => Values::Number(Vec::new()),
            _ => Values::Text(Vec::new()),
        };
        Column { field, values, is_there: Vec::new() }
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self.values {
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Count(_) => (Physical::INT64, None),
            Values::Number(_) => (Physical::DOUBLE, None),
            Values::Flag(_) => (Physical::BOOLEAN, None),
            Values::Time(_) => {
                (Physical::INT64, Some(LogicalType::timestamp(true, parquet::basic::TimeUnit::MILLIS)))
            }
        };
        let name = column_name(self.field);
        let of = Type::primitive_type_builder(&name, physical).with_repetition(Repetition::OPTIONAL);
        Ok(Arc::new(of.with_logical_type(logical).build()?))
    }

    fn push(&mut self, cell: Cell) {
        let is_there = match (&mut self.values, cell) {
            (_, Cell::Absent) => false,
            (Values::Text(values), cell) => {
                values.push(cell.to_string().into_bytes().into());
                true
            }
            (Values::Count(values), Cell::Count(n)) => {
                values.push(signed(n));
                true
            }
            (Values::Number(values), Cell::Number(number)) => {
                values.push(number);
                true
            }
            (Values::Flag(values), Cell::Flag(flag)) => {
                values.push(flag);
                true
            }
            (Values::Time(values), Cell::Time(time)) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                values.push(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
                true
            }
            (_, cell) => unreachable!("{cell:?} of {:?}", self.field),
        };
        self.is_there.push(is_there.into());
    }

    fn write(&mut self, group: &mut SerializedRowGroupWriter<impl Write + Send>) -> Result<(), ParquetError> {
        let levels = (&self.is_there[..], None);
        match &self.values {
            Values::Text(values) => write::<ByteArrayType>(group, values, levels),
            Values::Count(values) | Values::Time(values) => write::<Int64Type>(group, values, levels),
            Values::Number(values) => write::<DoubleType>(group, values, levels),
            Values::Flag(values) => write::<BoolType>(group, values, levels),
        }?;
        *self = Column::of(self.field);
        Ok(())
    }
}

/// Levels of definition, and of repetition.
type Levels<'a> = (&'a [i16], Option<&'a [i16]>);

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<impl Write + Send>,
    values: &[T::T],
    (definition, repetition): Levels,
) -> Result<(), ParquetError> {
    let too_few = || ParquetError::General("the schema has fewer columns".into());
    let mut column = group.next_column()?.ok_or_else(too_few)?;
    column.typed::<T>().write_batch(values, Some(definition), repetition)?;
    column.close()
}

fn signed(n: u64) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

/// Histograms one after the other: a list of buckets for each row.
#[derive(Default)]
struct Buckets {
    uppers: Vec<i64>,
    counts: Vec<i64>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Buckets {
    fn schema() -> Result<TypePtr, ParquetError> {
        let number = |name| {
            let of = Type::primitive_type_builder(name, Physical::INT64);
            of.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
        };
        let group = |name, fields| Type::group_type_builder(name).with_fields(fields);
        let bucket = group("element", vec![number("upper_ns")?, number("count")?]);
        let bucket = Arc::new(bucket.with_repetition(Repetition::REQUIRED).build()?);
        let list = group("list", vec![bucket]).with_repetition(Repetition::REPEATED).build()?;
        let buckets = group("buckets", vec![Arc::new(list)]).with_repetition(Repetition::REQUIRED);
        let buckets =
            buckets.with_converted_type(ConvertedType::LIST).with_logical_type(Some(LogicalType::List));
        Ok(Arc::new(buckets.build()?))
    }

    fn push(&mut self, histogram: &Histogram) {
        if histogram.is_empty() {
            self.definition.push(0);
            self.repetition.push(0);
        }
        for (at, (bucket, count)) in histogram.iter().enumerate() {
            self.uppers.push(signed(upper_edge(bucket)));
            self.counts.push(signed(count));
            self.definition.push(1);
            self.repetition.push((at > 0).into());
        }
    }

    fn write(&mut self, group: &mut SerializedRowGroupWriter<impl Write + Send>) -> Result<(), ParquetError> {
        let Buckets { uppers, counts, definition, repetition } = std::mem::take(self);
        let levels = (&definition[..], Some(&repetition[..]));
        write::<Int64Type>(group, &uppers, levels)?;
        write::<Int64Type>(group, &counts, levels)
    }
}

/// A file of Parquet that is being written.
pub(crate) struct Table<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column>,
    buckets: Buckets,
    rows: usize,
}

impl<W: Write + Send> Table<W> {
    pub fn begin(out: W) -> io::Result<Table<W>> {
        let columns: Vec<Column> = columns().into_iter().map(Column::of).collect();
        let mut fields = columns.iter().map(Column::schema).collect::<Result<Vec<_>, _>>()?;
        fields.push(Buckets::schema()?);
        let schema = Type::group_type_builder("operations").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        Ok(Table { file, columns, buckets: Buckets::default(), rows: 0 })
    }

    pub fn push(&mut self, m: &Interval) -> io::Result<()> {
        for row in rows(m) {
            self.columns.iter_mut().for_each(|column| column.push(column.field.cell(&row, m)));
            self.buckets.push(&row.stats.histogram);
            self.rows += 1;
            if self.rows >= ROWS_OF_GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        self.rows = 0;
        let mut group = self.file.next_row_group()?;
        self.columns.iter_mut().try_for_each(|column| column.write(&mut group))?;
        self.buckets.write(&mut group)?;
        group.close().map(drop)
    }

    pub fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.file.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::export::table;
    use crate::model::fixture::{busy, hostile, two_servers};
    use crate::model::{Completions, Op};

    /// So many intervals that there are several groups of rows.
    fn intervals() -> Vec<Interval> {
        let some = [busy(), two_servers(), hostile()];
        let of = |n: u32| {
            let mut m = some[n as usize % 3].clone();
            m.span.start += n * Duration::from_secs(1);
            m.span.end = m.span.start + Duration::from_secs(1);
            for row in m.files.iter_mut() {
                row.op = if row.stats.count % 2 == 0 { Op::IoUringDsyncWrite } else { row.op };
                row.stats.bytes = row.stats.count * 4_096 + u64::from(n);
                row.stats.completions = Completions { posted: true, reaped: false };
            }
            m
        };
        (0..1_600).map(of).collect()
    }

    fn written(intervals: &[Interval]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut table = Table::begin(&mut out).unwrap();
        intervals.iter().for_each(|m| table.push(m).unwrap());
        table.finish().unwrap();
        out
    }

    /// Otherwise a cell would find no place.
    #[test]
    fn every_cell_is_of_the_type_of_its_column() {
        let intervals = intervals();
        let written = written(&intervals);
        assert_eq!((&written[..4], &written[written.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
        assert!(intervals.iter().map(|m| table::rows(m).count()).sum::<usize>() > ROWS_OF_GROUP);
    }

    #[test]
    #[ignore = "needs DuckDB and pandas, which `make parquet` installs"]
    fn real_readers_find_what_the_csv_has() {
        let directory = tempfile::tempdir().unwrap();
        let [csv, file] = ["a.csv", "a.parquet"].map(|name| directory.path().join(name));
        let (intervals, mut text) = (intervals(), Vec::new());
        for (at, m) in intervals.iter().enumerate() {
            table::write_csv(m, at == 0, &mut text).unwrap();
        }
        std::fs::write(&csv, text).unwrap();
        std::fs::write(&file, written(&intervals)).unwrap();
        let python = std::env::var_os("PARQUET_PYTHON").expect("`make parquet` sets PARQUET_PYTHON");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/parquet/compare.py");
        let output = Command::new(python).arg(script).args([&csv, &file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        println!("{said}");
    }
}
