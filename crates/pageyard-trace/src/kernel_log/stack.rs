//! Who asked, as the kernel's stack shows it, and which kernel it is.

/// Functions that a failure keeps: stacks are shorter.
const MAX_FUNCTIONS: usize = 64;

/// Returns the functions of a stack, the innermost first: `warn_alloc` of `warn_alloc+0x119/0x190`.
pub(super) fn functions(words: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        let Some((name, offset)) = word.split_once("+0x") else { continue };
        let name = name.trim_start_matches(['(', '?']);
        let is_name = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        if !is_name || !offset.contains('/') || all.last().is_some_and(|last| last == name) {
            continue;
        }
        if all.len() == MAX_FUNCTIONS {
            break;
        }
        all.push(name.to_owned());
    }
    all
}

/// Finds the release in `CPU: 0 PID: 1 Comm: init Not tainted 6.12.117-amd64 #1`, or before 3.11 in `Pid: 1, comm: init
/// Not tainted 2.6.32-573.el6.x86_64 #1`.
///
/// # Linux
/// `dump_stack_print_info`
pub(super) fn release(words: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| word.eq_ignore_ascii_case("tainted") || *word == "Tainted:")?;
    words[at + 1..].iter().take(24).find_map(|word| of_release(word))
}

/// Finds the release in `Linux version 5.10.0-8-amd64 (..)`.
pub(super) fn version(text: &str) -> Option<String> {
    of_release(text.strip_prefix("Linux version ")?.split(' ').next()?)
}

/// Reads a word that begins as a release does.
fn of_release(word: &str) -> Option<String> {
    let word = word.trim_start_matches('(').trim_end_matches(')');
    let numbers = word.split(['.', '-', '+']).take(2).filter(|n| n.parse::<u16>().is_ok()).count();
    (numbers == 2 && word.contains('.') && word.len() <= 96 && word.is_ascii() && word.len() >= 3)
        .then(|| word.to_owned())
}

/// Returns whether words can only come from an x86 kernel, whose frames have 4 KiB.
pub(super) fn is_x86(words: &[&str]) -> bool {
    words.iter().any(|word| {
        matches!(*word, "RIP:" | "EIP:" | "RSP:" | "ORIG_RAX:")
            || word.contains("x86_64")
            || word.contains("amd64")
            || word.starts_with("entry_SYSCALL_64")
            || word.starts_with("asm_exc_")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn releases_of_all_forms_are_found() {
        for (line, is) in [
            ("CPU: 0 PID: 1 Comm: init Not tainted 6.12.117-amd64 #1", Some("6.12.117-amd64")),
            ("CPU: 13 PID: 48544 Comm: ifconfig Tainted: G OE 6.7.0-rc2igor1+ #1", Some("6.7.0-rc2igor1+")),
            ("Pid: 1, comm: swapper Not tainted 2.6.32-573.el6.x86_64 #1", Some("2.6.32-573.el6.x86_64")),
            ("CPU: 0    Not tainted  (2.6.33 #1)", Some("2.6.33")),
            ("CPU: 2 PID: 4092 Comm: x Not tainted", None),
        ] {
            assert_eq!(release(&words(line)).as_deref(), is, "{line}");
        }
        assert_eq!(version("Linux version 5.10.0-8-amd64 (a@b)").as_deref(), Some("5.10.0-8-amd64"));
    }

    #[test]
    fn a_stack_has_its_functions() {
        let text = "dump_stack_lvl+0x48/0x70 ? warn_alloc+0x119/0x190 aq_ring_alloc+0x29/0xe0 [atlantic] \
                    [<c0099f84>] (cache_alloc_refill+0x260/0x52c) from [<c009a378>] (kmem_cache_alloc+0x54/0x94) +0x12/0x3";
        assert_eq!(
            functions(&words(text)),
            ["dump_stack_lvl", "warn_alloc", "aq_ring_alloc", "cache_alloc_refill", "kmem_cache_alloc"]
        );
    }
}
