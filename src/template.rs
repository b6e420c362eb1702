//! Templates of destinations, in one language: a message's method, URL and body are made of its event by them, and so
//! is the address of a question and what an HMAC covers.
//!
//! The language is Jinja's (crate `minijinja`). Every value that is put in is escaped for its place, so that it
//! stays a value; a value that is missing is an error and never an empty text. Rendering is bounded in steps and
//! in bytes.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but RFC 3986's unreserved characters.
pub(crate) const URL_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Most steps of one rendering: far above what a page of template needs.
const STEPS_N_MAX: u64 = 100_000;
/// Longest result of one rendering. Bytes.
const BYTES_MAX: usize = 1024 * 1024;
/// The one template of an environment.
const NAME: &str = "template";

/// The way in which a value is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Percent-encoded, all but RFC 3986's unreserved characters: for URLs and forms.
    Url,
    /// Written as JSON, texts with their quotes; the whole result must be JSON.
    Json,
    /// Escapes for XML and HTML.
    Xml,
    /// Nothing is changed: the value as text.
    Nothing,
}

impl Escape {
    /// The way that fits a body of this content type.
    pub(crate) fn of_content_type(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/x-www-form-urlencoded" => Self::Url,
            json if json == "application/json" || json.ends_with("+json") => Self::Json,
            xml if xml.ends_with("/xml") || xml.ends_with("+xml") || xml == "text/html" => Self::Xml,
            _ => Self::Nothing,
        }
    }
}

/// A template that was read without mistakes.
pub(crate) struct Template {
    environment: Environment<'static>,
    escape: Escape,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Template({:?})", self.escape)
    }
}

/// True when a text has anything to fill in.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// True when the host of an address is left to a template: then the one who writes the event may choose it.
pub(crate) fn has_host_template(url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    is_template(url) && after_scheme.split(['/', '?', '#']).next().unwrap_or_default().contains('{')
}

/// A template with `x` in place of each `{{ … }}`, and nothing in place of each `{% … %}`: what can be looked at
/// before there is an event.
pub(crate) fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('{') {
        plain.push_str(before);
        let (end, stand_in) = match tag.chars().next() {
            Some('{') => ("}}", "x"),
            Some('%') => ("%}", ""),
            _ => ("", "{"),
        };
        plain.push_str(stand_in);
        rest = if end.is_empty() { tag } else { tag.split_once(end).map_or("", |(_, after)| after) };
    }
    plain + rest
}

/// The first `{name}` with single braces that is left beside tags, and how it is written as Jinja: templates of other
/// programs are written so, and here it would be sent as it stands.
pub(crate) fn single_braces(text: &str) -> Option<(String, String)> {
    let plain = without_tags(text);
    let names = plain.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_.".contains(&byte))
    };
    let name = names.into_iter().find(is_name)?;
    let value = match name {
        "event_id" => "event.id",
        "message_id" => "message.id",
        name => name,
    };
    Some((format!("{{{name}}}"), format!("{{{{ {value} }}}}")))
}

/// True when an address has a segment that URL parsers take for "here" or "one up".
pub(crate) fn climbs(url: &str) -> bool {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.split('/').skip(1).any(|segment| matches!(segment, "." | ".."))
}

impl Template {
    /// Reads a template; the error says where its mistake is.
    pub(crate) fn parse(text: &str, escape: Escape) -> Result<Self, String> {
        Self::read(text, escape, false)
    }

    /// The same for a piece of a text of which every byte counts: a line break at its end stays, too.
    pub(crate) fn parse_to_the_letter(text: &str, escape: Escape) -> Result<Self, String> {
        Self::read(text, escape, true)
    }

