//! Prefixes of lines of the kernel's log: times, levels, callers, a host's name.

/// Returns a line without it.
///
/// `[    9.427963] `, `[Mon Nov 23 12:58:43 2026] `, `<4>`, `kern  :warn  : `, `[   T123] `, and syslog's
/// `Nov 23 12:58:43 host kernel: `.
pub(super) fn without(line: &str) -> &str {
    // Where syslog's name of the kernel can stand.
    const HEAD: usize = 160;
    let head = line.char_indices().nth(HEAD).map_or(line.len(), |(at, _)| at);
    let mut rest = match line[..head].find(" kernel: ") {
        Some(at) => &line[at + " kernel: ".len()..],
        None => line.strip_prefix("kernel: ").unwrap_or(line),
    };
    loop {
        let trimmed = rest.trim_start();
        let shorter = bracketed(trimmed, '[', ']', 40)
            .or_else(|| bracketed(trimmed, '<', '>', 5))
            .or_else(|| level(trimmed));
        match shorter {
            Some(shorter) => rest = shorter,
            // A blank before a counter means nothing.
            None => return trimmed,
        }
    }
}

/// Cuts `[..]` off, unless it is too long to be a time.
fn bracketed(text: &str, open: char, close: char, most: usize) -> Option<&str> {
    let inside = text.strip_prefix(open)?;
    let end = inside.find(close).filter(|&end| end <= most)?;
    Some(&inside[end + close.len_utf8()..])
}

/// Cuts `kern  :warn  : ` off, as `dmesg -x` writes it.
fn level(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("kern")?.trim_start().strip_prefix(':')?;
    let (level, rest) = rest.split_once(':')?;
    (level.len() <= 8).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn whatever_stands_before_a_line_is_cut_off() {
        let line = "swapper/0: page allocation failure: order:3";
        for before in [
            "",
            "[    9.427963] ",
            "[Mon Nov 23 12:58:43 2026] ",
            "<4>[    9.427963] ",
            "[   12.345678][    C0] ",
            "[   12.345678] [  T1234] ",
            "kern  :warn  : [    9.427963] ",
            "kern  :warn  : [Mon Nov 23 12:58:43 2026] ",
            "Nov 23 12:58:43 a-host kernel: [    9.427963] ",
            "2026-11-23T12:58:43.123456+00:00 a-host kernel: ",
            "kernel: ",
        ] {
            assert_eq!(without(&format!("{before}{line}")), line, "{before}");
        }
        assert_eq!(without("[  1.0]  active_file:0 isolated:1"), "active_file:0 isolated:1");
        assert_eq!(without("[unclosed"), "[unclosed");
        assert_eq!(without(""), "");
    }
}
