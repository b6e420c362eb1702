//! Values as keys want them: a trait for types, readers of what several sections have, and `section!`, which makes a
//! struct and its reader of one table of keys.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ::config::ValueKind;
use ipnet::IpNet;

use super::reader::{Field, FromField, Table, kind_name};
use super::secret::Secret;
use crate::types::Name;

/// An enum of words, made by `keywords!`.
pub trait Keyword: Copy + 'static {
    /// Each word with what it means.
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Keyword> FromField for T {
    fn read(field: &Field<'_>) -> Option<Self> {
        field.word(T::WORDS)
    }
}

impl FromField for String {
    fn read(field: &Field<'_>) -> Option<Self> {
        field.text()
    }
}

impl FromField for bool {
    fn read(field: &Field<'_>) -> Option<Self> {
        let flag = match &field.value.kind {
            ValueKind::Boolean(flag) => Some(*flag),
            _ => field.env_text().and_then(|text| text.parse().ok()),
        };
        match flag {
            Some(flag) => field.keep(flag.to_string()),
            None => field.problem_shown(
                format!("is {}, wanted true or false", kind_name(&field.value)),
                "write true or false, without quotes",
            ),
        }
        flag
    }
}

/// A number from 0 to 1, with or without a fraction.
impl FromField for f64 {
    fn read(field: &Field<'_>) -> Option<Self> {
        let ratio = match &field.value.kind {
            ValueKind::Float(ratio) => Some(*ratio),
            ValueKind::I64(0) | ValueKind::U64(0) => Some(0.0),
            ValueKind::I64(1) | ValueKind::U64(1) => Some(1.0),
            _ => field.env_text().and_then(|text| text.parse().ok()),
        };
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        match ratio {
            Some(ratio) => field.keep(format!("{ratio:?}")),
            None => field.problem_shown("is not a number from 0 to 1", "write a part of all, such as 0.01"),
        }
        ratio
    }
}

/// A path, relative to the folder of the file.
impl FromField for PathBuf {
    fn read(field: &Field<'_>) -> Option<Self> {
        Some(field.checker.folder.join(field.text()?))
    }
}

/// An address, or a range of them.
impl FromField for IpNet {
    fn read(field: &Field<'_>) -> Option<Self> {
        field.parsed(|text| {
            let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(Self::from));
            net.map_err(|_| ("is neither an address nor a range", "write it as 10.0.0.0/8 or 192.0.2.7"))
        })
    }
}

impl<T: FromField> FromField for Vec<T> {
    fn read(field: &Field<'_>) -> Option<Self> {
        Some(field.list()?.iter().filter_map(T::read).collect())
    }
}

impl<T: FromField> FromField for Option<T> {
    fn read(field: &Field<'_>) -> Option<Self> {
        Some(T::read(field))
    }
}

