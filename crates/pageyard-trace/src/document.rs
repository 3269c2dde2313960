//! JSON documents, each of which names its schema.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A command's output as one JSON document.
///
/// The document's first key is `schema`, which holds [`Document::SCHEMA`]; the others are those that [`Serialize`]
/// writes. A key may be added under the same version; a key that goes away or changes its meaning makes a new one.
pub trait Document: Serialize {
    /// The name and the version of the schema: `pageyard.summary/2`.
    const SCHEMA: &'static str;

    /// Returns the document as a JSON value.
    ///
    /// # Panics
    /// When [`Serialize`] writes a map whose keys are not strings or numbers.
    fn json(&self) -> Value
    where
        Self: Sized,
    {
        serde_json::to_value(Versioned::of(self)).expect("the keys of a document are strings or numbers")
    }
}

/// The command that made a text, a page or a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Made {
    /// The command with its settings, those included that were not given: pasted into a shell, it does the same again.
    pub command: String,
    /// The version of Pageyard.
    pub version: &'static str,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Made by version {} of: {}", self.version, self.command)
    }
}

/// A document under the name of its schema.
#[derive(Serialize)]
pub struct Versioned<'a, T> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<&'a Made>,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: Document> Versioned<'a, T> {
    /// Names a document's schema.
    pub fn of(document: &'a T) -> Versioned<'a, T> {
        Versioned { schema: T::SCHEMA, made: None, document }
    }

    /// Says what made it.
    #[must_use]
    pub fn made(self, made: &'a Made) -> Versioned<'a, T> {
        Versioned { made: Some(made), ..self }
    }
}

/// Returns a document's schema, in the 2020-12 draft of JSON Schema.
///
/// Objects may have keys that the schema does not name. No value is null: what is not known is left out.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema<T: Document + schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    without_null(&mut schema);
    schema["title"] = T::SCHEMA.into();
    schema["properties"]["schema"] =
        serde_json::json!({ "description": "The name and the version of this schema.", "const": T::SCHEMA });
    if schema["properties"].get("made").is_none() {
        schema["properties"]["made"] = made_schema();
    }
    if !schema["required"].is_array() {
        schema["required"] = Value::Array(Vec::new());
    }
    schema["required"].as_array_mut().expect("it is one now").insert(0, "schema".into());
    schema
}

/// Describes what every document may have about its making. One that says more of it has its own.
#[cfg(feature = "schema")]
fn made_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<Made>().to_value();
    schema.as_object_mut().expect("a type with fields is an object").remove("title");
    schema
}

/// Takes the null out of what a schema allows. It stands there for every `Option`, whose key is left out instead.
#[cfg(feature = "schema")]
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(entries) => {
            if let Some(Value::Array(types)) = entries.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    entries.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(mut choices)) = entries.remove("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = &mut choices[..] {
                    entries.append(only);
                } else {
                    entries.insert("anyOf".to_owned(), choices.into());
                }
            }
            entries.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

/// Writes pairs as a map.
///
/// # Errors
/// Those of the serializer.
pub fn as_map<K: Serialize, V: Serialize, S: Serializer>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    struct Orders {
        #[serde(serialize_with = "as_map")]
        #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, f64>"))]
        by_order: Vec<(usize, f64)>,
        #[serde(skip_serializing_if = "Option::is_none")]
        largest: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        within: Option<Box<Orders>>,
    }

    impl Document for Orders {
        const SCHEMA: &'static str = "pageyard.orders/1";
    }

    #[test]
    fn a_document_begins_with_the_name_of_its_schema() {
        let orders = Orders { by_order: vec![(3, 0.5), (10, 1.0)], largest: None, within: None };
        let text = serde_json::to_string(&Versioned::of(&orders)).unwrap();
        assert_eq!(text, r#"{"schema":"pageyard.orders/1","by_order":{"3":0.5,"10":1.0}}"#);
        assert_eq!(orders.json(), serde_json::from_str::<Value>(&text).unwrap());
    }

    #[cfg(feature = "schema")]
    #[test]
    fn a_schema_asks_for_its_own_name() {
        let schema = schema::<Orders>();
        assert_eq!(schema["properties"]["schema"]["const"], "pageyard.orders/1");
        assert_eq!(schema["required"], serde_json::json!(["schema", "by_order"]));
        assert_eq!(schema["properties"]["largest"]["type"], "integer");
        assert!(schema["properties"]["within"]["$ref"].is_string() && !schema.to_string().contains("null"));
    }
}
