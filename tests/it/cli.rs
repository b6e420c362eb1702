//! The built binary from outside: what it prints, where, and its exit codes (0 fine, 1 not fine, 2 usage).

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A folder to run in, so that no `hooklatch.toml` of the machine is read.
struct Place(tempfile::TempDir);

/// The exit code and output of one run.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(arguments).envs(env.iter().copied()).current_dir(self.0.path());
        ran(&command.output().unwrap())
    }
}

fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// The value of a header line of `sign --headers`.
fn header<'a>(lines: &'a str, name: &str) -> &'a str {
    let line = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no header {name} in {lines}"))
}

#[test]
fn usage_errors_end_with_2() {
    let place = Place::new();
    for arguments in [
        &["nonsense"][..],
        &["sign"],
        &["sign", "absent"],
        &["sign", "stripe", "--type", "no.such.type"],
        &["sign", "stripe", "--now", "soon"],
        &["providers", "absent"],
        &["send", "absent"],
        &["send", "stripe", "--count", "0"],
        &["vectors"],
        &["new-kind", "Bad Name"],
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn check_says_everything_at_once_even_what_only_the_kind_knows() {
    let place = Place::new();
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    place.write("hooklatch.toml", "[server]\nlisten = \"x\"\n[providers.adyen]\nsecrets = [\"cafe0123\"]\n");
    let ran = place.run_with(&["check"], &[("HOOKLATCH__LOG__LEVEL", "info")]);
    assert_eq!(ran.code, 1);
    for part in [
        "hooklatch.toml: server.listen: `x` is not an address",
        "hooklatch.toml: providers.adyen.secrets:",
        "HOOKLATCH__LOG__LEVEL: log.level: is not a key",
        "3 problems",
    ] {
        assert!(ran.err.contains(part), "no `{part}` in {}", ran.err);
    }
    assert!(!ran.err.contains("cafe0123"), "{}", ran.err);
    let ran = place.run(&["check", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["ok"]), (1, &serde_json::Value::Bool(false)));
    assert_eq!(report["problems"][0]["key"], "providers.adyen.secrets");
    assert_eq!(report["problems"][1]["value"], "x");
    assert!(report["problems"].as_array().unwrap().len() == 2 && report["problems"][1]["remedy"].is_string());
}

#[test]
fn a_variable_that_is_not_utf8_is_a_problem_with_its_name() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    let text = std::ffi::OsStr::from_bytes(b"caf\xe9");
    command.arg("check").env("HOOKLATCH__SERVER__NAME", text).env("LESSCHARSET", text);
    let ran = ran(&command.current_dir(place.0.path()).output().unwrap());
    let want = "HOOKLATCH__SERVER__NAME: is not UTF-8; write the variable in UTF-8, or unset it";
    assert!(ran.code == 1 && ran.err.contains(want) && !ran.err.contains("LESSCHARSET"), "{}", ran.err);
}

#[test]
fn check_reads_the_file_that_was_named_and_nothing_else() {
    let place = Place::new();
    place.write("hooklatch.toml", "nonsense = 1\n");
    let good = place.write("good.toml", "[log]\nfilter = \"debug\"\n");
    assert_eq!(place.run(&["check", "--config", &good]).code, 0);
    assert_eq!(place.run(&["check"]).code, 1);
    let ran = place.run(&["check", "--config", "missing.toml"]);
    assert!(ran.code == 1 && ran.err.contains("missing.toml: cannot be read"), "{}", ran.err);
}

#[test]
fn commands_that_look_into_a_database_make_none_where_none_is() {
    let place = Place::new();
    for command in ["what-if", "prune", "keys", "restore-check"] {
        let ran = place.run(&[command]);
        let is_said =
            ran.err.contains("there is no database `hooklatch.db`") && ran.err.contains("--config FILE");
        assert!(ran.code == 1 && is_said, "{command}: {}", ran.err);
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn an_address_that_is_taken_is_named_with_its_key_and_a_remedy() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for (key, variable, other) in [
        ("server.listen", "HOOKLATCH__SERVER__LISTEN", "HOOKLATCH__ADMIN__LISTEN"),
        ("admin.listen", "HOOKLATCH__ADMIN__LISTEN", "HOOKLATCH__SERVER__LISTEN"),
    ] {
        let ran = place.run_with(&["serve"], &[(variable, &addr), (other, "127.0.0.1:0")]);
        let want = format!("could not listen on {addr}: Address already in use (os error 98); ");
        let cure = format!("stop the program that listens there, or give {key} another port");
        assert!(ran.code == 1 && ran.err.contains(&want) && ran.err.contains(&cure), "{}", ran.err);
    }
}

#[test]
fn serve_refuses_a_configuration_with_problems_and_an_open_dev_server() {
    let place = Place::new();
    place.write("hooklatch.toml", "[providers.stripe]\nsecrets = [{ env = \"NOT_SET\" }]\n");
    let ran = place.run(&["serve"]);
    assert!(ran.code == 1 && ran.err.contains("`NOT_SET` is not set"), "{}", ran.err);
    let ran = place.run_with(
        &["serve", "--dev"],
        &[("HOOKLATCH__SERVER__LISTEN", "0.0.0.0:0"), ("NOT_SET", "0123456789abcdef0123")],
    );
    assert!(ran.code == 1 && ran.err.contains("can be reached from other machines"), "{}", ran.err);
}

#[test]
fn providers_are_listed_for_people_and_for_programs() {
    let place = Place::new();
    let ran = place.run(&["providers", "--json"]);
    let kinds: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(kinds.len() >= 11 && kinds.iter().any(|kind| kind["kind"] == "stripe"), "{}", ran.out);
    assert!(place.run(&["providers"]).out.contains("stripe"));
    let ran = place.run(&["providers", "adyen"]);
    assert!(ran.out.contains("HMAC-SHA-256 over eight fields"), "code is described in words: {}", ran.out);
    let ran = place.run(&["providers", "stripe"]);
    assert!(ran.code == 0 && ran.out.contains("payment_intent.succeeded"), "{}", ran.out);
    // What a handler sees, and what it does not.
    let payload = "payload       `/data/object` of body; `envelope` is all of it";
    assert!(ran.out.contains(payload), "{}", ran.out);
}

#[test]
fn sign_is_offline_and_the_same_for_the_same_input() {
    let place = Place::new();
    let body = place.write("body.json", "{\"id\":\"evt_1\",\"type\":\"a\"}");
    let arguments = [
        "sign",
        "stripe",
        "--body",
        &body,
        "--secret",
        "whsec_test_secret",
        "--now",
        "1700000000",
        "--headers",
    ];
    let ran = place.run(&arguments);
    // HMAC-SHA-256 of `1700000000.{"id":"evt_1","type":"a"}`, by openssl.
    let want = "t=1700000000,v1=68b0d3aa7fdb030ad56016e5a527ba3941ca367955ea73646feab0f0c34db7bb";
    assert_eq!((ran.code, header(&ran.out, "stripe-signature")), (0, want), "{}", ran.err);
    assert_eq!(place.run(&arguments).out, ran.out);
}

#[test]
fn sign_takes_the_configured_secret_and_warns_when_there_is_none() {
    let place = Place::new();
    let body = place.write("body.json", "{}");
    let sign = |more: &[&str]| {
        let common = ["sign", "stripe", "--body", &body, "--now", "1700000000", "--headers"];
        place.run(&[&common, more].concat())
    };
    let by_dev = sign(&[]);
    assert!(by_dev.code == 0 && by_dev.err.contains("dev secret"), "{}", by_dev.err);
    place.write(
        "hooklatch.toml",
        "[providers.shop]\nkind = \"stripe\"\nsecrets = [\"whsec_configured_0123\"]\n",
    );
    let by_config = sign(&[]);
    let by_flag = sign(&["--secret", "whsec_configured_0123"]);
    assert!(
        by_config.err.is_empty() && by_config.out == by_flag.out && by_config.out != by_dev.out,
        "{}",
        by_config.err
    );
    // A broken configuration must not end in a signature by another secret than the one it means.
    place.write("hooklatch.toml", "nonsense = 1\n");
    let broken = sign(&[]);
    assert!(broken.code == 1 && broken.out.is_empty() && broken.err.contains("nonsense"), "{}", broken.err);
    assert_eq!(sign(&["--secret", "whsec_configured_0123"]).out, by_flag.out);
}

#[test]
fn every_kind_signs_a_sample_as_a_command_that_a_shell_takes() {
    let place = Place::new();
    let kinds = place.run(&["providers", "--json"]).out;
    for line in kinds.lines() {
        let kind: serde_json::Value = serde_json::from_str(line).unwrap();
        let kind = kind["kind"].as_str().unwrap();
        let ran = place.run(&["sign", kind]);
        assert_eq!(ran.code, 0, "{kind}: {}", ran.err);
        let is_post = ran.out.contains(&format!("/webhooks/{kind}'")) && ran.out.contains("--data-binary");
        let is_get = ran.out.contains(&format!("/webhooks/{kind}?")) && !ran.out.contains("--data");
        assert!(if kind == "mangopay" { is_get } else { is_post }, "{}", ran.out);
        let parsed = Command::new("sh").args(["-n", "-c", &ran.out]).status().unwrap();
        assert!(parsed.success(), "{}", ran.out);
    }
}

#[test]
fn what_is_published_is_refused_outside_of_development() {
    let place = Place::new();
    let published = |name: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        root.join("crates/verify/src/published").join(name).display().to_string()
    };
    let key = format!("{{ file = \"{}\" }}", published("rsa_public_key.pem"));
    let certificate = format!("{{ file = \"{}\" }}", published("certificate.pem"));
    let topics = "topic_arns = [\"arn:aws:sns:us-west-2:123456789012:MyTopic\"]";
    for (kind, lines) in [
        ("wise", format!("settings = {{ profile_ids = [\"1\"], public_key_pem = {key} }}")),
        ("aws_sns", format!("settings = {{ {topics}, public_keys = [{{ id = \"x\", key = {key} }}] }}")),
        ("paypal", format!("settings = {{ webhook_id = \"W\", certificate_pem = {certificate} }}")),
        ("stripe", "secrets = [\"whsec_hooklatch-dev-secret-stripe----------\"]".to_owned()),
        (
            "rapyd",
            "settings = { access_key = \"rak_hooklatch_dev\", secret_key = \"rsk_hooklatch_dev\" }"
                .to_owned(),
        ),
        ("postmark", "settings = { username = \"u\", password = \"hooklatch-dev-password\" }".to_owned()),
    ] {
        place.write("hooklatch.toml", &format!("[providers.{kind}]\n{lines}\n"));
        let ran = place.run(&["check"]);
        assert!(ran.code == 1 && ran.err.contains("is published with Hooklatch"), "{kind}: {}", ran.err);
    }
    let private = format!("{{ file = \"{}\" }}", published("rsa_key.pem"));
    place.write("hooklatch.toml", &format!("[providers.github]\nsecrets = [{private}]\n"));
    let ran = place.run(&["check"]);
    assert!(ran.code == 1 && ran.err.contains("private key") && !ran.err.contains("BEGIN"), "{}", ran.err);
}

#[test]
fn keys_of_development_are_made_once_for_a_folder() {
    let place = Place::new();
    let sign = |place: &Place| {
        let ran = place.run(&["sign", "discord", "--id", "x", "--now", "1767225600", "--headers"]);
        assert!(ran.code == 0 && ran.err.contains("development key of this folder"), "{}", ran.err);
        ran.out
    };
    assert_eq!(sign(&place), sign(&place), "Ed25519 signs the same text alike");
    assert_ne!(sign(&place), sign(&Place::new()), "another folder has another key");
}

#[test]
fn sign_completes_a_url_that_names_the_server_alone() {
    let place = Place::new();
    for (given, want) in [
        ("http://127.0.0.1:1", "'http://127.0.0.1:1/webhooks/stripe'"),
        ("https://a.example/", "'https://a.example/webhooks/stripe'"),
        ("https://a.example/in/stripe?x=1", "'https://a.example/in/stripe?x=1'"),
    ] {
        let ran = place.run(&["sign", "stripe", "--url", given]);
        assert!(ran.out.starts_with(&format!("curl -sS -i {want} ")), "{}", ran.out);
    }
}

fn saved(place: &Place, name: &str, body: &str, signed_at: &str) -> String {
    let path = place.write("to_sign.json", body);
    let secret = ["--secret", "whsec_test_secret"];
    let ran = place
        .run(&[&["sign", "stripe", "--body", &path, "--now", signed_at, "--headers"][..], &secret].concat());
    let headers = ran.out.trim_end();
    place.write(
        name,
        &format!("# now=1700000000\nPOST /webhooks/stripe HTTP/1.1\nhost: x\n{headers}\n\n{body}"),
    )
}

#[test]
fn explain_says_at_which_step_and_what_would_help() {
    let place = Place::new();
    let explain = |file: &str| place.run(&["explain", file, "--secret", "whsec_test_secret"]);
    let body = "{\"id\":\"evt_1\",\"type\":\"invoice.paid\"}";
    let good = saved(&place, "good.http", body, "1700000000");
    let ran = explain(&good);
    assert!(
        ran.code == 0 && ran.out.contains("believed") && ran.out.contains("evt_1"),
        "{}{}",
        ran.out,
        ran.err
    );

    let stale = saved(&place, "stale.http", body, "1699990000");
    let ran = explain(&stale);
    assert!(ran.code == 1 && ran.out.contains("step `timestamp`"), "{}", ran.out);
    assert!(ran.out.contains("at its own time it would be believed"), "{}", ran.out);

    let text = std::fs::read_to_string(&good).unwrap();
    let signature = text.split("v1=").nth(1).unwrap().lines().next().unwrap().to_owned();
    let newline = place.write("newline.http", &format!("{text}\n"));
    let ran = explain(&newline);
    assert!(ran.code == 1 && ran.out.contains("with a trailing newline removed"), "{}", ran.out);
    let other =
        place.write("other.http", &text.replace("evt_1", "evt_2").replace(&signature, &"0".repeat(64)));
    let ran = explain(&other);
    assert!(ran.code == 1 && ran.out.contains("step `signature`") && ran.out.contains("hint"), "{}", ran.out);

    let unsigned = place.write("unsigned.http", "POST /webhooks/stripe\nhost: x\n\n{}");
    let ran = explain(&unsigned);
    assert!(ran.code == 1 && ran.out.contains("step `header`"), "{}", ran.out);
    assert_eq!(explain("nowhere.http").code, 1);
}

#[test]
fn explain_never_shows_what_the_signature_should_have_been() {
    let place = Place::new();
    let good = saved(&place, "good.http", "{\"id\":\"evt_1\"}", "1700000000");
    let text = std::fs::read_to_string(&good).unwrap();
    let signature = text.split("v1=").nth(1).unwrap().lines().next().unwrap().to_owned();
    let forged = place.write("forged.http", &text.replace(&signature, &"0".repeat(64)));
    let ran = place.run(&["explain", &forged, "--secret", "whsec_test_secret"]);
    assert_eq!(ran.code, 1);
    assert!(!ran.out.contains(&signature) && !ran.err.contains(&signature), "{}", ran.out);
}

#[test]
fn vectors_are_judged_in_files_and_folders() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("providers/stripe");
    let ran = place.run(&["vectors", folder.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let judged: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(judged.len() > 4, "{}", ran.out);
    for one in &judged {
        let mut keys: Vec<&String> = one.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["expect", "id", "kind", "step", "verdict"]);
    }
    let text = std::fs::read_to_string(folder.join("vectors.json")).unwrap();
    let turned =
        place.write("turned.json", &text.replace("\"expect\": \"invalid\"", "\"expect\": \"valid\""));
    let ran = place.run(&["vectors", &turned]);
    assert!(
        ran.code == 1 && ran.out.contains("DIFFERS") && ran.err.contains("verdicts differ"),
        "{}",
        ran.err
    );
    let optional = r#"{"id":"x","kind":"stripe","secrets":["whsec_x"],"headers":{},"body":"{}","now":1,"expect":"valid","optional":true}"#;
    assert_eq!(place.run(&["vectors", &place.write("optional.json", optional)]).code, 0);
    assert_eq!(place.run(&["vectors", &place.write("broken.json", "{")]).code, 1);
}

#[test]
fn a_secret_can_come_by_standard_input_so_that_no_command_line_shows_it() {
    let place = Place::new();
    let sign = |secret: &str, input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args([
            "sign",
            "stripe",
            "--headers",
            "--now",
            "1700000000",
            "--id",
            "evt_1",
            "--secret",
            secret,
        ]);
        let mut child = command
            .current_dir(place.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        ran(&child.wait_with_output().unwrap())
    };
    let secret = "whsec_0123456789abcdef";
    let typed = sign(secret, "");
    let piped = sign("-", &format!("{secret}\nmore\n"));
    assert_eq!((piped.code, &piped.out), (0, &typed.out), "{}", piped.err);
    let none = sign("-", "\n");
    assert!(none.code == 2 && none.err.contains("standard input"), "{}", none.err);
}
