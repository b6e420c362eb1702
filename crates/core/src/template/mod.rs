//! Templates of destinations, in one language: a message's method, URL and body are made of its event by them, and so
//! is the address of a question and what an HMAC covers.
//!
//! The language is Jinja's (crate `minijinja`). Every value that is put in is escaped for its place, so that it
//! stays a value; a value that is missing is an error and never an empty text. Rendering is bounded in steps, in bytes
//! of its result and of everything that is made on the way (`budget.rs`), and in time: the author of an event may
//! choose its texts, and with them what a loop over them makes. So the language is closed: `filters.rs` has the filters
//! that there are, `arguments.rs` what they take, `closed.rs` the statements and operators.

mod arguments;
mod budget;
mod closed;
mod filters;

use std::time::Duration;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, escape_formatter,
    machinery,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use budget::Limits;
use budget::ResultBytes;

/// Everything but RFC 3986's unreserved characters.
pub const URL_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Most steps of one rendering: far above what a page of template needs.
const STEPS_N_MAX: u64 = 100_000;
/// Longest result of one rendering, and the longest time that renderings of one event take. Bytes.
const BYTES_MAX: usize = 1024 * 1024;
const TIME_MAX: Duration = Duration::from_secs(1);
/// Longest result and time of a rendering that other events wait for. Bytes.
const SHARED_BYTES_MAX: usize = 64 * 1024;
const SHARED_TIME_MAX: Duration = Duration::from_millis(5);
/// Longest result, and below longest time, of what is written into the head of a call, at each call. Bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Longest method, with what the template has around it. Bytes.
const METHOD_BYTES_MAX: usize = 256;
const HEAD_TIME_MAX: Duration = Duration::from_millis(20);
/// The one template of an environment.
const NAME: &str = "template";

/// The way in which a value is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
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
    pub fn of_content_type(content_type: &str) -> Self {
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
pub struct Template {
    environment: Environment<'static>,
    escape: Escape,
    /// As an address, how many empty segments its path may have: as many as its text has; unset where statements
    /// decide about them.
    hollow_n_max: Option<usize>,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Template({:?})", self.escape)
    }
}

/// True when a text has anything to fill in.
pub fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// True when the host of an address is left to a template: then the one who writes the event may choose it.
pub fn has_host_template(url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    is_template(url) && after_scheme.split(['/', '?', '#']).next().unwrap_or_default().contains('{')
}

