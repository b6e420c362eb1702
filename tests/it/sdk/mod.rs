//! The senders' own SDKs as the other side, both ways. `scripts/sdk` installs them, `docs/sdks.md` lists them.

pub mod runner;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_receive::vectors::Vector;
use hooklatch_verify::{DevKeys, SignAt};
use serde_json::{Map, Value, json};

use crate::database::{Database, On};
use crate::process::{Server, client, now_s};
use runner::{Row, Runner, installed};

const MONTH_S: i64 = 30 * 86_400;
const ID: &str = "1234567";

/// What is done to a request on its way.
const CASES: [&str; 4] = ["as signed", "one bit flipped", "a month old", "wrong secret"];

/// A request with what is to become of it.
struct Case {
    row: usize,
    what: &'static str,
    /// `sdk` or `key`, as its row signs; `us`.
    signer: String,
    request: Map<String, Value>,
}

/// What a request is signed from: one of the kind's samples, at `at_s`.
fn unsigned(row: &Row, kind: &Provider, sample_n: usize, at_s: i64) -> (Map<String, Value>, SignAt) {
    let (event_type, sample) = kind.sample_list()[sample_n];
    let body = filled_sample(sample, ID, at_s);
    // Mercado Pago says in the URL what the body is about.
    let read: Option<Value> = serde_json::from_str(&body).ok();
    let about = read.as_ref().and_then(|body| body.pointer("/data/id")?.as_str()).unwrap_or("123456789");
    let url = format!("https://hooks.example.com/webhooks/{}?data.id={about}", row.kind);
    let at = SignAt { now_s: at_s, url, id: ID.to_owned(), event_type: event_type.to_owned() };
    let ask = json!({ "row": row.n, "body": body, "url": at.url, "now": at_s, "id": ID, "type": event_type });
    (ask.as_object().unwrap().clone(), at)
}

/// The kind with one of a row's keys.
fn provider(row: &Row, kind: &Provider, key: usize) -> ActiveProvider {
    let vector = json!({ "id": "", "kind": row.kind, "now": 0, "expect": "",
        "secrets": row.keys[key].get("secrets").unwrap_or(&json!([])),
        "settings": row.keys[key].get("settings").unwrap_or(&json!({})) });
    let vector: Vector = serde_json::from_value(vector).unwrap();
    vector.provider(kind).unwrap_or_else(|why| panic!("{}: {why}", row.name()))
}

/// The same with another bit at the place in the row.
fn flipped(row: &Row, request: &Map<String, Value>) -> Map<String, Value> {
    let flip = |text: &str, after: &str| {
        let from = text.find(after).unwrap_or_else(|| panic!("{}: no {after} in {text}", row.name()));
        let digits: Vec<usize> =
            text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(n, _)| n).collect();
        let first = digits.iter().find(|n| **n >= from + after.len());
        let n = if after.is_empty() { digits.last() } else { first };
        let mut bytes = text.as_bytes().to_vec();
        bytes[*n.unwrap_or_else(|| panic!("{}: no digit in {text}", row.name()))] ^= 1;
        Value::from(String::from_utf8(bytes).unwrap())
    };
    let text = |name: &str| request[name].as_str().unwrap();
    let mut changed = request.clone();
    match row.flip.split_once(':') {
        Some(("header", name)) => {
            let value = flip(request["headers"][name].as_str().unwrap(), " ");
            changed["headers"][name] = value;
        }
        Some((_, after)) => changed["body"] = flip(text("body"), after),
        None if row.flip == "url" => changed["url"] = flip(text("url"), "data.id="),
        None => changed["body"] = flip(text("body"), ""),
    }
    changed
}

/// All cases of one signer: valid, flipped, a day old, signed with another key.
fn cases_of(row: &Row, signer: &str, signed: Vec<Map<String, Value>>) -> Vec<Case> {
    let bent = flipped(row, &signed[0]);
    let [good, old, strange] = <[_; 3]>::try_from(signed).unwrap();
    let requests = CASES.into_iter().zip([good, bent, old, strange]);
    let case = |(what, request)| Case { row: row.n, what, signer: signer.to_owned(), request };
    requests.map(case).collect()
}

