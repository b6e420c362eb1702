//! Every configuration that a page shows is one that `hooklatch check` finds good, with routes for types that there are.

use std::process::Command;

use super::text::{blocks, page, pages};

/// What the environment of a page's reader holds, where it is not any secret.
const URLS: [(&str, &str); 8] = [
    ("HOOKLATCH_KEY_2026_05", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    ("HOOKLATCH_KEY_2026_11", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee"),
    ("AMQP_URL", "amqps://rabbit.internal/%2f"),
    ("DATABASE_URL", "postgres://db.internal/hooks"),
    ("INBOX_URL", "postgres://db.internal/billing?sslmode=verify-full"),
    ("KAFKA_URL", "kafka://a:9092,b:9092"),
    ("NATS_URL", "nats://nats.internal:4222"),
    ("REDIS_URL", "rediss://redis.internal:6380/0"),
];

/// The names behind this word, such as `env`, in a configuration.
fn named<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let marker = format!("{word} = \"");
    text.split(marker.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_configuration_in_the_pages_is_good() {
    let mut wrong = Vec::new();
    for name in pages() {
        for block in blocks(&page(&name)).into_iter().filter(|block| block.language == "toml") {
            // A kind's own file, and a folder of kinds, are for the tests of kinds.
            if ["[signature]", "[[event]]", "[kinds]"].iter().any(|table| block.text.contains(table)) {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("hooklatch.toml"), &block.text).unwrap();
            let secrets = folder.path().join("secrets");
            std::fs::create_dir(&secrets).unwrap();
            for name in
                named(&block.text, "file").into_iter().filter_map(|path| path.strip_prefix("secrets/"))
            {
                std::fs::write(secrets.join(name), "whsec_0123456789abcdef0123456789abcdef").unwrap();
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
            command.arg("check").current_dir(folder.path());
            for name in named(&block.text, "env") {
                let url = URLS.iter().find(|(known, _)| *known == name).map(|(_, url)| *url);
                command.env(name, url.unwrap_or("whsec_0123456789abcdef0123456789abcdef"));
            }
            let ran = command.output().unwrap();
            let why = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text)).join("\n");
            if !ran.status.success() || why.contains("fits no type") {
                wrong.push(format!("{name}:\n{}\n{why}", block.text));
            }
        }
    }
    assert!(wrong.is_empty(), "these configurations are not good:\n{}", wrong.join("\n"));
}
