//! The configuration file and its errors: all mistakes at once, each with its key and remedy.

mod credentials;
mod mistakes;
mod target;
mod tracing;

use std::path::Path;

use hooklatch_core::config::{AgeConfig, Config, ConfigProblem, OnHandlerError, Secret, UnknownPolicy};
use hooklatch_core::types::{Name, OnConflict, TypePattern};
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use hooklatch_receive::provider::{Kind, Provider, dev_secret};
use hooklatch_verify::DevKeys;

/// A kind: `more` keys of its file, those of its signature, and its settings.
fn kind(name: &str, more: &str, signature: &str, settings: &str) -> Provider {
    let kind = Provider::from_spec(&format!(
        "kind = \"{name}\"\ntitle = \"A sender\"\nconfidence = \"official\"\ndocs = \"-\"\nsecret_hint = \"-\"\n\
         answer_within_ms = 10000\n{more}\n[signature]\nscheme = \"hmac-sha256\"\nheaders = [\"x\"]\n{signature}\n\
         [[event]]\ntype = [{{ json = \"/type\" }}]\n[[event.identity]]\nis = \"sender\"\nid = [{{ json = \"/id\" }}]\n\
         signed = true\n{settings}"
    ));
    assert_eq!(kind.spec().map(drop), Ok(()));
    kind
}

