//! Lines of a kernel's log as loggers, terminals and mail programs hand them on: what each added is taken off.

use std::borrow::Cow;

/// Prefixes that are cut off a line: loggers, mails and replies each add one or two.
const MOST_PREFIXES: usize = 24;

/// A line of the log without what stood before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The CPU or thread that wrote it, where the kernel says (`[   C0]`, `[ T123]`): reports of several mix.
    pub caller: Option<&'a str>,
    /// The line itself.
    pub text: &'a str,
}

/// Returns a raw line without NUL bytes, colours, a page's entities and the ends of lines that loggers write as `#012`
/// or `\x0a`; several lines where it had written several in one.
pub(super) fn cleaned(raw: &str) -> Cow<'_, str> {
    if !raw.contains(['\0', '\u{1b}', '#', '\\', '&', '\u{a0}']) && !raw.contains("=3D") {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\0' => {}
            '\u{a0}' => text.push(' '),
            '\u{1b}' => skip_colour(&mut chars),
            '#' if chars.as_str().starts_with("012") => {
                text.push('\n');
                chars.nth(2);
            }
            '#' if chars.as_str().starts_with("033") => {
                chars.nth(2);
                skip_colour(&mut chars);
            }
            '\\' if chars.as_str().starts_with('n') => {
                text.push('\n');
                chars.next();
            }
            '\\' if chars.as_str().starts_with("x0a") => {
                text.push('\n');
                chars.nth(2);
            }
            // A mail's `=`.
            '=' if chars.as_str().starts_with("3D") => {
                text.push('=');
                chars.nth(1);
            }
            '&' => {
                let known = [("lt;", '<'), ("gt;", '>'), ("quot;", '"'), ("amp;", '&')];
                match known.iter().find(|(name, _)| chars.as_str().starts_with(name)) {
                    Some((name, is)) => {
                        text.push(*is);
                        chars.nth(name.len() - 1);
                    }
                    None => text.push(c),
                }
            }
            c => text.push(c),
        }
    }
    Cow::Owned(text)
}

/// Skips `[31m` behind an escape.
fn skip_colour(chars: &mut std::str::Chars<'_>) {
    let rest = chars.as_str();
    if let Some(inside) = rest.strip_prefix('[')
        && let Some(end) = inside.find(|c: char| c.is_ascii_alphabetic()).filter(|&end| end <= 12)
    {
        *chars = inside[end + 1..].chars();
    }
}

/// Takes off what stands before a line: quotes of a mail, times, levels, callers, a host's name.
///
/// `> `, `| `, `[    9.427963] `, `[Mon Nov 23 12:58:43 2026] `, `<4>`, `kern  :warn  : `, `[   T123] `, ISO times, and
/// syslog's `Nov 23 12:58:43 host kernel: `.
pub(super) fn without_prefix(line: &str) -> Line<'_> {
    // Where syslog's name of the kernel can stand.
    const HEAD: usize = 160;
    let head = line.char_indices().nth(HEAD).map_or(line.len(), |(at, _)| at);
    let mut rest = line[..head].find("kernel: ").map_or(line, |at| &line[at + "kernel: ".len()..]);
    let mut caller = None;
    for _ in 0..MOST_PREFIXES {
        let trimmed = rest.trim_start();
        let shorter = bracketed(trimmed, '[', ']', 48)
            .map(|(inside, shorter)| {
                caller = caller.or(caller_in(inside));
                shorter
            })
            .or_else(|| bracketed(trimmed, '<', '>', 5).map(|(_, shorter)| shorter))
            .or_else(|| {
                let (cpu, shorter) = bracketed(trimmed, '(', ')', 3)?;
                let is_one = shorter.starts_with('[') && cpu.bytes().all(|b| b.is_ascii_digit());
                is_one.then(|| {
                    caller = caller.or(Some(cpu));
                    shorter
                })
            })
            .or_else(|| level(trimmed))
            .or_else(|| trimmed.strip_prefix(['>', '|']))
            .or_else(|| iso_time(trimmed))
            .or_else(|| kmsg(trimmed))
            .or_else(|| logcat(trimmed));
        match shorter {
            Some(shorter) => rest = shorter,
            // A blank before a counter means nothing.
            None => return Line { caller, text: trimmed },
        }
    }
    Line { caller, text: rest.trim_start() }
}

