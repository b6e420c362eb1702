//! All mistakes in the text of a `provider.toml`, each with its line and key.
//!
//! First the form (TOML, keys, types), and once that is valid, the contradictions between its parts: a misspelt
//! key would otherwise be reported a second time as whatever its absence breaks.
//!
//! A type that serde derives passes what does not fit to the error type of the deserializer: which key is unknown and
//! which are known, what is there and what was expected. The crate `toml` makes one English sentence of that. So the
//! tree that `toml` parses is handed to serde by a deserializer of our own, [`TomlNode`], whose error, [`FormError`],
//! keeps the parts.

use std::fmt::Display;
use std::ops::Range;

use serde::de::value::{MapAccessDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::misfits::{NEEDS_CODE, REMEDY};
use super::provider_toml::Spec;
use hooklatch_core::mistakes::{Flaw, Mistake, nearest, one_of};

/// The reason why a text does not have the form of the type that it is read as, and its place in the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum FormError {
    /// A key that must be there is not; the place is its table.
    #[error("missing field `{key}`")]
    Absent { key: &'static str, span: Option<Range<usize>> },
    /// A key or value that is there does not fit.
    #[error("{flaw}")]
    Flawed { flaw: Flaw, span: Option<Range<usize>> },
}

impl FormError {
    /// The bytes of the text that do not fit.
    fn span(&self) -> Option<Range<usize>> {
        let (Self::Absent { span, .. } | Self::Flawed { span, .. }) = self;
        span.clone()
    }

    /// Adds `place`, unless something in it was named already.
    fn at(mut self, place: &Range<usize>) -> Self {
        let (Self::Absent { span, .. } | Self::Flawed { span, .. }) = &mut self;
        span.get_or_insert_with(|| place.clone());
        self
    }

    fn flawed(flaw: Flaw) -> Self {
        Self::Flawed { flaw, span: None }
    }

    fn wrong(found: String, expected: String) -> Self {
        Self::flawed(Flaw::WrongValue { found, expected })
    }
}

/// The error texts of serde's derived code, and of hand-written visitors, about a value.
impl Error for FormError {
    fn custom<T: Display>(why: T) -> Self {
        Self::flawed(Flaw::Said(why.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::wrong(format!("invalid type: {found}"), expected.to_string())
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::wrong(format!("invalid value: {found}"), expected.to_string())
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::wrong(format!("invalid length {length}"), expected.to_string())
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Self::wrong(format!("unknown variant `{found}`"), one_of(known))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::flawed(Flaw::UnknownKey { name: name.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Absent { key, span: None }
    }
}

/// Reads a text whose syntax is right.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, FormError> {
    let root = DeTable::parse(text)
        .map_err(|error| FormError::Flawed { flaw: syntax(&error), span: error.span() })?;
    T::deserialize(TomlNode { span: root.span(), value: DeValue::Table(root.into_inner()) })
}

/// The words of the crate `toml` about a text that is no TOML. It has one sentence for that, and this is the only place
/// that takes one apart; a sentence of another form is shown as it is.
fn syntax(error: &toml::de::Error) -> Flaw {
    let why = error.message().trim().replace('\n', ", ");
    match why.split_once(", expected ") {
        Some((found, expected)) => {
            Flaw::WrongValue { found: found.to_owned(), expected: expected.to_owned() }
        }
        None => Flaw::Said(why),
    }
}

/// One value of the parsed text, with its place.
struct TomlNode<'de> {
    span: Range<usize>,
    value: DeValue<'de>,
}

impl<'de> From<Spanned<DeValue<'de>>> for TomlNode<'de> {
    fn from(value: Spanned<DeValue<'de>>) -> Self {
        Self { span: value.span(), value: value.into_inner() }
    }
}

impl<'de> Deserializer<'de> for TomlNode<'de> {
    type Error = FormError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        let read = match self.value {
            DeValue::String(text) => text.into_deserializer().deserialize_any(visitor),
            DeValue::Integer(number) => {
                match i128::from_str_radix(number.as_str(), number.radix()).map(i64::try_from) {
                    Ok(Ok(number)) => visitor.visit_i64(number),
                    _ => Err(FormError::custom("integer number overflowed")),
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(FormError::custom("floating-point number overflowed")),
            },
            DeValue::Boolean(flag) => visitor.visit_bool(flag),
            // No key of ours is a date.
            DeValue::Datetime(_) => Err(FormError::invalid_type(Unexpected::Map, &visitor)),
            DeValue::Array(list) => {
                visitor.visit_seq(SeqDeserializer::new(list.into_iter().map(TomlNode::from)))
            }
            DeValue::Table(table) => visitor.visit_map(TableEntries::of(table)),
        };
        read.map_err(|unfit| unfit.at(&self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FormError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FormError> {
        let read = match self.value {
            DeValue::String(text) => visitor.visit_enum(text.into_deserializer()),
            DeValue::Table(table) if table.is_empty() => {
                Err(FormError::custom("wanted exactly 1 element, found 0 elements"))
            }
            DeValue::Table(table) if table.len() > 1 => {
                Err(FormError::custom("wanted exactly 1 element, more than 1 element"))
            }
            DeValue::Table(table) => visitor.visit_enum(MapAccessDeserializer::new(TableEntries::of(table))),
            _ => Err(FormError::custom("wanted string or table")),
        };
        read.map_err(|unfit| unfit.at(&self.span))
    }

    serde::forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map unit struct
        ignored_any unit_struct tuple_struct tuple identifier
    }
}

impl<'de> IntoDeserializer<'de, FormError> for TomlNode<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The entries of one table, in the order of the text.
struct TableEntries<'de> {
    left: <DeTable<'de> as IntoIterator>::IntoIter,
    /// The value of the key that was read last.
    value: Option<TomlNode<'de>>,
}

impl<'de> TableEntries<'de> {
    fn of(table: DeTable<'de>) -> Self {
        Self { left: table.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for TableEntries<'de> {
    type Error = FormError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FormError> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(TomlNode::from(value));
        let span = key.span();
        let name: DeString<'de> = key.into_inner();
        seed.deserialize(name.into_deserializer()).map(Some).map_err(|unfit: FormError| unfit.at(&span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FormError> {
        match self.value.take() {
            Some(value) => {
                let span = value.span.clone();
                // A type that is made of a text refuses it after the text was read.
                seed.deserialize(value).map_err(|unfit| unfit.at(&span))
            }
            None => Err(FormError::custom("a value was asked for before its key")),
        }
    }
}

/// Most mistakes of form that are looked for; after each the text is read again without that line, as long as
/// nothing is left out that must be there.
const FORM_MISTAKES_N_MAX: usize = 50;

/// Keys that must be there: a table, and its keys.
const NEEDED: [(&str, &str); 5] = [
    ("", "kind title confidence docs secret_hint horizon_h answer_within_ms signature event"),
    ("signature", "scheme"),
    ("event", "identity type"),
    ("setting", "name hint"),
    ("answer", "body content_type"),
];

/// Remedy for a key that is not there.
const WRITE_IT: &str = "write it; providers/README.md says what it means";

/// The reason why a `provider.toml` is not a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider.toml of `{kind}`: {why}")]
pub struct SpecError {
    /// The kind, or `?` when the file does not say.
    pub kind: String,
    /// Everything that is wrong, each with its key.
    pub why: String,
}

impl Spec {
    /// Reads the text of a `provider.toml` and checks that its parts fit each other.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::parse_all(text).map_err(|mistakes| {
            let table: toml::Table = text.parse().unwrap_or_default();
            let kind = table.get("kind").and_then(toml::Value::as_str).unwrap_or("?").to_owned();
            let why: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            SpecError { kind, why: why.join("; ") }
        })
    }

    /// Reads as [`Spec::parse`] does, with every mistake by itself.
    pub fn parse_all(text: &str) -> Result<Self, Vec<Mistake>> {
        let (_, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            return Err(syntax.iter().map(|error| placed(text, error.span(), self::syntax(error))).collect());
        }
        let mut mistakes = missing(&text.parse().unwrap_or_default());
        let mut left = text.to_owned();
        for _ in 0..FORM_MISTAKES_N_MAX {
            let unfit = match read::<Self>(&left) {
                Ok(spec) if mistakes.is_empty() => return spec.checked(text),
                Ok(_) => break,
                Err(unfit) => unfit,
            };
            let (without, flaw) = match unfit {
                FormError::Absent { .. } if !mistakes.is_empty() => break,
                FormError::Absent { key, .. } => (None, Flaw::Said(format!("missing field `{key}`"))),
                FormError::Flawed { ref flaw, ref span } => {
                    (span.as_ref().and_then(|span| blanked(&left, span)), flaw.clone())
                }
            };
            mistakes.push(placed(text, unfit.span(), flaw));
            let Some(without) = without else { break };
            left = without;
        }
        mistakes.dedup();
        Err(mistakes)
    }

    fn checked(mut self, text: &str) -> Result<Self, Vec<Mistake>> {
        let is_needed = self.needs_signed_text();
        for signature in std::iter::once(&mut self.signature).chain(&mut self.alternative) {
            signature.is_signed_text_needed = is_needed;
        }
        let placed = |mistake: Mistake| Mistake { line: line_of(text, &mistake.key), ..mistake };
        let mistakes: Vec<Mistake> = self.misfits().into_iter().map(placed).collect();
        if mistakes.is_empty() { Ok(self) } else { Err(mistakes) }
    }
}

/// The line of `key`, a dotted path, where it is there once.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut table = "";
    let mut found = None;
    for (n, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            table = line.trim_matches('[').split(']').next().unwrap_or_default();
            continue;
        }
        let Some((name, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let below = key.strip_prefix(table).map(|rest| rest.trim_start_matches('.'));
        if below == Some(name.trim()) && found.replace(n + 1).is_some() {
            return None;
        }
    }
    found
}

/// Keys that must be there and are not.
fn missing(root: &toml::Table) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, keys) in NEEDED {
        let tables: Vec<&toml::Table> = match root.get(name) {
            _ if name.is_empty() => vec![root],
            Some(toml::Value::Table(table)) => vec![table],
            Some(toml::Value::Array(list)) => list.iter().filter_map(toml::Value::as_table).collect(),
            _ => Vec::new(),
        };
        for table in tables {
            for key in keys.split(' ').filter(|key| !table.contains_key(*key)) {
                let key = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
                mistakes.push(Mistake { line: None, key, flaw: Flaw::Missing, remedy: WRITE_IT.to_owned() });
            }
        }
    }
    mistakes
}

/// A flaw of form, with the line and the key that stand at `span`, and what to do about it.
fn placed(text: &str, span: Option<Range<usize>>, flaw: Flaw) -> Mistake {
    let mut remedy = remedy(&flaw);
    let Some(at) = span else { return Mistake { line: None, key: String::new(), flaw, remedy } };
    let before = text.get(..at.start).unwrap_or(text);
    let header = before.lines().rev().find_map(|line| Some(line.trim().strip_prefix('[')?.trim_matches('[')));
    let table = header.and_then(|header| header.split(']').next()).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    if key == "scheme" && matches!(flaw, Flaw::WrongValue { .. }) {
        remedy.push_str("; where the sender signs in none of these ways, ");
        remedy.push_str(NEEDS_CODE);
    }
    let dot = if table.is_empty() || key.is_empty() { "" } else { "." };
    Mistake { line: Some(before.matches('\n').count() + 1), key: format!("{table}{dot}{key}"), flaw, remedy }
}

/// Remedy for a flaw of form.
fn remedy(flaw: &Flaw) -> String {
    match flaw {
        Flaw::Missing => WRITE_IT.to_owned(),
        Flaw::UnknownKey { name, known } => match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        },
        Flaw::WrongValue { expected, .. } => format!("write {}", in_words(expected)),
        Flaw::Said(_) => REMEDY.to_owned(),
    }
}

