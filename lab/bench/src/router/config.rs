//! A file of parameters: lines `name = value`, or a JSON object of the same names.

use super::settings::RouterSettings;
use crate::error::BenchError;
use pageyard_replay::text::shown;
use serde_json::Value;
use std::path::Path;

/// Sets the parameters of a file: lines `name = value`, empty ones and comments after `#` left out; or one JSON object.
///
/// # Errors
/// [`BenchError::Settings`] where the file cannot be read, or names something that is not allowed; with the line.
pub fn read_config(settings: &mut RouterSettings, path: &Path) -> Result<(), BenchError> {
    let file = shown(&path.display().to_string());
    let wrong = |why: String| BenchError::Settings { why: format!("{file}: {why}") };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("it cannot be read: {e}")))?;
    set_all(settings, &text).map_err(wrong)
}

fn set_all(settings: &mut RouterSettings, text: &str) -> Result<(), String> {
    if text.trim_start().starts_with('{') {
        return set_json(settings, text);
    }
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| format!("line {number} is not of the form name = value: `{}`", shown(line)))?;
        let value = value.trim().trim_matches('"');
        settings.set(name.trim(), value).map_err(|why| format!("line {number}: {why}"))?;
    }
    Ok(())
}

fn set_json(settings: &mut RouterSettings, text: &str) -> Result<(), String> {
    let values: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|e| format!("it is not a JSON object of parameters: {e}"))?;
    for (name, value) in values {
        let value = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            other => {
                return Err(format!(
                    "`{}` is neither a number nor a text: {}",
                    shown(&name),
                    shown(&other.to_string())
                ));
            }
        };
        settings.set(&name, &value).map_err(|why| why.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_json_set_the_same() {
        let lines = "# the lab\nrx-ring = 256   # small\n\nmix = \"64:1,1500:1\"\npath = xdp\n";
        let json = r#"{ "rx-ring": 256, "mix": "64:1,1500:1", "path": "xdp" }"#;
        let mut both = [RouterSettings::default(), RouterSettings::default()];
        set_all(&mut both[0], lines).unwrap();
        set_all(&mut both[1], json).unwrap();
        assert_eq!(both[0], both[1]);
        assert_ne!(both[0], RouterSettings::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, parts) in [
            ("rx-ring = 256\nrx-ring", &["line 2", "name = value"][..]),
            ("\nrx-rung = 256", &["line 2", "no parameter `rx-rung`"]),
            ("rx-ring = 0", &["line 1", "a power of two"]),
            ("{ \"rx-ring\": [1] }", &["`rx-ring` is neither"]),
            ("{ \"rx-ring\": 3 }", &["a power of two"]),
            ("{ nothing }", &["not a JSON object"]),
        ] {
            let why = set_all(&mut RouterSettings::default(), text).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)) && why.lines().count() == 1, "{why}");
        }
        let why = read_config(&mut RouterSettings::default(), Path::new("/nowhere/at/all")).unwrap_err();
        assert!(why.to_string().contains("/nowhere/at/all: it cannot be read"), "{why}");
    }
}
