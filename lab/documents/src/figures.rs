//! Every number that a text prints is in the JSON document of the same run.
//!
//! A number of a text is found where a number of the document, or of one of its texts and keys, is the same to the
//! printed precision, once the unit that is printed behind it has been converted as `UNITS` says.

use crate::numbers::{Printed, numbers};
use serde_json::Value;

const KIB: f64 = 1024.0;

/// Units as printed behind numbers, and the factors from a document's number to one in that unit.
const UNITS: [(&str, &[f64]); 8] = [
    // Bytes, or frames.
    ("KiB", &[1.0 / KIB, 4.0]),
    ("MiB", &[1.0 / KIB / KIB, 4.0 / KIB]),
    ("GiB", &[1.0 / KIB / KIB / KIB, 4.0 / KIB / KIB]),
    ("TiB", &[1.0 / KIB / KIB / KIB / KIB, 4.0 / KIB / KIB / KIB]),
    // Per cent, or shares.
    ("%", &[1.0, 100.0]),
    // Milliseconds, or nanoseconds.
    ("ms", &[1.0, 1e-6]),
    // Seconds, or nanoseconds.
    ("s", &[1.0, 1e-9]),
    ("million", &[1e-6]),
];

/// The numbers of a document.
#[derive(Default)]
struct Known {
    numbers: Vec<f64>,
    /// Those in its texts and keys, each with what is printed behind it.
    printed: Vec<(f64, String)>,
}

impl Known {
    fn of(document: &Value, derived: &[f64]) -> Known {
        let mut known = Known { numbers: derived.to_vec(), ..Known::default() };
        known.collect(document);
        known
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::Number(n) => self.numbers.extend(n.as_f64()),
            Value::String(text) => self.read(text),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(entries) => {
                for (key, entry) in entries {
                    self.read(key);
                    self.collect(entry);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn read(&mut self, text: &str) {
        for number in numbers(text) {
            self.numbers.push(number.value);
            self.printed.push((number.value, number.unit.to_owned()));
        }
    }

    fn has(&self, number: &Printed<'_>) -> bool {
        let factors = UNITS.iter().find(|(unit, _)| *unit == number.unit).map_or(&[1.0][..], |(_, by)| by);
        let half = 0.5 * 10f64.powi(-number.decimals);
        let near = |found: f64| (found - number.value).abs() <= half * (1.0 + 1e-9) + 1e-12;
        self.numbers.iter().any(|n| factors.iter().any(|by| near(n * by)))
            || self.printed.iter().any(|(n, unit)| near(*n) && unit == number.unit)
    }
}

/// Returns the numbers of a text that its document lacks.
fn missing<'a>(text: &'a str, document: &Value, derived: &[f64]) -> Vec<Printed<'a>> {
    let known = Known::of(document, derived);
    numbers(text).into_iter().filter(|number| !known.has(number)).collect()
}

/// Checks a document against its schema, and a text against its document. `wording` is what the text says with figures
/// that are no results; `derived` are numbers that follow from the document.
pub fn check(text: &str, document: &Value, wording: &[&str], derived: &[f64]) {
    assert!(numbers(text).len() > 50, "few numbers in\n{text}");
    check_short(text, document, wording, derived);
}

/// The same, of a text that has few numbers anyway.
pub fn check_short(text: &str, document: &Value, wording: &[&str], derived: &[f64]) {
    crate::schemas::document(&serde_json::to_vec(document).unwrap());
    let plain = wording.iter().fold(text.to_owned(), |text, words| {
        assert!(text.contains(words), "`{words}` is not printed:\n{text}");
        text.replace(words, "")
    });
    assert!(!numbers(&plain).is_empty(), "no number in\n{text}");
    let missing = missing(&plain, document, derived);
    assert!(missing.is_empty(), "not in the document: {missing:?}\n{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_a_document_lacks_is_found_missing() {
        let document = serde_json::json!({ "frames": 3200, "share": 0.125, "of": ["linux-6.18 of 4 CPUs"] });
        let of = |text| missing(text, &document, &[]).iter().map(|n| n.value).collect::<Vec<_>>();
        assert!(of("3,200 frames, 12.5 MiB, 12.5 %, 4 CPUs").is_empty());
        assert_eq!(of("3,201 frames, 12.6 MiB, 12.4 %, 5 CPUs"), [3201.0, 12.6, 12.4, 5.0]);
        assert_eq!(of("12.5 GiB, 12.5"), [12.5, 12.5], "a unit converts as its own does");
    }
}
