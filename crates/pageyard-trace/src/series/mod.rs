//! Figures over time as tables for other programs: a folder of Parquet or CSV files, complete or not there at all.

mod column;
mod csv;
pub(crate) mod parquet;

pub use column::{Cell, Column, Kind};

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::TraceError;
use crate::writer::{Temporary, refused};

/// The form of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeriesFormat {
    /// Parquet, compressed with Zstandard.
    #[default]
    Parquet,
    /// Comma-separated values, the names of the columns in the first line.
    Csv,
}

impl SeriesFormat {
    /// Returns its name, which is how the files' names end.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SeriesFormat::Parquet => "parquet",
            SeriesFormat::Csv => "csv",
        }
    }
}

impl FromStr for SeriesFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<SeriesFormat, String> {
        let all = [SeriesFormat::Parquet, SeriesFormat::Csv];
        let known = all.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| format!("`{text}` is not a format of series; use parquet or csv"))
    }
}

/// A folder of tables that is being written.
///
/// The tables are made in a folder beside the final one, which takes its name only when all are complete. A folder that
/// is dropped before [`SeriesFolder::finish`] leaves nothing behind.
#[derive(Debug)]
pub struct SeriesFolder {
    path: PathBuf,
    temporary: Temporary,
    format: SeriesFormat,
}

impl SeriesFolder {
    /// Checks that a folder can be made at `path`, and leaves nothing there.
    ///
    /// # Errors
    /// As [`SeriesFolder::create`].
    pub fn check(path: &Path) -> Result<(), TraceError> {
        SeriesFolder::create(path, SeriesFormat::default()).map(drop)
    }

    /// Starts a folder that will be at `path`.
    ///
    /// # Errors
    /// [`TraceError::Exists`] when something other than an empty folder is there, or what a killed writer left is
    /// beside it; [`TraceError::Unfinished`] when another process is writing it; [`TraceError::Unwritable`].
    pub fn create(path: &Path, format: SeriesFormat) -> Result<SeriesFolder, TraceError> {
        // A trailing slash is no part of the name.
        let path: PathBuf = path.components().collect();
        let temporary = Temporary::replacing(&path)?;
        Ok(SeriesFolder { path, temporary, format })
    }

