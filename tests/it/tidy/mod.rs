//! What the compiler and clippy cannot check: directions of imports, places for some names, sleeps with a reason, secrets
//! that are compared in constant time, statements with a name, metrics that agree with their table. Style is reviewed.

mod metrics;
mod people;
mod store;

use std::fs;
use std::path::{Path, PathBuf};

/// Names that only some places may use.
const PLACES: [(&str, &[&str], &str); 6] = [
    (
        "axum::",
        &[
            "crates/operator",
            "crates/console",
            "crates/receive/src/idempotency",
            "src/app",
            "crates/bench/tests",
        ],
        "HTTP types stay in `operator`",
    ),
    (
        "StatusCode",
        &[
            "crates/operator",
            "crates/console",
            // Looks up the phrase of a status.
            "crates/receive/src/answer.rs",
            "crates/receive/src/idempotency",
            "crates/bench/tests",
        ],
        "statuses are decided in `operator`",
    ),
    (
        "sqlx::",
        &["crates/store", "src/lib.rs", "crates/outbox/src/destinations/kinds/postgres_table.rs"],
        "SQL stays in `store`",
    ),
    ("PgPool", &[], "`crates/store/src/db/pool.rs` closes connections whose state is unknown"),
    ("SqlitePool", &[], "`crates/store/src/db/pool.rs` closes connections whose state is unknown"),
    (
        "TransactionManager",
        &["crates/store/src/db/postgres/mod.rs"],
        "`crates/store/src/db` begins and ends transactions",
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` with this ending: its path from the root, and its text.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {ending} files in {folder}");
    found
}

/// Every file of the program with this ending.
pub(crate) fn sources() -> Vec<(String, String)> {
    [files("src", ".rs"), files("crates", ".rs")].concat()
}

/// The code of a file, without its unit tests.
fn code(text: &str) -> &str {
    text.split("\n#[cfg(test)]\n").next().unwrap()
}

fn nothing(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

/// The crates that each crate builds on, and the libraries that it alone may name.
const CRATES: [(&str, &[&str], &[&str]); 8] = [
    ("core", &[], &[]),
    ("contract", &["core"], &[]),
    ("verify", &["core"], &[]),
    ("store", &["core", "contract"], &["rusqlite", "sqlx-core"]),
    ("outbox", &["core", "contract", "store"], &["async-nats", "lapin", "redis", "rskafka"]),
    ("receive", &["core", "contract", "verify", "store", "outbox"], &[]),
    ("operator", &["core", "contract", "verify", "store", "outbox", "receive"], &["listenfd", "sd-notify"]),
    ("console", &["core", "contract", "operator"], &["maud"]),
];

#[test]
fn crates_build_on_those_below_and_name_only_their_own_libraries() {
    let mut wrong = Vec::new();
    for (name, below, _) in CRATES {
        let text = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        let ours = dependencies.keys().filter_map(|key| key.strip_prefix("hooklatch-"));
        wrong.extend(ours.filter(|key| !below.contains(key)).map(|key| format!("{name} builds on {key}")));
        let others = CRATES.iter().filter(|(other, ..)| *other != name).flat_map(|(.., own)| *own);
        wrong.extend(
            others.filter(|key| dependencies.contains_key(**key)).map(|key| format!("{name} names {key}")),
        );
        if name == "verify" && dependencies.contains_key("tokio") {
            wrong.push("verify needs no runtime, but names tokio".to_owned());
        }
    }
    nothing("see CRATES", &wrong);
}

#[test]
fn words_stay_where_they_belong() {
    let mut strays = Vec::new();
    for (name, text) in sources() {
        if name.ends_with("tests.rs") {
            continue;
        }
        for (n, line) in
            code(&text).lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for (word, places, why) in PLACES {
                if line.contains(word) && !places.iter().any(|place| name.starts_with(place)) {
                    strays.push(format!("{name}:{} uses `{word}`: {why}", n + 1));
                }
            }
        }
    }
    nothing("these are in the wrong place", &strays);
}

/// The sleeps of a file without a comment on their line or on the two lines above.
fn unexplained_sleeps(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let is_sleep = |line: &str| ["time::sleep(", "thread::sleep("].iter().any(|call| line.contains(call));
    let is_explained = |n: usize| {
        lines[n.saturating_sub(2)..=n].iter().any(|line| line.contains("// ") || line.contains("/// "))
    };
    (0..lines.len()).filter(|n| is_sleep(lines[*n]) && !is_explained(*n)).map(|n| n + 1).collect()
}

#[test]
fn every_sleep_has_a_reason() {
    assert_eq!(unexplained_sleeps("\n\ntokio::time::sleep(x).await;"), [3]);
    assert_eq!(unexplained_sleeps("// The destination is slow.\ntokio::time::sleep(x).await;"), [0; 0]);
    let of = |(name, text): (String, String)| {
        unexplained_sleeps(&text).into_iter().map(move |line| format!("{name}:{line}"))
    };
    let found: Vec<String> = sources().into_iter().chain(files("tests/it", ".rs")).flat_map(of).collect();
    let found: Vec<String> = found.into_iter().filter(|place| !place.starts_with("tests/it/tidy/")).collect();
    nothing("wait for a condition with a bound, or say in a comment what takes this time", &found);
}

/// What a comparison with `==` would leak to an attacker, byte by byte, if it were made of the attacker's text.
const SECRET_OPERANDS: [&str; 10] = [
    "reveal()",
    "secret",
    "secrets",
    "token",
    "signature",
    "mac",
    "password",
    "private_key",
    "sealed",
    "credentials",
];

/// Comparisons of such words that no attacker can measure: file, text, why.
const COMPARED_OPENLY: [(&str, &str, &str); 3] = [
    (
        "crates/receive/src/provider/active.rs",
        "one.value.reveal() == environment",
        "the names of environments, which everybody knows",
    ),
    (
        "crates/outbox/src/destinations/kinds/http/parse.rs",
        "secret.reveal().contains(label)",
        "the operator's own PEM file is asked for a label that everybody knows, when the program starts",
    ),
    (
        "crates/core/src/config/sections.rs",
        ".contains(&secret.reveal().len())",
        "a length, when the program starts",
    ),
];

/// Does not compile once [`Secret`](hooklatch_core::config::Secret) can be compared with `==`: `SAYS` would be two things.
const _: () = {
    struct IsCompared;
    trait Compared<T> {
        const SAYS: () = ();
    }
    impl<T: ?Sized> Compared<()> for T {}
    impl<T: ?Sized + PartialEq> Compared<IsCompared> for T {}
    let () = <hooklatch_core::config::Secret as Compared<_>>::SAYS;
};

/// True when the last name of an operand, such as `reveal()` of `other.token.reveal()`, is a secret's.
fn is_secret_operand(operand: &str) -> bool {
    let operand = operand.trim_start_matches(['&', '*', '(', '!']);
    let is_of_operand = |c: char| c.is_alphanumeric() || "_.()[]?".contains(c);
    let name = operand.rsplit(|c| !is_of_operand(c)).next().unwrap_or_default();
    let name = name.strip_suffix(".as_bytes()").or(name.strip_suffix(".as_str()")).unwrap_or(name);
    SECRET_OPERANDS.contains(&name.rsplit('.').next().unwrap())
}

/// True when a line of code compares a secret in a time that depends on it.
fn compares_a_secret(line: &str) -> bool {
    let places = ["==", "!="].into_iter().flat_map(|operator| line.match_indices(operator));
    let by_operator = places.into_iter().any(|(at, operator)| {
        let (left, right) = line.split_at(at);
        let (left, right) = (left.trim_end(), right.trim_start_matches(operator).trim_start());
        let right = right.split([' ', ',', ';', '{']).next().unwrap_or_default();
        let right = right.strip_suffix(')').filter(|one| !one.ends_with('(')).unwrap_or(right);
        let is_mac = |side: &str| ["hmac(", ".mac(", "jws_hs256("].iter().any(|call| side.contains(call));
        is_secret_operand(left) || is_secret_operand(right) || is_mac(left) || is_mac(right)
    });
    let methods = [".eq(", ".ne(", ".cmp(", ".contains(", "eq_ignore_ascii_case("];
    by_operator || (line.contains("reveal()") && methods.iter().any(|method| line.contains(method)))
}

#[test]
fn secrets_signatures_and_macs_are_compared_in_constant_time() {
    for line in [
        "if other.token.reveal() == given {",
        "given != *secret.reveal() && x",
        "if signature == expected",
        "(hmac(Hash::Sha256, key, &[body]) == given)",
        "secret.reveal().eq(given)",
        "known == keys.secret.as_bytes()",
    ] {
        assert!(compares_a_secret(line), "{line}");
    }
    for line in ["spec.signature.scheme == Scheme::Code", "layout == \"{signature}\"", "same(&mac, &given)"] {
        assert!(!compares_a_secret(line), "{line}");
    }
    let mut strays = Vec::new();
    for (name, text) in sources().into_iter().chain(files("providers", ".rs")) {
        if name.ends_with("tests.rs") {
            continue;
        }
        for (n, line) in code(&text).lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let is_listed =
                COMPARED_OPENLY.iter().any(|(file, text, _)| name == *file && line.contains(text));
            if !is_comment && !is_listed && compares_a_secret(line) {
                strays.push(format!("{name}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    nothing("compare these with `Secret::is` or `verify::same`, or say in COMPARED_OPENLY why not", &strays);
    for (file, text, _) in COMPARED_OPENLY {
        assert!(
            fs::read_to_string(root().join(file)).unwrap().contains(text),
            "{file} has no `{text}` any more"
        );
    }
}

/// What a kind's module may name besides its own siblings: the preludes, and what every Rust program has.
const KINDS_MAY_USE: [&str; 5] =
    ["hooklatch::prelude::", "hooklatch::kind::prelude::", "std::", "core::", "super::"];

/// Crates that a kind's module may name in a path: `serde_json` comes with the prelude.
const KINDS_MAY_NAME: [&str; 9] =
    ["hooklatch", "std", "core", "super", "self", "serde_json", "str", "char", "u8"];

/// The names of the modules that a text declares.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        line.trim_start().trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')
    })
}

#[test]
fn kinds_know_the_prelude_and_nothing_else() {
    let mut strays = Vec::new();
    for (name, text) in files("providers", ".rs").into_iter().chain(files("examples/acme", ".rs")) {
        let own: Vec<&str> = declared(&text).map(|module| module.trim_start_matches("r#")).collect();
        for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            if let Some(used) = line.strip_prefix("use ").or_else(|| line.strip_prefix("pub use ")) {
                let is_own = own.iter().any(|module| used.starts_with(&format!("{module}::")));
                if !is_own && !KINDS_MAY_USE.iter().any(|allowed| used.starts_with(allowed)) {
                    strays.push(format!("{name}: {line}"));
                }
                continue;
            }
            for (at, _) in line.match_indices("::") {
                let before = line.split_at(at).0;
                let path = before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c))).next();
                let first = path.unwrap_or_default().split("::").next().unwrap_or_default();
                // Not a method's `::<…>`, and no lint.
                let is_type_argument = line.split_at(at).1.starts_with("::<");
                let is_module = first.starts_with(|c: char| c.is_ascii_lowercase())
                    && !is_type_argument
                    && !line.starts_with("#[");
                if is_module && !own.contains(&first) && !KINDS_MAY_NAME.contains(&first) {
                    strays.push(format!("{name} names `{first}`: {line}"));
                }
            }
        }
    }
    nothing(
        "a kind's module is written with `hooklatch::kind::prelude` alone, so that its folder can be copied",
        &strays,
    );
}
