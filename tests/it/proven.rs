//! `check` proves a configuration: it reports what would lose payments silently, with file, key, value and remedy, and
//! accepts what is intended.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::pages::text::{blocks, page};

const STRIPE: &str = "[providers.stripe]\nsecrets = [\"whsec_0123456789abcdef\"]\n";
const GITHUB: &str = "[providers.github]\nsecrets = [\"0123456789abcdef0123456789abcdef\"]\n";
const ADYEN: &str =
    "[providers.adyen]\nsecrets = [\"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056\"]\n";
const PAYPAL: &str = "[providers.paypal]\nsettings = { webhook_id = \"1JE4291016473214C\" }\n";
const TOKENS: &str =
    "[admin]\ntokens = [{ name = \"ops\", role = \"admin\", token = \"0123456789abcdef\" }]\n";
const BILLING: &str = "[destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n";

/// The result of `check`.
struct Checked {
    code: i32,
    out: String,
    err: String,
    json: Value,
}

fn checked(text: &str, env: &[(&str, &str)]) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    std::fs::write(&file, text).unwrap();
    // A world-readable file would be a warning as well.
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(arguments).envs(env.iter().copied()).current_dir(folder.path()).output().unwrap()
    };
    let plain = run(&["check"]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Checked {
        code: plain.status.code().unwrap(),
        out: text(plain.stdout),
        err: text(plain.stderr),
        json: serde_json::from_slice(&run(&["check", "--json"]).stdout).unwrap(),
    }
}

/// The warnings about a configuration that is good otherwise.
#[track_caller]
fn warnings(text: &str, env: &[(&str, &str)]) -> Vec<String> {
    let checked = checked(text, env);
    assert_eq!(checked.code, 0, "{text}\n{}", checked.err);
    let list = checked.json["warnings"].as_array().unwrap();
    let list: Vec<String> = list.iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    assert!(list.iter().all(|one| checked.err.contains(&format!("warning: {one}\n"))), "{}", checked.err);
    list
}

/// A provider with a route.
fn routed(provider: &str, on: &str, more: &str) -> String {
    let name = provider.trim_start_matches("[providers.").split(']').next().unwrap();
    format!("{TOKENS}{provider}[[providers.{name}.routes]]\non = {on}\nto = \"billing\"\n{more}")
}

fn stripe(on: &str) -> String {
    routed(STRIPE, on, BILLING)
}

fn github(more: &str, on: &str) -> String {
    routed(&format!("{GITHUB}{more}"), on, BILLING)
}

/// A lane of events of one type.
fn lane(on: &str, pointer: &str) -> String {
    routed(STRIPE, on, &format!("lane = \"{pointer}\"\n{BILLING}"))
}

/// A condition of events of some types.
fn when(on: &str, condition: &str) -> String {
    routed(STRIPE, on, &format!("when = '{condition}'\n{BILLING}"))
}

/// A destination of `invoice.paid` with a template.
fn template(key: &str, template: &str) -> String {
    let body = if key == "url" { String::new() } else { "url = \"http://127.0.0.1:9/\"\n".to_owned() };
    let more = format!("[destinations.billing]\n{body}{key} = '{template}'\n");
    routed(STRIPE, "[\"invoice.paid\"]", &more)
}