    /// Starts a table.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn table(&self, name: &str, columns: &'static [Column]) -> Result<SeriesTable, TraceError> {
        let name = format!("{name}.{}", self.format.name());
        let label = self.path.join(&name).display().to_string();
        let path = self.temporary.path().join(&name);
        let file = match self.format {
            SeriesFormat::Parquet => File::Parquet(Box::new(parquet::File::create(&path, &label, columns)?)),
            SeriesFormat::Csv => File::Csv(csv::File::create(&path, &label, columns)?),
        };
        Ok(SeriesTable { columns, file })
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`], also when something was put there meanwhile.
    pub fn finish(self) -> Result<(), TraceError> {
        fs::rename(self.temporary.path(), &self.path)
            .map_err(|e| refused(&self.path.display().to_string(), &e))
    }
}

/// A table that is being written.
pub struct SeriesTable {
    columns: &'static [Column],
    file: File,
}

enum File {
    Parquet(Box<parquet::File>),
    Csv(csv::File),
}

impl SeriesTable {
    /// Adds a row.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    ///
    /// # Panics
    /// When the cells are not those of the columns.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TraceError> {
        assert!(
            cells.len() == self.columns.len()
                && cells.iter().zip(self.columns).all(|(cell, (_, kind))| cell.kind() == *kind),
            "the cells {cells:?} are not of the columns {:?}",
            self.columns
        );
        match &mut self.file {
            File::Parquet(file) => file.row(cells),
            File::Csv(file) => file.row(cells),
        }
    }

    /// Completes the table.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn finish(self) -> Result<(), TraceError> {
        match self.file {
            File::Parquet(file) => file.finish(),
            File::Csv(file) => file.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    const COLUMNS: &[Column] = &[
        ("engine", Kind::Name),
        ("seconds", Kind::Number),
        ("free", Kind::Count),
        ("here", Kind::Flag),
        ("index", Kind::NumberIfKnown),
    ];

    fn fill(folder: &SeriesFolder, rows: u64) -> Result<(), TraceError> {
        let mut table = folder.table("samples", COLUMNS)?;
        for n in 0..rows {
            let name = if n == 1 { "a,\"b\"" } else { "linux-6.18" };
            table.row(&[
                Cell::Name(name),
                Cell::Number(n as f64 / 2.0),
                Cell::Count(u64::MAX - n),
                Cell::Flag(n == 0),
                Cell::NumberIfKnown((n != 1).then_some(0.25)),
            ])?;
        }
        table.finish()
    }

    #[test]
    fn a_csv_has_a_line_a_row_and_quotes_what_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series");
        let series = SeriesFolder::create(&path, SeriesFormat::Csv).unwrap();
        fill(&series, 3).unwrap();
        assert!(!path.exists(), "nothing is there before it is complete");
        series.finish().unwrap();
        assert_eq!(
            read_to_string(path.join("samples.csv")).unwrap(),
            "engine,seconds,free,here,index\nlinux-6.18,0,18446744073709551615,true,0.25\n\
             \"a,\"\"b\"\"\",0.5,18446744073709551614,false,\nlinux-6.18,1,18446744073709551613,false,0.25\n"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_parquet_table_can_be_read_by_others() {
        use ::parquet::file::reader::{FileReader, SerializedFileReader};
        use ::parquet::record::Field;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series");
        // An empty folder may be there.
        fs::create_dir(&path).unwrap();
        let series = SeriesFolder::create(&path.join(""), SeriesFormat::Parquet).unwrap();
        let rows = parquet::GROUP_ROWS as u64 + 3;
        fill(&series, rows).unwrap();
        series.finish().unwrap();
        let file = fs::File::open(path.join("samples.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        assert_eq!(reader.metadata().file_metadata().num_rows() as u64, rows);
        let mut rows = reader.get_row_iter(None).unwrap();
        let known = rows.next().unwrap().unwrap();
        assert_eq!(known.get_column_iter().last(), Some((&"index".to_owned(), &Field::Double(0.25))));
        let row = rows.next().unwrap().unwrap();
        let fields: Vec<(String, Field)> =
            row.get_column_iter().map(|(n, f)| (n.clone(), f.clone())).collect();
        let expected = [
            ("engine", Field::Str("a,\"b\"".into())),
            ("seconds", Field::Double(0.5)),
            ("free", Field::ULong(u64::MAX - 1)),
            ("here", Field::Bool(false)),
            ("index", Field::Null),
        ];
        assert_eq!(fields, expected.map(|(n, f)| (n.to_owned(), f)));
    }

    #[test]
    fn what_is_there_is_kept_and_nothing_half_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series");
        drop(SeriesFolder::create(&path, SeriesFormat::Csv).map(|series| fill(&series, 2)).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "dropped, so not there");
        // What a killed writer left may be something of the user's.
        let left = folder.path().join("series.partial");
        fs::create_dir(&left).unwrap();
        let why = SeriesFolder::check(&path).unwrap_err().to_string();
        assert!(why.contains("series.partial already exists"), "{why}");
        fs::remove_dir(&left).unwrap();
        let series = SeriesFolder::create(&path, SeriesFormat::Csv).unwrap();
        let why = SeriesFolder::check(&path).unwrap_err().to_string();
        assert!(why.contains("is being written by another pageyard"), "{why}");
        fill(&series, 2).unwrap();
        series.finish().unwrap();
        for path in [path, folder.path().join(".."), folder.path().join("series/samples.csv")] {
            let why = SeriesFolder::check(&path).unwrap_err().to_string();
            assert!(why.contains("already exists: name another folder or remove it"), "{why}");
        }
        let why = SeriesFolder::check(&folder.path().join("no/such/folder")).unwrap_err().to_string();
        assert!(why.contains("no/such/folder cannot be written"), "{why}");
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["series"]);
    }

    #[test]
    fn a_format_is_one_of_two() {
        assert_eq!("csv".parse(), Ok(SeriesFormat::Csv));
        assert!("json".parse::<SeriesFormat>().unwrap_err().contains("parquet or csv"));
    }
}
