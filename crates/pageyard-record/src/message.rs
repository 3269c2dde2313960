//! A protobuf message under way.

use prost::encoding::{WireType, encode_key, encode_varint};

/// A message's fields so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Makes a message without fields.
    pub(crate) fn new() -> Message {
        Message::default()
    }

    /// Adds a number.
    pub(crate) fn number(mut self, field: u32, value: u64) -> Message {
        encode_key(field, WireType::Varint, &mut self.0);
        encode_varint(value, &mut self.0);
        self
    }

    /// Adds a number that may be negative: sign-extended, as protobuf has `int32` and `int64`.
    pub(crate) fn signed(self, field: u32, value: i64) -> Message {
        self.number(field, value as u64)
    }

    /// Adds a text, or bytes.
    pub(crate) fn bytes(mut self, field: u32, bytes: &[u8]) -> Message {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a message.
    pub(crate) fn message(self, field: u32, inner: &Message) -> Message {
        self.bytes(field, &inner.0)
    }

    /// Appends the fields of another.
    pub(crate) fn append(&mut self, other: &Message) {
        self.0.extend_from_slice(&other.0);
    }

    /// Returns how many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
