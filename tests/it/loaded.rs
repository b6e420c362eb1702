//! A configuration loaded with its kinds: each provider is built once, by its kind, and the app runs with it.

use std::sync::mpsc;

use hooklatch::App;
use hooklatch::handler::{Effects, Event};
use hooklatch::testing::AppExt;
use hooklatch_core::config::ConfigProblem;
use hooklatch_core::types::Name;
use hooklatch_operator::load::{Kinds, Loaded, Settings, load, load_for_tools};

use crate::app::{event_body, stripe_kind};
use crate::process::{SECRET, client, now_s, stripe_header};

fn settings(text: &str) -> (tempfile::TempDir, Settings) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    std::fs::write(&file, text).unwrap();
    (folder, Settings { file: Some(file), ..Settings::default() })
}

fn loaded(text: &str) -> Result<Loaded, Vec<ConfigProblem>> {
    let (_folder, settings) = settings(text);
    load(&settings, &Kinds::of(hooklatch_receive::providers::builtin()))
}

#[test]
fn a_kind_reports_mistakes_of_a_provider_at_their_key_with_a_remedy() {
    #[track_caller]
    fn check(text: &str, key: &str, why: &str, remedy: &str) {
        let problems = loaded(text).map(drop).expect_err(text);
        let [problem] = problems.as_slice() else { panic!("{problems:#?}") };
        assert_eq!(problem.key, format!("providers.{key}"));
        assert!(problem.source.ends_with("hooklatch.toml"), "{problem}");
        assert!(problem.why.contains(why) && problem.remedy.contains(remedy), "{problem}");
        let (_folder, settings) = settings(text);
        let tools = load_for_tools(&settings, &Kinds::of(hooklatch_receive::providers::builtin()));
        assert!(tools.is_ok(), "tools may sign with it: {tools:?}");
    }
    let longer = "openssl rand -hex 32";
    let correct = "`hooklatch providers KIND` says what this kind needs";
    check("[providers.stripe]\nsecrets = [\"abc\"]", "stripe.secrets", "secret 1 has 3 bytes of key", longer);
    check(
        "[providers.ably]\nsettings = { named_secrets = [{ id = \"a\", key = \"abc\" }] }",
        "ably.settings.named_secrets",
        "fewer than 16 can be guessed",
        longer,
    );
    check(
        "[providers.chargebee]\nsettings = { username = \"u\", password = \"abc\" }",
        "chargebee.settings.password",
        "has 3 bytes, and fewer",
        longer,
    );
    let published = "[providers.github]\nsecrets = [\"hooklatch-dev-secret-github----------\"]";
    check(published, "github.secrets", "is published with Hooklatch, so anybody could sign", correct);
    check("[providers.svix]\nsecrets = [\"whsec_not base64!\"]", "svix.secrets", "secret 1 is not", correct);
}

#[test]
fn a_provider_is_made_once_with_the_url_that_its_sender_was_given() {
    let text = format!(
        "[server]\npublic_url = \"https://hooks.example.com/\"\n[providers.eu]\nkind = \"stripe\"\nsecrets = [\"{SECRET}\"]\n"
    );
    let loaded = loaded(&text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let names: Vec<&Name> = loaded.active.keys().collect();
    assert_eq!(names, loaded.config.providers.keys().collect::<Vec<_>>());
    let active = loaded.active.values().next().unwrap();
    assert_eq!(active.url(), "https://hooks.example.com/webhooks/eu");
    assert_eq!(active.spec().kind, "stripe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_added_to_a_loaded_app_takes_the_place_of_the_one_it_was_loaded_with() {
    let (folder, settings) = settings("");
    let file = settings.file.unwrap();
    let listen = "listen = \"127.0.0.1:0\"";
    let text = format!(
        "[server]\n{listen}\n[admin]\n{listen}\n[database]\nurl = \"sqlite://{}\"\n[providers.stripe]\nsecrets = [\"{SECRET}\"]\n",
        folder.path().join("a.db").display()
    );
    std::fs::write(&file, text).unwrap();
    let (sender, receiver) = mpsc::channel();
    let kind = stripe_kind().on("invoice.paid", move |event: Event<serde_json::Value>| {
        sender.send(event.id).ok();
        Ok(Effects::new())
    });
    let running = App::load(Some(&file), Vec::new()).unwrap().provider(kind).start().await.unwrap();
    let body = event_body("evt_1", "invoice.paid", 1);
    let url = format!("http://{}/webhooks/stripe", running.receiver_addr);
    let header = stripe_header(&body, now_s());
    let answer = client().post(url).header("stripe-signature", header).body(body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(receiver.recv().unwrap(), "evt_1");
    running.stop().await;
}