#[test]
fn routes_that_lose_events_silently_are_reported_with_place_and_remedy() {
    let log = |filter: &str| format!("{}[log]\nfilter = \"{filter}\"\n", stripe("[\"*\"]"));
    let types = "types = [\"push\", \"issues.*\"]\n";
    let row = |text: String, place: &str, remedy: &str| (text, place.to_owned(), remedy.to_owned());
    let on = "hooklatch.toml: providers.stripe.routes[0].on[0]: ";
    let rows = [
        // Types that are almost others.
        row(
            stripe("[\"invoice.payd\"]"),
            &format!("{on}`invoice.payd` fits no type"),
            "did you mean \"invoice.paid\"?",
        ),
        row(stripe("[\"invoice.piad\"]"), on, "did you mean \"invoice.paid\"?"),
        row(stripe("[\"Invoice.Paid\"]"), on, "did you mean \"invoice.paid\"?"),
        row(stripe("[\"invoice_paid\"]"), on, "did you mean \"invoice.paid\"?"),
        row(stripe("[\"invoice.paid \"]"), on, "did you mean \"invoice.paid\"?"),
        row(stripe("[\"invoice\"]"), on, "did you mean \"invoice.*\"?"),
        row(stripe("[\"invoce.*\"]"), on, "did you mean \"invoice.*\"?"),
        row(stripe("[\"invoices.*\"]"), on, "did you mean \"invoice.*\"?"),
        row(stripe("[\"INVOICE.*\"]"), on, "did you mean \"invoice.*\"?"),
        row(stripe("[\"invoice.paid.*\"]"), on, "did you mean \"invoice.paid\"?"),
        row(
            stripe("[\"charge.refunded\", \"payment_intent.suceeded\"]"),
            "providers.stripe.routes[0].on[1]: ",
            "did you mean \"payment_intent.succeeded\"?",
        ),
        row(
            routed(ADYEN, "[\"AUTHORIZATION\"]", BILLING),
            "providers.adyen.routes[0].on[0]: `AUTHORIZATION`",
            "did you mean \"AUTHORISATION\"?",
        ),
        row(github(types, "[\"push.*\"]"), "providers.github.routes[0].on[0]: ", "did you mean \"push\"?"),
        row(
            github("types = [\"issues.opend\", \"*\"]\n", "[\"*\"]"),
            "providers.github.types[0]: ",
            "did you mean \"issues.opened\"?",
        ),
        row(
            github(types, "[\"pull_request.opened\"]"),
            "providers.github.routes[0].on[0]: `pull_request.opened` is not in providers.github.types",
            "add it to `types`",
        ),
        // Lanes that lead nowhere.
        row(
            lane("[\"invoice.paid\"]", "/data/object/customer"),
            "hooklatch.toml: providers.stripe.routes[0].lane: `/data/object/customer` leads nowhere in 1 of 1 sample event \
             (`invoice.paid`)",
            "did you mean \"/customer\"?",
        ),
        row(
            lane("[\"invoice.paid\"]", "/custmer"),
            "providers.stripe.routes[0].lane: ",
            "did you mean \"/customer\"?",
        ),
        row(
            lane("[\"invoice.paid\", \"plan.created\"]", "/customer"),
            "leads nowhere in 1 of 2 sample events (`plan.created`)",
            "write a place that every such event has",
        ),
        row(
            lane("[\"invoice.paid\"]", "payload.custmer"),
            "routes[0].lane: ",
            "did you mean \"payload.customer\"?",
        ),
        row(
            lane("[\"invoice.paid\"]", "payload.livemode"),
            "routes[0].lane: ",
            "did you mean \"envelope.livemode\"?",
        ),
        row(
            lane("[\"invoice.paid\"]", "envelope.acount"),
            "routes[0].lane: ",
            "write a place that every such event has",
        ),
        // Conditions that no sample fits.
        row(
            when("[\"invoice.paid\"]", "envelope.livemode and payload.amount > 0"),
            "hooklatch.toml: providers.stripe.routes[0].when: `envelope.livemode and payload.amount > 0` is false for 1 of 1 \
             sample event (`invoice.paid`) that the route takes: nothing would be sent",
            "correct it, unless",
        ),
        row(
            when("[\"invoice.paid\", \"plan.created\"]", "payload.amount_paid > 0"),
            "providers.stripe.routes[0].when: `payload.amount_paid > 0` cannot be decided for 1 of 2 sample events \
             (`plan.created`) that the route takes (payload.amount_paid is missing)",
            "ask whether it is there first",
        ),
        row(
            when("[\"invoice.paid\"]", "payload.amount_piad > 0"),
            "(payload.amount_piad is missing)",
            "did you mean \"payload.amount_paid\"?",
        ),
        row(
            when("[\"invoice.paid\"]", "payload.livemode"),
            "(payload.livemode is missing)",
            "did you mean \"envelope.livemode\"?",
        ),
        row(
            when("[\"invoice.paid\"]", "envelope.data.object.currency > 1"),
            "envelope.data.object.currency is a text, compared with a number",
            "ask whether it is there first",
        ),
        row(
            routed(PAYPAL, "[\"*\"]", &format!("when = \"envelope.id is defined\"\n{BILLING}")),
            "providers.paypal.routes[0].when: `envelope.id is defined` reads what the signature may not cover",
            "decide in a handler that asks the sender",
        ),
        // Templates with names that nothing has.
        row(
            template("body", "{\"id\":{{ payload.idd }}}"),
            "hooklatch.toml: destinations.billing.body: does not fit 1 of 1 sample event (`invoice.paid`) that reach it: \
             undefined value in line 1: there is no `payload.idd`",
            "did you mean `payload.id`?",
        ),
        row(
            template("body", "{\"id\":{{ payload.data.object.id }}}"),
            "there is no `payload.data.object.id`",
            "did you mean `payload.id`?",
        ),
        row(
            template("body", "{\"id\":{{ data.id }}}"),
            "there is no `data.id`",
            "templates see `payload`, `event`",
        ),
        row(
            template("body", "{\"t\":{{ event.typ }}}"),
            "there is no `event.typ`",
            "templates see `payload`, `event`",
        ),
        row(
            template("body", "{\"id\":\"{{ payload.id }}\"}"),
            "destinations.billing.body: ",
            "the result is not JSON",
        ),
        row(
            template("url", "http://127.0.0.1:9/{{ payload.custmer }}"),
            "destinations.billing.url: does not fit",
            "did you mean `payload.customer`?",
        ),
        row(
            template("method", "{{ payload.status }}"),
            "destinations.billing.method: ",
            "not a method in capitals",
        ),
        // What takes nothing, or cannot be inspected.
        row(
            format!("{TOKENS}{STRIPE}"),
            "hooklatch.toml: providers.stripe: has no route, and this program",
            "to = ",
        ),
        row(
            format!("{TOKENS}{STRIPE}{BILLING}"),
            "providers.stripe: has no route",
            "[[providers.stripe.routes]]",
        ),
        row(TOKENS.to_owned(), "hooklatch.toml: providers: there is none", "write a [providers.NAME]"),
        row(
            stripe("[\"*\"]").replace(TOKENS, ""),
            "hooklatch.toml: admin.tokens: there is none",
            "write tokens = [",
        ),
        // Filters that silence the log.
        row(
            log("loud"),
            "hooklatch.toml: log.filter: `loud` has `loud`, which is no level",
            "write a level (off, error",
        ),
        row(log("inf"), "log.filter: ", "did you mean \"info\"?"),
        row(log("info,debgu"), "log.filter: `info,debgu` has `debgu`", "did you mean \"debug\"?"),
        row(log("info,hooklach=debug"), "log.filter: ", "did you mean \"hooklatch\"?"),
        // A reference within quotes.
        row(
            stripe("[\"*\"]").replace("\"whsec_0123456789abcdef\"", "\"{ env = 'STRIPE_SECRET' }\""),
            "hooklatch.toml: providers.stripe.secrets[0]: is a table within quotes",
            "take the quotes away",
        ),
    ];
    for (text, place, remedy) in rows {
        let list = warnings(&text, &[]);
        let found = list.iter().any(|one| one.contains(&place) && one.contains(&remedy));
        assert!(found && list.len() == 1, "no `{place}` with `{remedy}` of\n{text}\nin {list:#?}");
    }
}

