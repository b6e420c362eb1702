//! A key whose value is a template: what is wrong with it is reported when the program starts.

use serde::de::IgnoredAny;

use hooklatch_core::config::{BodyConfig, Field, Table};
use hooklatch_core::template::{self, Escape, Template, is_template};

/// The remedy for what is not a template.
pub(super) const AS_IN_JINJA: &str = "write values as {{ payload.id }}, as in Jinja";

/// Records what is wrong with a template; `None` after a problem.
pub(crate) fn template(field: &Field<'_>, text: &str, escape: Escape) -> Option<()> {
    if let Err(why) = Template::parse(text, escape) {
        field.problem(format!("is not a template: {why}"), AS_IN_JINJA);
        return None;
    }
    Some(())
}

/// Records a `{name}` with single braces, which nothing fills in; `None` after a problem.
pub(super) fn double_braces(field: &Field<'_>, text: &str) -> Option<()> {
    if let Some((old, new)) = template::single_braces(text) {
        let problem = format!("has `{old}`, which is not filled in");
        field.problem_shown(problem, format!("write `{new}`"));
        return None;
    }
    Some(())
}

/// `body` and `content_type`, which every kind of destination has.
pub(crate) fn body(table: &mut Table<'_>) -> Option<BodyConfig> {
    let content_type = table.text("content_type");
    if let Some((field, text)) = &content_type
        && (text.is_empty() || ::http::HeaderValue::from_str(text).is_err())
    {
        field.problem_shown("is not a content type", "write application/json or the like");
    }
    let Some((field, text)) = table.text("body") else {
        if let Some((field, _)) = content_type {
            field.problem("is there without `body`", "write a body template or remove it");
        }
        return None;
    };
    let content_type = content_type.map_or_else(|| "application/json".to_owned(), |(_, text)| text);
    let escape = Escape::of_content_type(&content_type);
    template(&field, &text, escape)?;
    // Nothing is filled in, so this is what every call would be refused for.
    if escape == Escape::Json && !is_template(&text) && serde_json::from_str::<IgnoredAny>(&text).is_err() {
        field.problem(
            "is not JSON, and nothing is filled in",
            format!("{AS_IN_JINJA}, or set content_type to what it is"),
        );
        return None;
    }
    Some(BodyConfig { template: text, content_type })
}