/// When, and with which of the row's keys, the three requests of a signer are signed.
fn times(now_s: i64) -> [(i64, usize); 3] {
    [(now_s, 0), (now_s - MONTH_S, 0), (now_s, 1)]
}

/// One of the kind's samples as `sign` makes it; `None` where it cannot.
fn signed_here(
    row: &Row,
    kind: &Provider,
    sample_n: usize,
    (at_s, key): (i64, usize),
) -> Option<Map<String, Value>> {
    let (mut request, at) = unsigned(row, kind, sample_n, at_s);
    let signed = provider(row, kind, key).sign(request["body"].as_str().unwrap().as_bytes(), &at).ok()?;
    request["body"] = String::from_utf8(signed.body).unwrap().into();
    let headers = signed.headers.into_iter().map(|(name, value)| (name, value.into()));
    request.insert("headers".to_owned(), Value::Object(headers.collect()));
    Some(request)
}

/// Our cases; an SDK has to read the kind's other samples as well.
fn signed_by_us(row: &Row, kind: &Provider, now_s: i64) -> Vec<Case> {
    let signed = |sample_n, time| signed_here(row, kind, sample_n, time).filter(|_| row.ours);
    let Some(requests) = times(now_s).into_iter().map(|time| signed(0, time)).collect::<Option<_>>() else {
        return Vec::new();
    };
    let others = (1..kind.sample_list().len()).filter_map(|n| signed(n, (now_s, 0)));
    let case = |request| Case { row: row.n, what: CASES[0], signer: "us".to_owned(), request };
    cases_of(row, "us", requests).into_iter().chain(others.map(case)).collect()
}

fn signed_by_sdks(runner: &mut Runner, rows: &[Row], kinds: &[Provider], now_s: i64) -> Vec<Case> {
    let signing: Vec<&Row> = rows.iter().filter(|row| !row.signs.is_empty()).collect();
    let mut asks = Vec::new();
    for row in &signing {
        for (at_s, key) in times(now_s) {
            let (mut ask, _) = unsigned(row, kind_of(kinds, row), 0, at_s);
            ask.insert("keys".to_owned(), row.keys[key].clone());
            asks.push(ask);
        }
    }
    let answers = runner.each("sign", now_s, &asks);
    let mut cases = Vec::new();
    for ((row, asks), answers) in signing.iter().zip(asks.chunks(3)).zip(answers.chunks(3)) {
        let requests = asks.iter().zip(answers).map(|(ask, answer)| {
            let headers = answer["headers"].as_object();
            let mut headers =
                headers.unwrap_or_else(|| panic!("{} does not sign: {answer}", row.name())).clone();
            let mut request = ask.clone();
            if let Some(body) = answer["body"].as_str() {
                request["body"] = body.into();
            }
            let is_form = !request["body"].as_str().unwrap().starts_with(['{', '[']);
            let of_type = if is_form { "application/x-www-form-urlencoded" } else { "application/json" };
            headers.insert("content-type".to_owned(), of_type.into());
            request.insert("headers".to_owned(), headers.into());
            request
        });
        cases.extend(cases_of(row, &row.signs, requests.collect()));
    }
    cases
}

fn kind_of<'a>(kinds: &'a [Provider], row: &Row) -> &'a Provider {
    kinds.iter().find(|kind| kind.kind() == row.kind).unwrap_or_else(|| panic!("no kind {}", row.kind))
}

/// The real binary's verdicts about all of them, each verified at `now_s` with the configuration of its row.
fn judged_by_us(rows: &[Row], cases: &[Case], now_s: i64) -> Vec<(bool, String)> {
    let vectors = cases.iter().enumerate().map(|(n, case)| {
        let keys = &rows[case.row].keys[0];
        json!({ "id": n.to_string(), "kind": rows[case.row].kind, "now": now_s, "expect": "valid",
            "optional": true, "secrets": keys.get("secrets").unwrap_or(&json!([])),
            "settings": keys.get("settings").unwrap_or(&json!({})), "url": case.request["url"],
            "headers": case.request["headers"], "body": case.request["body"] })
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sdk.json");
    std::fs::write(&file, Value::from(vectors.collect::<Vec<_>>()).to_string()).unwrap();
    let output = hooklatch(folder.path()).arg("vectors").arg(&file).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let judged = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["verdict"] == "valid", line["step"].as_str().unwrap().to_owned())
    });
    judged.collect()
}

