//! The wire format of Parquet's own metadata, read into a small tree.
//!
//! The reader works on untrusted bytes, so its work is bounded by its input: a list cannot claim more elements than
//! bytes follow it, nesting is limited, and numbers have at most ten bytes.

/// Nesting deeper than this is not Parquet: a footer needs six levels.
const MAX_DEPTH: u8 = 12;

/// One value of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A boolean.
    Bool(bool),
    /// A number of any width.
    Int(i64),
    /// Eight bytes that are not needed here.
    Double,
    /// Bytes or text.
    Bytes(&'a [u8]),
    /// A list or a set.
    List(Vec<Value<'a>>),
    /// Fields by their number, in the order of the file.
    Struct(Vec<(i16, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// Returns a struct's field, the last one where a number occurs twice.
    pub(crate) fn field(&self, id: i16) -> Option<&Value<'a>> {
        match self {
            Value::Struct(fields) => fields.iter().rev().find(|(f, _)| *f == id).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns a field that is a number.
    pub(crate) fn int(&self, id: i16) -> Option<i64> {
        match self.field(id)? {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// Returns a field that is a number without a sign.
    pub(crate) fn count(&self, id: i16) -> Option<u64> {
        u64::try_from(self.int(id)?).ok()
    }

    /// Returns a field that is a boolean.
    pub(crate) fn bool(&self, id: i16) -> Option<bool> {
        match self.field(id)? {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns a field that is bytes or text.
    pub(crate) fn bytes(&self, id: i16) -> Option<&'a [u8]> {
        match self.field(id)? {
            Value::Bytes(b) => Some(b),
            _ => None,
        }
    }

    /// Returns a field that is a list.
    pub(crate) fn list(&self, id: i16) -> Option<&[Value<'a>]> {
        match self.field(id)? {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

/// Why a tree could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThriftError {
    /// The bytes end inside a value: more of them may help.
    End,
    /// No number of further bytes would help.
    Bad,
}

/// Reads the struct at the start of `bytes`, and says how many bytes it took.
pub(crate) fn read_struct(bytes: &[u8]) -> Result<(Value<'_>, usize), ThriftError> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.structure(0)?;
    Ok((value, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, ThriftError> {
        let byte = *self.bytes.get(self.at).ok_or(ThriftError::End)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8], ThriftError> {
        let rest = self.bytes.get(self.at..).ok_or(ThriftError::End)?;
        let n = usize::try_from(n).map_err(|_| ThriftError::Bad)?;
        let taken = rest.get(..n).ok_or(ThriftError::End)?;
        self.at += n;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ThriftError::Bad)
    }

    fn zigzag(&mut self) -> Result<i64, ThriftError> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    fn structure(&mut self, depth: u8) -> Result<Value<'a>, ThriftError> {
        if depth > MAX_DEPTH {
            return Err(ThriftError::Bad);
        }
        let mut fields = Vec::new();
        let mut last = 0i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Ok(Value::Struct(fields));
            }
            let delta = i16::from(head >> 4);
            let id = if delta != 0 {
                last.checked_add(delta).ok_or(ThriftError::Bad)?
            } else {
                i16::try_from(self.zigzag()?).map_err(|_| ThriftError::Bad)?
            };
            last = id;
            let value = match kind {
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                _ => self.value(kind, depth)?,
            };
            fields.push((id, value));
        }
    }

    /// Reads a value that is not a boolean field, whose value sits in the field's head.
    fn value(&mut self, kind: u8, depth: u8) -> Result<Value<'a>, ThriftError> {
        match kind {
            1 | 2 => Ok(Value::Bool(self.byte()? == 1)),
            3 => Ok(Value::Int(i64::from(self.byte()? as i8))),
            4..=6 => Ok(Value::Int(self.zigzag()?)),
            7 => self.take(8).map(|_| Value::Double),
            8 => {
                let n = self.varint()?;
                Ok(Value::Bytes(self.take(n)?))
            }
            9 | 10 => self.list(depth + 1),
            12 => self.structure(depth + 1),
            // 11 is a map and 13 a UUID; Parquet's metadata has neither.
            _ => Err(ThriftError::Bad),
        }
    }

    fn list(&mut self, depth: u8) -> Result<Value<'a>, ThriftError> {
        if depth > MAX_DEPTH {
            return Err(ThriftError::Bad);
        }
        let head = self.byte()?;
        let size = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        // An element takes a byte at least, so this also bounds the memory that the list takes.
        if size > (self.bytes.len() - self.at) as u64 {
            return Err(ThriftError::End);
        }
        let mut items = Vec::new();
        for _ in 0..size {
            items.push(self.value(head & 0x0f, depth)?);
        }
        Ok(Value::List(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_kind_are_read() {
        // Field 1: i32 5; field 2: true; field 3: "ab"; field 4: list of two i32, 1 and -1; end.
        let bytes = [0x15, 10, 0x11, 0x18, 2, b'a', b'b', 0x19, 0x25, 2, 1, 0, 99];
        let (value, used) = read_struct(&bytes).unwrap();
        assert_eq!(used, bytes.len() - 1);
        assert_eq!(value.int(1), Some(5));
        assert_eq!(value.bool(2), Some(true));
        assert_eq!(value.bytes(3), Some(&b"ab"[..]));
        assert_eq!(value.list(4), Some(&[Value::Int(1), Value::Int(-1)][..]));
        assert_eq!(value.count(9), None);
    }

    #[test]
    fn a_list_that_claims_more_than_there_is_takes_no_memory() {
        // Field 1: a list of 2^31 structs.
        let bytes = [0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
        assert_eq!(read_struct(&bytes), Err(ThriftError::End));
    }

    #[test]
    fn nesting_without_end_is_refused() {
        assert_eq!(read_struct(&[0x1c; 4096]), Err(ThriftError::Bad));
        assert_eq!(read_struct(&[0x19; 4096]), Err(ThriftError::Bad));
    }

    #[test]
    fn a_number_that_never_ends_is_refused() {
        assert_eq!(
            read_struct(&[0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(ThriftError::Bad)
        );
    }
}
