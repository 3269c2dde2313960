//! A knob as a user types it.

/// Reads `[ENGINE:]KNOB=VALUE`.
pub fn knob(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((knob, value)) if !knob.is_empty() => Ok((knob.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not of the form KNOB=VALUE")),
    }
}
