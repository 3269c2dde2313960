//! What a row of a file says, checked field by field.

use serde_json::{Map, Value};

/// The longest name of an allocator, in bytes.
const LONGEST_NAME: usize = 64;

/// The longest time that a figure may say, in nanoseconds: a second for a block.
const LONGEST_NS: f64 = 1e9;

/// The largest count.
const MOST: u64 = 1 << 53;

/// A row's fields.
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// Takes a row.
    ///
    /// # Errors
    /// Where it is not an object.
    pub fn of(row: &'a Value) -> Result<Fields<'a>, String> {
        row.as_object().map(Fields).ok_or_else(|| "it is not an object; write {\"allocator\": ..}".to_owned())
    }

    fn get(&self, key: &str) -> Result<&'a Value, String> {
        self.0.get(key).ok_or_else(|| format!("it has no `{key}`; add it"))
    }

    /// Returns whether there is a field of this name.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Reads a text.
    pub fn text(&self, key: &str) -> Result<&'a str, String> {
        self.get(key)?.as_str().ok_or_else(|| format!("its `{key}` is not a text; put it in quotes"))
    }

    /// Reads a name that can be shown.
    pub fn name(&self, key: &str) -> Result<&'a str, String> {
        let name = self.text(key)?;
        check_name(name).map_err(|why| format!("its `{key}` {why}"))?;
        Ok(name)
    }

    /// Reads nanoseconds.
    pub fn ns(&self, key: &str) -> Result<f64, String> {
        let in_range = |ns: &f64| (0.0..=LONGEST_NS).contains(ns);
        let wrong = || format!("its `{key}` is not a number of nanoseconds from 0 to 1e9; correct it");
        self.get(key)?.as_f64().filter(in_range).ok_or_else(wrong)
    }

    /// Reads nanoseconds that took time.
    pub fn ns_above_0(&self, key: &str) -> Result<f64, String> {
        let wrong = || format!("its `{key}` is 0, which nothing takes; correct it");
        Some(self.ns(key)?).filter(|ns| *ns > 0.0).ok_or_else(wrong)
    }

    /// Reads a count.
    pub fn count(&self, key: &str) -> Result<u64, String> {
        let wrong = || format!("its `{key}` is not a whole number from 0 to 2^53; correct it");
        self.get(key)?.as_u64().filter(|n| *n <= MOST).ok_or_else(wrong)
    }

    /// Reads a share.
    pub fn share(&self, key: &str) -> Result<f64, String> {
        let wrong = || format!("its `{key}` is not a number from 0 to 1; correct it");
        self.get(key)?.as_f64().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(wrong)
    }

    /// Reads a flag.
    pub fn flag(&self, key: &str) -> Result<bool, String> {
        self.get(key)?.as_bool().ok_or_else(|| format!("its `{key}` is neither true nor false; correct it"))
    }

    /// Reads a field that may be absent.
    pub fn maybe<T>(
        &self,
        key: &str,
        read: impl Fn(&Self, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.has(key).then(|| read(self, key)).transpose()
    }

    /// Reads the one of these that has the name.
    pub fn one_of<T: Copy>(
        &self,
        key: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, String> {
        let text = self.text(key)?;
        let known = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(" or ");
        let found = all.iter().copied().find(|one| name(*one) == text);
        found.ok_or_else(|| format!("its `{key}` is none of the known ones; write {}", known()))
    }
}

/// Checks that a name can be shown.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(format!("has {} bytes; give it 1 to {LONGEST_NAME}", name.len()));
    }
    if pageyard_trace::shown(name) != name {
        return Err("has characters that a terminal acts on; leave them out".to_owned());
    }
    Ok(())
}
