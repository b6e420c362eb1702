//! The library door: built-in kinds by name, and what a program hears of one that there is not.

use hooklatch::prelude::*;

use crate::process::SECRET;

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
async fn a_kind_that_is_not_built_in_is_told_with_the_one_that_was_meant() {
    let why = refused(vec![kind("strpe")], "strpe").await;
    assert!(
        why.contains("this program: no built-in kind is called `strpe`; did you mean `stripe`?"),
        "{why}"
    );
    assert_eq!(why.matches("strpe").count(), 1, "told once: {why}");
    let why = refused(vec![kind("nothing of the sort")], "stripe").await;
    assert!(why.contains("`hooklatch providers` lists those that there are"), "{why}");
    let why = refused(vec![Provider::from_spec("kind = \"acme\"\ntitle = 7")], "acme").await;
    assert!(why.contains("this program: provider.toml of `acme`: "), "{why}");
}

#[tokio::test]
async fn an_app_that_is_built_by_hand_tells_it_as_well() {
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
    for built_in in hooklatch::providers::builtin() {
        let named = kind(built_in.kind());
        assert_eq!(named.kind(), built_in.kind());
        assert_eq!(named.sample_list(), built_in.sample_list());
        assert!(!named.sample_list().is_empty(), "{}", named.kind());
    }
}
