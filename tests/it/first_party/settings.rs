//! Errors in the configuration of a caller.

use hooklatch_operator::load::{Kinds, Settings};

/// The problems of a provider `shop` with these lines.
fn problems(lines: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    std::fs::write(&file, format!("[providers.shop]\nkind = \"first_party\"\n{lines}")).unwrap();
    let settings = Settings { file: Some(file), ..Settings::default() };
    let kinds = Kinds::of(hooklatch_receive::providers::builtin());
    match hooklatch_operator::load::load(&settings, &kinds) {
        Ok(_) => String::new(),
        Err(problems) => format!("{problems:?}"),
    }
}

#[test]
fn a_caller_says_how_it_shows_who_it_is_and_has_what_that_takes() {
    const TOKEN: &str = "secrets = [\"tok_newest_0123456789abcdef0123\"]\n";
    let with = |settings: &str| format!("{TOKEN}settings = {{ {settings} }}\n");
    let certificate =
        format!("settings = {{ auth = \"mtls\", client_certificates = \"{}\" }}", "ab".repeat(32));
    for (lines, wanted) in [
        (with("auth = \"bearer\""), ""),
        (with("auth = \"hmac\", accepted_status = \"200\", mismatch_status = \"409\""), ""),
        (certificate, ""),
        (TOKEN.to_owned(), "settings.auth"),
        (with("auth = \"basic\""), "write one of bearer, hmac, mtls"),
        (with("auth = \"bearer\", accepted_status = \"201\""), "write one of 200, 202"),
        (with("auth = \"bearer\", mismatch_status = \"400\""), "write one of 409, 422"),
        ("settings = { auth = \"bearer\" }\n".to_owned(), "write secrets"),
        ("settings = { auth = \"mtls\" }\n".to_owned(), "settings.client_certificates"),
        ("secrets = [\"short\"]\nsettings = { auth = \"bearer\" }\n".to_owned(), "24"),
    ] {
        let found = problems(&lines);
        assert!(
            if wanted.is_empty() { found.is_empty() } else { found.contains(wanted) },
            "{lines}\n{found}"
        );
    }
}
