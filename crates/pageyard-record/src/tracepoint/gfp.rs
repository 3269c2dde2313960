//! The gfp flags of a kernel, from how it prints them.

use std::collections::BTreeMap;

use super::expression::evaluate;

/// More flags than 32 bits can have names.
const MAX_FLAGS: usize = 64;

/// The longest expression that is read. Those of single bits have less than 100 bytes.
const MAX_EXPRESSION: usize = 1 << 10;

/// Finds the names of single bits in how `mm_page_alloc` is printed: `{(unsigned long)0x40u, "__GFP_IO"}`. A flag that
/// some kernels write with other names is left out: a reader of the trace then assumes its place in Linux 6.18.
pub(crate) fn gfp_bits(print: &str) -> BTreeMap<String, u8> {
    let mut bits = BTreeMap::new();
    if !print.is_ascii() {
        return bits;
    }
    for (at, _) in print.match_indices("\"__GFP_") {
        let name = &print[at + 1..];
        let Some(end) = name.find('"') else { break };
        let name = &name[..end];
        let known = name.len() <= 40
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        let before = &print[at.saturating_sub(MAX_EXPRESSION)..at];
        let Some(open) = before.rfind('{') else { continue };
        let Some(expression) = before[open + 1..].trim_end().strip_suffix(',') else { continue };
        match evaluate(expression) {
            Some(value) if known && value.is_power_of_two() && value < 1 << 32 && bits.len() < MAX_FLAGS => {
                bits.insert(name.to_owned(), value.trailing_zeros() as u8);
            }
            _ => {}
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::gfp_bits;

    #[test]
    fn single_bits_are_found_and_groups_are_not() {
        let print = r#"(REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", {( unsigned long)((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11))))), "__GFP_RECLAIM"}, {( unsigned long)(( gfp_t)((((1UL))) << (10))), "__GFP_DIRECT_RECLAIM"}, {(unsigned long)((gfp_t)0x40u), "__GFP_IO"}, {(unsigned long)(1UL << ___GFP_FS_BIT), "__GFP_FS"}, { 0, ((void *)0) } ) : "none""#;
        let bits = gfp_bits(print);
        let pairs: Vec<_> = bits.iter().map(|(n, b)| (n.as_str(), *b)).collect();
        assert_eq!(pairs, [("__GFP_DIRECT_RECLAIM", 10), ("__GFP_IO", 6)]);
    }

    #[test]
    fn anything_else_is_nothing() {
        for text in [
            "",
            "\"__GFP_",
            "\"__GFP_IO\"",
            "{\"__GFP_IO\"",
            "{,\"__GFP_IO\"",
            "{1,\"__GFP_io\"",
            "é{1,\"__GFP_é\"",
        ] {
            assert!(gfp_bits(text).is_empty(), "{text}");
        }
    }
}