/// The SDKs' verdicts about the same; `None` where one can only sign.
fn judged_by_sdks(
    runner: &mut Runner,
    rows: &[Row],
    cases: &[Case],
    now_s: i64,
) -> Vec<Option<(bool, String)>> {
    let asked: Vec<&Case> = cases.iter().filter(|case| rows[case.row].verifies).collect();
    let asks = asked.iter().map(|case| {
        let mut ask = case.request.clone();
        ask.insert("keys".to_owned(), rows[case.row].keys[0].clone());
        ask
    });
    let mut answers = runner.each("verify", now_s, &asks.collect::<Vec<_>>()).into_iter();
    let answer = |case: &Case| {
        let answer = rows[case.row].verifies.then(|| answers.next().unwrap())?;
        Some((answer["believed"] == true, answer["why"].as_str().unwrap().to_owned()))
    };
    cases.iter().map(answer).collect()
}

fn hooklatch(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.current_dir(folder);
    command
}

/// Who must accept a request to which `what` was done.
fn wanted(row: &Row, what: &str) -> (bool, bool) {
    match what {
        "as signed" => (true, true),
        "a month old" => (!["both", "us"].contains(&&*row.stale), !["both", "sdk"].contains(&&*row.stale)),
        _ => (false, false),
    }
}

/// Lines of the table of what went wrong, for one registry.
fn differences(runner: &mut Runner, rows: &[Row]) -> Vec<String> {
    let kinds = builtin();
    let now_s = now_s();
    let mut cases = signed_by_sdks(runner, rows, &kinds, now_s);
    cases.extend(rows.iter().flat_map(|row| signed_by_us(row, kind_of(&kinds, row), now_s)));
    let theirs = judged_by_sdks(runner, rows, &cases, now_s);
    let ours = judged_by_us(rows, &cases, now_s);
    let mut wrong = Vec::new();
    for ((case, ours), theirs) in cases.iter().zip(ours).zip(theirs) {
        let row = &rows[case.row];
        let wanted = wanted(row, case.what);
        let mut complain = |judge: &str, authenticated: bool, why: &str| {
            let verdict = if authenticated { "believed" } else { "refused" };
            let signer = if case.signer == "us" { "hooklatch sign" } else { &case.signer };
            wrong.push(format!(
                "{:<52} | {signer} -> {judge} | {} | {verdict}: {why}",
                row.name(),
                case.what
            ));
        };
        if ours.0 != wanted.0 {
            complain("hooklatch", ours.0, &ours.1);
        }
        if let Some((authenticated, why)) = theirs.filter(|(authenticated, _)| *authenticated != wanted.1) {
            complain("SDK", authenticated, &why);
        }
    }
    wrong
}

#[tokio::test]
async fn the_senders_sdks_and_we_believe_each_other_and_refuse_the_same() {
    let Some(sdk) = installed() else { return };
    let mut wrong = Vec::new();
    let mut packages = BTreeSet::new();
    let mut listed = Vec::new();
    for mut runner in [Runner::python(&sdk), Runner::node(&sdk)] {
        let rows = runner.rows();
        packages.extend(rows.iter().map(|row| (row.registry.clone(), row.package.clone())));
        wrong.extend(differences(&mut runner, &rows));
        if rows.iter().any(|row| row.kind == "slack") {
            accepted_once_by_the_server(&mut runner, &rows).await;
        }
        listed.extend(rows);
    }
    assert!(wrong.is_empty(), "package | signer -> judge | what was done | verdict\n{}", wrong.join("\n"));
    assert!(packages.len() >= 25, "{packages:?}");
    let page = include_str!("../../../docs/sdks.md");
    listed.sort_by_key(|row| (row.registry.clone(), row.package.to_lowercase(), row.kind.clone()));
    let kinds = builtin();
    let table: Vec<String> = listed.iter().map(|row| documented(row, &kinds)).collect();
    let table = table.join("\n");
    assert!(page.contains(&table), "put this table into docs/sdks.md:\n{table}");
}