/// A template with `x` in place of each `{{ … }}`, and nothing in place of each `{% … %}`: what can be looked at
/// before there is an event.
pub fn without_tags(text: &str) -> String {
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
pub fn single_braces(text: &str) -> Option<(String, String)> {
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
pub fn climbs(url: &str) -> bool {
    segments(url).any(|segment| matches!(segment, "." | ".."))
}

/// How many empty segments an address has.
fn hollow_n(url: &str) -> usize {
    segments(url).filter(|segment| segment.is_empty()).count()
}

/// The parts of the path of an address.
fn segments(url: &str) -> impl Iterator<Item = &str> {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.split('/').skip(1)
}

impl Template {
    /// Reads a template; the error says where its mistake is.
    pub fn parse(text: &str, escape: Escape) -> Result<Self, String> {
        Self::read(text, escape, false)
    }

    /// Reads a piece of a text of which every byte counts: a line break at its end stays, too.
    pub fn parse_to_the_letter(text: &str, escape: Escape) -> Result<Self, String> {
        Self::read(text, escape, true)
    }

    fn read(text: &str, escape: Escape, is_to_the_letter: bool) -> Result<Self, String> {
        let syntax = |keeps_end| {
            let built = SyntaxConfig::builder().keep_trailing_newline(keeps_end).build();
            built.map_err(|error| words(&error))
        };
        let tree = machinery::parse(text, NAME, syntax(is_to_the_letter)?).map_err(|error| words(&error))?;
        let bounded = closed::closed(&tree)?;
        let mut environment = filters::environment();
        environment.set_syntax(syntax(true)?);
        environment.set_fuel(Some(STEPS_N_MAX));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(move |_| match escape {
            Escape::Json => AutoEscape::Json,
            Escape::Xml => AutoEscape::Html,
            Escape::Url | Escape::Nothing => AutoEscape::None,
        });
        environment.set_formatter(move |out, state, value| put_in(out, state, value, escape));
        environment.add_template_owned(NAME, bounded).map_err(|error| words(&error))?;
        let hollow_n_max = (!text.contains("{%")).then(|| hollow_n(&without_tags(text)));
        Ok(Self { environment, escape, hollow_n_max })
    }

    /// True when this address, which it made, lacks a whole segment of its path, because a value is empty or null: it is
    /// the address of something else, such as of all customers instead of one.
    pub fn lacks_segment(&self, url: &str) -> bool {
        self.hollow_n_max.is_some_and(|most_n| hollow_n(url) > most_n)
    }

    /// Fills the template in, within `limits`. An error is in words without values.
    pub fn render(&self, values: &Value, limits: Limits) -> Result<String, RenderError> {
        let fails = |why: String| RenderError { why, is_over: false };
        let template = self.environment.get_template(NAME).map_err(|error| fails(words(&error)))?;
        let mut result = ResultBytes::default();
        let (rendered, ended) =
            budget::within(limits, || template.render_captured_to(values.clone(), &mut result).map(drop));
        if let Some(ended) = ended {
            return Err(RenderError { why: ended.to_string(), is_over: ended.is_limit() });
        }
        rendered.map_err(|error| match error.kind() {
            ErrorKind::OutOfFuel => RenderError { why: words(&error), is_over: true },
            ErrorKind::UndefinedError => fails(match self.missing(values).as_slice() {
                [] => words(&error),
                names => format!("{}: there is no `{}`", words(&error), names.join("`, `")),
            }),
            _ => fails(words(&error)),
        })?;
        let text = String::from_utf8(result.0).map_err(|_| fails("the result is not UTF-8".to_owned()))?;
        if self.escape == Escape::Json && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            let why = "the result is not JSON; write texts without quotes: {\"id\": {{ payload.id }}}";
            return Err(fails(why.to_owned()));
        }
        Ok(text)
    }
}

/// Puts a value in, escaped for its place.
fn put_in(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
    escape: Escape,
) -> Result<(), Error> {
    /// Percent-encodes what is written to it.
    struct Encoded<'a, 'b>(&'a mut Output<'b>);
    impl std::fmt::Write for Encoded<'_, '_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            utf8_percent_encode(text, URL_ESCAPED).try_for_each(|piece| self.0.write_str(piece))
        }
    }
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if escape == Escape::Url {
        let text = if value.is_none() { &Value::from("") } else { value };
        return std::fmt::write(&mut Encoded(out), format_args!("{text}")).map_err(Error::from);
    }
    // The engine makes a text of it before it writes that.
    budget::draw_text(value, 1)?;
    escape_formatter(out, state, value)
}

/// The reason why a template was not filled in, without values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct RenderError {
    pub why: String,
    /// True when it passed its limits: with higher ones it may succeed.
    pub is_over: bool,
}

/// Values as templates have them.
pub fn values(values: &serde_json::Value) -> Value {
    Value::from(Serde(values))
}

impl Limits {
    /// For a rendering that other events wait for.
    pub fn shared() -> Self {
        Self::new(SHARED_BYTES_MAX, SHARED_TIME_MAX)
    }

    /// For a rendering that nothing else waits for.
    pub fn alone() -> Self {
        Self::new(BYTES_MAX, TIME_MAX)
    }

    /// For the address of a question, and for what a signature covers besides the body.
    pub fn head() -> Self {
        Self::new(HEAD_BYTES_MAX, HEAD_TIME_MAX)
    }

    /// For an address.
    pub fn for_url(self) -> Self {
        self.at_most(HEAD_BYTES_MAX)
    }

    /// For a method.
    pub fn for_method(self) -> Self {
        self.at_most(METHOD_BYTES_MAX)
    }
}