    fn read(text: &str, escape: Escape, is_to_the_letter: bool) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().keep_trailing_newline(is_to_the_letter).build();
        environment.set_syntax(syntax.map_err(|error| words(&error))?);
        environment.set_fuel(Some(STEPS_N_MAX));
        environment.set_auto_escape_callback(move |_| match escape {
            Escape::Json => AutoEscape::Json,
            Escape::Xml => AutoEscape::Html,
            Escape::Url | Escape::Nothing => AutoEscape::None,
        });
        if escape == Escape::Url {
            environment.set_formatter(|out, _, value| {
                if value.is_undefined() {
                    return Err(Error::from(ErrorKind::UndefinedError));
                }
                let text = if value.is_none() { String::new() } else { value.to_string() };
                write!(out, "{}", utf8_percent_encode(&text, URL_ESCAPED)).map_err(Error::from)
            });
        }
        environment.add_template_owned(NAME, text.to_owned()).map_err(|error| words(&error))?;
        // Names of filters and functions are looked up when they are reached: reach them now, with nothing.
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        let tried = environment.get_template(NAME).and_then(|template| template.render(Value::UNDEFINED));
        let is_unknown = |error: &Error| {
            use ErrorKind::{UnknownFilter, UnknownFunction, UnknownTest};
            matches!(error.kind(), UnknownFilter | UnknownFunction | UnknownTest)
        };
        if let Some(error) = tried.err().filter(is_unknown) {
            return Err(words(&error));
        }
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        Ok(Self { environment, escape })
    }

    /// Fills the template in. An error is in words without values.
    pub(crate) fn render(&self, values: &serde_json::Value) -> Result<String, String> {
        let template = self.environment.get_template(NAME).map_err(|error| words(&error))?;
        let text = template.render(Value::from(Serde(values))).map_err(|error| match error.kind() {
            ErrorKind::UndefinedError => match self.missing(values).as_slice() {
                [] => words(&error),
                names => format!("{}: there is no `{}`", words(&error), names.join("`, `")),
            },
            _ => words(&error),
        })?;
        if text.len() > BYTES_MAX {
            return Err(format!("the result is longer than {BYTES_MAX} bytes"));
        }
        if self.escape == Escape::Json && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            return Err(
                "the result is not JSON; write texts without quotes: {\"id\": {{ payload.id }}}".to_owned()
            );
        }
        Ok(text)
    }
}

impl Template {
    /// True when the template reads this variable, or something in it.
    pub(crate) fn reads(&self, name: &str) -> bool {
        let template = self.environment.get_template(NAME);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(name))
    }

    /// The names that the template uses and `values` lack, such as `payload.idd`.
    pub(crate) fn missing(&self, values: &serde_json::Value) -> Vec<String> {
        let Ok(template) = self.environment.get_template(NAME) else { return Vec::new() };
        let is_missing = |name: &String| values.pointer(&format!("/{}", name.replace('.', "/"))).is_none();
        let is_function = |name: &String| self.environment.globals().any(|(known, _)| known == name);
        let names = template.undeclared_variables(true).into_iter();
        let mut names: Vec<String> = names.filter(|name| is_missing(name) && !is_function(name)).collect();
        names.sort();
        names
    }
}

