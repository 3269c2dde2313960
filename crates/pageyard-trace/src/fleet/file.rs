//! Files of rows, and where they lie.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::date::date;
use super::row::{FleetNumber, FleetRow};
use crate::error::TraceError;
use crate::pq::{ColumnSpec, Kind, MAX_UNKNOWN, Names, Table};
use crate::series::{Cell, Column, Kind as Holds, parquet};
use crate::source::{Input, reason};
use crate::text::shown;
use crate::writer::refused;

/// The column of the kernel's name.
const KERNEL: &str = "kernel";

/// The most rows of a file: a day has so many seconds.
const MOST_ROWS: u64 = 86_400;

/// The most bytes of a file: so many rows without compression.
const MOST_BYTES: u64 = 32 << 20;

/// What the names of folders begin with.
const DATE: &str = "date=";
const HOST: &str = "host=";

/// A file of a fleet's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetFile {
    /// The day that its folder names.
    pub date: String,
    /// The host, fit to be shown.
    pub host: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Returns where rows of a host belong that begin at this moment, in seconds since 1970.
///
/// # Errors
/// A host's name that cannot be one of a folder, in a sentence.
pub fn path_of(folder: &Path, host: &str, start_s: u64, name: &str) -> Result<PathBuf, String> {
    if host.is_empty() || host.starts_with('.') || host.contains(['/', '=', '\0']) || shown(host) != host {
        return Err(format!("`{}` cannot name a host: it may have no `/` and no `=`", shown(host)));
    }
    Ok(folder
        .join(format!("{DATE}{}", date(start_s)))
        .join(format!("{HOST}{host}"))
        .join(format!("{name}.parquet")))
}

/// Lists the files in a fleet's folder, sorted by host and date, and whatever else lies there.
///
/// # Errors
/// [`TraceError::Unreadable`] where the folder, or one of those below it, cannot be listed.
pub fn fleet_files(folder: &Path) -> Result<(Vec<FleetFile>, Vec<PathBuf>), TraceError> {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for (day, date) in named(folder, DATE, &mut others)? {
        for (of_host, host) in named(&day, HOST, &mut others)? {
            for path in listed(&of_host)? {
                // What is being written is hidden until it is complete.
                let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
                if path.extension().is_some_and(|end| end == "parquet") && !hidden {
                    files.push(FleetFile { date: date.clone(), host: shown(&host), path });
                } else if !hidden {
                    others.push(path);
                }
            }
        }
    }
    files.sort_by(|a, b| (&a.host, &a.date, &a.path).cmp(&(&b.host, &b.date, &b.path)));
    Ok((files, others))
}

/// Lists the folders whose names begin so, with the rest of each name.
fn named(
    folder: &Path,
    begin: &str,
    others: &mut Vec<PathBuf>,
) -> Result<Vec<(PathBuf, String)>, TraceError> {
    let mut found = Vec::new();
    for path in listed(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.strip_prefix(begin) {
            Some(rest) if path.is_dir() => found.push((path, rest.to_owned())),
            _ if name.starts_with('.') => {}
            _ => others.push(path),
        }
    }
    Ok(found)
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let unreadable =
        |e: &std::io::Error| TraceError::Unreadable { file: folder.display().to_string(), why: reason(e) };
    let entries = fs::read_dir(folder).map_err(|e| unreadable(&e))?;
    entries.map(|entry| entry.map(|e| e.path()).map_err(|e| unreadable(&e))).collect()
}

fn columns() -> Vec<Column> {
    let numbers = FleetNumber::ALL.iter().map(|number| (number.name(), Holds::Count));
    std::iter::once((KERNEL, Holds::Name)).chain(numbers).collect()
}

/// Writes rows to a file, in place of the one that is there; its folders are made.
///
/// # Errors
/// [`TraceError::Unwritable`]; the file is then as it was.
pub fn write_rows(path: &Path, rows: &[FleetRow]) -> Result<(), TraceError> {
    let label = path.display().to_string();
    let fail = |e: &std::io::Error| refused(&label, e);
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(|e| fail(&e))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.partial"));
    match fs::remove_file(&aside) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(fail(&e)),
        _ => {}
    }
    let write = || {
        let mut file = parquet::File::create(&aside, &label, &columns())?;
        for row in rows {
            let numbers = FleetNumber::ALL.iter().map(|number| Cell::Count(row[*number]));
            file.row(&std::iter::once(Cell::Name(&row.kernel)).chain(numbers).collect::<Vec<_>>())?;
        }
        file.finish()?;
        fs::rename(&aside, path).map_err(|e| fail(&e))
    };
    let written = write();
    if written.is_err() {
        // What could not be written is not left behind.
        let _ = fs::remove_file(&aside);
    }
    written
}

