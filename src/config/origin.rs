//! The origin of a value: the file or variable that it was written in.

use std::collections::BTreeMap;

use ::config::{FileFormat, Format, Value, ValueKind};

/// Beginning of every variable that overrides a key.
pub(crate) const ENV_PREFIX: &str = "HOOKLATCH__";

/// One value of TOML, as written in an environment variable.
pub(crate) fn toml_value(origin: &str, text: &str) -> Option<Value> {
    let document = format!("value = {text}\n");
    let mut map = FileFormat::Toml.parse(Some(&origin.to_owned()), &document).ok()?;
    let value = map.remove("value")?;
    map.is_empty().then_some(value)
}

/// The file or variable that `value` was written in: its own origin, or that of the first key inside it.
pub(crate) fn origin_of(value: &Value) -> Option<String> {
    if let Some(origin) = value.origin() {
        return Some(origin.to_owned());
    }
    match &value.kind {
        ValueKind::Table(table) => {
            let keys: BTreeMap<&String, &Value> = table.iter().collect();
            keys.into_values().find_map(origin_of)
        }
        ValueKind::Array(list) => list.iter().find_map(origin_of),
        _ => None,
    }
}