/// A struct whose fields are the keys of a table, with the method that reads it: each key once, with its type, and
/// behind `=` how it is read where the type alone does not say that. A reader may use the fields above its own. What is
/// not there is the type's default (`config.default.toml` has the real ones), and so is what is wrong, which is
/// recorded.
macro_rules! section {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty $(= $reader:expr)?,)*
    }) => {
        $(#[$about])*
        pub struct $name { $($(#[$doc])* $vis $field: $type,)* }

        impl $name {
            /// Takes its keys out of `table`.
            pub fn read(table: &mut $crate::config::Table<'_>) -> Self {
                $(let $field: $type = section!(@key table, stringify!($field) $(, $reader)?);)*
                Self { $($field,)* }
            }
        }
    };
    (@key $table:expr, $key:expr) => { $table.get($key).unwrap_or_default() };
    (@key $table:expr, $key:expr, $reader:expr) => { $reader($table, $key) };
}

/// An enum of which the configuration has the words; the first is the default.
macro_rules! keywords {
    ($(#[$about:meta])* pub enum $name:ident {
        $(#[$first_doc:meta])* $first:ident = $first_word:literal,
        $($(#[$doc:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub enum $name { $(#[$first_doc])* #[default] $first, $($(#[$doc])* $variant,)* }

        impl $crate::config::Keyword for $name {
            const WORDS: &'static [(&'static str, Self)] =
                &[($first_word, Self::$first), $(($word, Self::$variant),)*];
        }
    };
}

pub(super) use {keywords, section};

/// Reads a whole number within `range`.
pub(crate) fn number<N: TryFrom<u64> + Default>(
    range: RangeInclusive<u64>,
) -> impl FnOnce(&mut Table<'_>, &'static str) -> N {
    move |table, key| table.number(key, range).unwrap_or_default()
}

/// Reads a whole number within `range` that is `default` when the key is not there.
pub(super) fn number_or<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
    default: N,
) -> impl FnOnce(&mut Table<'_>, &'static str) -> N {
    move |table, key| table.number(key, range).unwrap_or(default)
}

/// Reads a whole number within `range`, when the key is there.
pub(super) fn number_if_set<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl FnOnce(&mut Table<'_>, &'static str) -> Option<N> {
    move |table, key| table.number(key, range)
}

/// Reads the value of a key that is called otherwise than the field.
pub(crate) fn of_key<T: FromField + Default>(
    key: &'static str,
) -> impl FnOnce(&mut Table<'_>, &'static str) -> T {
    move |table, _| table.get(key).unwrap_or_default()
}

/// Reads keys of the same table that have a struct of their own.
pub(crate) fn beside<T>(
    read: impl FnOnce(&mut Table<'_>) -> T,
) -> impl FnOnce(&mut Table<'_>, &'static str) -> T {
    move |table, _| read(table)
}

/// Reads nothing: the loader works out the value.
pub(super) fn by_loader<T: Default>() -> impl FnOnce(&mut Table<'_>, &'static str) -> T {
    |_, _| T::default()
}

/// The name of an entry of `[providers]` or `[destinations]`.
pub fn entry_name(name: &str, field: &Field<'_>) -> Option<Name> {
    Name::parse(name).map_err(|error| field.problem(error.to_string(), "rename the table")).ok()
}

/// The parts that a URL may have besides scheme, host, port and path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlRule {
    /// `server.public_url`: nothing; its trailing slash is dropped.
    Public,
    /// A call's URL: a query.
    Destination,
}

/// An `http://` or `https://` URL, as it was written.
pub fn http_url(field: &Field<'_>, text: &str, rule: UrlRule) -> Option<String> {
    let has_scheme = text.contains("://");
    let scheme_remedy = "begin it with https:// or http://";
    let Ok(url) = reqwest::Url::parse(text) else {
        let remedy = if has_scheme { "write https://HOST/PATH" } else { scheme_remedy };
        field.problem_shown("is not a URL", remedy);
        return None;
    };
    // Not shown: it holds a password.
    if !url.username().is_empty() || url.password().is_some() {
        field.problem("has a user or password in it", "use an `authorization` header instead");
        return None;
    }
    let wrong = if !has_scheme || !matches!(url.scheme(), "http" | "https") {
        Some(("has another scheme than http:// or https://", scheme_remedy))
    } else if url.host_str().is_none_or(str::is_empty) {
        Some(("has no host", "write https://HOST/PATH"))
    } else if url.fragment().is_some() || (rule == UrlRule::Public && url.query().is_some()) {
        Some(("has a query or fragment", "remove everything from `?` or `#` on"))
    } else if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        Some(("has spaces or control characters", "remove or percent-encode them"))
    } else {
        None
    };
    if let Some((why, remedy)) = wrong {
        field.problem_shown(why, remedy);
        return None;
    }
    if rule == UrlRule::Public {
        // It is public.
        field.checker.found().read.known_text(&field.key, &field.source, text);
        return Some(text.trim_end_matches('/').to_owned());
    }
    Some(text.to_owned())
}

/// The URL of a proxy; it may hold a password.
pub fn proxy(table: &mut Table<'_>, key: &'static str) -> Option<Secret> {
    let field = table.take(key)?;
    let secret = field.secret()?;
    let url = reqwest::Url::parse(secret.reveal());
    let is_proxy = url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_proxy {
        // Not shown: it may hold a password.
        field.problem("is not the URL of a proxy", "write http://[USER:PASSWORD@]HOST:PORT");
    }
    is_proxy.then_some(secret)
}

/// Names of hosts, without ports; in lower case.
pub(crate) fn hosts(table: &mut Table<'_>, key: &'static str) -> Vec<String> {
    let wrong = ("is not the name of a host", "write it as hooklatch.internal, without a port");
    in_lower_case(table, key, is_host, wrong)
}

/// Hosts and ranges that may be reached although they are private.
pub fn private_hosts(table: &mut Table<'_>, key: &'static str) -> Vec<String> {
    let is_net = |text: &str| text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok();
    let wrong = ("is neither", "write an address range such as 10.1.0.0/16, or the name of a host");
    in_lower_case(table, key, |text| is_net(text) || is_host(text), wrong)
}

fn in_lower_case(
    table: &mut Table<'_>,
    key: &'static str,
    is_fit: impl Fn(&str) -> bool,
    wrong: (&str, &str),
) -> Vec<String> {
    let parse = |text: &str| if is_fit(text) { Ok(text.to_ascii_lowercase()) } else { Err(wrong) };
    table.list(key).iter().filter_map(|field| field.parsed(parse)).collect()
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