#[test]
fn variables_that_look_as_if_they_were_read_are_named() {
    let good = stripe("[\"*\"]");
    for (name, meant) in [
        ("HOOKLATCH_SERVER_LISTEN", "HOOKLATCH__SERVER__LISTEN"),
        ("HOOKLATCH_SERVER__LISTEN", "HOOKLATCH__SERVER__LISTEN"),
        ("HOOKLATCH_DATABASE_URL", "HOOKLATCH__DATABASE__URL"),
        ("hooklatch__log__filter", "HOOKLATCH__LOG__FILTER"),
        ("HOOKLATCH_RETENTION_IDS_DAYS", "HOOKLATCH__RETENTION__IDS_DAYS"),
        ("HOOKLATCH_PROVIDERS_STRIPE_SECRETS", "HOOKLATCH__PROVIDERS__NAME__KEY"),
    ] {
        let list = warnings(&good, &[(name, "x")]);
        let is_spaced = name == "hooklatch__log__filter";
        let rule = if is_spaced {
            "begin it in capitals"
        } else {
            "write two underscores between the parts of a key"
        };
        let want = format!("{name}: is a variable that nothing reads; {rule}: {meant}");
        assert_eq!(list, [want]);
    }
    let named = good.replace("\"whsec_0123456789abcdef\"", "{ env = \"HOOKLATCH_PROVIDERS_STRIPE\" }");
    let env = [
        ("HOOKLATCH_PROVIDERS_STRIPE", "whsec_0123456789abcdef"),
        ("HOOKLATCH_URL", "x"),
        ("HOOKLATCH_TOKEN", "x"),
    ];
    assert_eq!(warnings(&named, &env), [""; 0], "what is named, or read by commands");
}

