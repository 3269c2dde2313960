//! Why a trace could not be opened, read or written.

use std::fmt;

use crate::text::{escaped, shown};

/// A reason why a trace, or a part of it, cannot be used; its text is one sentence that names the file.
///
/// Rows are counted from 0, as every Parquet tool does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The path is not a trace.
    #[error("{} is not a trace: {}", shown(path), escaped(why))]
    NotATrace {
        /// The path.
        path: String,
        /// The reason it is not a trace.
        why: String,
    },
    /// The operating system refused to read a file.
    #[error("{} cannot be read: {}", shown(file), escaped(why))]
    Unreadable {
        /// The file.
        file: String,
        /// The operating system's reason.
        why: String,
    },
    /// The trace was written by a newer Pageyard.
    #[error(
        "{} is format {format}, and this Pageyard reads format {}: update Pageyard",
        shown(file),
        crate::FORMAT
    )]
    Newer {
        /// The file that says so.
        file: String,
        /// The format it names.
        format: u64,
    },
    /// The file is sound, but of a kind this reader does not know.
    #[error("{}: {}", shown(file), escaped(what))]
    Unsupported {
        /// The file.
        file: String,
        /// The unsupported feature.
        what: String,
    },
    /// The file cannot be decoded: it is cut short, overwritten, or was never a part of a trace.
    #[error("{}{}: {}", shown(file), Row(row), escaped(what))]
    Damaged {
        /// The file.
        file: String,
        /// The row at fault, if one row is.
        row: Option<u64>,
        /// The fault.
        what: String,
    },
    /// The file can be decoded, but what it says cannot be true.
    #[error("{}{}: {}", shown(file), Row(row), escaped(what))]
    Inconsistent {
        /// The file.
        file: String,
        /// The row at fault, if one row is.
        row: Option<u64>,
        /// The inconsistency.
        what: String,
    },
    /// One of Linux's texts does not read as Linux writes it.
    #[error("{file}, line {line}: {}", escaped(what))]
    Text {
        /// The text's name: `buddyinfo`, say.
        file: &'static str,
        /// The line at fault, from 1.
        line: usize,
        /// The fault.
        what: String,
    },
    /// The writer found something where the trace was to go.
    #[error("{} already exists: name another folder or remove it", shown(path))]
    Exists {
        /// Where the trace was to go.
        path: String,
    },
    /// An unfinished trace is where the trace was to be made.
    #[error("{} {}", shown(path), if *busy {
        "is being written by another pageyard: name another folder".to_owned()
    } else {
        format!("was left by a recording or an import that was killed: `pageyard import {}` saves what a recording had, or remove it", shown(path))
    })]
    Unfinished {
        /// The folder of the unfinished trace.
        path: String,
        /// Whether another process is writing it now.
        busy: bool,
    },
    /// The operating system refused to write a file.
    #[error("{} cannot be written: {}", shown(file), escaped(why))]
    Unwritable {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
}

/// Writes `, row 5`, or nothing where no row is at fault.
struct Row<'a>(&'a Option<u64>);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(row) => write!(f, ", row {row}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::quoted;

    #[test]
    fn a_message_names_the_file_and_the_row() {
        let error = TraceError::Damaged { file: "t/events.parquet".into(), row: Some(7), what: "no".into() };
        assert_eq!(error.to_string(), "t/events.parquet, row 7: no");
        let error = TraceError::Newer { file: "t/meta.json".into(), format: 2 };
        assert_eq!(
            error.to_string(),
            "t/meta.json is format 2, and this Pageyard reads format 1: update Pageyard"
        );
    }

    #[test]
    fn foreign_text_stays_on_one_line_and_short() {
        assert_eq!(quoted(b"a\nb"), "a\\nb");
        assert!(quoted(&[0xff; 10_000]).len() < 400);
    }

    #[test]
    fn names_of_files_cannot_command_a_terminal() {
        let file = format!("\u{1b}]0;owned\u{7}{}/meta.json", "x".repeat(5000));
        for error in [
            TraceError::NotATrace { path: file.clone(), why: "\u{1b}[2J".into() },
            TraceError::Unreadable { file: file.clone(), why: "\u{9b}2J".into() },
            TraceError::Newer { file: file.clone(), format: 2 },
            TraceError::Unsupported { file: file.clone(), what: "\u{1b}".into() },
            TraceError::Damaged { file: file.clone(), row: Some(1), what: "\u{1b}".into() },
            TraceError::Inconsistent { file: file.clone(), row: None, what: "\u{1b}".into() },
            TraceError::Exists { path: file.clone() },
            TraceError::Unwritable { file, why: "\u{1b}".into() },
        ] {
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control) && text.len() < 400, "{text}");
            assert!(text.contains("\\u{1b}]0;owned"), "{text}");
        }
    }
}
