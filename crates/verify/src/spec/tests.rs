//! Tests of valid specs, and of the errors for invalid ones.

use super::*;

const GOOD: &str = r#"
    kind = "acme"
    title = "Acme"
    confidence = "official"
    docs = "https://acme.example/webhooks"
    secret_hint = "Settings"
    horizon_h = 72
    answer_within_ms = 10000
    [signature]
    scheme = "hmac-sha256"
    headers = ["acme-signature"]
    layout = "t={timestamp},v1={signature}"
    signed = "{timestamp}.{body}"
    tolerance_s = 300
    [[event]]
    type = [{ json = "/type" }]
    [[event.identity]]
    is = "sender"
    id = [{ json = "/id" }]
    signed = true
"#;

#[test]
fn a_good_spec_is_read() {
    let spec = Spec::parse(GOOD).expect("a spec");
    assert!(spec.has_signed_time() && spec.resend_h.is_none());
    let span_s = |line: &str| Spec::parse(&format!("{line}\n{GOOD}")).expect("a spec").retry_span_s;
    assert_eq!([span_s("retry_span_s = 0"), span_s("")], [Some(0), None], "never is not the same as unknown");
    let resend = |value: &str| Spec::parse(&format!("resend_h = {value}\n{GOOD}")).expect("a spec").resend_h;
    assert_eq!(resend("2160"), Some(Resend::Hours(2_160)));
    assert_eq!(resend("\"unbounded\""), Some(Resend::Unbounded));
    assert_eq!(spec.event[0].identity[0].id.0, [Source::Json("/id".to_owned())]);
}

#[track_caller]
fn check(from: &str, to: &str, want: &str) {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "the row changes nothing");
    let error = Spec::parse(&text).expect_err(want).to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn a_bad_spec_says_which_key_and_why() {
    check("kind = \"acme\"", "kind = \"Acme!\"", "kind: `Acme!`");
    check("title", "titel", "titel");
    check(
        "[signature]",
        "headers = [\"x-other\"]\n[signature]",
        "headers: the signature does not cover the header `x-other`",
    );
    check("type = [", "covered = [\"a\"]\n    type = [", "event.covered");
    check("hmac-sha256", "md5", "unknown variant `md5`");
    check("{signature}", "{sig}", "signature.layout");
    check(".{body}", "", "does not cover {body}");
    check("tolerance_s = 300", "", "tolerance_s");
    check("t={timestamp},v1={signature}", "{signature}", "signature.tolerance_s");
    check("headers = [\"acme-signature\"]", "", "signature.headers");
    check("\"/id\"", "\"id\"", "`id` is not a JSON pointer");
    check("type =", "volatile = [\"\"]\ntype =", "event.volatile: the whole body");
    check("type =", "volatile = [\"/a|/b\"]\ntype =", "event.volatile: `/a|/b` is not one");
    let five = ["{ json = \"/a\" }"; 5].join(", ");
    check("type =", &format!("search = [{five}]\ntype ="), "event.search: write up to four");
    check("type =", "search = [{ text = \"x\" }]\ntype =", "event.search: an id is at");
    check("type =", "search = [{ json = \"a\" }]\ntype =", "event.search: `a` is not a JSON pointer");
    check("type =", "payload = \"/a|/b\"\ntype =", "event.payload: `/a|/b` is not one");
    check("\"sender\"", "\"sender\"\nversion = 0", "event.identity.version");
    let first = "[[event.identity]]\nis = \"content\"\nsigned = true\n[[event.identity]]";
    check("[[event.identity]]", first, "event.identity: one that every event has comes last");
    check("tolerance_s = 300", "tolerance_s = 0", "signature.tolerance_s: 0 refuses every request");
    check("tolerance_s = 300", "tolerance_s = 9\nage_unchecked = true", "signature.age_unchecked");
    check("{ json = \"/id\" }", "", "event.identity.id");
    check("\"sender\"", "\"signal\"\nwindow_s = 0", "event.identity.window_s: write a number");
    check("\"sender\"", "\"sender\"\nwindow_s = 5", "only a signal has one");
    check("\"sender\"", "\"signal\"\nwindow_renews = true", "window_renews: there is no window_s");
    check("\"sender\"", "\"content\"\nsigned_with = [{ text = \"\" }]", "event.identity.signed_with");
    check("\"sender\"", "\"sender\"\ntypes = [\"a*b*\"]", "event.identity.types");
    let (_, identity) = GOOD.split_once("[[event.identity]]").expect("one");
    let identity = format!("[[event.identity]]{identity}");
    check(&identity, "identity = []", "event.identity: say what two copies");
    check(&identity, "", "event.identity: is missing");
    let object = "object = [{ json = \"/o\" }]\ntype =";
    check("type =", object, "object and version");
    let answer = "\n[answer]\nstatus = 500\nbody = \"\"\ncontent_type = \"text/plain\"\n[[event]]";
    check("\n    [[event]]", answer, "answer.status: 500 is not a success");
    check("acme-signature", "acme signature", "is not the name of a header");
    check("horizon_h = 72", "horizon_h = 0", "horizon_h: write a number");
    check("horizon_h = 72", "horizon_h = 72\nretry_span_s = 259201", "retry_span_s: 259201 s are longer");
    check("tolerance_s = 300", "tolerance_s = 300\nkeys = \"k\"", "signature.keys: no [[setting]]");
    let header = "id = [{ header = \"x-id\" }]";
    check(
        "id = [{ json = \"/id\" }]",
        header,
        "event.identity.signed: the signature does not cover the header",
    );
    check("type =", "when_header = \"x\"\ntype =", "when_header");
    check("type =", "split = [\"/a\"]\ntype =", "event.split: name the array");
    check("type =", "each = \"/a/*/b\"\ntype =", "event.each: `/a/*/b` leads through a list");
    check(
        "type =",
        "each = \"/a\"\nsplit = [\"/b/*/c\"]\ntype =",
        "event.each: `/b/*/c` leads through a list",
    );
}