/// The expected values, in TOML's terms instead of Rust's.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i64" => "a whole number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table",
        other => other,
    }
}

/// `text` without the lines that `at` touches, everything else where it was; `None` when nothing is left out.
fn blanked(text: &str, at: &Range<usize>) -> Option<String> {
    let start = text.get(..at.start)?.rfind('\n').map_or(0, |newline| newline + 1);
    let end = text.get(at.end..)?.find('\n').map_or(text.len(), |newline| at.end + newline);
    let lines = text.get(start..end)?;
    if lines.trim().is_empty() {
        return None;
    }
    let blank: String = lines
        .chars()
        .flat_map(|c| std::iter::repeat_n(if c == '\n' { c } else { ' ' }, c.len_utf8()))
        .collect();
    Some([text.get(..start)?, &blank, text.get(end..)?].concat())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "lowercase")]
    enum Word {
        Low,
        High(u8),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        n: u16,
        word: Option<Word>,
        #[serde(default)]
        list: Vec<String>,
        even: Option<Even>,
    }

    /// A value that is made of another.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "u8")]
    struct Even(u8);

    impl TryFrom<u8> for Even {
        type Error = &'static str;

        fn try_from(number: u8) -> Result<Self, Self::Error> {
            if number.is_multiple_of(2) { Ok(Self(number)) } else { Err("it is odd, expected otherwise") }
        }
    }

    #[test]
    fn a_valid_form_is_read_and_a_mismatch_is_reported_in_parts_with_its_place() {
        #[track_caller]
        fn check(text: &str, place: &str, flaw: Flaw) {
            let unfit = read::<Table>(text).expect_err(text);
            let FormError::Flawed { flaw: got, span: Some(span) } = unfit else { panic!("{unfit:?}") };
            assert_eq!((text.get(span), got), (Some(place), flaw));
        }
        let table = |word| Ok(Table { n: 2, word, list: vec!["a".to_owned()], even: Some(Even(4)) });
        assert_eq!(read("n = 0x2\nlist = [\"a\"]\nword = \"low\"\neven = 4"), table(Some(Word::Low)));
        assert_eq!(read("n = 2\nlist = [\"a\"]\neven = 4\nword = { high = 7 }"), table(Some(Word::High(7))));
        assert_eq!(read("n = 2\nlist = [\"a\"]\neven = 4"), table(None));
        let wrong = |found: &str, expected: &str| Flaw::WrongValue {
            found: found.to_owned(),
            expected: expected.to_owned(),
        };
        let unknown = |name: &str, known| Flaw::UnknownKey { name: name.to_owned(), known };
        check("n = 2\nm = 1", "m", unknown("m", &["n", "word", "list", "even"]));
        check("n = \"2\"", "\"2\"", wrong("invalid type: string \"2\"", "u16"));
        check("n = 2\neven = 3", "3", Flaw::Said("it is odd, expected otherwise".to_owned()));
        check("n = -2", "-2", wrong("invalid value: integer `-2`", "u16"));
        check("n = 1979-05-27", "1979-05-27", wrong("invalid type: map", "u16"));
        check("n = 2\nlist = [\"a\", true]", "true", wrong("invalid type: boolean `true`", "a string"));
        check("n = 2\nword = \"mid\"", "\"mid\"", wrong("unknown variant `mid`", "`low` or `high`"));
        check("n = 2\nword = { mid = 1 }", "mid", wrong("unknown variant `mid`", "`low` or `high`"));
        check("n = 2\nword = {}", "{}", Flaw::Said("wanted exactly 1 element, found 0 elements".to_owned()));
        assert!(matches!(read::<Table>("list = []"), Err(FormError::Absent { key: "n", .. })));
    }

    #[test]
    fn the_sentence_of_a_text_that_is_no_toml_is_what_it_was() {
        let (_, errors) = DeTable::parse_recoverable("kind = \"acme\n");
        let flaw = syntax(errors.first().expect("an error"));
        let Flaw::WrongValue { found, expected } = flaw else { panic!("{flaw:?}") };
        assert_eq!((found.as_str(), expected.as_str()), ("invalid basic string", "`\"`"));
    }
}