fn kinds() -> Kinds {
    let timed = "layout = \"t={timestamp},v1={signature}\"\nsigned = \"{timestamp}.{body}\"\n";
    let bounded = format!("{timed}tolerance_s = 300");
    let with_url = bounded.replace(".{body}", "{url}{body}");
    let setting = |name: &str, more: &str| {
        format!("[[setting]]\nname = \"{name}\"\nhint = \"{name} is in the dashboard\"\n{more}\n")
    };
    let settings = [
        setting("webhook_id", "needed = true"),
        setting("certificate_pem", "form = \"list\""),
        setting("keys", "form = \"named\""),
    ];
    let month = "horizon_h = 720";
    let days = "horizon_h = 72";
    Kinds::of(vec![
        kind("stripe", month, &bounded, ""),
        kind("github", days, "", ""),
        kind("square", &format!("{days}\nresend_h = \"unbounded\""), &with_url, ""),
        kind("dlocal", days, &format!("{timed}age_unchecked = true"), ""),
        kind(
            "paypal",
            &format!("{days}\nresend_h = 720"),
            &format!("{bounded}\nsecrets_needed = false"),
            &settings.concat(),
        ),
        kind("bitpay", days, "may_be_unsigned = true", ""),
    ])
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

/// Loads `text` as `hooklatch.toml` of `folder` with these variables.
fn load_in(folder: &Path, text: &str, env: &[(&str, &str)]) -> Result<Config, Vec<ConfigProblem>> {
    let path = folder.join("hooklatch.toml");
    std::fs::write(&path, text).expect("a file");
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    load_for_tools(&Settings { file: Some(path), env, dev: None }, &kinds())
}

pub fn loaded(text: &str, env: &[(&str, &str)]) -> Result<Config, Vec<ConfigProblem>> {
    load_in(tempfile::tempdir().expect("a folder").path(), text, env)
}

#[track_caller]
fn right(text: &str, env: &[(&str, &str)]) -> Config {
    loaded(text, env).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

#[test]
fn what_becomes_of_a_conflict_and_which_types_are_believed_is_left_to_the_kind_unless_it_is_said() {
    let config = right(STRIPE, &[]);
    let provider = &config.providers[&name("stripe")];
    assert_eq!((provider.on_conflict, provider.types.len()), (None, 0));
    let text = format!("{STRIPE}on_conflict = \"dispatch\"\ntypes = [\"orders/create\", \"refunds/*\"]\n");
    let config = right(&text, &[("HOOKLATCH__PROVIDERS__STRIPE__ON_CONFLICT", "keep")]);
    let provider = &config.providers[&name("stripe")];
    assert_eq!(provider.on_conflict, Some(OnConflict::Keep));
    let types: Vec<&str> = provider.types.iter().map(TypePattern::as_str).collect();
    assert_eq!(types, ["orders/create", "refunds/*"]);
}

const STRIPE: &str = "[providers.stripe]\nsecrets = [\"whsec_0123456789\"]\n";
const BILLING: &str = "[destinations.billing]\nurl = \"https://billing.internal/events\"\n";

#[test]
fn all_mistakes_come_at_once_and_none_shows_a_secret() {
    let text = "[server]\nlisten = \"x\"\nports = 1\n\
        [providers.stripe]\nsecret = \"whsec_canary\"\nsecrets = [\"\", { env = \"CANARY\", other = 1 }, 7]\n\
        routes = [{ on = [\"*\"], to = \"nowhere\" }]\n\
        [database]\nurl = \"mysql://root:canary@db/x\"\n[destinations.x]\nurl = \"https://u:canary@h/\"\n";
    let problems =
        loaded(text, &[("CANARY", "canary"), ("HOOKLATCH__LOG__COLOUR", "canary")]).expect_err("wrong");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    for key in [
        "server.listen",
        "server.ports",
        "providers.stripe.secret",
        "providers.stripe.secrets[0]",
        "providers.stripe.secrets[1].other",
        "providers.stripe.secrets[2]",
        "providers.stripe.routes[0].to",
        "database.url",
        "destinations.x.url",
        "log.colour",
    ] {
        assert!(keys.contains(&key), "{key} is not in {keys:?}");
    }
    assert_eq!(problems.len(), 10, "{problems:#?}");
    assert!(!format!("{problems:?}").contains("canary"), "{problems:#?}");
}

#[test]
fn a_broken_file_is_reported_with_its_lines_and_without_its_text() {
    #[track_caller]
    fn check(text: &str, part: &str) {
        let problems = loaded(text, &[]).expect_err(text);
        let all = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(all.contains(part) && !all.contains("canary"), "{all}");
    }
    check(
        "[server]\nlisten = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n",
        "line 3, column 1: duplicate key",
    );
    check("[providers.a]\nkind = \"stripe\"\n[providers.a]\nsecrets = [\"canary\"]\n", "line 3");
    check("[server]\nlisten = \n[admin\n", "line 2");
    check("secrets = \"canary", "line 1");
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_of_that_file() {
    let file = Some("/nonexistent/hooklatch.toml".into());
    let problems =
        load_for_tools(&Settings { file, ..Settings::default() }, &kinds()).expect_err("not there");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].source, "/nonexistent/hooklatch.toml");
    assert!(problems[0].why.starts_with("cannot be read"), "{problems:?}");
}

#[test]
fn environment_overrides_the_file_and_keeps_texts_as_they_are() {
    let text = format!("{STRIPE}{BILLING}[server]\nlisten = \"127.0.0.1:1000\"\n");
    let config = right(
        &text,
        &[
            ("HOOKLATCH__SERVER__LISTEN", "127.0.0.1:2000"),
            ("HOOKLATCH__DATABASE__MIGRATE", "false"),
            ("HOOKLATCH__DATABASE__URL", "postgres://me:pw@db:5432/hooks"),
            ("HOOKLATCH__DESTINATIONS__BILLING__TIMEOUT_MS", "5000"),
            ("HOOKLATCH__DESTINATIONS__BILLING__HEADERS__AUTHORIZATION", "Bearer x"),
            ("HOOKLATCH__PROVIDERS__STRIPE__SECRETS", "12345678"),
            ("HOOKLATCH__PROVIDERS__GITHUB__SECRETS", "[\"new\", { env = \"OLD\" }]"),
            ("HOOKLATCH__OUTBOX__POLL_MS", "77"),
            ("OLD", "old"),
            ("HOOKLATCH_OTHER", "is not ours"),
        ],
    );
    assert_eq!(config.server.listen.port(), 2000);
    assert_eq!(config.server.public_url, "http://127.0.0.1:2000");
    assert!(!config.database.migrate);
    assert_eq!(config.database.url, "postgres://me:pw@db:5432/hooks");
    assert_eq!(config.outbox.poll_ms, 77);
    let billing = &config.destinations[&name("billing")];
    assert_eq!((billing.timeout_ms, billing.url.as_str()), (5_000, "https://billing.internal/events"));
    assert_eq!(billing.headers["authorization"].reveal(), "Bearer x");
    let secrets = |provider: &str| -> Vec<String> {
        config.providers[&name(provider)].secrets.iter().map(|secret| secret.reveal().to_owned()).collect()
    };
    assert_eq!(secrets("stripe"), ["12345678"]);
    assert_eq!(secrets("github"), ["new", "old"]);
}

#[test]
fn mistakes_in_variables_name_the_variable() {
    #[track_caller]
    fn check(variable: &str, text: &str, key: &str, part: &str) {
        let problems = loaded("", &[(variable, text)]).expect_err(variable);
        assert_eq!(
            (problems.len(), problems[0].source.as_str(), problems[0].key.as_str()),
            (1, variable, key)
        );
        assert!(problems[0].to_string().contains(part), "{}", problems[0]);
    }
    check("HOOKLATCH__SERVER__LISTN", "x", "server.listn", "did you mean `HOOKLATCH__SERVER__LISTEN`?");
    check("HOOKLATCH__LISTEN", "x", "listen", "is not a key");
    check("HOOKLATCH__OUTBOX__LEASE_MS", "soon", "outbox.lease_ms", "wanted a whole number");
    check("HOOKLATCH__OUTBOX__LEASE_MS", "1", "outbox.lease_ms", "out of bounds");
    check("HOOKLATCH__DATABASE__MIGRATE", "1", "database.migrate", "wanted true or false");
    check("HOOKLATCH__SERVER", "x", "server", "wanted a table");
    check(
        "HOOKLATCH__PROVIDERS__STRIPE__SECRETS",
        "[\"a\"",
        "providers.stripe.secrets",
        "is not a TOML array",
    );
    check("HOOKLATCH__PROVIDERS__STRIPE__SECRETS", "", "providers.stripe.secrets[0]", "is an empty secret");
}

#[test]
fn secrets_come_from_text_environment_and_files_beside_the_config() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("secret.txt"), "from-file\r\n").expect("a file");
    let text = "[providers.stripe]\nsecrets = [\"plain \", { env = \"S\" }, { file = \"secret.txt\" }]\n";
    let config = load_in(folder.path(), text, &[("S", "from-env")]).expect("right");
    let secrets = &config.providers[&name("stripe")].secrets;
    let texts: Vec<&str> = secrets.iter().map(Secret::reveal).collect();
    assert_eq!(texts, ["plain ", "from-env", "from-file"]);
    assert!(!format!("{config:?}").contains("from-"), "a config must not print its secrets");

    std::fs::write(folder.path().join("secret.txt"), "\n").expect("a file");
    let problems = load_in(folder.path(), text, &[("S", " ")]).expect_err("empty secrets");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["providers.stripe.secrets[1]", "providers.stripe.secrets[2]"], "{problems:#?}");
}