/// A kind that says `from` of [`GOOD`] as `to`, with all that is wrong with it.
fn mistakes(changes: &[(&str, &str)]) -> String {
    let changed = changes.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "nothing says {from}");
        text.replacen(from, to, 1)
    });
    Spec::parse(&changed).map_or_else(|error| error.why, |_| String::new())
}

#[test]
fn a_digest_that_is_computed_covers_the_body_and_a_header_that_holds_one_does_not() {
    let signed = |what: &str| mistakes(&[("{timestamp}.{body}", what)]);
    for covering in ["{timestamp}.{sha256:body}", "{timestamp}.{sha256_base64:body}"] {
        assert_eq!(signed(covering), "");
    }
    let headers = "headers = [\"acme-signature\"]";
    let required = format!("{headers}\nrequired_headers = {{ x-digest = \"{{sha256:body}}\" }}");
    for (what, says) in [
        (
            "{timestamp}.{header:x-digest}",
            "proves nothing by itself, so write {sha256:body} or {sha256_base64:body}",
        ),
        ("{timestamp}.{sha256:bodi}", "did you mean `{sha256:body}`?"),
        ("{timestamp}.{sha512_base64url:body}", "this sender needs a mod.rs"),
        ("{timestamp}.{aes:/order}", "{sha256_base64:body}"),
    ] {
        assert!(signed(what).contains(says), "{what}: {}", signed(what));
        let required = mistakes(&[("{timestamp}.{body}", what), (headers, &required)]);
        assert!(required.contains(says), "a required header covers nothing: {required}");
    }
    let body = format!("{headers}\nrequired_headers = {{ x-digest = \"{{json:/id}}\" }}");
    assert!(mistakes(&[(headers, &body)]).contains("signature.required_headers: `{json:/id}`"));
}

