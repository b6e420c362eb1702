//! Every command, over answers in which every text of a stranger would steer a terminal if it were printed as it is.

use std::collections::BTreeSet;
use std::process::Command;

use super::samples::answer;
use super::server::{Ran, Stand};

/// A colour, a title, a bell, C1, NUL, line ends, bidi, isolates, zero width, separators, a tag, a byte order mark.
const ODD: &str =
    "a\u{1b}[35mb\u{1b}]0;t\u{7}c\u{9b}1md\0e\nf\rg\u{202e}h\u{2066}i\u{200b}j\u{2028}k\u{e0041}l\u{feff}m";

/// Commands over the API, each with arguments; the words of the command come first.
const COMMANDS: [(&str, &[&str]); 47] = [
    ("audit list", &[]),
    ("destinations list", &[]),
    ("destinations pause", &["billing", "--reason", "x"]),
    ("destinations resume", &["billing", "--reason", "x"]),
    ("destinations show", &["billing"]),
    ("doctor", &["--all"]),
    ("erase", &["stripe", "ODD", "--reason", "x"]),
    ("events body", &["stripe", "ODD"]),
    ("events dismiss", &["stripe", "ODD", "--reason", "x"]),
    ("events dispatch", &["stripe", "ODD", "--reason", "x"]),
    ("events list", &["--type", "ODD"]),
    ("events rerun", &["--state", "failed", "--object", "ODD", "--reason", "x", "--yes", "1000:5e7"]),
    ("events rerun", &["--state", "failed", "--object", "ODD", "--reason", "x"]),
    ("events show", &["stripe", "ODD", "--content"]),
    ("explain", &["--recent"]),
    ("lanes list", &[]),
    ("messages discard", &["5123", "--reason", "x"]),
    ("messages done", &["5123", "--reason", "x"]),
    ("messages list", &["--lane", "ODD"]),
    (
        "messages send",
        &["--state", "held", "--lane", "ODD", "--reason", "x", "--yes", "1000:5e7", "--no-wait"],
    ),
    ("messages send", &["ODD", "--reason", "x"]),
    ("messages show", &["ODD"]),
    ("operations approve", &["ODD", "--reason", "x"]),
    ("operations cancel", &["ODD", "--reason", "x"]),
    ("operations continue", &["ODD", "--reason", "x"]),
    ("operations list", &[]),
    ("operations show", &["ODD"]),
    ("operations wait", &["ODD"]),
    ("providers", &["--live"]),
    ("providers", &["--live", "ODD"]),
    ("rejected groups", &[]),
    ("providers pause", &["stripe", "--reason", "x"]),
    ("providers resume", &["stripe", "--reason", "x"]),
    ("rejected list", &["--provider", "ODD"]),
    ("rejected paths", &[]),
    ("search", &["ODD"]),
    ("settings list", &[]),
    ("statistics", &[]),
    ("tail", &["--count", "1", "--last", "1"]),
    ("pairing", &["ODD"]),
    ("test-event", &["stripe", "--reason", "x"]),
    ("tokens list", &[]),
    ("tokens make", &["ODD", "--role", "viewer", "--valid-for", "1d", "--reason", "x"]),
    ("tokens revoke", &["ODD", "--reason", "x"]),
    ("what-if", &["--live"]),
    ("what-if", &["--live", "stripe", "ODD"]),
    ("whoami", &[]),
];

/// Commands that ask no server for what others wrote; `shown.rs` has those that read files.
const NO_SERVER: [&str; 15] = [
    "backup",
    "check",
    "completions",
    "health",
    "keys",
    "keys reseal",
    "man",
    "migrate",
    "new-kind",
    "prune",
    "restore-check",
    "send",
    "serve",
    "sign",
    "vectors",
];

#[track_caller]
fn check(what: &str, text: &str) {
    let is_odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || (!c.is_ascii() && ODD.contains(c)) || c == '\u{7f}'
    };
    let odd: Vec<char> = text.chars().filter(|c| is_odd(*c)).collect();
    assert!(odd.is_empty(), "{what} gives back {odd:?}: {text:?}");
}

/// The text without the sequences that our own colours are.
fn without_colours(text: &str) -> String {
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"]
        .iter()
        .fold(text.to_owned(), |text, code| text.replace(code, ""))
}

#[tokio::test]
async fn no_command_prints_what_steers_a_terminal_or_hides() {
    // What a person types cannot hold NUL.
    let typed = ODD.replace('\0', "");
    let stand = Stand::start(|received| answer(received, ODD)).await;
    for (words, arguments) in COMMANDS {
        let arguments = arguments.iter().map(|word| if *word == "ODD" { typed.as_str() } else { *word });
        let arguments: Vec<&str> = words.split(' ').chain(arguments).collect();
        for more in [&[][..], &["--color", "always"], &["--json"]] {
            let Ran { code, out, err } = stand.run(&[&arguments, more].concat()).await;
            let what = format!("{words} {more:?}");
            assert!(!out.is_empty() && code != 2, "{what}: {code} {out} {err}");
            let out = without_colours(&out);
            // The bytes of a body go into a pipe as they are.
            if words != "events body" {
                check(&what, &out);
            }
            check(&what, &err);
            if more == ["--json"] && words != "events body" {
                for line in out.lines() {
                    assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{what}: {line}");
                }
            }
        }
    }
}

#[tokio::test]
async fn no_refusal_prints_what_steers_a_terminal_or_hides() {
    let typed = ODD.replace('\0', "");
    let stand = Stand::start(|_| super::server::Says::problem(409, ODD, ODD)).await;
    for (words, arguments) in COMMANDS {
        let arguments = arguments.iter().map(|word| if *word == "ODD" { typed.as_str() } else { *word });
        let ran = stand.run(&words.split(' ').chain(arguments).collect::<Vec<_>>()).await;
        assert_eq!(ran.code, 4, "{words}: {}", ran.err);
        check(words, &ran.out);
        check(words, &ran.err);
    }
}

/// Every command that does something, as `--help` lists them: those that have commands of their own when these may be left
/// out.
fn leaves(words: &[String]) -> Vec<String> {
    let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch")).args(words).arg("--help").output().unwrap();
    let help = String::from_utf8(ran.stdout).unwrap();
    let list = if words.is_empty() {
        // By purpose.
        help.split_once("\nOptions:\n").unwrap().0
    } else {
        let Some((_, list)) = help.split_once("\nCommands:\n") else { return vec![words.join(" ")] };
        list.split("\n\n").next().unwrap()
    };
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    let below = names.flat_map(|name| leaves(&[words, &[name.to_owned()]].concat()));
    help.contains(" [COMMAND]").then(|| words.join(" ")).into_iter().chain(below).collect()
}

#[test]
fn every_command_is_tried() {
    let tried: BTreeSet<&str> = COMMANDS.iter().map(|(words, _)| *words).chain(NO_SERVER).collect();
    let there = leaves(&[]);
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    assert_eq!(there, tried);
}
