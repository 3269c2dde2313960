//! The fields of a protobuf message, one after the other.

use prost::encoding::{WireType, decode_key, decode_varint};

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the number, if it is one.
    pub(super) fn number(self) -> Option<u64> {
        if let Value::Number(n) = self { Some(n) } else { None }
    }

    /// Returns the bytes of a text or of a message, if it is one.
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// A message, and how much of it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    /// Returns how many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next field: its number and its value.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = decode_key(&mut self.rest).map_err(|_| Malformed)?;
        let value = match wire {
            WireType::Varint => Value::Number(decode_varint(&mut self.rest).map_err(|_| Malformed)?),
            WireType::SixtyFourBit => {
                Value::Number(u64::from_le_bytes(*self.take(8)?.first_chunk().ok_or(Malformed)?))
            }
            WireType::ThirtyTwoBit => {
                Value::Number(u32::from_le_bytes(*self.take(4)?.first_chunk().ok_or(Malformed)?).into())
            }
            WireType::LengthDelimited => {
                let len = decode_varint(&mut self.rest).map_err(|_| Malformed)?;
                Value::Bytes(self.take(len)?)
            }
            // Nothing of Perfetto's has groups.
            WireType::StartGroup | WireType::EndGroup => return Err(Malformed),
        };
        Ok(Some((number, value)))
    }

    fn take(&mut self, bytes: u64) -> Result<&'a [u8], Malformed> {
        let bytes = usize::try_from(bytes).ok().filter(|&n| n <= self.rest.len()).ok_or(Malformed)?;
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_field_is_read() {
        let message = [
            &[0x08, 0x96, 0x01][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x1a, 2, b'h', b'i'],
            &[0x25, 7, 0, 0, 0],
        ];
        let message = message.concat();
        let mut fields = Fields::new(&message);
        assert_eq!(fields.next(), Ok(Some((1, Value::Number(150)))));
        assert_eq!(fields.next(), Ok(Some((2, Value::Number(1)))));
        assert_eq!(fields.next(), Ok(Some((3, Value::Bytes(b"hi")))));
        assert_eq!(fields.next(), Ok(Some((4, Value::Number(7)))));
        assert_eq!(fields.next(), Ok(None));
    }

    #[test]
    fn what_is_cut_short_or_of_no_kind_is_malformed() {
        for message in
            [&[0x08][..], &[0x08, 0xff], &[0x1a, 5, 1], &[0x11, 1], &[0x0b], &[0x0f, 0], &[0x00, 0]]
        {
            assert_eq!(Fields::new(message).next(), Err(Malformed), "{message:?}");
        }
        let long = [0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Fields::new(&long).next(), Err(Malformed));
    }
}