/// Splits `[..]` off, unless it is too long to be a time.
fn bracketed(text: &str, open: char, close: char, most: usize) -> Option<(&str, &str)> {
    let inside = text.strip_prefix(open)?;
    let end = inside.find(close).filter(|&end| end <= most)?;
    Some((&inside[..end], &inside[end + close.len_utf8()..]))
}

/// Reads `   C0` or ` T123`.
fn caller_in(inside: &str) -> Option<&str> {
    let name = inside.trim();
    let number = name.strip_prefix(['C', 'T'])?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

/// Cuts `07-13 08:41:51.347 ` off, as Android's logs have it.
fn logcat(text: &str) -> Option<&str> {
    let (head, rest) = text.split_at_checked(19)?;
    let is_time = head.bytes().enumerate().all(|(at, b)| match at {
        2 => b == b'-',
        5 | 18 => b == b' ',
        8 | 11 => b == b':',
        14 => b == b'.',
        _ => b.is_ascii_digit(),
    });
    is_time.then_some(rest)
}

/// Cuts `4,19685342,241227987454,-,caller=T12845;` off, as `/dev/kmsg` has it.
fn kmsg(text: &str) -> Option<&str> {
    let end = text.bytes().take(80).position(|b| b == b';')?;
    let (head, rest) = (&text[..end], &text[end + 1..]);
    let mut fields = head.split(',');
    let is_number =
        |field: Option<&str>| field.is_some_and(|f| !f.is_empty() && f.bytes().all(|b| b.is_ascii_digit()));
    (is_number(fields.next()) && is_number(fields.next()) && is_number(fields.next())).then_some(rest)
}

/// Cuts `kern  :warn  : ` off, as `dmesg -x` writes it.
fn level(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("kern")?.trim_start().strip_prefix(':')?;
    let (level, rest) = rest.split_once(':')?;
    (level.len() <= 8).then_some(rest)
}

/// Cuts `2026-11-23T12:58:43,123456+00:00 ` off.
fn iso_time(text: &str) -> Option<&str> {
    let end = text.bytes().take(48).position(|b| b == b' ')?;
    let (word, rest) = text.split_at(end);
    let is_date = word.len() >= 19
        && word.as_bytes()[..10].iter().enumerate().all(|(at, b)| match at {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        });
    (is_date && word.as_bytes()[10] == b'T').then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "2026-11-23T12:58:43,123456+00:00 ",
            "kernel: ",
            "> > [    9.427963] ",
            "4,19685342,241227987454,-,caller=T12845;",
            "<4>[ 482.458525] (2)[5:kworker/u:0]",
            "07-13 08:41:51.341 <4>[309805.658142s][pid:1361,cpu5,x]",
            "| [    9.427963] ",
        ] {
            assert_eq!(without_prefix(&format!("{before}{line}")).text, line, "{before}");
        }
        assert_eq!(without_prefix("[  1.0]  active_file:0 isolated:1").text, "active_file:0 isolated:1");
        assert_eq!(without_prefix("[unclosed").text, "[unclosed");
        assert_eq!(without_prefix("").text, "");
        assert_eq!(without_prefix("[   12.345678][    C3] x").caller, Some("C3"));
        assert_eq!(without_prefix("[   12.345678] [  T1234] x").caller, Some("T1234"));
        assert_eq!(without_prefix("[   12.345678] x").caller, None);
    }

    #[test]
    fn what_loggers_write_for_an_end_of_line_is_one() {
        assert_eq!(cleaned("Mem-Info:#012active_anon:1#012 free:2"), "Mem-Info:\nactive_anon:1\n free:2");
        assert_eq!(cleaned("{\"log\":\"free:2\\n\"}"), "{\"log\":\"free:2\n\"}");
        assert_eq!(cleaned("\u{1b}[33mfree\u{1b}[0m:\0 2#033[m"), "free: 2");
        assert_eq!(cleaned("&lt;4&gt;free:2\\x0a min:1 &amp x"), "<4>free:2\n min:1 &amp x");
        assert_eq!(cleaned("#1 SMP"), "#1 SMP");
        assert_eq!(cleaned("\u{1b}["), "[");
    }
}
