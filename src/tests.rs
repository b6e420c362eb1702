//! Memory bounds of every transformation of an event's bytes to text: each is measured with the body that makes it
//! largest.

use std::hint::black_box;

use serde_json::json;

use hooklatch_console as console;
use hooklatch_core::filter::{Filter, Found, Lookup, Place};
use hooklatch_core::json::{Document, PointerTarget, RedactedPaths, text_of};
use hooklatch_core::plain;
use hooklatch_core::template::{self, Escape, Limits, Template};
use hooklatch_core::types::{folded_id, id_parts};
use hooklatch_verify::read;
use hooklatch_verify::{Form, compact_json, php_serialized, sorted_json};

const BODY_BYTES: usize = 1 << 20;

/// One transformation.
struct Made {
    what: &'static str,
    /// The body that makes its result largest.
    body: String,
    /// Bytes of memory at its peak, for each byte of the body; plus one mebibyte.
    times_max: usize,
    run: fn(&[u8]) -> usize,
}

/// A pointer to any part of the body returns all of it.
struct Whole<'a>(&'a [u8]);

impl Lookup for Whole<'_> {
    fn find(&self, place: &Place) -> Result<Found<'_>, String> {
        black_box(place);
        match hooklatch_core::json::find(self.0, "/t") {
            PointerTarget::One(raw) => Ok(Found::Json(raw)),
            _ => Ok(Found::Missing),
        }
    }
}

fn text(body: &[u8]) -> &str {
    std::str::from_utf8(body).expect("it is UTF-8")
}

fn all() -> Vec<Made> {
    let list = |one: &str| format!("[{}{one}]", format!("{one},").repeat(BODY_BYTES / (one.len() + 1)));
    let long = |one: &str| format!(r#"{{"t":"{}"}}"#, one.repeat(BODY_BYTES / one.len()));
    let row = |what, body, times_max, run| Made { what, body, times_max, run };
    vec![
        row("redaction", list("1"), 32, |body| {
            let paths = RedactedPaths::parse(["/*"]).expect("a pointer");
            paths.redacted(body).map_or(0, |made| made.text.len())
        }),
        row("a text at a pointer", long("\\u0000"), 8, |body| {
            text_of(body, "/t").map_or(0, |made| made.len())
        }),
        row("a digest without some values", list("{}"), 8, |body| {
            Document::parse(body).map_or(0, |json| json.digest_without(body, &["/0".to_owned()]).len())
        }),
        row("a condition", long("\\n"), 8, |body| {
            let filter = Filter::parse("payload.t == \"x\"").expect("a condition");
            usize::from(filter.passes(&Whole(body)).unwrap_or_default())
        }),
        row("search ids", long("ß"), 8, |body| {
            id_parts(text(body)).into_iter().map(|part| folded_id(part.to_owned()).len()).sum()
        }),
        row("XML", format!("<r>{}</r>", "<a>1</a>".repeat(BODY_BYTES / 8)), 64, |body| {
            read::xml_as_json(text(body), "r").map_or(0, |json| json.to_string().len())
        }),
        row("a form", "a&".repeat(BODY_BYTES / 2), 1, |body| {
            Form::parse(body).map_or(0, |form| form.pairs().len())
        }),
        row("a long field of a form", format!("a={}", "%00".repeat(BODY_BYTES / 3)), 8, |body| {
            Form::parse(body).map_or(0, |form| form.pairs().len())
        }),
        row("JSON without spaces, to be signed", long("é"), 32, |body| {
            compact_json(body).map_or(0, |made| made.len())
        }),
        row("JSON sorted, to be signed", list("[1]"), 160, |body| {
            sorted_json(body).map_or(0, |made| made.len())
        }),
        row("a form as PHP has it, to be signed", format!("a={}", "x".repeat(BODY_BYTES)), 16, |body| {
            Form::parse(body).map_or(0, |form| php_serialized(form.pairs()).len())
        }),
        row("JSON indented for the console", list("[]"), 8, |body| {
            console::indented(text(body), false).len()
        }),
        row("what a terminal shows", long("\u{202e}"), 16, |body| plain::text(text(body)).len()),
        row("a template, beside others", long("x"), 24, |body| {
            let limits = Limits::shared();
            rendered(body, limits)
        }),
        row("a template, alone", long("x"), 24, |body| rendered(body, Limits::alone())),
    ]
}

/// The result of a template that repeats the text.
fn rendered(body: &[u8], limits: Limits) -> usize {
    let all = "{% for n in range(9000) %}{{ payload.t }}{% endfor %}";
    let template = Template::parse(all, Escape::Json).expect("a template");
    let payload: serde_json::Value = serde_json::from_slice(body).expect("it is JSON");
    let values = template::values(&json!({ "payload": payload }));
    template.render(&values, limits).expect_err("it is too much").why.len()
}

/// Memory that this process had at its peak since the last call. Bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    kib * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn whatever_is_made_of_an_events_bytes_has_a_bound() {
    let mut over = Vec::new();
    for Made { what, body, times_max, run } in all() {
        peak_bytes();
        let before = peak_bytes();
        black_box(run(body.as_bytes()));
        let made = peak_bytes().saturating_sub(before);
        if made > times_max * BODY_BYTES + (1 << 20) {
            over.push(format!("{what}: {} times its body, above {times_max}", made / BODY_BYTES));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
