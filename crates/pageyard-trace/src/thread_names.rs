//! Names of threads, where a recording was asked to keep them.

use crate::error::TraceError;
use crate::json;
use crate::source::Input;
use crate::text::shown;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file that holds them. It has no checksum: who passes a recording on may delete it, and loses nothing else.
pub(crate) const THREAD_NAMES: &str = "thread_names.json";

/// The largest file that is read: a million threads.
const MAX_BYTES: u64 = 64 << 20;

/// The longest name that Linux gives a thread, in bytes (`TASK_COMM_LEN`, without its end).
const LONGEST: usize = 15;

/// Names by thread, as events number them. After reading they are safe to display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThreadNames(BTreeMap<u32, String>);

impl ThreadNames {
    /// Returns a thread's name, where it is known.
    #[must_use]
    pub fn get(&self, tid: u32) -> Option<&str> {
        self.0.get(&tid).map(String::as_str)
    }

    /// Sets a thread's name; what is longer than Linux's longest is cut.
    pub fn set(&mut self, tid: u32, name: &str) {
        let end = (0..=LONGEST.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        self.0.insert(tid, name[..end].to_owned());
    }

    /// Returns how many threads have a name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn read(input: &Input) -> Result<ThreadNames, TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: input.label().to_owned(), row: None, what };
        if input.size() > MAX_BYTES {
            return Err(damaged(format!(
                "it has {} bytes, more than names of a million threads",
                input.size()
            )));
        }
        let bytes = input.read(0, input.size() as usize)?;
        let tree = json::parse(&bytes).map_err(|e| damaged(format!("it is not JSON ({e})")))?;
        let names: ThreadNames = serde_json::from_value(tree).map_err(|e| {
            damaged(format!("it is not a list of names by thread ({})", shown(&e.to_string())))
        })?;
        let mut safe = ThreadNames::default();
        for (tid, name) in &names.0 {
            safe.set(*tid, &shown(name));
        }
        Ok(safe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ThreadNames, TraceError> {
        ThreadNames::read(&Input::memory("thread_names.json", text.as_bytes().to_vec()))
    }

    #[test]
    fn names_come_back_safe_to_display_and_no_longer_than_linux_has_them() {
        let mut names = ThreadNames::default();
        names.set(7, "cc1");
        names.set(8, "a name of more than fifteen bytes");
        names.set(9, "ééééééééé");
        let text = serde_json::to_string(&names).unwrap();
        let back = read(&text).unwrap();
        assert_eq!(back, names);
        assert_eq!((back.get(7), back.get(8)), (Some("cc1"), Some("a name of more ")));
        assert_eq!((back.get(9), back.get(10), back.len()), (Some("ééééééé"), None, 3));
        assert!(!read(r#"{"1": "\u001b[2J"}"#).unwrap().get(1).unwrap().contains('\u{1b}'));
    }

    #[test]
    fn what_is_no_list_of_names_is_refused_in_a_sentence() {
        for text in ["", "{", "[]", r#"{"x": "cc1"}"#, r#"{"1": 2}"#, r#"{"1": "a", "1": "b"}"#] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("thread_names.json"), "{text}: {error}");
        }
    }
}
