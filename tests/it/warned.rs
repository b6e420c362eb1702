//! Valid but probably unintended settings: `check` warns of them, and of nothing else.

use crate::floors::check;

#[test]
fn valid_but_probably_unintended_settings_warn() {
    let named = "named_secrets = [{ id = \"a\", key = \"a-secret-of-two-parties-0123\" }]";
    let text = format!(
        "[providers.aws_sns]\nsettings = {{ topic_arns = [\"arn:aws:sns:us-east-1:1:t\", \"*\"] }}\n\
         [providers.rfc9421]\nsettings = {{ required_components = \"@method @authority\", {named} }}\n\
         [providers.good]\nkind = \"rfc9421\"\nsettings = {{ required_components = \"@method content-digest\", {} }}\n",
        named.replace("two", "both")
    );
    let (is_good, said, report) = check(&text);
    assert!(is_good, "{said}");
    assert!(
        said.contains("warning: providers.aws_sns.settings.topic_arns: every topic of everybody"),
        "{said}"
    );
    assert!(said.contains("warning: providers.rfc9421.settings.required_components: the body"), "{said}");
    assert!(!said.contains("providers.good.settings"), "{said}");
    let of_settings =
        report["warnings"].as_array().unwrap().iter().filter(|one| !is_of_routes(one.as_str().unwrap()));
    assert_eq!((report["ok"].as_bool(), of_settings.count()), (Some(true), 2));
}

/// True for what is warned of because these configurations are short: `proven.rs` tests that.
fn is_of_routes(warning: &str) -> bool {
    warning.contains("has no route") || warning.contains("admin.tokens: there is none")
}

/// What else `check` warns about, of a configuration that is good.
fn warnings(text: &str) -> Vec<String> {
    let (is_good, said, report) = check(text);
    assert!(is_good, "{said}");
    let list = report["warnings"].as_array().unwrap();
    let list: Vec<String> = list.iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    assert!(list.iter().all(|one| said.contains(&format!("warning: {one}\n"))), "{said}");
    list.into_iter().filter(|one| !is_of_routes(one)).collect()
}

/// Those about one key.
fn warnings_of(key: &str, text: &str) -> Vec<String> {
    warnings(text).into_iter().filter(|one| one.contains(key)).collect()
}

#[test]
fn a_tolerance_may_be_as_wide_as_the_kinds_own() {
    let recurly = |tolerance_s: u32| {
        format!("[providers.recurly]\nsecrets = [\"canary-0123456789abcdef\"]\ntolerance_s = {tolerance_s}\n")
    };
    assert!(warnings_of("tolerance_s", &recurly(262_800)).is_empty());
    assert!(!check(&recurly(262_801)).0);
}

#[test]
fn a_batch_limit_below_what_the_sender_may_send_warns() {
    let grid = "[providers.azure_event_grid]\nsecrets = [\"canary-0123456789abcdef\"]\n";
    let list = warnings_of("server.events_n_max", grid);
    assert!(list.len() == 1 && list[0].contains("5000 events that Azure Event Grid"), "{list:?}");
    let wide = format!("[server]\nevents_n_max = 5000\n{grid}");
    assert!(warnings_of("server.events_n_max", &wide).is_empty());
}

#[test]
fn a_secret_copied_with_extra_characters_warns_with_its_place_and_is_never_shown() {
    let list = |secret: &str| {
        let text = format!("[providers.github]\nsecrets = [\"{secret}\"]\n");
        warnings_of("providers.github.secrets[0]", &text)
    };
    for (secret, part) in [
        ("canary-0123456789abcdef ", "white space"),
        ("canary-0123456789abcdef\\nand-another-one", "more than one line"),
        ("\\uFEFFcanary-0123456789abcdef", "byte order mark"),
    ] {
        let list = list(secret);
        assert!(list.len() == 1 && list[0].contains(part) && !list[0].contains("canary"), "{list:?}");
    }
    assert!(list("canary-0123456789abcdef").is_empty());
}

