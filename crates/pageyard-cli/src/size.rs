//! Sizes on the command line: `4G`, `512M`, `1.5GiB`.

/// Reads a size in bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write it like 512M or 1.5G");
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    // Above 2^60 the cast would lose digits, and no machine has it.
    if bytes.is_finite() && (4096.0..=(1u64 << 60) as f64).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("`{text}` is out of range; a frame (4K) is the least"))
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse("2tb"), Ok(2 << 40));
        for wrong in ["", "G", "-1", "1X", "0", "1e99T", "nan", "12GG", "."] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