#[test]
fn a_full_file_becomes_the_config_it_says() {
    let text = "[server]\npublic_url = \"https://hooks.example.com/\"\n\
        [admin]\ntokens = [{ name = \"ops\", role = \"operator\", token = \"0123456789abcdef\" }]\n\
        [providers.stripe_eu]\nkind = \"stripe\"\nsecrets = [\"s\"]\non_handler_error = \"reject\"\nfirst_party = true\n\
        [[providers.stripe_eu.routes]]\non = [\"invoice.*\"]\nto = \"billing\"\nlatest = true\n\
        [destinations.billing]\nurl = \"https://billing.internal/events\"\nunknown = \"query\"\n\
        query = { url = \"https://billing.internal/{{ idempotency_key }}\", pointer = \"/state\", equals = \"done\" }\n";
    let config = right(text, &[]);
    assert_eq!(config.server.public_url, "https://hooks.example.com");
    assert_eq!(config.admin.tokens.len(), 1);
    let stripe = &config.providers[&name("stripe_eu")];
    assert_eq!((stripe.kind.as_str(), stripe.is_first_party), ("stripe", true));
    assert_eq!(stripe.on_handler_error, OnHandlerError::Reject);
    assert_eq!((stripe.routes[0].to.as_str(), stripe.routes[0].latest), ("billing", true));
    assert!(matches!(config.destinations[&name("billing")].unknown, UnknownPolicy::Query(_)));
}

#[test]
fn handlers_never_have_more_than_half_of_the_time_to_answer() {
    let of = |text: &str| right(text, &[]).server.handler_timeout_ms;
    assert_eq!(of(""), 2_000);
    assert_eq!(of("[server]\nanswer_timeout_ms = 1000"), 500);
    assert_eq!(of("[server]\nanswer_timeout_ms = 10000\nhandler_timeout_ms = 3000"), 3_000);
}

#[test]
fn kinds_without_a_signed_time_are_remembered_longer_by_themselves() {
    let text = format!("{STRIPE}[providers.github]\nsecrets = [\"s\"]\n");
    let days = |name: &str| right(&text, &[]).retention.ids_days_for(&Name::parse(name).expect("a name"));
    assert!(days("stripe") < 400 && days("github") == 400);
}