#[test]
fn a_plain_hash_has_its_secret_behind_the_text_or_in_front_of_json() {
    let hash = |signed: &str, more: &[(&str, &str)]| {
        let of_hash = [("hmac-sha256", "hash-sha256"), ("{timestamp}.{body}", signed)];
        mistakes(&[&of_hash, more].concat())
    };
    let form = ("type = [", "body = \"form\"\n    type = [");
    for (signed, more) in [
        ("{timestamp}.{body}{secret}", vec![]),
        ("{timestamp}.{body}{secret}", vec![form]),
        ("{secret}{timestamp}.{body}", vec![]),
    ] {
        assert_eq!(hash(signed, &more), "", "{signed} {more:?}");
    }
    for (signed, more, says) in [
        ("{timestamp}.{body}", vec![], "anybody can hash a text without a secret"),
        ("{secret}{timestamp}.{body}{secret}", vec![], "write {secret} once"),
        ("{timestamp}.{secret}.{body}", vec![], "{secret} stands last, or first with {body} last"),
        ("{secret}{timestamp}.{body}", vec![form], "length extension"),
        ("{secret}{body}{timestamp}", vec![], "length extension"),
        ("{secret}{timestamp}{sha256:body}", vec![], "length extension"),
        (
            "{secret}{timestamp}.{body}",
            vec![("type = [", "form_field = \"data\"\n    type = [")],
            "length extension",
        ),
        (
            "{secret}{timestamp}.{body}",
            vec![("type = [", "body = \"lines\"\n    type = [")],
            "length extension",
        ),
    ] {
        assert!(hash(signed, &more).contains(says), "{signed}: {}", hash(signed, &more));
    }
    let keyed = mistakes(&[("{timestamp}.{body}", "{timestamp}.{body}{secret}")]);
    assert!(keyed.contains("this one has it as its key"), "{keyed}");
}

#[test]
fn an_event_by_get_is_read_from_the_query_and_a_token_stands_in_no_other() {
    let kind = ("kind = ", "method = \"GET\"\n    kind = ");
    let form = ("type = [", "body = \"form\"\n    type = [");
    assert_eq!(mistakes(&[kind, form]), "");
    let get = mistakes(&[kind]);
    assert!(get.contains("event.body: what comes by GET is in the query"), "{get}");
    let put = mistakes(&[("kind = ", "method = \"PUT\"\n    kind = ")]);
    assert!(put.contains("unknown variant `PUT`, expected `POST` or `GET`"), "{put}");
    let handshake = "\n[[handshake]]\nmethod = \"GET\"\n[[event]]";
    let every = mistakes(&[kind, form, ("\n    [[event]]", handshake)]);
    assert!(every.contains("a GET needs a condition, or every event would be one"), "{every}");
    let headers = "headers = [\"acme-signature\"]";
    let query = mistakes(&[kind, form, (headers, &format!("{headers}\nquery = \"token\""))]);
    assert!(query.contains("signature.query: it is the place of a token"), "{query}");
    let token = "query = \"token\"\n    weak = \"token\"";
    let posted = mistakes(&[("hmac-sha256", "token"), (headers, token), ("signed = true", "signed = false")]);
    assert!(posted.contains("signature.query: it is for events that come by GET"), "{posted}");
}

#[test]
fn rules_for_windows_renderings_and_missing_ids_fit_their_identity() {
    let signal = |more: &str| format!("\"signal\"\n{more}");
    check(
        "\"sender\"",
        &signal("window_rearms = true"),
        "event.identity.window_rearms: there is no window_s",
    );
    let long = signal("window_s = 61\nwindow_rearms = true");
    check("\"sender\"", &long, "event.identity.window_rearms: write a window_s of 60 at most");
    let both = signal("window_s = 60\nwindow_rearms = true\nwindow_renews = true");
    check("\"sender\"", &both, "event.identity.window_rearms");
    check("\"sender\"", "\"sender\"\nchanging = \"/a\"", "event.identity.changing: it is for an id");
    check("\"sender\"", "\"sender\"\non_conflict = \"copy\"", "event.identity.renderings: it goes with");
    let renderings = "renderings = { same = [\"/a\"], differs = \"b\" }";
    check("\"sender\"", &format!("\"sender\"\n{renderings}"), "event.identity.renderings: it goes with");
    let copy = format!("\"sender\"\non_conflict = \"copy\"\n{renderings}");
    check("\"sender\"", &copy, "`b` is not a JSON pointer");
    let header = "id = [{ header = \"x-id\" }]";
    check("id = [{ json = \"/id\" }]", header, "event.id_needed: a header has the id of each event");
}

