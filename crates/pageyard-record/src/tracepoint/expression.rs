//! Constant C expressions, as far as they occur in the kernel's descriptions of its flags.

/// How deep parentheses may nest. The kernel's own reach about 20.
const MAX_DEPTH: u32 = 128;

/// Evaluates an expression of numbers, parentheses, casts and `| & << >> ~ + -`.
///
/// `None` for anything else: names that the kernel did not replace by their values, for one.
pub(crate) fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Parser { rest: text, depth: 0 };
    let value = parser.or()?;
    parser.skip();
    parser.rest.is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.and()?;
        while self.eat("|") {
            value |= self.and()?;
        }
        Some(value)
    }

    fn and(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.eat("&") {
            value &= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        loop {
            if self.eat("<<") {
                value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
            } else if self.eat(">>") {
                value = value.checked_shr(u32::try_from(self.sum()?).ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.unary()?;
        loop {
            if self.eat("+") {
                value = value.wrapping_add(self.unary()?);
            } else if self.eat("-") {
                value = value.wrapping_sub(self.unary()?);
            } else {
                return Some(value);
            }
        }
    }

    fn unary(&mut self) -> Option<u64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = if self.eat("~") {
            !self.unary()?
        } else if self.eat("(") {
            if self.cast() {
                self.unary()?
            } else {
                let value = self.or()?;
                if !self.eat(")") {
                    return None;
                }
                value
            }
        } else {
            self.number()?
        };
        self.depth -= 1;
        Some(value)
    }

    /// Passes over `unsigned long)`, if that is what follows.
    fn cast(&mut self) -> bool {
        let Some(close) = self.rest.find(')') else { return false };
        let inside = self.rest[..close].trim();
        let is_type = inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && inside.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ' ');
        // `(NAME)` with an operator or nothing after it is a name, not a type.
        let after = self.rest[close + 1..].trim_start();
        let is_cast = is_type && after.starts_with(|c: char| c.is_ascii_digit() || c == '(' || c == '~');
        if is_cast {
            self.rest = &self.rest[close + 1..];
        }
        is_cast
    }

    fn number(&mut self) -> Option<u64> {
        self.skip();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
            None => digits.parse().ok()?,
        };
        self.rest = rest;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn what_kernels_write_is_understood() {
        assert_eq!(evaluate("( unsigned long)(( gfp_t)((((1UL))) << (3)))"), Some(8));
        assert_eq!(evaluate("(unsigned long)(((gfp_t)(0x400u|0x800u)))"), Some(0xc00));
        assert_eq!(evaluate("(unsigned long)((gfp_t)0x10u)"), Some(16));
        assert_eq!(evaluate("(((1UL << 4) | 2) & ~2)"), Some(16));
        assert_eq!(evaluate(" 017 + 1 - 8"), Some(8));
    }

    #[test]
    fn the_rest_is_not() {
        for text in [
            "",
            "(",
            "1 +",
            "(1",
            "1)",
            "___GFP_DMA_BIT",
            "1 << (___GFP_DMA_BIT)",
            "1 << 64",
            "0x",
            "1 2",
            "f(1)",
        ] {
            assert_eq!(evaluate(text), None, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(1_000_000)), None);
        assert_eq!(evaluate(&"~".repeat(1_000_000)), None);
    }
}