#[test]
fn ids_are_remembered_for_as_long_as_each_kind_needs_them() {
    let paypal = "[providers.paypal]\nsettings = { webhook_id = \"w\" }\n";
    let own = |name: &str| format!("[providers.{name}]\nsecrets = [\"s\"]\n");
    let text = [paypal, &own("stripe"), &own("github"), &own("square")].concat();
    let config = right(&text, &[]);
    // What is not known of resends is counted; what has no end counts as 400 days.
    for (provider, days, why) in [
        (
            "stripe",
            60,
            "its kind `stripe` sends an event again for 30 days, and nothing is known of asking it to",
        ),
        ("paypal", 33, "can be asked to send it again for 30 days, and may go on for 3 days after that"),
        ("square", 400, "can be asked to send it again without a limit"),
        ("github", 400, "signs no time whose age is bounded"),
        ("absent", 400, ""),
    ] {
        assert_eq!(config.retention.ids_days_for(&name(provider)), days, "{provider}");
        let kept = config.retention.ids_of.get(&name(provider));
        assert!(kept.is_none_or(|kept| kept.days == days && kept.why.contains(why)), "{kept:?}");
    }
    let (decides, days, _) = config.retention.deciding().expect("a provider");
    assert_eq!((decides.as_str(), days), ("github", 400), "the first by name of those that need it longest");
    let config = right(&format!("{text}[retention]\nids_days = 500\n"), &[]);
    assert!(["stripe", "github"].iter().all(|one| config.retention.ids_days_for(&name(one)) == 500));
    // What is known to be needed is a floor; what is only counted is none.
    let set = |text: &str, days: u32| loaded(&format!("{text}[retention]\nids_days = {days}\n"), &[]);
    assert_eq!(set(STRIPE, 30).expect("right").retention.ids_days_for(&name("stripe")), 30);
    assert!(set(STRIPE, 29).is_err() && set(paypal, 33).is_ok() && set(paypal, 32).is_err());
}

#[test]
fn a_bound_of_the_age_that_the_operator_sets_says_how_long_ids_are_needed() {
    let of = |text: &str| right(text, &[]).retention.ids_days_for(&name("dlocal"));
    let dlocal = "[providers.dlocal]\nsecrets = [\"s\"]\n";
    assert_eq!(of(dlocal), 400);
    assert_eq!(of(&format!("{dlocal}max_age_s = 604800\n")), 33, "what is counted for resends");
    assert_eq!(of(&format!("{dlocal}max_age_s = 8640000\n")), 100);
    let text = format!("{dlocal}max_age_s = 8640000\n[retention]\nids_days = 99\n");
    let problems = loaded(&text, &[]).expect_err("forgotten before it is too old");
    assert!(problems[0].to_string().contains("signs a time that may be 8640000 s old"), "{problems:#?}");
    let wide = format!("{STRIPE}tolerance_s = 86400\n");
    assert_eq!(right(&wide, &[]).providers[&name("stripe")].age.tolerance_s, Some(86_400));
    assert_eq!(right(STRIPE, &[]).providers[&name("stripe")].age, AgeConfig::default());
}

#[test]
fn a_sender_that_signs_the_url_needs_the_public_one() {
    let text = "[server]\nlisten = \"0.0.0.0:8080\"\n[providers.square]\nsecrets = [\"s\"]\n";
    let problems = loaded(text, &[]).expect_err("no public URL");
    assert_eq!((problems.len(), problems[0].key.as_str()), (1, "server.public_url"));
    right(text, &[("HOOKLATCH__SERVER__PUBLIC_URL", "https://x.example")]);
    right(&text.replace("0.0.0.0", "127.0.0.1"), &[]);
}