#[test]
fn bad_event_types_and_resends_are_refused() {
    let types = |source: &str, list: &str| {
        format!("horizon_h = 72\nevent_types = {{ source = \"{source}\", list = [{list}] }}")
    };
    for (source, list, says) in [
        ("stripe.com", "\"a\"", "event_types.source: give the address"),
        ("https://a.example", "", "event_types.list: name at least one"),
        ("https://a.example", "\"a*\"", "event_types.list: `a*` is no type"),
        ("https://a.example", "\"b\", \"a\"", "event_types.list: `a` stands after `b`: sort them"),
        ("https://a.example", "\"a\", \"a\"", "each once"),
    ] {
        check("horizon_h = 72", &types(source, list), says);
    }
    let resend = |value: &str| format!("horizon_h = 72\nresend_h = {value}");
    check(
        "horizon_h = 72",
        &resend("0"),
        "resend_h: write a number from 1 to 87600, \"unbounded\", or leave it",
    );
    check("horizon_h = 72", &resend("87601"), "resend_h: write a number");
    for odd in ["-1", "\"forever\"", "true", "1.5"] {
        check("horizon_h = 72", &resend(odd), "expected a number of hours or \"unbounded\"");
    }
}

#[test]
fn a_bound_below_the_last_attempt_needs_a_page_that_says_that_each_is_signed_anew() {
    let with = |line: &str, span_s: u32| {
        let text = GOOD.replacen("tolerance_s = 300", &format!("tolerance_s = 300\n{line}"), 1);
        Spec::parse(&text.replacen("horizon_h = 72", &format!("horizon_h = 72\nretry_span_s = {span_s}"), 1))
    };
    let why = |line: &str, span_s| with(line, span_s).expect_err(line).to_string();
    assert!(with("", 300).is_ok());
    assert!(why("", 301).contains("signature.tolerance_s: 300 s are shorter than retry_span_s"));
    assert!(with("attempts_signed_anew = \"https://acme.example/retries\"", 86_400).is_ok());
    assert!(why("attempts_signed_anew = \"the docs\"", 300).contains("is not the address of the page"));
}

#[test]
fn all_mistakes_of_form_come_at_once_with_their_lines() {
    let text = GOOD
        .replace("title", "titel")
        .replace("type =", "body = \"xml\"\n        type =")
        .replace("tolerance_s = 300", "tolerance_s = \"300\"")
        .replace("docs = \"https://acme.example/webhooks\"", "");
    let mistakes = Spec::parse_all(&text).expect_err("mistakes");
    let keys: Vec<(Option<usize>, &str)> = mistakes.iter().map(|one| (one.line, one.key.as_str())).collect();
    assert_eq!(
        keys,
        [
            (None, "title"),
            (None, "docs"),
            (Some(16), "event.body"),
            (Some(14), "signature.tolerance_s"),
            (Some(3), "titel"),
        ]
    );
}

#[test]
fn all_misfits_come_at_once() {
    let text =
        GOOD.replace("horizon_h = 72", "horizon_h = 0").replace(".{body}", "").replace("\"/id\"", "\"id\"");
    let keys: Vec<String> =
        Spec::parse_all(&text).expect_err("three").into_iter().map(|one| one.key).collect();
    assert_eq!(keys, ["horizon_h", "signature.signed", "event.identity.id"]);
}