#[test]
fn a_reference_in_a_variable_is_followed_as_in_a_file() {
    let file = checked(STRIPE, &[("HOOKLATCH__PROVIDERS__STRIPE__SECRETS", "{file=\"/none\"}")]);
    assert_eq!(file.code, 1);
    assert!(
        file.err.contains(
            "HOOKLATCH__PROVIDERS__STRIPE__SECRETS: providers.stripe.secrets[0]: file `/none` cannot be read"
        ),
        "{}",
        file.err
    );
    assert!(file.err.ends_with("\n1 problem\n"), "{}", file.err);
    let env = [("HOOKLATCH__PROVIDERS__STRIPE__SECRETS", "{ env = \"A\" }"), ("A", "whsec_0123456789abcdef")];
    assert_eq!(warnings(&stripe("[\"*\"]"), &env), [""; 0]);
}

#[test]
fn the_result_of_each_sample_is_printed_and_written_as_json() {
    let text = lane("[\"invoice.*\", \"plan.created\"]", "/customer");
    let Checked { code, out, json, .. } = checked(&text, &[]);
    assert_eq!(code, 0);
    assert!(out.starts_with("the configuration is good: 1 provider, 1 destination; 1 warning\n"), "{out}");
    for line in [
        "samples of stripe:",
        "  invoice.paid: calls billing in lane cus_NffrFeUfNV2Hib",
        "  plan.created: would fail: lane of the route",
        "  nothing takes: ",
    ] {
        assert!(out.lines().any(|one| one.starts_with(line)), "no `{line}` in {out}");
    }
    let of = |event_type: &str| {
        let samples = json["samples"].as_array().unwrap();
        samples.iter().find(|one| one["event_type"] == event_type && one["provider"] == "stripe").unwrap()
    };
    assert_eq!(of("invoice.paid")["calls"][0]["destination"], "billing");
    assert_eq!(of("plan.created")["outcome"], "failed");
    assert_eq!(of("charge.refunded")["outcome"], "untaken");
    let empty = checked("", &[]);
    assert!(
        empty.code == 0
            && empty
                .out
                .starts_with("the configuration has no mistake, and receives nothing, 0 destinations"),
        "{}",
        empty.out
    );
}