#[test]
fn settings_are_what_the_kind_knows_and_nothing_else() {
    let text = "[providers.paypal.settings]\nwebhook_id = { env = \"ID\" }\ncertificate_pem = [\"a\", \"b\"]\n\
        keys = [{ id = \"k.1\", key = \"s1\" }, { id = \"k:2\", key = { env = \"ID\" } }]\n";
    let config = right(text, &[("ID", "canary")]);
    let settings = &config.providers[&name("paypal")].settings;
    assert_eq!(settings.text("webhook_id"), Some("canary"));
    assert_eq!(settings.all("certificate_pem").count(), 2);
    assert_eq!((settings.of_id("keys", "k.1"), settings.of_id("keys", "k:2")), (Some("s1"), Some("canary")));
    assert!(!format!("{config:?}").contains("canary"));

    #[track_caller]
    fn check(text: &str, key: &str, remedy: &str) {
        let problems = loaded(text, &[]).expect_err(text);
        let found = problems.iter().find(|problem| problem.key == key);
        let found = found.unwrap_or_else(|| panic!("{key} is not in {problems:#?}"));
        assert!(found.remedy.contains(remedy), "{found:?}");
        assert!(!format!("{problems:?}").contains("canary"), "{problems:?}");
    }
    let paypal = "[providers.paypal.settings]\n";
    check("[providers.paypal]\n", "providers.paypal.settings.webhook_id", "webhook_id is in the dashboard");
    check(&format!("{paypal}webhook = \"canary\"\n"), "providers.paypal.settings.webhook", "webhook_id");
    check(&format!("{paypal}webhook_id = \"\"\n"), "providers.paypal.settings.webhook_id", "");
    check(
        &format!("{paypal}keys = [{{ key = \"canary\" }}]\n"),
        "providers.paypal.settings.keys[0].id",
        "id =",
    );
    let stripe = format!("{STRIPE}settings = {{ webhook_id = \"canary\" }}\n");
    check(&stripe, "providers.stripe.settings.webhook_id", "no settings");
}

#[test]
fn unsigned_requests_are_taken_only_where_the_sender_signs_nothing() {
    let config = right("[providers.bitpay]\nunverified = \"accept\"\n", &[]);
    assert!(config.providers[&name("bitpay")].is_unverified_accepted);
    let both = "[providers.bitpay]\nunverified = \"accept\"\nsecrets = [\"s\"]\n";
    assert_eq!(loaded(both, &[]).expect_err("both")[0].key, "providers.bitpay.secrets");
    let keys = |text: &str| -> Vec<String> {
        loaded(text, &[]).expect_err(text).into_iter().map(|problem| problem.key).collect()
    };
    assert_eq!(keys("[providers.bitpay]\n"), ["providers.bitpay.secrets"]);
    assert_eq!(
        keys("[providers.bitpay]\nunverified = \"yes\"\nsecrets = [\"s\"]\n"),
        ["providers.bitpay.unverified"]
    );
    assert_eq!(keys(&format!("{STRIPE}unverified = \"accept\"\n")), ["providers.stripe.unverified"]);
}

/// Loads the dev configuration with `text` on top.
fn dev(text: &str) -> Result<Config, Vec<ConfigProblem>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hooklatch.toml");
    std::fs::write(&path, text).expect("a file");
    let kinds = kinds().iter().filter(|kind| ["stripe", "github"].contains(&kind.kind())).cloned().collect();
    let settings = Settings { file: Some(path), dev: Some(DevKeys::default()), ..Settings::default() };
    load_for_tools(&settings, &Kinds::of(kinds))
}

#[test]
fn dev_config_has_every_kind_and_an_echo() {
    let config = dev("").expect("right");
    assert_eq!(config.database.url, "sqlite://.hooklatch/dev.db");
    assert_eq!(config.destinations[&name("echo")].url, "http://127.0.0.1:8081/dev/echo");
    for (kind, provider) in &config.providers {
        let of_kind = kinds().iter().find(|one| one.kind() == kind.as_str()).cloned().expect("a kind");
        assert_eq!(provider.secrets[0].reveal(), dev_secret(of_kind.spec().expect("a spec")));
        assert_eq!((provider.routes[0].on[0].as_str(), provider.routes[0].to.as_str()), ("*", "echo"));
    }
    assert_eq!(config.providers.len(), 2);
}

#[test]
fn dev_config_yields_to_the_users_and_stays_on_loopback() {
    let config = dev("[database]\nurl = \"postgres://db/x\"\n[admin]\nlisten = \"127.0.0.1:9999\"\n[providers.stripe]\nsecrets = [\"mine\"]\n")
        .expect("right");
    assert_eq!(config.database.url, "postgres://db/x");
    assert_eq!(config.destinations[&name("echo")].url, "http://127.0.0.1:9999/dev/echo");
    assert_eq!(config.providers[&name("stripe")].secrets[0].reveal(), "mine");
    assert_eq!(config.providers[&name("stripe")].routes.len(), 1);
    let problems =
        dev("[server]\nlisten = \"0.0.0.0:8080\"\n[admin]\nlisten = \"10.0.0.1:8081\"\n").expect_err("open");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["admin.listen", "server.listen"], "{problems:#?}");
}
