//! The library's API: built-in kinds by name, and the error for an unknown one.

use hooklatch::prelude::*;
use hooklatch::testing::{AppExt, Trial};

use crate::process::SECRET;
use hooklatch_receive::provider::Kind;

/// The words of an app that cannot be loaded or started with `kinds`.
async fn refused(kinds: Vec<Provider>, kind: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let toml = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [database]\nurl = \"sqlite://{}\"\n[providers.pay]\nkind = \"{kind}\"\nsecrets = [\"{SECRET}\"]\n",
        folder.path().join("test.db").display(),
    );
    std::fs::write(&file, toml).unwrap();
    match App::load(Some(&file), kinds) {
        Ok(app) => app.start().await.map(drop).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn an_unknown_kind_is_an_error_that_suggests_the_closest_one() {
    let why = refused(vec![kind("strpe")], "strpe").await;
    assert!(
        why.contains("this program: no built-in kind is called `strpe`; did you mean `stripe`?"),
        "{why}"
    );
    assert_eq!(why.matches("strpe").count(), 1, "reported once: {why}");
    let why = refused(vec![kind("nothing of the sort")], "stripe").await;
    assert!(why.contains("`hooklatch providers` lists those that there are"), "{why}");
    let why = refused(vec![Provider::from_spec("kind = \"acme\"\ntitle = 7")], "acme").await;
    assert!(why.contains("this program: provider.toml of `acme`: "), "{why}");
}

#[tokio::test]
async fn a_kind_that_a_program_names_twice_is_refused_so_that_no_handler_is_lost() {
    let nothing = |_: Event<serde_json::Value>| Ok(Effects::new());
    let twice =
        || vec![kind("stripe").on("invoice.paid", nothing), kind("stripe").on("charge.refunded", nothing)];
    let want = "this program: two kinds are called `stripe`, and the handlers of one of them would never run; put all \
                handlers on one: `kind(\"stripe\").on(…).on(…)`";
    let why = refused(twice(), "stripe").await;
    assert!(why.contains(want), "{why}");
    let folder = tempfile::tempdir().unwrap();
    let why = Trial::start(folder.path(), twice(), &[], |app| app).await.err().unwrap().to_string();
    assert!(why.contains(want), "{why}");
}

#[tokio::test]
#[ignore = "run by `a_trial_takes_nothing_from_the_environment`, which sets one"]
async fn a_trial_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = |_: Event<serde_json::Value>| Ok(Effects::new().call("receipts", ()));
    let kinds = vec![kind("stripe").on("invoice.paid", nothing)];
    let trial = Trial::start(folder.path(), kinds, &["receipts"], |app| app).await.unwrap();
    assert_eq!(trial.send("stripe", "invoice.paid", "evt_1").await.unwrap(), "accepted");
    assert!(folder.path().join("trial.db").exists());
    trial.stop().await;
}

#[test]
fn a_trial_takes_nothing_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.db");
    let trial = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "library::a_trial_in_its_folder"])
        .env("HOOKLATCH__DATABASE__URL", format!("sqlite://{}", real.display()))
        .env("HOOKLATCH__DESTINATIONS__RECEIPTS__URL", "no address at all")
        .env("HOOKLATCH__KINDS__FOLDER", "/nowhere")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&trial.stdout);
    assert!(stdout.contains("1 passed"), "{stdout}");
    assert!(!real.exists(), "a test wrote into the database of the real one");
}

#[tokio::test]
async fn a_hand_built_app_reports_the_same_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let url = folder.path().join("test.db");
    std::fs::write(&file, format!("[database]\nurl = \"sqlite://{}\"\n", url.display())).unwrap();
    let app = App::load(Some(&file), Vec::new()).unwrap().provider(kind("strpe"));
    let why = app.start().await.map(drop).unwrap_err().to_string();
    assert_eq!(why, "no built-in kind is called `strpe`; did you mean `stripe`?");
    assert!(!url.exists(), "nothing was opened");
}

#[test]
fn every_built_in_kind_is_given_by_its_name_with_code_and_samples() {
    for built_in in hooklatch_receive::providers::builtin() {
        let named = kind(built_in.kind());
        assert_eq!(named.kind(), built_in.kind());
        assert_eq!(named.sample_list(), built_in.sample_list());
        assert!(!named.sample_list().is_empty(), "{}", named.kind());
    }
}
