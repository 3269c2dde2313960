//! Impossible rows in well-formed files: the error names the row.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use crate::support::{MEMORY, old_trace, read_all};
use pageyard_trace::Trace;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// A column to write: values, and for a nullable column which rows have one.
pub enum Column {
    I64(Vec<i64>),
    I32(Vec<i32>),
    Names(Vec<&'static str>),
    Bools(Vec<bool>),
}

const SCHEMA: &str = "message schema {
    REQUIRED INT64 time_ns (INTEGER(64,false));
    REQUIRED INT32 cpu (INTEGER(32,false));
    REQUIRED BYTE_ARRAY event (STRING);
    REQUIRED INT64 pfn (INTEGER(64,false));
    REQUIRED INT32 order (INTEGER(8,false));
    REQUIRED INT32 gfp (INTEGER(32,false));
    REQUIRED INT32 migratetype (INTEGER(8,true));
    REQUIRED BYTE_ARRAY context (STRING);
    REQUIRED INT32 tid (INTEGER(32,false));
    REQUIRED BOOLEAN irqs_off;
}";

const MAP: &str = "message schema {
    REQUIRED INT64 pfn (INTEGER(64,false));
    REQUIRED INT64 frames (INTEGER(64,false));
    REQUIRED BYTE_ARRAY kind (STRING);
    REQUIRED BOOLEAN thp;
    REQUIRED BOOLEAN unevictable;
}";

/// Three ordinary rows.
fn rows() -> Vec<Column> {
    vec![
        Column::I64(vec![0, 5, 5]),
        Column::I32(vec![0, 1, 3]),
        Column::Names(vec!["alloc", "free", "alloc"]),
        Column::I64(vec![8, 8, -1]),
        Column::I32(vec![3, 3, 9]),
        Column::I32(vec![0, 0, -1]),
        Column::I32(vec![1, -1, 5]),
        Column::Names(vec!["task", "softirq", "nmi"]),
        Column::I32(vec![0, 1, 2]),
        Column::Bools(vec![false, true, false]),
    ]
}

/// No rows at all.
fn no_rows() -> Vec<Column> {
    let empty = |column| match column {
        Column::I64(_) => Column::I64(vec![]),
        Column::I32(_) => Column::I32(vec![]),
        Column::Names(_) => Column::Names(vec![]),
        Column::Bools(_) => Column::Bools(vec![]),
    };
    rows().into_iter().map(empty).collect()
}

pub fn write(path: &Path, schema: &str, columns: Vec<Column>, missing: Option<(usize, usize)>) {
    write_groups(path, schema, vec![columns], missing);
}

