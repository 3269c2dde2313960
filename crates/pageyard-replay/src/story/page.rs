//! A story in a page: the viewer's asset with the story put in at its marker.

use super::chunk::base64;
use super::document::StoryDocument;
use std::io::{self, Write};

/// The line of the asset that the story replaces.
pub const MARKER: &str = "<!--pageyard:story-->";

/// Writes the asset with a story in place of its marker.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidData`] where the asset does not have the marker exactly once.
pub fn write_page(
    asset: &str,
    story: &StoryDocument,
    chunks: &[Vec<u8>],
    out: &mut impl Write,
) -> io::Result<()> {
    match asset.split_once(MARKER) {
        Some((before, after)) if !after.contains(MARKER) => {
            out.write_all(before.as_bytes())?;
            write_block(story, chunks, out)?;
            out.write_all(after.as_bytes())
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the viewer's page has no place for a story")),
    }
}

/// Writes what replaces the marker: the story's JSON and its chunks, an element each.
///
/// # Errors
/// Those of `out`.
pub fn write_block(story: &StoryDocument, chunks: &[Vec<u8>], out: &mut impl Write) -> io::Result<()> {
    let json = serde_json::to_string(story)?;
    writeln!(out, "<script type=\"application/json\" id=\"pageyard-story\">{}</script>", in_script(&json))?;
    for (id, packed) in chunks.iter().enumerate() {
        write!(out, "<script type=\"text/plain\" id=\"pageyard-chunk-{id}\">")?;
        base64(packed, out)?;
        writeln!(out, "</script>")?;
    }
    Ok(())
}

/// Escapes JSON so that no text in it can end the element that it stands in, or begin another. Such characters occur
/// within strings alone.
fn in_script(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", c as u32)),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_stands_in_a_script_cannot_end_it() {
        let name = "</script><img src=x onerror=alert(1)>\u{2028}&amp;\u{2029}<!--";
        let json = serde_json::to_string(&[name]).unwrap();
        let text = in_script(&json);
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()[0], name);
    }
}