#[test]
fn routes_cannot_depend_on_unsigned_parts() {
    const SLACK: &str = "[providers.slack]\nsecrets = [\"8f742231b10e8888abcd99yyyzzz85a5\"]\n";
    let of = |provider: &str, key: &str, text: &str| {
        let on = if provider == ADYEN { "[\"AUTHORISATION\"]" } else { "[\"*\"]" };
        let checked = checked(&routed(provider, on, &format!("{key} = '{text}'\n{BILLING}")), &[]);
        (checked.code, checked.err)
    };
    for (provider, key, text, want) in [
        (
            SLACK,
            "when",
            "headers[\"x-slack-retry-num\"] == \"1\"",
            "reads the header `x-slack-retry-num`, which no signature covers; this kind has x-slack-request-timestamp",
        ),
        (SLACK, "lane", "headers[\"x-slack-retry-num\"]", "reads the header `x-slack-retry-num`"),
        (
            GITHUB,
            "when",
            "headers[\"x-github-event\"] == \"push\"",
            "reads the header `x-github-event`, which no signature covers; read what is in the body",
        ),
        (
            ADYEN,
            "when",
            "payload.reason == \"x\"",
            "reads payload.reason, which the signature does not cover; read one of /NotificationRequestItem/pspReference",
        ),
        (
            ADYEN,
            "when",
            "envelope.NotificationRequestItem.amount.value > 0 and payload.eventDate != null",
            "reads payload.eventDate",
        ),
        (ADYEN, "lane", "/additionalData/x", "reads /additionalData/x, which the signature does not cover"),
    ] {
        let (code, err) = of(provider, key, text);
        assert!(
            code == 1 && err.contains(&format!(".routes[0].{key}: ")) && err.contains(want),
            "{text}: {err}"
        );
    }
    for (provider, key, text) in [
        (SLACK, "when", "headers[\"X-Slack-Request-Timestamp\"] is defined"),
        (
            ADYEN,
            "when",
            "payload.amount.value > 0 and envelope.NotificationRequestItem.success in [\"true\", \"false\"]",
        ),
        (ADYEN, "lane", "payload.pspReference"),
    ] {
        let (code, err) = of(provider, key, text);
        assert_eq!((code, err.as_str()), (0, ""), "{text}");
    }
}

#[test]
fn which_samples_a_condition_lets_pass_is_printed_by_type() {
    let condition = "payload.object == \"invoice\" and not envelope.livemode";
    let Checked { out, json, err, .. } =
        checked(&when("[\"invoice.paid\", \"plan.created\"]", condition), &[]);
    for line in
        ["  invoice.paid: calls billing", "  plan.created: ignored: no route takes it: `when` is false"]
    {
        assert!(out.lines().any(|one| one == line), "no `{line}` in {out}");
    }
    assert_eq!((json["warnings"].as_array().unwrap().len(), err.as_str()), (0, ""));
}

/// The examples of the manual, with their lines uncommented.
fn uncommented() -> String {
    let text = page("config.default.toml");
    let wanted = [
        "[providers.stripe]",
        "secrets = [{ env",
        "[[providers.stripe.routes]]",
        "on = [\"invoice",
        "to = \"billing\"",
        "[destinations.billing]",
        "url = \"https://billing",
        "tokens = [{ name",
    ];
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let lines: Vec<&str> = lines.filter(|line| wanted.iter().any(|one| line.starts_with(one))).collect();
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with("tokens"));
    format!("[admin]\n{}\n{}\n", tokens.join("\n"), others.join("\n"))
}

#[test]
fn intended_settings_do_not_warn() {
    let readme = blocks(&page("README.md")).into_iter();
    let readme = readme.filter(|block| block.language == "toml").map(|block| block.text);
    let env = [
        ("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef0123456789abcdef"),
        ("HOOKLATCH_OPS_TOKEN", "0123456789abcdef0123456789abcdef"),
        ("SHOP_TOKEN", "tok_0123456789abcdef0123456789abcdef"),
    ];
    let whole = readme.filter(|text| text.contains("[server]")).map(|text| {
        let text = text.replace("file = \"secrets/stripe\"", "env = \"STRIPE_WEBHOOK_SECRET\"");
        text.replace("file = \"secrets/ops_token\"", "env = \"HOOKLATCH_OPS_TOKEN\"")
    });
    let others = [
        uncommented(),
        stripe("[\"customer.*\", \"checkout.session.completed\"]"),
        stripe("[\"invoice.voided\", \"charge.dispute.created\", \"plan.updated\"]"),
        github("types = [\"issues.*\", \"push\"]\n", "[\"issues.reopened\", \"push\"]"),
        lane("[\"invoice.*\"]", "/customer"),
        template("body", "{\"id\":{{ payload.id }},\"x\":{{ payload.nothing | default(0) }}}"),
    ];
    let mut texts_n = 0;
    for text in whole.chain(others) {
        texts_n += 1;
        assert_eq!(warnings(&text, &env), [""; 0], "{text}");
    }
    assert_eq!(texts_n, 7, "README has one whole configuration");
}