fn write_groups(path: &Path, schema: &str, groups: Vec<Vec<Column>>, missing: Option<(usize, usize)>) {
    fn put<T: DataType>(
        group: &mut SerializedRowGroupWriter<'_, File>,
        values: &[T::T],
        missing: Option<usize>,
    ) {
        let mut writer = group.next_column().unwrap().unwrap();
        let levels: Option<Vec<i16>> =
            missing.map(|m| (0..=values.len()).map(|i| i16::from(i != m)).collect());
        writer.typed::<T>().write_batch(values, levels.as_deref(), None).unwrap();
        writer.close().unwrap();
    }
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
    for columns in groups {
        let mut group = writer.next_row_group().unwrap();
        for (i, column) in columns.into_iter().enumerate() {
            let missing = missing.filter(|(c, _)| *c == i).map(|(_, row)| row);
            match column {
                Column::I64(v) => put::<Int64Type>(&mut group, &v, missing),
                Column::I32(v) => put::<Int32Type>(&mut group, &v, missing),
                Column::Bools(v) => put::<BoolType>(&mut group, &v, missing),
                Column::Names(v) => put::<ByteArrayType>(
                    &mut group,
                    &v.into_iter().map(ByteArray::from).collect::<Vec<_>>(),
                    missing,
                ),
            }
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Writes events with column `index` replaced, and returns what reading them says.
fn events_with(index: usize, column: Column) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let mut columns = rows();
    columns[index] = column;
    write(&path.join("events.parquet"), SCHEMA, columns, None);
    match read_all(&path) {
        Ok(events) => format!("{} rows", events.len()),
        Err(e) => e.to_string().rsplit_once("small.trace/").unwrap().1.to_owned(),
    }
}

#[test]
fn ordinary_rows_are_read() {
    assert_eq!(events_with(8, Column::I32(vec![0, 1, 2])), "3 rows");
    // Unused names are not an error, and all ones is a valid number in `gfp`.
    assert_eq!(events_with(5, Column::I32(vec![-1, -1, -1])), "3 rows");
}

#[test]
fn row_groups_without_rows_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let groups = vec![no_rows(), rows(), no_rows(), no_rows()];
    write_groups(&path.join("events.parquet"), SCHEMA, groups, None);
    assert_eq!(read_all(&path).unwrap().len(), 3);
    write(&path.join("events.parquet"), SCHEMA, no_rows(), None);
    assert!(read_all(&path).unwrap_err().to_string().ends_with("it has 0 rows, and meta.json says 3"));
}

#[test]
fn each_impossible_row_is_named() {
    let end = MEMORY as i64;
    for (index, column, says) in [
        (0, Column::I64(vec![0, 5, 4]), "row 2: time goes backwards, from 5 ns to 4 ns"),
        (1, Column::I32(vec![0, 4, 0]), "row 1: CPU 4 is not one of the 4 that meta.json says the host had"),
        (2, Column::Names(vec!["alloc", "fork", "alloc"]), "row 1: there is no event called `fork`"),
        (
            2,
            Column::Names(vec!["alloc", "free", "free"]),
            "row 2: a `free` event has no frame, and only an allocation can fail",
        ),
        (3, Column::I64(vec![8, 9, -1]), "row 1: frame 9 cannot start a block of order 3"),
        (
            3,
            Column::I64(vec![end, 8, -1]),
            "row 0: the block of order 3 at frame 1048576 lies beyond memory, which ends at frame 1048576",
        ),
        (4, Column::I32(vec![3, 3, 11]), "row 2: order 11 is above 10, the largest that Linux serves"),
        (6, Column::I32(vec![6, 0, 0]), "row 0: there is no migratetype 6"),
        (7, Column::Names(vec!["task", "task", "tasklet"]), "row 2: there is no context called `tasklet`"),
    ] {
        assert_eq!(events_with(index, column), format!("events.parquet, {says}"));
    }
}

#[test]
fn columns_that_are_wrong_missing_or_empty_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let file = path.join("events.parquet");
    let fault =
        || read_all(&path).unwrap_err().to_string().rsplit_once("events.parquet").unwrap().1.to_owned();
    write(&file, &SCHEMA.replace("order (INTEGER(8", "order (INTEGER(32"), rows(), None);
    assert_eq!(
        fault(),
        ": column `order` holds unsigned integers of 32 bits and must hold unsigned integers of 8 bits"
    );
    write(&file, &SCHEMA.replace(" order ", " size "), rows(), None);
    assert_eq!(fault(), ": column `order` is missing");
    let nullable = SCHEMA.replace("REQUIRED INT32 gfp", "OPTIONAL INT32 gfp");
    let mut columns = rows();
    columns[5] = Column::I32(vec![0, 0]);
    write(&file, &nullable, columns, Some((5, 1)));
    assert_eq!(fault(), ", row 1: column `gfp` has no value");
    let nullable = SCHEMA.replace("REQUIRED BYTE_ARRAY event", "OPTIONAL BYTE_ARRAY event");
    let mut columns = rows();
    columns[2] = Column::Names(vec!["alloc", "free"]);
    write(&file, &nullable, columns, Some((2, 2)));
    assert_eq!(fault(), ", row 2: column `event` has no value");
}

#[test]
fn rows_that_disagree_with_the_description_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 4);
    write(&path.join("events.parquet"), SCHEMA, rows(), None);
    assert!(
        read_all(&path)
            .unwrap_err()
            .to_string()
            .ends_with("events.parquet: it has 3 rows, and meta.json says 4")
    );
}

#[test]
fn pictures_that_cannot_be_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = old_trace(folder.path(), 3);
    let fault = |pfn: Vec<i64>, frames: Vec<i64>, kind: Vec<&'static str>| {
        let n = pfn.len();
        let columns = vec![
            Column::I64(pfn),
            Column::I64(frames),
            Column::Names(kind),
            Column::Bools(vec![false; n]),
            Column::Bools(vec![false; n]),
        ];
        write(&path.join("after.parquet"), MAP, columns, None);
        let result = Trace::open(&path).unwrap().after();
        result.map(|_| ()).map_err(|e| e.to_string().rsplit_once("after.parquet, ").unwrap().1.to_owned())
    };
    let free = || vec!["free", "free"];
    assert_eq!(fault(vec![0, 8], vec![8, 8], free()), Ok(()));
    assert_eq!(fault(vec![0, 9], vec![8, 8], free()), Ok(()), "a hole is no fault");
    for (pfn, frames, kind, says) in [
        (
            vec![0, 7],
            vec![8, 8],
            free(),
            "row 1: the run at frame 7 overlaps the one before, which ends at 8",
        ),
        (
            vec![8, 0],
            vec![8, 8],
            free(),
            "row 1: the run at frame 0 comes after the one at frame 8: runs must ascend",
        ),
        (vec![0, 8], vec![0, 8], free(), "row 0: the run at frame 0 is empty"),
        (
            vec![0, -4],
            vec![8, 8],
            free(),
            "row 1: the run of 8 frames at frame 18446744073709551612 ends beyond 256 TiB of memory",
        ),
        (
            vec![0, 1 << 36],
            vec![8, 8],
            free(),
            "row 1: the run of 8 frames at frame 68719476736 ends beyond 256 TiB of memory",
        ),
        (vec![0, 8], vec![8, 8], vec!["free", "fere"], "row 1: there is no kind of frame called `fere`"),
    ] {
        assert_eq!(fault(pfn, frames, kind), Err(says.to_owned()));
    }
    fs::remove_file(path.join("after.parquet")).unwrap();
    assert_eq!(Trace::open(&path).unwrap().after().unwrap(), None);
}