/// The kind of mistake and its line: the rest of the message may quote values.
fn words(error: &Error) -> String {
    let line = error.line().map_or_else(String::new, |line| format!(" in line {line}"));
    let detail = match error.kind() {
        ErrorKind::SyntaxError
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownTest => error.detail().map_or_else(String::new, |detail| format!(": {detail}")),
        _ => String::new(),
    };
    format!("{}{line}{detail}", error.kind())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(escape: Escape, text: &str, want: Result<&str, &str>) {
        let values = json!({
            "payload": { "id": "a/b?c&\"é", "n": 7, "list": [1, 2], "none": null, "dots": "..", "big": u64::MAX },
        });
        let got = Template::parse(text, escape).and_then(|template| template.render(&values));
        match (want, got) {
            (Ok(want), got) => assert_eq!(got.as_deref(), Ok(want), "{text}"),
            (Err(want), Err(why)) => assert!(why.contains(want), "{text}: {why}"),
            (Err(want), Ok(got)) => panic!("{text} gave {got}, wanted an error with {want}"),
        }
    }

    #[test]
    fn a_value_stays_a_value_wherever_it_is_put() {
        check(Escape::Url, "/x/{{ payload.id }}?n={{ payload.n }}", Ok("/x/a%2Fb%3Fc%26%22%C3%A9?n=7"));
        check(Escape::Url, "{{ payload.id|safe }}", Ok("a%2Fb%3Fc%26%22%C3%A9"));
        check(Escape::Json, r#"{"id":{{ payload.id }}}"#, Ok(r#"{"id":"a/b?c&\"é"}"#));
        check(
            Escape::Json,
            r#"{"l":{{ payload.list }},"o":{{ payload.none }}}"#,
            Ok(r#"{"l":[1,2],"o":null}"#),
        );
        check(Escape::Json, "[{{ payload.big }}]", Ok("[18446744073709551615]"));
        check(Escape::Xml, "<i>{{ payload.id }}</i>", Ok("<i>a&#x2f;b?c&amp;&quot;é</i>"));
        check(Escape::Nothing, "{{ payload.id }}", Ok("a/b?c&\"é"));
    }

    #[test]
    fn what_is_missing_or_endless_is_an_error() {
        check(Escape::Url, "/{{ payload.nothing }}", Err("undefined"));
        check(Escape::Json, "[{{ payload.nothing }}]", Err("undefined"));
        check(Escape::Json, "[{{ payload.nothing|default(0) }}]", Ok("[0]"));
        check(Escape::Nothing, "{{ payload.no.thing }}", Err("undefined"));
        check(Escape::Json, r#"{"id":"{{ payload.id }}"}"#, Err("not JSON"));
        check(
            Escape::Nothing,
            "{% for i in range(9999) %}{% for j in range(9999) %}.{% endfor %}{% endfor %}",
            Err("fuel"),
        );
        check(Escape::Nothing, "{{ payload.id", Err("syntax error in line 1"));
        check(Escape::Nothing, "{{ payload.id|nofilter }}", Err("unknown filter"));
        check(Escape::Nothing, "{% include 'other' %}", Err(""));
    }

    #[test]
    fn a_host_in_a_template_is_told_from_a_path_in_one() {
        assert!(has_host_template("https://{{ payload.host }}/x"));
        assert!(has_host_template("https://{{ a / b }}.far.test/x"));
        assert!(has_host_template("{{ payload.url }}"));
        assert!(!has_host_template("https://far.test/{{ payload.id }}"));
        assert!(!has_host_template("https://far.test?x={{ payload.id }}"));
        assert!(!has_host_template("https://far.test/x"));
    }

    #[test]
    fn single_braces_are_told_with_the_remedy() {
        #[track_caller]
        fn check(text: &str, want: Option<(&str, &str)>) {
            let found = single_braces(text);
            assert_eq!(found.as_ref().map(|(old, new)| (old.as_str(), new.as_str())), want, "{text}");
        }
        check("{timestamp}.{body}", Some(("{timestamp}", "{{ timestamp }}")));
        check("{{ timestamp }}.{body}", Some(("{body}", "{{ body }}")));
        check("https://far/{event_id}", Some(("{event_id}", "{{ event.id }}")));
        check("https://far/{message_id}", Some(("{message_id}", "{{ message.id }}")));
        check("{{ timestamp }}.{{ body }}", None);
        check("{% if timestamp %}x{% endif %}{\"t\":{{ timestamp }}}{}{A}", None);
    }

    #[test]
    fn an_address_that_climbs_is_known() {
        for (url, want) in
            [("https://far/a/../b", true), ("https://far/.", true), ("https://far/a?x=/../", false)]
        {
            assert_eq!(climbs(url), want, "{url}");
        }
    }

    #[test]
    fn what_is_around_values_is_left() {
        assert_eq!(without_tags("https://{{ a.b }}.x/{{c}}?d={% if e %}1{% endif %}"), "https://x.x/x?d=1");
        assert_eq!(without_tags("https://far/{a}"), "https://far/{a}");
        assert_eq!(without_tags("https://far/{{ a"), "https://far/x");
    }

    #[test]
    fn content_types_decide_how_values_are_written() {
        for (content_type, want) in [
            ("application/json; charset=utf-8", Escape::Json),
            ("application/cloudevents+json", Escape::Json),
            ("application/x-www-form-urlencoded", Escape::Url),
            ("text/xml", Escape::Xml),
            ("application/soap+xml", Escape::Xml),
            ("text/plain", Escape::Nothing),
        ] {
            assert_eq!(Escape::of_content_type(content_type), want, "{content_type}");
        }
    }
}
