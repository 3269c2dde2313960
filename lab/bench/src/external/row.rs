//! Rows of a benchmark's document, read back and checked key by key.

use pageyard_trace::{Document, shown};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The longest name of an allocator, in bytes.
const LONGEST_NAME: usize = 64;

/// The longest time that a figure may say, in nanoseconds: a second for a block.
const LONGEST_NS: f64 = 1e9;

/// The largest count.
const MOST: u64 = 1 << 53;

/// A row that can be read from a file.
pub(crate) trait ExternalRow: DeserializeOwned {
    /// The document that has such rows.
    type Report: Document;

    /// The keys that are read, beside `allocator`; the others of a file are ignored.
    const KEYS: &'static [Key];

    /// Returns the allocator's name.
    fn allocator(&self) -> &str;

    /// Returns whether the other row was measured in the same setting.
    fn is_of_the_setting_of(&self, other: &Self) -> bool;

    /// Returns the row, marked as one that was measured elsewhere.
    #[must_use]
    fn marked(self) -> Self;

    /// Returns what is wrong with the values together.
    fn contradiction(&self) -> Option<String> {
        None
    }
}

/// A key of a row.
pub(crate) struct Key {
    name: &'static str,
    kind: Kind,
    optional: bool,
}

/// Values that a key may have.
pub(crate) enum Kind {
    /// A name that can be shown.
    Name,
    /// Nanoseconds.
    Ns,
    /// Nanoseconds that took time.
    NsAbove0,
    Count,
    Order,
    /// A number from 0 to 1.
    Share,
    Flag,
    OneOf(&'static [&'static str]),
}

impl Key {
    /// Describes a key that every row has.
    pub const fn of(name: &'static str, kind: Kind) -> Key {
        Key { name, kind, optional: false }
    }

    /// Describes a key that may be absent.
    pub const fn maybe(name: &'static str, kind: Kind) -> Key {
        Key { name, kind, optional: true }
    }

    fn check(&self, row: &Map<String, Value>) -> Result<(), String> {
        let key = self.name;
        let value = match row.get(key) {
            Some(value) => value,
            None if self.optional => return Ok(()),
            None => return Err(format!("it has no `{key}`; add it")),
        };
        self.kind.check(value).map_err(|why| format!("its `{key}` {why}"))
    }
}

impl Kind {
    fn check(&self, value: &Value) -> Result<(), String> {
        let must = |met: bool, why: &str| met.then_some(()).ok_or_else(|| format!("is {why}; correct it"));
        let ns = value.as_f64().filter(|ns| (0.0..=LONGEST_NS).contains(ns));
        let count = value.as_u64().filter(|n| *n <= MOST);
        let text = || value.as_str().ok_or_else(|| "is not a text; put it in quotes".to_owned());
        let in_time = || must(ns.is_some(), "not a number of nanoseconds from 0 to 1e9");
        let whole = || must(count.is_some(), "not a whole number from 0 to 2^53");
        match self {
            Kind::Name => check_name(text()?),
            Kind::Ns => in_time(),
            Kind::NsAbove0 => in_time().and_then(|()| must(ns > Some(0.0), "0, which nothing takes")),
            Kind::Count => whole(),
            Kind::Order => whole().and_then(|()| match count {
                Some(order) if u8::try_from(order).is_err() => Err(format!("is {order}; orders end at 10")),
                _ => Ok(()),
            }),
            Kind::Share => must(
                value.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)),
                "not a number from 0 to 1",
            ),
            Kind::Flag => must(value.is_boolean(), "neither true nor false"),
            Kind::OneOf(names) => match names.contains(&text()?) {
                true => Ok(()),
                false => Err(format!("is none of the known ones; write {}", names.join(" or "))),
            },
        }
    }
}

/// Reads a row.
///
/// # Errors
/// A message that names the mistake in the row and how to fix it.
pub(crate) fn read<R: ExternalRow>(row: &Value) -> Result<R, String> {
    let keys = row.as_object().ok_or_else(|| "it is not an object; write {\"allocator\": ..}".to_owned())?;
    Key::of("allocator", Kind::Name).check(keys)?;
    R::KEYS.iter().try_for_each(|key| key.check(keys))?;
    let read: R = serde_json::from_value(row.clone()).map_err(|e| shown(&e.to_string()))?;
    read.contradiction().map_or(Ok(read), Err)
}

/// Checks that a name can be shown.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(format!("has {} bytes; give it 1 to {LONGEST_NAME}", name.len()));
    }
    if shown(name) != name {
        return Err("has characters that a terminal acts on; leave them out".to_owned());
    }
    Ok(())
}