#[test]
fn a_secret_that_two_providers_share_warns_with_both_places_and_is_never_shown() {
    let canary = "canary-0123456789abcdef";
    let own = |name: &str, more: &str, secret: &str| {
        format!("[providers.{name}]\n{more}secrets = [\"{secret}\"]\n")
    };
    let a = own("a", "kind = \"github\"\n", canary);
    let list = warnings_of("is the same secret", &(a.clone() + &own("b", "kind = \"github\"\n", canary)));
    assert_eq!(list.len(), 1, "{list:?}");
    assert!(
        list[0].starts_with("providers.b.secrets[0]: is the same secret as providers.a.secrets[0]: "),
        "{list:?}"
    );
    assert!(!list[0].contains("canary") && list[0].contains("is believed at `b` as well"), "{list:?}");
    let other = own(
        "b",
        "kind = \"shopify\"\ntypes = [\"orders/*\"]\n",
        &format!("another-0123456789\", \"{canary}"),
    );
    let list = warnings_of("is the same secret", &(a.clone() + &other));
    assert!(list.len() == 1 && list[0].starts_with("providers.b.secrets[1]: "), "{list:?}");
    assert!(list[0].contains("read as `shopify`"), "{list:?}");
    // As one sender shows it and as another takes it.
    let svix = own("svix", "", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
        + &own("b", "kind = \"github\"\n", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    assert_eq!(warnings_of("is the same secret", &svix).len(), 1);
    let password =
        format!("[providers.chargebee]\nsettings = {{ username = \"u\", password = \"{canary}\" }}\n");
    let list = warnings_of("is the same secret", &(a.clone() + &password));
    assert!(list.len() == 1 && list[0].starts_with("providers.chargebee.settings.password: "), "{list:?}");
    // During a rotation one provider may have it twice, and a public key is no secret.
    assert_eq!(
        warnings_of(
            "is the same secret",
            &own("a", "kind = \"github\"\n", &format!("{canary}\", \"{canary}"))
        ),
        [""; 0]
    );
    assert_eq!(
        warnings_of("is the same secret", &(a + &own("b", "kind = \"github\"\n", "another-0123456789"))),
        [""; 0]
    );
}

#[test]
fn a_tolerance_other_than_the_senders_warns_with_its_cost() {
    let stripe = "[providers.stripe]\nsecrets = [\"whsec_0123456789abcdef\"]\n";
    let with = |more: &str| warnings(&format!("{stripe}{more}\n"));
    assert_eq!(with(""), [""; 0]);
    assert_eq!(with("tolerance_s = 300"), [""; 0]);
    assert!(
        with("tolerance_s = 301")[0].contains("wider than the 300 s of this kind: anyone who has recorded")
    );
    assert!(with("tolerance_s = 299")[0].contains("narrower than the 300 s of this kind: what is under way"));
    let dlocal = "[providers.dlocal]\nsecrets = [\"0123456789abcdef\"]\n";
    assert_eq!(warnings(&format!("{dlocal}max_age_s = 34560000\n")), [""; 0]);
    assert!(warnings(&format!("{dlocal}max_age_s = 60\n"))[0].contains("60 s is less than the"));
}

#[test]
fn check_shows_what_decides_how_long_ids_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |text: &str| {
        let file = folder.path().join("hooklatch.toml");
        std::fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let output = command.arg("check").current_dir(folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = "[providers.stripe]\nsecrets = [\"whsec_0123456789abcdef\"]\n\
        [providers.shop]\nkind = \"shopify\"\ntypes = [\"orders/paid\"]\nsecrets = [\"0123456789abcdef\"]\n";
    let said = printed(text);
    assert!(
        said.contains("ids are remembered for 400 days at most, for provider `shop`: its kind `shopify` "),
        "{said}"
    );
    let said = printed(&format!("{text}[retention]\nids_days = 500\n"));
    assert!(said.contains("for 500 days, as retention.ids_days says; at least 400 are needed"), "{said}");
    assert!(!printed("").contains("ids"));
    let (_, _, report) = check(text);
    assert_eq!(report["ids"]["providers"][0]["provider"], "shop");
    assert_eq!(report["ids"]["providers"][0]["days"], 400);
}

#[test]
fn a_type_in_an_unsigned_header_warns_unless_types_are_listed() {
    let of = |kind: &str, more: &str| {
        warnings_of(
            ".types: ",
            &format!("[providers.{kind}]\nsecrets = [\"whsec_0123456789abcdef\"]\n{more}\n"),
        )
    };
    let list = of("github", "");
    assert!(list.len() == 1 && list[0].starts_with("providers.github.types: is not there"), "{list:?}");
    assert!(list[0].contains("no signature covers, `x-github-event`"), "{list:?}");
    assert_eq!(of("github", "types = [\"push\", \"pull_request*\"]"), [""; 0]);
    assert_eq!(of("stripe", ""), [""; 0]);
    assert!(of("stripe", "types = [\"invoice.*\"]")[0].contains("changes nothing"));
    assert!(of("shopify", "types = [\"*\"]")[0].contains("allows every type"));
}

#[test]
fn a_kind_whose_signed_body_fits_every_type_requires_types() {
    for kind in ["shopify", "woocommerce", "netlify"] {
        let text =
            |types: &str| format!("[providers.{kind}]\n{types}secrets = [\"whsec_0123456789abcdef\"]\n");
        let (is_good, said, _) = check(&text(""));
        let is_reported =
            said.contains(&format!("providers.{kind}.types")) && said.contains("types = [\"*\"]");
        assert!(!is_good && is_reported, "{said}");
        assert!(check(&text("types = [\"orders/paid\"]\n")).0, "{kind}");
    }
    // Of GitHub the same body under another type is a replay, which starts nothing.
    assert!(check("[providers.github]\nsecrets = [\"whsec_0123456789abcdef\"]\n").0);
}

#[test]
fn a_body_limit_below_what_the_sender_documents_is_warned_of() {
    let github =
        |more: &str| format!("[providers.github]\nsecrets = [\"whsec_another_one_0123456789\"]\n{more}");
    let key = "providers.github.body_bytes_max";
    assert_eq!(warnings_of(key, &github("")), Vec::<String>::new());
    let [warning] = warnings_of(key, &github("body_bytes_max = 1048576\n")).try_into().unwrap();
    assert!(warning.contains("26214400 bytes: a larger event is refused with 413"), "{warning}");
}

#[test]
fn two_required_approvals_with_fewer_operators_warn() {
    let token = |name: &str, role: &str| {
        format!("{{ name = \"{name}\", role = \"{role}\", token = \"{name}-token-0123456789\" }}")
    };
    let warning = |people: &[String], approvals_n: u32| {
        let people = people.join(", ");
        let text = format!("[admin]\napprovals_n = {approvals_n}\ntokens = [{people}]\n");
        warnings_of("admin.approvals_n", &text).into_iter().next().unwrap_or_default()
    };
    let (ann, bob) = (token("ann", "operator"), token("bob", "admin"));
    let viewer = token("vic", "viewer");
    assert!(warning(&[ann.clone(), viewer], 2).contains("has 1 with the role operator or admin"));
    assert_eq!(warning(&[ann.clone(), bob], 2), "");
    assert_eq!(warning(&[ann], 1), "");
}
