//! Layers: the defaults, the `serve --dev` layer, the file and the environment, merged by crate `config`.
//!
//! Every value keeps its origin (file or variable), so that a problem can name it. Values from the
//! environment stay text here; [`super::field`] reads them as what the key wants.

use std::collections::BTreeMap;

use ::config::{FileFormat, Format, Map, Source, Value, ValueKind};

use crate::config::{ConfigProblem, ENV_PREFIX};

/// One layer of keys and values, parsed.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer(Map<String, Value>);

impl Layer {
    /// A layer of these keys.
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ::config::ConfigError> {
        Ok(self.0.clone())
    }

    /// Key by key: the crate's own way would read `"a.b"` as a path and not as a name with a dot.
    fn collect_to(&self, cache: &mut Value) -> Result<(), ::config::ConfigError> {
        merge(cache, Value::new(None, self.0.clone()));
        Ok(())
    }
}

/// Lays `over` on `under`: tables key by key, everything else replaced.
fn merge(under: &mut Value, over: Value) {
    let origin = over.origin().map(str::to_owned);
    match (&mut under.kind, over.kind) {
        (ValueKind::Table(below), ValueKind::Table(above)) => {
            for (key, value) in above {
                merge(below.entry(key).or_insert_with(|| Value::new(None, ValueKind::Nil)), value);
            }
        }
        (_, kind) => *under = Value::new(origin.as_ref(), kind),
    }
}

/// The layers, lowest first, as one table.
pub(super) fn merged(layers: Vec<Layer>) -> Result<Map<String, Value>, ::config::ConfigError> {
    let mut builder = ::config::Config::builder();
    for layer in layers {
        builder = builder.add_source(layer);
    }
    builder.build()?.collect()
}

/// A TOML text as a layer; or every mistake of its syntax, with lines.
pub(super) fn toml_layer(origin: &str, text: &str) -> Result<Layer, Vec<ConfigProblem>> {
    let (_, mistakes) = toml::de::DeTable::parse_recoverable(text);
    if !mistakes.is_empty() {
        return Err(mistakes.iter().map(|mistake| syntax_problem(origin, text, mistake)).collect());
    }
    match FileFormat::Toml.parse(Some(&origin.to_owned()), text) {
        Ok(map) => Ok(Layer(map)),
        Err(error) => Err(vec![ConfigProblem {
            source: origin.to_owned(),
            key: String::new(),
            value: None,
            why: format!("is not TOML: {error}"),
            remedy: "correct the file".to_owned(),
        }]),
    }
}

/// The parser's own text would quote the line, which may hold a secret; its message alone does not.
fn syntax_problem(origin: &str, text: &str, mistake: &toml::de::Error) -> ConfigProblem {
    let place = mistake.span().map_or_else(String::new, |span| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: ")
    });
    let is_duplicate = mistake.message().starts_with("duplicate key");
    let remedy = if is_duplicate {
        "keep one of the two: a table or key may appear once"
    } else {
        "correct that line; the other keys were not looked at"
    };
    ConfigProblem {
        source: origin.to_owned(),
        key: String::new(),
        value: None,
        why: format!("{place}{}", mistake.message().replace('\n', ", ")),
        remedy: remedy.to_owned(),
    }
}

/// Variables that begin with [`ENV_PREFIX`] as a layer: `A__B` is the key `b` of the table `a`.
pub(super) fn env_layer(variables: &BTreeMap<String, String>) -> Result<Layer, Vec<ConfigProblem>> {
    let mut root = Map::new();
    let mut problems = Vec::new();
    for (name, text) in variables {
        let Some(path) = name.strip_prefix(ENV_PREFIX) else { continue };
        let path = path.to_ascii_lowercase();
        let parts: Vec<&str> = path.split("__").collect();
        if !insert(&mut root, &parts, Value::new(Some(name), text.as_str())) {
            problems.push(ConfigProblem {
                source: name.clone(),
                key: parts.join("."),
                value: None,
                why: "is set more than once, or both as a value and as a table".to_owned(),
                remedy: "unset one of the variables".to_owned(),
            });
        }
    }
    if problems.is_empty() { Ok(Layer(root)) } else { Err(problems) }
}

fn insert(table: &mut Map<String, Value>, parts: &[&str], value: Value) -> bool {
    match parts {
        [] => false,
        [last] => {
            let is_free = !table.contains_key(*last);
            if is_free {
                table.insert((*last).to_owned(), value);
            }
            is_free
        }
        [first, rest @ ..] => {
            let below = table
                .entry((*first).to_owned())
                .or_insert_with(|| Value::new(None, Map::<String, Value>::new()));
            match &mut below.kind {
                ValueKind::Table(below) => insert(below, rest, value),
                _ => false,
            }
        }
    }
}
