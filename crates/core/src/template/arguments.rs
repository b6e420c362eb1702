//! What filters, tests and `range` take, so that a template that gives them something else is refused when it is read:
//! the engine finds that out when it renders, when the event is there.
//!
//! Counts and names of arguments are checked always, the kind of a value where it is written out. The tables say what
//! the functions of `filters.rs` take.

use minijinja::machinery::ast::{CallArg, Expr};
use minijinja::value::ValueKind;

use super::closed::unknown;
use super::filters::{has_filter, has_test};

/// The kind of value that an argument may be.
#[derive(Clone, Copy)]
enum Wanted {
    Anything,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    WholeNumber,
    /// A whole number other than 0.
    Step,
    Flag,
}

/// The way in which an argument is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    ByPlace,
    ByName,
    Either,
}

type Parameter = (&'static str, Wanted, Given);

/// What a filter, a test or a function takes besides its value.
struct Signature {
    /// So many of the first must be there.
    needed_n: usize,
    parameters: &'static [Parameter],
}

const CASE: Parameter = ("case_sensitive", Wanted::Flag, Given::ByName);
const REVERSE: Parameter = ("reverse", Wanted::Flag, Given::ByName);
const ATTRIBUTE: Parameter = ("attribute", Wanted::Text, Given::ByName);

/// Those that take other filters and tests by their names are not here.
fn of_filter(name: &str) -> Signature {
    use Given::{ByName, ByPlace, Either};
    use Wanted::{Anything, Text, WholeNumber, Word};
    let (needed_n, parameters): (usize, &[Parameter]) = match name {
        "attr" => (1, &[("key", Anything, ByPlace)]),
        "d" | "default" => (0, &[("default", Anything, ByPlace), ("also_if_false", Anything, ByPlace)]),
        "dictsort" => (0, &[("by", Word(&["key", "value"]), ByName), CASE, REVERSE]),
        "float" => (0, &[("default", Anything, Either)]),
        "int" => (0, &[("default", Anything, Either), ("base", WholeNumber, Either)]),
        "join" => (0, &[("between", Text, ByPlace)]),
        "max" | "min" | "unique" => (0, &[CASE, ATTRIBUTE]),
        "replace" => (2, &[("from", Text, ByPlace), ("to", Text, ByPlace)]),
        "round" => {
            (0, &[("precision", WholeNumber, Either), ("method", Word(&["common", "ceil", "floor"]), Either)])
        }
        "sort" => (0, &[CASE, REVERSE, ATTRIBUTE]),
        "split" => (0, &[("at", Text, ByPlace), ("splits_n", WholeNumber, ByPlace)]),
        "sum" => (0, &[("attribute", Text, Either)]),
        "trim" => (0, &[("characters", Anything, ByPlace)]),
        _ => (0, &[]),
    };
    Signature { needed_n, parameters }
}

fn of_test(name: &str) -> Signature {
    match name {
        "divisibleby" => Signature { needed_n: 1, parameters: &[("number", Wanted::Step, Given::ByPlace)] },
        "endingwith" | "startingwith" | "eq" | "equalto" | "ne" | "ge" | "gt" | "le" | "lt" | "in" => {
            Signature { needed_n: 1, parameters: &[("other", Wanted::Anything, Given::ByPlace)] }
        }
        _ => Signature { needed_n: 0, parameters: &[] },
    }
}

const RANGE: Signature = Signature {
    needed_n: 1,
    parameters: &[
        ("from", Wanted::WholeNumber, Given::ByPlace),
        ("to", Wanted::WholeNumber, Given::ByPlace),
        ("step", Wanted::Step, Given::ByPlace),
    ],
};

/// Refuses arguments that the filter does not take.
pub(super) fn check_filter(name: &str, arguments: &[CallArg<'_>], at: u16) -> Result<(), String> {
    match name {
        "map" => check_map(arguments, at),
        "select" | "reject" => check_by_test(name, arguments, at),
        "selectattr" | "rejectattr" => match arguments.split_first() {
            Some((CallArg::Pos(attribute), rest)) => {
                fits(attribute, Wanted::Text)
                    .map_err(|wanted| wrong(name, &format!("its attribute is {wanted}"), at))?;
                check_by_test(name, rest, at)
            }
            _ => Err(wrong(
                name,
                "it takes the name of an attribute: {{ payload.lines|selectattr(\"paid\") }}",
                at,
            )),
        },
        name => of_filter(name).check(&format!("filter `{name}`"), arguments, at),
    }
}

/// Refuses arguments that the test does not take.
pub(super) fn check_test(name: &str, arguments: &[CallArg<'_>], at: u16) -> Result<(), String> {
    of_test(name).check(&format!("test `{name}`"), arguments, at)
}

/// Refuses arguments that `range` does not take.
pub(super) fn check_range(arguments: &[CallArg<'_>], at: u16) -> Result<(), String> {
    RANGE.check("function `range`", arguments, at)
}

/// `map(attribute="name")`, or `map("filter", …)` with what that filter takes.
fn check_map(arguments: &[CallArg<'_>], at: u16) -> Result<(), String> {
    let remedy = "write {{ payload.lines|map(attribute=\"id\") }}, or map(\"upper\") with a filter's name and its arguments by place";
    let names: Vec<&str> = arguments.iter().filter_map(keyword).collect();
    let has_attribute = names.contains(&"attribute");
    if let Some(name) = names.iter().find(|name| !has_attribute || !matches!(**name, "attribute" | "default"))
    {
        return Err(wrong("map", &format!("it does not take `{name}=` here: {remedy}"), at));
    }
    match (arguments.first(), has_attribute) {
        (_, true) if arguments.len() > names.len() => {
            Err(wrong("map", &format!("it takes an attribute or a filter, not both: {remedy}"), at))
        }
        (_, true) => Ok(()),
        (Some(CallArg::Pos(filter)), false) => {
            let Some(filter) = name_of(filter, "filter", at)? else { return Ok(()) };
            if !has_filter(filter) {
                return Err(unknown("filter", filter, at));
            }
            check_filter(filter, arguments.get(1..).unwrap_or_default(), at)
        }
        _ => Err(wrong("map", &format!("it takes an attribute or the name of a filter: {remedy}"), at)),
    }
}

/// The name of a test with what that test takes; or nothing.
fn check_by_test(name: &str, arguments: &[CallArg<'_>], at: u16) -> Result<(), String> {
    match arguments.split_first() {
        None => Ok(()),
        Some((CallArg::Pos(test), rest)) => {
            let Some(test) = name_of(test, "test", at)? else { return Ok(()) };
            if !has_test(test) {
                return Err(unknown("test", test, at));
            }
            check_test(test, rest, at)
        }
        Some(_) => {
            let remedy = "it takes the name of a test and its arguments by place: {{ payload.lines|select(\"gt\", 0) }}";
            Err(wrong(name, remedy, at))
        }
    }
}

/// The name of a filter or test that is written out; `None` where a value has it.
fn name_of<'a>(name: &'a Expr<'_>, what: &str, at: u16) -> Result<Option<&'a str>, String> {
    match (name, fits(name, Wanted::Text)) {
        (Expr::Const(name), Ok(())) => Ok(name.value.as_str()),
        (_, Ok(())) => Ok(None),
        (_, Err(wanted)) => {
            Err(format!("wrong argument in line {at}: the name of a {what} is {wanted}, such as \"upper\""))
        }
    }
}

fn keyword<'a>(argument: &CallArg<'a>) -> Option<&'a str> {
    match argument {
        CallArg::Kwarg(name, _) => Some(name),
        _ => None,
    }
}

fn wrong(filter: &str, why: &str, at: u16) -> String {
    format!("wrong argument of filter `{filter}` in line {at}: {why}")
}

impl Signature {
    fn check(&self, of: &str, arguments: &[CallArg<'_>], at: u16) -> Result<(), String> {
        let wrong =
            |why: String| Err(format!("wrong argument of {of} in line {at}: {why}; {}", self.usage()));
        let mut given = Vec::new();
        for argument in arguments {
            let (parameter, value) = match argument {
                CallArg::Pos(value) => {
                    let next = self.parameters.get(given.len()).filter(|(_, _, by)| *by != Given::ByName);
                    let Some(parameter) = next else {
                        return wrong(format!("it takes {} by place", self.by_place_n()));
                    };
                    (parameter, value)
                }
                CallArg::Kwarg(name, value) => {
                    let named = |(known, _, by): &&Parameter| known == name && *by != Given::ByPlace;
                    let Some(parameter) = self.parameters.iter().find(named) else {
                        return wrong(format!("it has no `{name}=`"));
                    };
                    (parameter, value)
                }
                // Refused where it is rewritten.
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => return Ok(()),
            };
            if given.contains(&parameter.0) {
                return wrong(format!("`{}` is there twice", parameter.0));
            }
            given.push(parameter.0);
            if let Err(wanted) = fits(value, parameter.1) {
                return wrong(format!("`{}` is {wanted}", parameter.0));
            }
        }
        match self.parameters.iter().take(self.needed_n).find(|(name, ..)| !given.contains(name)) {
            Some((name, ..)) => wrong(format!("`{name}` is missing")),
            None => Ok(()),
        }
    }

    fn by_place_n(&self) -> String {
        match self.parameters.iter().filter(|(_, _, by)| *by != Given::ByName).count() {
            0 => "no argument".to_owned(),
            1 => "one argument".to_owned(),
            n => format!("at most {n} arguments"),
        }
    }

    /// What it takes, as it is written.
    fn usage(&self) -> String {
        if self.parameters.is_empty() {
            return "write it without arguments".to_owned();
        }
        let written = self.parameters.iter().map(|(name, wanted, by)| {
            let value = match wanted {
                Wanted::Anything => "…".to_owned(),
                Wanted::Text => "\"text\"".to_owned(),
                Wanted::Word(words) => format!("\"{}\"", words.join("\"|\"")),
                Wanted::WholeNumber | Wanted::Step => "1".to_owned(),
                Wanted::Flag => "true".to_owned(),
            };
            if *by == Given::ByPlace { format!("{name} ({value})") } else { format!("{name}={value}") }
        });
        let needed = if self.needed_n == 0 { ", each of which may be left out" } else { "" };
        format!("it takes {}{needed}", written.collect::<Vec<_>>().join(", "))
    }
}

/// The kind that is wanted, in words, where a value is written out and is of another one.
fn fits(value: &Expr<'_>, wanted: Wanted) -> Result<(), String> {
    let (kind, text, number) = match value {
        Expr::Const(one) => {
            (one.value.kind(), one.value.as_str().map(str::to_owned), f64::try_from(one.value.clone()).ok())
        }
        Expr::List(_) | Expr::Tuple(_) => (ValueKind::Seq, None, None),
        Expr::Map(_) => (ValueKind::Map, None, None),
        // What becomes of it is not written here.
        _ => return Ok(()),
    };
    let is_whole = || kind == ValueKind::Number && number.is_some_and(|number| number.fract() == 0.0);
    let (is_fit, in_words) = match wanted {
        Wanted::Anything => (true, String::new()),
        Wanted::Text => (matches!(kind, ValueKind::String), "a text in quotes".to_owned()),
        Wanted::Word(words) => (
            text.is_some_and(|text| words.contains(&text.as_str())),
            format!("one of \"{}\"", words.join("\", \"")),
        ),
        Wanted::WholeNumber => (is_whole(), "a whole number".to_owned()),
        Wanted::Step => (is_whole() && number != Some(0.0), "a whole number other than 0".to_owned()),
        Wanted::Flag => (kind == ValueKind::Bool, "true or false".to_owned()),
    };
    // `none` is as good as nothing.
    if is_fit || (kind == ValueKind::None && !matches!(wanted, Wanted::Step)) {
        Ok(())
    } else {
        Err(in_words)
    }
}
