//! The numbers of a text.

/// A number as it is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed<'a> {
    /// Its value.
    pub value: f64,
    /// Digits behind the point.
    pub decimals: i32,
    /// The word behind it, or `%`; empty where something else follows.
    pub unit: &'a str,
}

/// Returns the numbers of a text: digits with commas between thousands and a point. Digits of a word (`DMA32`,
/// `linux-6.18`, `min_7`) are no number.
#[must_use]
pub fn numbers(text: &str) -> Vec<Printed<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit()).map(|n| at + n) {
        let end = end_of(text, start);
        at = end;
        let before = text[..start].trim_end_matches('-');
        let minus = before.len() < start;
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let of_word = before.ends_with(in_word) || before.ends_with('.');
        let word_follows = text[end..].starts_with(|c: char| c.is_alphabetic() || c == '_');
        if of_word || word_follows {
            // The rest of the word may have more digits.
            at += text[end..].find(|c: char| !in_word(c) && c != '.' && c != '-').unwrap_or(text.len() - end);
            continue;
        }
        let digits = text[start..end].replace(',', "");
        let value: f64 = digits.parse().unwrap();
        found.push(Printed {
            value: if minus { -value } else { value },
            decimals: digits.split_once('.').map_or(0, |(_, behind)| behind.len() as i32),
            unit: unit(&text[end..]),
        });
    }
    found
}

/// Returns where a number ends that begins at `start`.
fn end_of(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    let mut point = false;
    while let Some(byte) = bytes.get(end) {
        let thousands = || (1..=3).all(|n| digit(end + n)) && !digit(end + 4);
        match byte {
            b'0'..=b'9' => {}
            b',' if !point && thousands() => {}
            b'.' if !point && digit(end + 1) => point = true,
            _ => break,
        }
        end += 1;
    }
    end
}

fn unit(behind: &str) -> &str {
    let word = behind.strip_prefix(' ').unwrap_or("");
    if word.starts_with('%') {
        return "%";
    }
    &word[..word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_the_digits_of_words() {
        let found =
            |text| numbers(text).iter().map(|n| (n.value, n.decimals, n.unit.to_owned())).collect::<Vec<_>>();
        assert_eq!(
            found("linux-6.18, DMA32: 1,234,567 frames, 2.50 %, 7"),
            [(1_234_567.0, 0, "frames".into()), (2.5, 2, "%".into()), (7.0, 0, String::new()),]
        );
        assert_eq!(
            found("x -0.500 (3/4.5) 10, 200 2x"),
            [
                (-0.5, 3, String::new()),
                (3.0, 0, String::new()),
                (4.5, 1, String::new()),
                (10.0, 0, String::new()),
                (200.0, 0, String::new()),
            ]
        );
    }
}