/// A line of the table in docs/sdks.md.
fn documented(row: &Row, kinds: &[Provider]) -> String {
    let Row { package, registry, kind, .. } = row;
    let way = if row.way.is_empty() { String::new() } else { format!(" ({})", row.way) };
    let signs = match row.signs.as_str() {
        "sdk" => "yes",
        "key" => "test key",
        _ => "",
    };
    let can_sign = !signed_by_us(row, kind_of(kinds, row), now_s()).is_empty();
    let verifies = if can_sign && row.verifies { "yes" } else { "" };
    let agrees = if row.verifies && !row.signs.is_empty() { "yes" } else { "" };
    format!("| {registry} | `{package}` | `{kind}`{way} | {signs} | {verifies} | {agrees} |")
}

#[test]
fn the_binary_signs_what_the_library_signs() {
    let kinds = builtin();
    let folder = tempfile::tempdir().unwrap();
    for name in ["stripe", "standard_webhooks", "github", "slack", "square", "workos", "hubspot"] {
        let kind = kinds.iter().find(|kind| kind.kind() == name).unwrap();
        let (event_type, sample) = kind.sample_list()[0];
        let provider = kind.dev(&DevKeys::default()).unwrap();
        let body = filled_sample(sample, ID, 1_767_225_600);
        let url = format!("https://hooks.example.com/webhooks/{name}");
        let at = SignAt {
            now_s: 1_767_225_600,
            url: url.clone(),
            id: ID.to_owned(),
            event_type: event_type.to_owned(),
        };
        let signed = provider.sign(body.as_bytes(), &at).unwrap();
        let mut command = hooklatch(folder.path());
        command.args(["sign", name, "--headers", "--id", ID, "--now", "1767225600", "--url", &url]);
        let output = command.output().unwrap();
        let want: Vec<String> =
            signed.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), want.join("\n"), "{name}");
    }
}

const MORE: &str =
    "[providers.standard_webhooks]\nsecrets = [\"SECRET\"]\n[providers.slack]\nsecrets = [\"SECRET\"]\n";

/// The whole way, through a running server: the first copy is accepted, the second a duplicate, others refused.
async fn accepted_once_by_the_server(runner: &mut Runner, rows: &[Row]) {
    let is_asked = |row: &&Row| ["standard_webhooks", "slack"].contains(&&*row.kind);
    let rows: Vec<Row> = rows.iter().filter(is_asked).cloned().collect();
    let secret = |row: &Row| row.keys[0]["secrets"][0].as_str().unwrap().to_owned();
    let of = |kind: &str| secret(rows.iter().find(|row| row.kind == kind).unwrap());
    let more = MORE.replacen("SECRET", &of("standard_webhooks"), 1).replacen("SECRET", &of("slack"), 1);
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, &more).await;
    for case in signed_by_sdks(runner, &rows, &builtin(), now_s()) {
        let kind = &rows.iter().find(|row| row.n == case.row).unwrap().kind;
        let wanted: &[(u16, Option<&str>)] = match case.what {
            "as signed" => &[(200, Some("accepted")), (200, Some("duplicate"))],
            _ => &[(401, None)],
        };
        for want in wanted {
            let body = case.request["body"].as_str().unwrap().to_owned();
            let mut request = client().post(server.url(&format!("/webhooks/{kind}"))).body(body);
            for (name, value) in case.request["headers"].as_object().unwrap() {
                request = request.header(name, value.as_str().unwrap());
            }
            let response = request.send().await.unwrap();
            let outcome = response.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap());
            assert_eq!((response.status().as_u16(), outcome), *want, "{kind}, {}", case.what);
        }
    }
}
