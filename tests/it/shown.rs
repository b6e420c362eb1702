//! Untrusted text wherever an operator reads it: no command, log line or response prints it such that it controls a
//! terminal, or hides or reverses the text beside it.

use std::process::Command;
use std::time::Duration;

use crate::database::{Database, On};
use crate::process::{Server, client, now_s, stripe_header, until};

const OPERATOR: &str = "operator-token-0123456789";
/// One of each sort: bidi, isolates, zero width, line and paragraph separators, a tag, a byte order mark.
const ODD: &str = "a\u{202e}b\u{2066}c\u{200b}d\u{2028}e\u{2029}f\u{e0041}g\u{feff}h";

/// Characters that must not reach an operator unescaped.
fn is_odd(c: char) -> bool {
    let is_control = c.is_control() && c != '\n' && c != '\t';
    is_control || ODD.contains(c) && !c.is_ascii() || ('\u{200b}'..='\u{200f}').contains(&c)
}

#[track_caller]
fn check(what: &str, text: &str) {
    let odd: Vec<char> = text.chars().filter(|c| is_odd(*c)).collect();
    assert!(odd.is_empty(), "{what} gives back {odd:?}: {text:?}");
}

/// A server with stored and refused untrusted texts, and its log in this format.
async fn serve(format: &str) -> (Database, Server) {
    let database = Database::create(On::Sqlite).await.unwrap();
    let more = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"away\"\n\
                [destinations.away]\nurl = \"http://127.0.0.1:1/\"\nretry = { attempts_n = 1 }\n";
    let mut server = Server::prepare(&database.url, more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let admin =
        format!("tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}]\n[database]");
    let config = config.replace("[database]", &admin);
    let config = config.replace("filter = \"warn\"", &format!("filter = \"info\"\nformat = \"{format}\""));
    std::fs::write(server.config(), config).unwrap();
    server.spawn().await;
    let body = format!(r#"{{"id":"evt_{ODD}","type":"type_{ODD}"}}"#);
    let sent = client().post(server.url("/webhooks/stripe"));
    let sent = sent.header("stripe-signature", stripe_header(&body, now_s())).body(body);
    let response = sent.send().await.unwrap();
    assert_eq!(response.headers()["hooklatch-outcome"], "accepted");
    // As JSON writes them, so that the request is signed as it is: a clear screen, a line end, NUL, C1, DEL.
    let control = "\\u001b[2J\\n\\r\\u0000\\u009b31m\\u007f";
    let body = format!(r#"{{"id":"ctl_{control}","type":"type_{control}"}}"#);
    let sent = client().post(server.url("/webhooks/stripe"));
    let sent = sent.header("stripe-signature", stripe_header(&body, now_s())).body(body);
    // What cannot be kept as an id is none: the content identifies the event.
    assert_eq!(sent.send().await.unwrap().headers()["hooklatch-outcome"], "accepted");
    let nowhere = client().post(server.url("/webhooks/%1b%5b2J%0a%00%c2%9b%e2%80%ae")).body("{}");
    assert_eq!(
        nowhere.header("user-agent", "x\u{202e}y".as_bytes()).send().await.unwrap().status().as_u16(),
        404
    );
    let note = format!("x\u{9b}31m{ODD}");
    let refused = client().post(server.url("/webhooks/stripe")).header("x-note", note.as_bytes());
    let refused = refused.header("stripe-signature", format!("t=1,v1={ODD}").as_bytes());
    assert_eq!(refused.body("{}").send().await.unwrap().status().as_u16(), 401);
    (database, server)
}

fn run(server: &Server, arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .arg("--config")
        .arg(server.config())
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
    check(&arguments.join(" "), &text);
    text
}

#[tokio::test]
async fn no_command_or_log_line_prints_control_or_hidden_characters() {
    for format in ["json", "human"] {
        let (_database, server) = serve(format).await;
        let id = format!("evt_{ODD}");
        let is_listed = async || run(&server, &["explain", "--recent"]).contains('\n');
        until(
            "the refusal is noted",
            Duration::from_secs(10),
            || server.log(),
            async || is_listed().await && run(&server, &["explain", "--recent", "--json"]).contains("x-note"),
        )
        .await;
        assert!(run(&server, &["events", "list"]).contains("evt_a\\u202eb\\u2066c\\u200bd\\u2028e\\u2029f"));
        run(&server, &["events", "list", "--json"]);
        run(&server, &["events", "show", "stripe", &id, "--content"]);
        let shown = run(&server, &["events", "show", "stripe", &id, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["event"]["event_id"], id.as_str(), "to a program it is the same text");
        run(&server, &["messages", "list"]);
        run(&server, &["messages", "list", "--json"]);
        let entries = shown["entries"].as_array().unwrap();
        let effect = entries.iter().find(|one| one["what"] == "effect").unwrap();
        run(&server, &["messages", "show", effect["message"]["message_id"].as_str().unwrap()]);
        run(&server, &["events", "rerun", "stripe", &id, "--reason", ODD]);
        run(&server, &["events", "rerun", "stripe", &format!("absent{ODD}"), "--reason", ODD]);
        run(&server, &["destinations", "pause", "away", "--reason", &format!("\u{1b}]0;x\u{7}{ODD}")]);
        // A reason on several lines is refused; this one is kept.
        run(&server, &["destinations", "pause", "away", "--reason", "they migrate \u{202e}"]);
        assert!(run(&server, &["destinations", "list"]).contains("paused"));
        run(&server, &["destinations", "show", "away"]);
        run(&server, &["destinations", "pause", &format!("no{ODD}"), "--reason", ODD]);
        run(&server, &["search", &id]);
        run(&server, &["tail", "--count", "0"]);
        run(&server, &["audit", "list"]);
        run(&server, &["providers", "--live", "--json"]);
        run(&server, &["providers", &format!("kind\u{1b}[2J{ODD}")]);
        run(&server, &["explain", &format!("/nowhere{ODD}")]);
        let folder = server.config().parent().unwrap().to_owned();
        let saved = folder.join("saved");
        let text = format!(
            "POST /webhooks/stripe?x={ODD} HTTP/1.1\nstripe-signature: t={ODD}\u{9b}\n\n{{\"id\":\"{ODD}\"}}"
        );
        std::fs::write(&saved, text).unwrap();
        run(&server, &["explain", saved.to_str().unwrap()]);
        run(&server, &["sign", "stripe", "--body", saved.to_str().unwrap()]);
        let bad = folder.join("bad.toml");
        std::fs::write(&bad, format!("[providers.\"{ODD}\"]\nkind = \"{ODD}\"\n")).unwrap();
        run(&server, &["check", "--config", bad.to_str().unwrap()]);
        for path in ["/v1/rejected", "/v1/events", "/v1/messages", "/v1/destinations", "/v1/lanes"] {
            let url = format!("http://{}{path}", server.admin);
            let text = client().get(url).bearer_auth(OPERATOR).send().await.unwrap().text().await.unwrap();
            check(path, &text);
        }
        let log = server.log();
        assert!(log.contains("received a request") && log.contains("\\u202e"), "{log}");
        check(&format!("the {format} log"), &log);
    }
}