impl Template {
    /// True when the template reads this variable, or something in it.
    pub fn reads(&self, name: &str) -> bool {
        let template = self.environment.get_template(NAME);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(name))
    }

    /// The names that the template uses and `values` lack, such as `payload.idd`.
    pub fn missing(&self, values: &Value) -> Vec<String> {
        let Ok(template) = self.environment.get_template(NAME) else { return Vec::new() };
        let is_missing = |name: &String| {
            let found = name.split('.').try_fold(values.clone(), |value, part| {
                value.get_attr(part).ok().filter(|value| !value.is_undefined())
            });
            found.is_none()
        };
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
        let render = |template: Template| template.render(&super::values(&values), Limits::alone());
        let got =
            Template::parse(text, escape).and_then(|template| render(template).map_err(|error| error.why));
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

    /// Memory that this process had at its peak since the last call. Bytes.
    fn peak_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
        std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
        kib * 1024
    }

    /// The text for each entry of a list.
    fn each(inner: &str) -> String {
        format!("{{% for one in payload.list %}}{inner}{{% endfor %}}")
    }

    /// Templates that make much of little with statements, operators and several filters.
    fn amplifiers() -> Vec<String> {
        vec![
            each("{{ payload.text }}"),
            each("{{ payload.list }}"),
            each("{{ payload }}"),
            each("{% set x = payload.text ~ payload.text %}"),
            each("{% set x = payload.text[1:] %}"),
            each("{% set x = payload.list[1:] %}"),
            each("{% with x = payload.text ~ one.id %}{% endwith %}"),
            each("{% if payload.text ~ '1' == payload.text %}{% endif %}"),
            each("{% if 0 < payload.text < payload.list <= 1 %}{% endif %}"),
            each("{% if 'x' in payload.text %}{% endif %}"),
            each("{% if payload.text not in payload.list %}{% endif %}"),
            each("{% if payload == payload %}{% endif %}"),
            each("{% set x = {payload.text: 1} %}"),
            each("{% set x = payload.text|replace('x', payload.text) %}"),
            each("{% set x = payload.list|map(attribute='id')|join(payload.text) %}"),
            each("{% set x = range(100000)|list %}"),
            each("{{ range(100000) }}"),
            "{% set x = payload.text|replace('', payload.text) %}".to_owned(),
            "{% set x = range(100000)|join(payload.text) %}".to_owned(),
            "{% set x = payload.text %}".to_owned() + &"{% set x = x ~ x %}".repeat(40),
            "{% set x = payload.list %}".to_owned() + &"{% set x = [x, x] %}".repeat(40) + "{{ x }}",
            "{% set x = payload.list %}".to_owned()
                + &"{% set x = [x, x] %}".repeat(40)
                + "{% if x == 1 %}{% endif %}",
            "{% set x = payload.list %}".to_owned()
                + &"{% set x = {'a': x, 'b': (x, x)} %}".repeat(40)
                + "{{ x|tojson }}",
            "{% set x = payload.list %}".to_owned()
                + &"{% set x = [x, x] %}".repeat(40)
                + "{{ (x|string)|length }}",
            "{% set x = payload.list %}".to_owned()
                + &"{% set x = [x, x] %}".repeat(40)
                + "{{ 'a'|replace(x, x) }}",
            "{% set x = payload.list %}".to_owned() + &"{% set x = [x, x] %}".repeat(40) + "{{ x|join(x) }}",
            "{% set x = payload.list %}".to_owned()
                + &"{% set x = [x, x] %}".repeat(40)
                + "{{ payload|attr(x)|default(x) }}",
        ]
    }

    /// Renders each template, and checks what it took.
    fn measured(event: &Value, templates: &[String]) {
        let base = peak_bytes();
        for template in templates {
            let escapes = [Escape::Nothing, Escape::Json, Escape::Xml, Escape::Url];
            // What puts nothing in is the same for all.
            for escape in escapes.into_iter().take(if template.contains("{{") { 4 } else { 1 }) {
                let read = Template::parse(template, escape).expect(template);
                let before = budget::worked();
                let rendered = read.render(event, Limits::alone());
                let (took, peak) = (budget::worked().saturating_sub(before), peak_bytes());
                // The values of the event themselves, and what one step makes beyond the budget.
                assert!(peak < base + (48 << 20), "{template} {escape:?}: {} MiB", (peak - base) >> 20);
                assert!(took < 3 * TIME_MAX, "{template} {escape:?}: {took:?}");
                assert!(rendered.map_or(true, |text| text.len() <= BYTES_MAX), "{template}");
            }
        }
    }

    /// Every way in which a template makes texts or lists, over an event that passes the bound 1,000 times over.
    #[test]
    #[cfg(target_os = "linux")]
    fn whatever_a_template_makes_draws_on_its_budget() {
        let text = "\"<Aé ".repeat(512 * 1024 / 6);
        let entries: Vec<_> = (0..2_000).map(|n| json!({ "id": n, "t": "x", "n": 1 })).collect();
        let event = json!({ "payload": { "text": text, "list": entries, "n": 7 } });
        let event = super::values(&event);
        let mut templates = amplifiers();
        let takes_list = |name: &str| {
            matches!(
                name,
                "sum" | "map" | "select" | "reject" | "selectattr" | "rejectattr" | "dictsort" | "items"
            )
        };
        for name in filters::names() {
            let (value, arguments) = match name {
                "items" | "dictsort" => ("payload", ""),
                "map" => ("payload.list", "(attribute='t')"),
                "sum" => ("payload.list", "(attribute='n')"),
                "selectattr" | "rejectattr" => ("payload.list", "('n')"),
                "replace" => ("payload.text", "('A', 'BB')"),
                "attr" => ("payload", "('text')"),
                "default" | "d" => ("payload.text", "(1)"),
                "split" => ("payload.text", "('A')"),
                name if takes_list(name) => ("payload.list", ""),
                _ => ("payload.text", ""),
            };
            templates.push(each(&format!("{{% set x = {value}|{name}{arguments} %}}")));
            templates.push(each(&format!("{{{{ {value}|{name}{arguments} }}}}")));
        }
        for name in filters::test_names() {
            let arguments = match name {
                "eq" | "equalto" | "ne" | "ge" | "gt" | "le" | "lt" | "in" | "startingwith"
                | "endingwith" => "(payload.text)",
                "divisibleby" => "(2)",
                _ => "",
            };
            templates.push(each(&format!("{{% if payload.text is {name}{arguments} %}}{{% endif %}}")));
        }
        measured(&event, &templates);
        for amplifier in [each("{{ payload.text }}"), each("{% set x = payload.text ~ 1 %}")] {
            let read = Template::parse(&amplifier, Escape::Nothing).expect("a template");
            assert!(read.render(&event, Limits::alone()).expect_err("too much").is_over);
        }
    }

    #[test]
    fn a_rendering_is_late_by_its_own_work_and_by_nothing_else_that_the_machine_does() {
        const TIME_MAX: Duration = Duration::from_millis(20);
        let limits = Limits::new(100, TIME_MAX);
        // As when the process is stopped, or waits for a busy processor.
        std::thread::sleep(2 * TIME_MAX);
        assert!(!limits.is_late());
        let began = std::time::Instant::now();
        while !limits.is_late() {
            assert!(began.elapsed() < Duration::from_secs(30), "work takes time");
        }
    }

    #[test]
    fn what_cannot_be_bounded_is_refused_when_it_is_read() {
        for (text, want) in [
            ("\n{% set x %}{{ payload.id }}{% endset %}", "`{% set %}` without `=` (in line 2): write"),
            (
                "{% filter upper %}x{% endfilter %}",
                "`{% filter %}` (in line 1): write the filter at each value",
            ),
            ("{% autoescape true %}x{% endautoescape %}", "content type"),
            ("{% for x in a recursive %}{{ loop(x) }}{% endfor %}", "a recursive loop"),
            ("{% set a.b = 1 %}", "a name"),
            ("{{ namespace() }}", "no function `namespace`; write a total as"),
            (
                "{% set n = 0 %}{% for i in payload.list %}{% set n = n + i %}{% endfor %}{{ n }}",
                "`{% set n %}` in a loop, which lasts for one round, (in line 1): write a total as",
            ),
            ("{{ a.b() }}", "a call of a value"),
            ("{{ debug() }}", "no function `debug`"),
            ("{{ a|format(1) }}", "no filter `format`"),
            ("{{ a|indent(9) }}", "no filter `indent`"),
            ("{{ a|join(*b) }}", "before an argument"),
            ("{{ a is filter }}", "no test `filter`"),
            ("{% macro m() %}{% endmacro %}", "syntax error"),
            ("{% include 'x' %}", "syntax error"),
        ] {
            let why = Template::parse(text, Escape::Nothing).expect_err(text);
            assert!(why.contains(want), "{text}: {why}");
        }
    }

    #[test]
    fn arguments_that_a_filter_or_test_does_not_take_are_refused_when_it_is_read() {
        for (text, want) in [
            (
                "{{ a|upper(1) }}",
                "wrong argument of filter `upper` in line 1: it takes no argument by place; write it without",
            ),
            ("\n{{ a|upper(x=1) }}", "filter `upper` in line 2: it has no `x=`"),
            ("{{ a|replace('x') }}", "`to` is missing; it takes from (\"text\"), to (\"text\")"),
            ("{{ a|replace }}", "`from` is missing"),
            ("{{ a|replace('x', 1) }}", "`to` is a text in quotes"),
            ("{{ a|replace('x', 'y', 1) }}", "it takes at most 2 arguments by place"),
            ("{{ a|attr }}", "`key` is missing"),
            ("{{ a|default(1, true, 2) }}", "at most 2 arguments"),
            ("{{ a|default(value=1) }}", "it has no `value=`"),
            ("{{ a|round('x') }}", "`precision` is a whole number"),
            ("{{ a|round(1.5) }}", "`precision` is a whole number"),
            ("{{ a|round(1, precision=2) }}", "`precision` is there twice"),
            ("{{ a|round(method='up') }}", "`method` is one of \"common\", \"ceil\", \"floor\""),
            ("{{ a|int(base='x') }}", "`base` is a whole number"),
            ("{{ a|split(1) }}", "`at` is a text in quotes"),
            ("{{ a|split(',', 'x') }}", "`splits_n` is a whole number"),
            ("{{ a|split(',', [1]) }}", "`splits_n` is a whole number"),
            ("{{ a|join(1) }}", "`between` is a text in quotes"),
            ("{{ a|join(attribute='x') }}", "it has no `attribute=`"),
            ("{{ a|sum(start='') }}", "it has no `start=`"),
            ("{{ a|sum(1) }}", "`attribute` is a text in quotes"),
            ("{{ a|sort('x') }}", "it takes no argument by place; it takes case_sensitive=true"),
            ("{{ a|sort(reverse='yes') }}", "`reverse` is true or false"),
            ("{{ a|dictsort(by='size') }}", "`by` is one of"),
            ("{{ a|max(key='x') }}", "it has no `key=`"),
            ("{{ a|tojson(2) }}", "it takes no argument by place"),
            (
                "{{ a|map }}",
                "it takes an attribute or the name of a filter: write {{ payload.lines|map(attribute=\"id\")",
            ),
            ("{{ a|map('nope') }}", "unknown filter in line 1: templates have no filter `nope`"),
            ("{{ a|map('_charged') }}", "no filter `_charged`"),
            ("{{ a|map(1) }}", "the name of a filter is a text in quotes"),
            ("{{ a|map('round', 'x') }}", "filter `round` in line 1: `precision` is a whole number"),
            ("{{ a|map('round', precision=1) }}", "it does not take `precision=` here"),
            ("{{ a|map('upper', attribute='x') }}", "not both"),
            ("{{ a|map(atribute='x') }}", "it does not take `atribute=` here"),
            ("{{ a|map('map', 'nope') }}", "no filter `nope`"),
            ("{{ a|select('nope') }}", "unknown test in line 1: templates have no test `nope`"),
            ("{{ a|reject('gt') }}", "test `gt` in line 1: `other` is missing"),
            ("{{ a|select('odd', 1) }}", "test `odd` in line 1: it takes no argument by place"),
            ("{{ a|select(test='odd') }}", "it takes the name of a test and its arguments by place"),
            ("{{ a|selectattr }}", "it takes the name of an attribute"),
            ("{{ a|selectattr(1) }}", "its attribute is a text in quotes"),
            ("{{ a|selectattr('x', 'nope') }}", "no test `nope`"),
            ("{{ a|rejectattr('x', 'eq') }}", "`other` is missing"),
            ("{{ a is eq }}", "test `eq` in line 1: `other` is missing"),
            ("{{ a is defined(1) }}", "test `defined` in line 1: it takes no argument by place"),
            ("{% if a is divisibleby(0) %}{% endif %}", "`number` is a whole number other than 0"),
            ("{{ a is divisibleby('x') }}", "`number` is a whole number other than 0"),
            ("{{ range() }}", "function `range` in line 1: `from` is missing"),
            ("{{ range(1, 2, 0) }}", "`step` is a whole number other than 0"),
            ("{{ range('x') }}", "`from` is a whole number"),
            ("{{ range(1, 2, 3, 4) }}", "at most 3 arguments"),
        ] {
            let why = Template::parse(text, Escape::Nothing).expect_err(text);
            assert!(why.contains(want), "{text}: {why}");
        }
    }

    /// Every filter and test with every argument that the tables have: the engine takes each of them.
    #[test]
    fn arguments_that_the_tables_have_are_taken_by_the_engine() {
        let x = Escape::Nothing;
        for (text, want) in [
            ("{{ payload|attr('n') }}", "7"),
            ("{{ payload.no|default('a') }}{{ ''|d('b', true) }}{{ payload.no|default }}", "ab"),
            ("{{ {'b': 1, 'A': 2}|dictsort(by='value', case_sensitive=true, reverse=true)|length }}", "2"),
            ("{{ 'x'|float(1) }}{{ 'x'|float(default=2) }}", "12"),
            (
                "{{ 'x'|int(1) }}{{ 'ff'|int(0, 16) }}{{ 'ff'|int(base=16) }}{{ 'x'|int(default=2) }}",
                "12552552",
            ),
            ("{{ payload.list|join }}{{ payload.list|join('-') }}{{ payload.list|join(none) }}", "121-212"),
            (
                "{{ payload.list|max(case_sensitive=true) }}{{ [{'n': 3}]|min(attribute='n')|attr('n') }}",
                "23",
            ),
            (
                "{{ 1.26|round }}{{ 1.26|round(1) }}{{ 1.26|round(1, 'floor') }}{{ 1.2|round(method='ceil') }}",
                "1.01.31.22.0",
            ),
            (
                "{{ [2, 1]|sort(reverse=true, case_sensitive=false)|join }}{{ [{'n': 1}]|sort(attribute='n')|length }}",
                "211",
            ),
            (
                "{{ 'a,b'|split(',')|join }}{{ 'a,b,c'|split(',', 1)|length }}{{ 'a b'|split(none, 1)|length }}",
                "ab22",
            ),
            ("{{ [{'n': 1}, {'n': 2}]|sum('n') }}{{ [{'n': 1}]|sum(attribute='n') }}", "31"),
            ("{{ '-a-'|trim('-') }}{{ ' a '|trim }}", "aa"),
            (
                "{{ ['a', 'A']|unique(case_sensitive=true)|length }}{{ [{'n': 1}]|unique(attribute='n')|length }}",
                "21",
            ),
            (
                "{{ [{'n': 1}, {}]|map(attribute='n', default=0)|join }}{{ ['a']|map('replace', 'a', 'b')|join }}",
                "10b",
            ),
            (
                "{{ [1, 2]|select('odd')|join }}{{ [1, 2]|reject('gt', 1)|join }}{{ [0, 1]|select|join }}",
                "111",
            ),
            ("{{ [{'n': 1}]|selectattr('n')|length }}{{ [{'n': 1}]|rejectattr('n', 'eq', 1)|length }}", "10"),
            ("{{ 4 is divisibleby(2) }}{{ 'ab' is startingwith('a') }}{{ 1 is in([1]) }}", "TrueTrueTrue"),
            ("{{ range(2)|join }}{{ range(1, 3)|join }}{{ range(3, 0, -1)|join }}", "0112321"),
        ] {
            check(x, text, Ok(want));
        }
    }

    #[test]
    fn the_language_means_what_it_means_in_jinja() {
        let x = Escape::Nothing;
        check(x, "{% raw %}{{ a }}{% endraw %}{ {% if 1 %}b{% else %}c{% endif %} }\n", Ok("{{ a }}{ b }"));
        check(x, "{{ 'a' ~ payload.n ~ \"b\\n\\\"\" }}", Ok("a7b\n\""));
        check(
            x,
            "{{ (payload.n + 1) * 2 - 7 // 2 % 2 ** 2 }} {{ -payload.n }} {{ 1.5 / 3 }}",
            Ok("13 -7 0.5"),
        );
        check(x, "{{ 1 < payload.n <= 7 and not payload.n in [1] }}", Ok("True"));
        check(x, "{{ payload.list[0:1] }}{{ payload['list'][1] }}{{ payload.list.0 }}", Ok("[1]21"));
        check(
            x,
            "{% for k, v in {'a': 1}|items if v %}{{ loop.index }}{{ k }}{{ v }}{% endfor %}",
            Ok("1a1"),
        );
        check(
            x,
            "{% for i in [] %}{% else %}none{% endfor %}{% with a = 1, (b, c) = (2, 3) %}{{ a ~ b ~ c }}{% endwith %}",
            Ok("none123"),
        );
        check(
            x,
            "{% set a, b = [1, 2] %}{{ a }}{{ 'x' if b is defined and b is not eq(1) else 'y' }}{{ (1,)|length }}",
            Ok("1x1"),
        );
        check(x, "{{ payload.list|map('string')|join('-')|upper|replace('1', 'z') }}", Ok("z-2"));
        check(
            x,
            "{{ payload.list|sum + 1 }}{{ payload.no|default('d') }}{{ range(3)|list }}",
            Ok("4d[0, 1, 2]"),
        );
        check(
            Escape::Json,
            r#"{"a": {{ payload.id|tojson }}, "b": {{ payload.id ~ "!" }}}"#,
            Ok(r#"{"a": "a/b?c&\"é", "b": "a/b?c&\"é!"}"#),
        );
        check(x, "\n{# c #}{{ 1 +\n 1 }}\n{{ payload.no }}", Err("in line 4"));
        check(x, "{{ payload.id * 2 }}", Err("not a number; join texts with `~`"));
        check(x, "{{ payload.id + 'x' }}", Err("not a number; join texts with `~`"));
        check(x, "{{ payload.no ~ 'x' }}", Err("there is no `payload.no`"));
        check(x, "{{ payload.n is divisibleby(payload.list[0] - 1) }}", Ok("False"));
    }

    #[test]
    fn a_template_distinguishes_a_host_from_a_path() {
        assert!(has_host_template("https://{{ payload.host }}/x"));
        assert!(has_host_template("https://{{ a / b }}.far.test/x"));
        assert!(has_host_template("{{ payload.url }}"));
        assert!(!has_host_template("https://far.test/{{ payload.id }}"));
        assert!(!has_host_template("https://far.test?x={{ payload.id }}"));
        assert!(!has_host_template("https://far.test/x"));
    }

    #[test]
    fn single_braces_are_reported_with_the_remedy() {
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
    fn an_address_that_lacks_a_segment_is_known() {
        for (text, url, want) in [
            ("https://far/a/{{ b }}", "https://far/a/", true),
            ("https://far/{{ a }}/b", "https://far//b", true),
            ("https://far/a/{{ b }}?c={{ c }}", "https://far/a/?c=1", true),
            ("https://far/a-{{ b }}", "https://far/a-", false),
            ("https://far/a?b={{ b }}/", "https://far/a?b=/", false),
            ("https://far/{{ a }}/", "https://far/1/", false),
            ("https://far/{{ a }}/", "https://far//", true),
            ("https://far//{{ a }}", "https://far//", true),
            ("https://far//{{ a }}", "https://far//1", false),
            ("https://far/a{% if b %}/{{ b }}{% endif %}", "https://far/a/", false),
        ] {
            let template = Template::parse(text, Escape::Url).unwrap();
            assert_eq!(template.lacks_segment(url), want, "{text}");
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