/// Reads the rows of a file.
///
/// # Errors
/// [`TraceError`] where it is no Parquet file, or a column is missing or holds something else.
pub fn read_rows(path: &Path) -> Result<Vec<FleetRow>, TraceError> {
    let label = path.display().to_string();
    let unreadable = |e: std::io::Error| TraceError::Unreadable { file: label.clone(), why: reason(&e) };
    let damaged = |what: String| TraceError::Damaged { file: label.clone(), row: None, what };
    let size = path.metadata().map_err(unreadable)?.len();
    if size > MOST_BYTES {
        return Err(damaged(format!("it has {size} bytes, more than a day of one host needs")));
    }
    let input = Input::memory(&label, fs::read(path).map_err(unreadable)?);
    let kernels = Names::new(&[]);
    let column = |name, kind| ColumnSpec { name, kind };
    let numbers = FleetNumber::ALL.iter().map(|number| column(number.name(), Kind::Int(64, false)));
    let specs = std::iter::once(column(KERNEL, Kind::Names(kernels.clone()))).chain(numbers);
    let table = Table::open(input, specs.collect())?;
    if table.rows() > MOST_ROWS {
        return Err(damaged(format!("it has {} rows, more than a day has seconds", table.rows())));
    }
    let mut rows = vec![FleetRow::default(); table.rows() as usize];
    let (mut at, mut groups) = (0, 0);
    while let Some(group) = table.group(groups) {
        let count = group.rows as usize;
        let of_group = &mut rows[at..at + count];
        for column in 0..=FleetNumber::ALL.len() {
            let mut chunk = table.chunk(group, column);
            chunk.read(count, &label, at as u64, table.column_name(column))?;
            match column.checked_sub(1) {
                Some(number) => {
                    let number = FleetNumber::ALL[number];
                    of_group.iter_mut().zip(chunk.as_i64()).for_each(|(row, n)| row[number] = *n as u64);
                }
                None => {
                    for (row, n) in of_group.iter_mut().zip(chunk.as_i32()) {
                        row.kernel = kernels.unknown(*n);
                        if *n as usize + 1 >= MAX_UNKNOWN {
                            return Err(damaged(format!("it names {MAX_UNKNOWN} kernels or more")));
                        }
                    }
                }
            }
        }
        (at, groups) = (at + count, groups + 1);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start_s: u64, kernel: &str) -> FleetRow {
        let mut row = FleetRow::of(kernel);
        for (n, number) in FleetNumber::ALL.into_iter().enumerate() {
            row[number] = start_s + n as u64;
        }
        row
    }

    #[test]
    fn rows_are_read_as_they_were_written_and_lie_by_day_and_host() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), "web-17", 1_795_910_399, "watch-1").unwrap();
        assert!(path.ends_with("date=2026-11-28/host=web-17/watch-1.parquet"), "{}", path.display());
        for count in [1, 300] {
            let rows: Vec<FleetRow> = (0..count)
                .map(|n| row(1_795_910_399 + n, if n < 9 { "Linux 6.18" } else { "Linux 7.2" }))
                .collect();
            write_rows(&path, &rows).unwrap();
            assert_eq!(read_rows(&path).unwrap(), rows);
        }
        fs::write(path.with_file_name("notes.txt"), "").unwrap();
        fs::create_dir(folder.path().join("host=web-18")).unwrap();
        let (files, others) = fleet_files(folder.path()).unwrap();
        assert_eq!(files, [FleetFile { date: "2026-11-28".to_owned(), host: "web-17".to_owned(), path }]);
        assert_eq!(others.len(), 2, "{others:?}");
        for host in ["", "..", "a/b", "a=b", "a\u{1b}[2J"] {
            assert!(path_of(folder.path(), host, 0, "x").is_err(), "{host:?}");
        }
    }

    #[test]
    fn what_is_no_file_of_rows_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        fs::write(&path, "PAR1 nothing PAR1").unwrap();
        assert!(read_rows(&path).is_err());
        let mut fewer = columns();
        fewer.pop();
        fs::remove_file(&path).unwrap();
        let mut file = parquet::File::create(&path, "x", &fewer).unwrap();
        let cells = std::iter::once(Cell::Name("Linux")).chain((2..fewer.len() as u64 + 1).map(Cell::Count));
        file.row(&cells.collect::<Vec<_>>()).unwrap();
        file.finish().unwrap();
        let why = read_rows(&path).unwrap_err().to_string();
        assert!(why.contains("column `pinned_pageblocks` is missing"), "{why}");
        assert!(read_rows(&folder.path().join("none.parquet")).is_err());
    }
}
