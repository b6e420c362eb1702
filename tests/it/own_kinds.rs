//! Kinds from a folder of the operator's own: used like built-in ones, and every mistake in them reported with its
//! file, key and remedy.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::process::{Server, client, now_s};

/// A secret of the length that a sender would make.
const SECRET: &str = "acme-secret-0123456789abcdef0123";

fn hooklatch(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What step one of `providers/README.md` does.
fn scaffold(name: &str, folder: &Path) {
    let made = hooklatch(Path::new("."), &["new-kind", name, "--folder", folder.to_str().unwrap()]);
    assert!(made.status.success(), "{}", err(&made));
}

/// A folder with a `hooklatch.toml` that reads `kinds/`.
struct Place(tempfile::TempDir);

impl Place {
    fn new(more: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.path("kinds")).unwrap();
        std::fs::write(place.path("hooklatch.toml"), format!("[kinds]\nfolder = \"kinds\"\n{more}")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a kind whose `provider.toml` has `from` changed `to`, without the vectors of the unchanged one.
    fn kind(&self, name: &str, from: &str, to: &str) {
        scaffold(name, &self.path("kinds"));
        std::fs::write(self.path(&format!("kinds/{name}/vectors.json")), "[]").unwrap();
        self.edit(&format!("kinds/{name}/provider.toml"), from, to);
    }

    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name} has no {from}");
        std::fs::write(self.path(name), text.replacen(from, to, 1)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        hooklatch(self.0.path(), arguments)
    }

    /// The problems that `check` has, as JSON objects.
    fn problems(&self) -> Vec<serde_json::Value> {
        let said: serde_json::Value = serde_json::from_str(&out(&self.run(&["check", "--json"]))).unwrap();
        said["problems"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn a_kind_made_by_the_steps_of_the_readme_receives_a_signed_request() {
    let more = format!("[kinds]\nfolder = \"kinds\"\n[providers.acme]\nsecrets = [\"{SECRET}\"]\n");
    let database = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", database.path().join("a.db").display());
    let mut server = Server::prepare(&url, &more);
    let config = server.config();
    let folder = config.parent().unwrap();
    scaffold("acme", &folder.join("kinds"));
    let vectors = hooklatch(folder, &["sign", "acme", "--vectors"]);
    assert!(vectors.status.success(), "{}", err(&vectors));
    std::fs::write(folder.join("kinds/acme/vectors.json"), &vectors.stdout).unwrap();
    let checked = hooklatch(folder, &["check"]);
    assert!(
        checked.status.success() && out(&checked).contains("4 vectors"),
        "{}{}",
        out(&checked),
        err(&checked)
    );

    server.server_keys("test = true");
    server.spawn().await;
    let sent = hooklatch(folder, &["send", "acme", "thing.changed", "--count", "3", "--duplicate", "1"]);
    assert!(sent.status.success() && out(&sent).contains("3  200 accepted"), "{}{}", out(&sent), err(&sent));
    let forged = hooklatch(folder, &["send", "acme", "--bad-signature"]);
    assert!(forged.status.success() && out(&forged).contains("401"), "{}{}", out(&forged), err(&forged));
    let unsigned = client().post(server.url("/webhooks/acme")).body("{}").send().await.unwrap();
    assert_eq!(unsigned.status().as_u16(), 401);
}

#[test]
fn a_new_kind_passes_check_and_is_not_overwritten() {
    let place = Place::new("");
    let made = place.run(&["new-kind", "acme_pay"]);
    assert!(made.status.success(), "{}", err(&made));
    for left in ["kinds/acme_pay/provider.toml", "[providers.acme_pay]", "ACME_PAY_SECRET", "hooklatch check"]
    {
        assert!(out(&made).contains(left), "no `{left}` in {}", out(&made));
    }
    let checked = place.run(&["check"]);
    assert!(checked.status.success(), "{}", err(&checked));
    assert!(out(&checked).contains("4 vectors and 2 pairs"), "{}", out(&checked));
    assert!(!err(&checked).contains("identity.json"), "{}", err(&checked));

    let guide = place.run(&["new-kind", "--guide"]);
    assert!(guide.status.success() && out(&guide).contains("| `timestamp_header`, "), "{}", out(&guide));
    let again = place.run(&["new-kind", "acme_pay"]);
    assert!(!again.status.success() && err(&again).contains("is there already"), "{}", err(&again));
    let misnamed = place.run(&["new-kind", "../acme"]);
    assert!(!misnamed.status.success() && !place.path("acme").exists(), "{}", err(&misnamed));
}

#[test]
fn check_warns_of_a_kind_without_an_identity_file() {
    let place = Place::new("");
    scaffold("acme", &place.path("kinds"));
    std::fs::remove_file(place.path("kinds/acme/identity.json")).unwrap();
    let checked = place.run(&["check"]);
    assert!(checked.status.success(), "{}", err(&checked));
    assert!(err(&checked).contains("kinds/acme/identity.json: is missing"), "{}", err(&checked));
}

#[test]
fn a_route_filters_the_events_of_a_kind_of_the_folder_without_any_rust() {
    let place = Place::new(&format!(
        "[providers.acme]\nsecrets = [\"{SECRET}\"]\n[[providers.acme.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         when = \"payload.type in ['thing.changed'] and envelope.created > 0\"\nlane = \"envelope.data.id\"\n\
         [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n"
    ));
    scaffold("acme", &place.path("kinds"));
    let said = out(&place.run(&["check"]));
    for line in [
        "  thing.changed: calls billing in lane thing_1",
        "  thing.created: ignored: no route takes it: `when` is false",
    ] {
        assert!(said.lines().any(|one| one == line), "no `{line}` in {said}");
    }
}

#[test]
fn every_command_knows_a_kind_of_the_folder() {
    let place = Place::new("");
    place.kind("acme", "title = \"acme\"", "title = \"Acme Ltd\"");
    assert!(out(&place.run(&["providers"])).contains("Acme Ltd"));
    assert!(out(&place.run(&["providers", "acme"])).contains("thing.created, thing.deleted"));
    let signed = place.run(&["sign", "acme", "--now", "1700000000", "--headers"]);
    assert!(out(&signed).contains("acme-signature: t=1700000000,v1="), "{}", out(&signed));
    let vectors = place.run(&["sign", "acme", "--vectors"]);
    std::fs::write(place.path("v.json"), &vectors.stdout).unwrap();
    let judged = place.run(&["vectors", "v.json"]);
    assert!(judged.status.success() && out(&judged).contains("acme-own-stale"), "{}", out(&judged));
    let request = format!(
        "# now={}\nPOST /webhooks/acme HTTP/1.1\n{}\n{{\"id\":\"e\",\"type\":\"t\"}}",
        now_s(),
        "acme-signature: t=1,v1=00\n"
    );
    std::fs::write(place.path("saved"), request).unwrap();
    let explained = place.run(&["explain", "saved"]);
    assert!(out(&explained).contains("at step `timestamp`"), "{}{}", out(&explained), err(&explained));
}

#[test]
fn each_mistake_in_a_kind_names_its_file_its_key_and_its_remedy() {
    #[track_caller]
    fn check(from: &str, to: &str, key: &str, words: &str) {
        let place = Place::new("[providers.acme]\nsecrets = [\"acme-secret-0123456789abcdef0123\"]\n");
        place.kind("acme", from, to);
        let problems = place.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        assert_eq!(problems[0]["source"], "kinds/acme/provider.toml");
        assert_eq!(problems[0]["key"], key);
        let said =
            format!("{}; {}", problems[0]["why"].as_str().unwrap(), problems[0]["remedy"].as_str().unwrap());
        assert!(said.contains(words) && !problems[0]["remedy"].as_str().unwrap().is_empty(), "{said}");
    }
    check("secret = \"text\"", "secert = \"text\"", "signature.secert", "did you mean `secret`?");
    check("hmac-sha256", "md5", "signature.scheme", "write one of `hmac-sha256`");
    check("scheme = \"hmac-sha256\"", "scheme = \"code\"", "signature.scheme", "use a named scheme");
    check("kind = \"acme\"", "kind = \"other\"", "kind", "write kind = \"acme\", or rename the folder");
    check("kind = \"acme\"", "replaces_builtin = true\nkind = \"acme\"", "replaces_builtin", "leave it out");
    check("horizon_h = 72", "horizon_h = 0", "horizon_h", "write a number from 1 to");
    check("docs = ", "# docs = ", "docs", "is missing; write it");
    check("kind = \"acme\"", "kind = \"acme", "kind", "line 3");
    check("{timestamp}.{body}", "{timestamp}", "signature.signed", "does not cover {body}");
    // What no file can say is an error with a remedy.
    let code = "this sender needs a mod.rs and a build: \"Where the file ends\" in providers/README.md";
    check("hmac-sha256", "pgp", "signature.scheme", code);
    check("{timestamp}.{body}", "{timestamp}.{3des:/order}", "signature.signed", code);
    check("{timestamp}.{body}", "{timestamp}.{header:digest}", "signature.signed", "write {sha256:body} or");
    check("v1={signature}", "v1={sgnature}", "signature.layout", "sgnature");
}

#[test]
fn mistakes_of_all_kinds_are_reported_together() {
    let place = Place::new("[server]\nlisten = \"x\"\n[providers.beta]\nsecrets = []\n");
    place.kind("acme", "hmac-sha256", "md5");
    place.kind("beta", "horizon_h = 72", "horizon = 72");
    std::fs::create_dir(place.path("kinds/empty")).unwrap();
    std::fs::create_dir(place.path("kinds/.hidden")).unwrap();
    std::fs::write(place.path("kinds/notes.txt"), "not a kind").unwrap();
    let keys: Vec<String> = place
        .problems()
        .iter()
        .map(|one| format!("{}: {}", one["source"].as_str().unwrap(), one["key"].as_str().unwrap()))
        .collect();
    let want = [
        "hooklatch.toml: server.listen",
        "kinds/acme/provider.toml: signature.scheme",
        "kinds/beta/provider.toml: ",
        "kinds/beta/provider.toml: horizon_h",
        "kinds/empty/provider.toml: ",
    ];
    for (got, want) in keys.iter().zip(want) {
        assert!(got.starts_with(want), "{keys:#?}");
    }
    assert_eq!(keys.len(), want.len(), "{keys:#?}");
    std::fs::write(
        place.path("hooklatch.toml"),
        "[kinds]\nfolder = \"kinds\"\n[providers.acme]\nsecrets = [\"x\"]\n",
    )
    .unwrap();
    for others in [&["providers", "stripe"][..], &["sign", "stripe"]] {
        let other = place.run(others);
        assert!(other.status.success(), "a broken kind does not stop others: {}", err(&other));
    }
    assert!(err(&place.run(&["sign", "acme"])).contains("md5"));
    assert!(!place.run(&["serve"]).status.success(), "the receiver does not start with it");
}

#[test]
fn a_built_in_name_is_taken_unless_the_file_says_that_it_replaces_it() {
    let place = Place::new("");
    scaffold("stripe", &place.path("kinds"));
    std::fs::write(place.path("kinds/stripe/vectors.json"), "[{}]").unwrap();
    let problems = place.problems();
    assert_eq!(problems.len(), 1, "the vectors of a broken kind are reported once: {problems:#?}");
    std::fs::write(place.path("kinds/stripe/vectors.json"), "[]").unwrap();
    assert!(problems[0]["remedy"].as_str().unwrap().contains("replaces_builtin = true"), "{problems:#?}");
    place.edit("kinds/stripe/provider.toml", "kind = ", "replaces_builtin = true\nkind = ");
    assert_eq!(place.problems(), Vec::<serde_json::Value>::new());
    assert!(out(&place.run(&["providers", "stripe"])).contains("thing.created"));
}

#[test]
fn samples_and_vectors_are_judged_by_check() {
    let place = Place::new("");
    scaffold("acme", &place.path("kinds"));
    std::fs::write(place.path("kinds/acme/samples/broken.json"), "{\"type\":\"x\"}").unwrap();
    let problems = place.problems();
    assert_eq!(problems[0]["source"], "kinds/acme/samples/broken.json");
    assert!(problems[0]["why"].as_str().unwrap().contains("/id is missing"), "{problems:#?}");
    std::fs::remove_file(place.path("kinds/acme/samples/broken.json")).unwrap();

    let vectors = out(&place.run(&["sign", "acme", "--vectors"]));
    let wrong = vectors.replacen("\"expect\":\"valid\"", "\"expect\":\"invalid\"", 1);
    let wrong = wrong.replacen("\"kind\":\"acme\"", "\"kind\":\"stripe\"", 2);
    std::fs::write(place.path("kinds/acme/vectors.json"), wrong).unwrap();
    let keys: Vec<_> = place.problems().iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys, ["acme-own-ok", "acme-own-tampered"]);
    std::fs::write(place.path("kinds/acme/vectors.json"), "{").unwrap();
    assert!(place.problems()[0]["why"].as_str().unwrap().contains("is not a list of vectors"));
    std::fs::write(place.path("kinds/acme/vectors.json"), " ".repeat(256 * 1024 + 1)).unwrap();
    assert!(place.problems()[0]["why"].as_str().unwrap().contains("larger than 256 KiB"));
}

#[test]
fn a_folder_that_is_not_there_or_too_full_is_a_problem_of_its_key() {
    let place = Place::new("");
    std::fs::remove_dir(place.path("kinds")).unwrap();
    let problems = place.problems();
    assert_eq!(
        (&problems[0]["source"], &problems[0]["key"]),
        (&"hooklatch.toml".into(), &"kinds.folder".into())
    );
    for n in 0..=1_000 {
        std::fs::create_dir_all(place.path(&format!("kinds/k{n}"))).unwrap();
    }
    let problems = place.problems();
    assert!(
        problems.len() == 1 && problems[0]["why"].as_str().unwrap().contains("at most 1000"),
        "{problems:#?}"
    );
    let wrong_type = Place::new("[other]\n");
    std::fs::write(wrong_type.path("hooklatch.toml"), "[kinds]\nfolder = 7\n").unwrap();
    assert_eq!(wrong_type.problems()[0]["key"], "kinds.folder");
}

#[test]
fn a_kind_of_the_folder_that_would_sign_a_strangers_body_is_refused() {
    let with = |mac: &str, more: &str| {
        let place = Place::new("");
        let handshake = format!(
            "{more}\n[[handshake]]\nmethod = \"GET\"\nquery = \"c\"\nmac = {{ of = \"{{query:c}}\"{mac} }}\n\
             json = {{ t = \"{{mac}}\" }}\n\n[[event]]"
        );
        place.kind("acme", "[[event]]", &handshake);
        place
            .problems()
            .iter()
            .map(|one| format!("{}: {}", one["key"], one["why"]))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let bounded = ", chars = \"a-z0-9\", length_max = 64";
    assert!(with("", "").contains("missing field `chars`"));
    assert!(with(", chars = \"{a-z\", length_max = 64", "").contains("is no set of characters"));
    let whatever = with(bounded, "");
    assert!(whatever.contains("signature.body_object = true"), "{whatever}");
    assert_eq!(with(bounded, "body_object = true\n"), "");
}

#[test]
fn invalid_pairs_and_semantic_mistakes_are_reported_with_their_place() {
    let place = Place::new("");
    place.kind("acme", "#volatile = [\"/attempt\"]", "volatile = [\"\"]");
    let errors = err(&place.run(&["check"]));
    assert!(
        errors.contains("event.volatile: line ") && errors.contains("no two events would differ"),
        "{errors}"
    );
    let place = Place::new("");
    place.kind("acme", "", "");
    for after_s in ["-1", "9223372036854775807", "-9223372036854775808"] {
        let pair = format!(
            "[{{\"what\": \"a retry\", \"source\": \"rule\", \"expect\": \"copy\", \
             \"first\": {{\"sample\": \"thing.created\"}}, \"second\": {{\"after_s\": {after_s}}}}}]"
        );
        std::fs::write(place.path("kinds/acme/identity.json"), pair).unwrap();
        let errors = err(&place.run(&["check"]));
        assert!(errors.contains(&format!("a retry: after_s is {after_s}: write seconds")), "{errors}");
    }
}
