//! Undoing compression, within bounds.

use std::io::Read;

use flate2::bufread::ZlibDecoder;

/// The largest window that compressed bytes may look back into: 16 MiB; recorders take 8 at most unless asked.
const WINDOW_LOG: u32 = 24;

/// How the parts of a file are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Zlib,
    Zstd,
}

impl Compression {
    /// Finds a kind of compression by its name.
    pub(super) fn find(name: &[u8]) -> Option<Compression> {
        match name {
            b"none" => Some(Compression::None),
            b"zlib" => Some(Compression::Zlib),
            b"zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Returns the bytes that `packed` stands for; `None` where it is damaged, or stands for more than `most`.
    pub(super) fn unpack(self, packed: &[u8], most: usize) -> Option<Vec<u8>> {
        match self {
            Compression::None => (packed.len() <= most).then(|| packed.to_vec()),
            Compression::Zlib => read(ZlibDecoder::new(packed), most),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
                decoder.window_log_max(WINDOW_LOG).ok()?;
                read(decoder, most)
            }
        }
    }
}

/// Reads to the end: memory is taken as the bytes come, not as a file claims.
fn read(from: impl Read, most: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= most).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_compressed_comes_back_unless_it_is_too_much() {
        let text = b"page ".repeat(1000);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(&text).unwrap();
        let zstd = zstd::stream::encode_all(&text[..], 1).unwrap();
        for (name, packed) in [("zlib", zlib.finish().unwrap()), ("zstd", zstd), ("none", text.clone())] {
            let compression = Compression::find(name.as_bytes()).unwrap();
            assert_eq!(compression.unpack(&packed, 5000).as_ref(), Some(&text), "{name}");
            assert_eq!(compression.unpack(&packed, 4999), None, "{name}");
            if name != "none" {
                assert_eq!(compression.unpack(&packed[..packed.len() / 2], 5000), None, "{name}");
                assert_eq!(compression.unpack(b"nothing of that kind", 5000), None, "{name}");
            }
        }
        assert_eq!(Compression::find(b"lzo"), None);
    }
}
