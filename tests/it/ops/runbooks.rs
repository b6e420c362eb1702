//! Every command of every runbook is run, as an operator, against a server that has such rows: events and messages in each
//! state that waits for an operator. It must end as the page says: well, or with the exit code that stands beside it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::database::{Database, on_sqlite};
use crate::pages::text::{blocks, page};
use crate::process::{Server, client, now_s, stripe, stripe_header, until};
use crate::stub::{Mode, Stub};

on_sqlite!(every_command_of_the_runbooks_has_the_documented_result);

const TOKEN: &str = "admin-token-01234567890";

/// A command of a runbook, and the exit code that it promises.
#[derive(Debug, PartialEq)]
struct Step {
    words: Vec<String>,
    code: i32,
}

/// The commands of a page.
fn steps(text: &str) -> Vec<Step> {
    let fenced = blocks(text).into_iter().filter(|block| block.language == "sh");
    let lines = fenced.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>());
    let step = |line: String| {
        let (command, comment) = line.split_once("  #").unwrap_or((&line, ""));
        let code = comment.split_once("exit code ").map_or(0, |(_, rest)| {
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        });
        let quoted = command.trim().split('"').enumerate();
        let words = quoted.flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        Step { words: words.collect(), code }
    };
    lines.filter(|line| !line.trim().is_empty()).map(step).collect()
}

fn runbooks() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
    let names = std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "README.md").collect();
    names.sort();
    names
}

#[test]
fn commands_and_the_exit_codes_that_they_promise_are_read() {
    let text = "```sh\nhooklatch health   # 200\n\nhooklatch a ID --reason \"x y\"  # exit code 4 while so\n```\n```text\ndf\n```\n";
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let want = [
        Step { words: words(&["hooklatch", "health"]), code: 0 },
        Step { words: words(&["hooklatch", "a", "ID", "--reason", "x y"]), code: 4 },
    ];
    assert_eq!(steps(text), want);
}

/// A server with everything in it that runbooks are about.
struct Stocked<'a> {
    server: Server,
    database: &'a Database,
    stub: Stub,
    /// One for all: each new one reads the authorities of the machine.
    client: reqwest::Client,
    events_n: u32,
}

/// Queries that count what waits for an operator.
const FAILED: &str = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'failed'";
const UNREADABLE: &str = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'unreadable'";
const CONFLICT: &str = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'conflict'";
const HELD: &str = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'held'";
const DEAD: &str = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'dead'";
const READY: &str = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'ready' AND destination = 'billing'";

impl<'a> Stocked<'a> {
    async fn start(database: &'a Database) -> Self {
        let stub = Stub::start().await;
        let more = format!(
            "[[providers.stripe.routes]]\non = [\"invoice.*\"]\nto = \"billing\"\n\
             [[providers.stripe.routes]]\non = [\"lane.*\"]\nto = \"billing\"\nlane = \"/customer\"\n\
             [[providers.stripe.routes]]\non = [\"broken\"]\nto = \"templated\"\n\
             [destinations.billing]\nurl = \"{}\"\nunknown = \"hold\"\nbreaker_failures_n = 0\n\
             retry = {{ first_ms = 86400000, max_ms = 86400000, attempts_n = 9, age_max_ms = 604800000 }}\n\
             key_valid_for_ms = 8640000000\n\
             [destinations.templated]\nurl = \"http://127.0.0.1:9/{{{{ payload.nowhere.deep }}}}\"\n",
            stub.url()
        );
        let mut server = Server::prepare(&database.url, &more);
        let config = std::fs::read_to_string(server.config()).unwrap();
        let tokens =
            format!("tokens = [{{ name = \"admin\", role = \"admin\", token = \"{TOKEN}\" }}]\n[database]");
        std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
        let (body, header) = stripe("evt_saved", now_s());
        let saved = format!("POST /webhooks/stripe\nstripe-signature: {header}\n\n{body}");
        std::fs::write(server.config().with_file_name("request"), saved).unwrap();
        server.spawn().await;
        Self { server, database, stub, client: client(), events_n: 0 }
    }

    /// Sends a signed body, in which `ID` is an id of its own.
    async fn send(&mut self, body: &str) {
        self.events_n += 1;
        assert!(self.events_n < 3_000, "nothing comes of what is sent");
        let body = body.replace("ID", &format!("evt_{}", self.events_n));
        let header = stripe_header(&body, now_s());
        let url = self.server.url("/webhooks/stripe");
        let sent = self.client.post(url).header("stripe-signature", header).body(body).send().await.unwrap();
        assert!(sent.status().is_success(), "{}", sent.status());
    }

    async fn reaches(&self, sql: &'static str, n: i64) {
        let log = || self.server.log();
        until(sql, Duration::from_secs(20), log, async || self.database.count(sql).await >= n).await;
    }

    /// Sees to it that there are at least four of everything.
    async fn stock(&mut self) {
        const N: i64 = 4;
        let event = |kind: &str| {
            format!(
                r#"{{"id":"ID","type":"{kind}","created":1767225600,"data":{{"object":{{"id":"in_1","customer":"ID"}}}}}}"#
            )
        };
        while self.database.count(FAILED).await < N {
            self.send(&event("broken")).await;
        }
        while self.database.count(UNREADABLE).await < N {
            self.send("no json: ID").await;
        }
        while self.database.count(CONFLICT).await < N {
            self.send(&event("ignored")).await;
            let again =
                event("ignored").replace("ID", &format!("evt_{}", self.events_n)).replace("in_1", "in_2");
            self.send(&again).await;
        }
        for (sql, kind, mode) in [
            (HELD, "invoice.paid", Mode::ActThenDrop),
            (DEAD, "lane.paid", Mode::Status(400)),
            (READY, "invoice.paid", Mode::Status(503)),
        ] {
            while self.database.count(sql).await < N {
                let n = self.database.count(sql).await;
                self.stub.next(std::slice::from_ref(&mode));
                self.send(&event(kind)).await;
                self.reaches(sql, n + 1).await;
            }
        }
        self.database
            .run(
                "UPDATE processed_webhook_events SET state = 'retry', due_at_ms = 9000000000000, error = 'by order'
                    WHERE event_id = (SELECT MAX(event_id) FROM processed_webhook_events WHERE state = 'failed');
                 UPDATE outbox_queue SET destination = 'nowhere', visible_at_ms = 9000000000000
                    WHERE message_id = (SELECT MIN(message_id) FROM outbox_queue WHERE state = 'ready' AND destination = 'billing')",
            )
            .await
            .unwrap();
    }

    /// What stands for a word in capitals on this page.
    async fn filled(&self, page: &str, word: &str) -> String {
        let id = async |sql: &'static str| {
            self.database.texts(sql).await.into_iter().next().unwrap_or_else(|| panic!("{page}: {sql}"))
        };
        match word {
            "PROVIDER" | "KIND" => "stripe".to_owned(),
            "DESTINATION" if page == "stray-messages.md" => "nowhere".to_owned(),
            "DESTINATION" => "billing".to_owned(),
            "REQUEST_FILE" => "request".to_owned(),
            "EVENT_ID" => {
                id(match page {
                    "events-failed.md" => "SELECT event_id FROM processed_webhook_events WHERE state = 'failed' ORDER BY 1",
                    "events-unreadable.md" => "SELECT event_id FROM processed_webhook_events WHERE state = 'unreadable' ORDER BY 1",
                    "events-conflict.md" | "texts-repeated.md" => "SELECT event_id FROM processed_webhook_events WHERE state = 'conflict' ORDER BY 1",
                    "events-retry-old.md" => "SELECT event_id FROM processed_webhook_events WHERE state = 'retry' ORDER BY 1",
                    _ => "SELECT event_id FROM processed_webhook_events WHERE state = 'handled' ORDER BY 1",
                })
                .await
            }
            "MESSAGE_ID" => {
                id(match page {
                    "messages-dead.md" | "lanes-blocked.md" => {
                        "SELECT CAST(message_id AS TEXT) FROM outbox_messages WHERE state = 'dead' ORDER BY message_id"
                    }
                    "breaker-open.md" => {
                        "SELECT CAST(message_id AS TEXT) FROM outbox_messages WHERE state = 'ready' ORDER BY message_id"
                    }
                    _ => "SELECT CAST(message_id AS TEXT) FROM outbox_messages WHERE state = 'held' ORDER BY message_id",
                })
                .await
            }
            _ => word.to_owned(),
        }
    }

    /// Runs a command: its exit code, and all of its output.
    async fn run(&self, words: &[String]) -> (i32, String) {
        let home = self.server.config().parent().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(words).current_dir(&home).env("HOME", &home);
        command.env("HOOKLATCH_TOKEN", TOKEN);
        if words[0] == "health" {
            command.arg("--url").arg(format!("http://{}", self.server.admin));
        }
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        (ran.status.code().unwrap(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
    }
}

async fn every_command_of_the_runbooks_has_the_documented_result(database: &Database) {
    let mut stocked = Stocked::start(database).await;
    let mut wrong = Vec::new();
    for name in runbooks() {
        stocked.stock().await;
        if name == "pause-long.md" {
            let pause = ["destinations", "pause", "billing", "--reason", "x"].map(str::to_owned);
            assert_eq!(stocked.run(&pause).await.0, 0);
        }
        for step in steps(&page(&format!("docs/runbooks/{name}"))) {
            assert_eq!(step.words[0], "hooklatch", "{name}: other commands go into a `text` block");
            let mut words = Vec::new();
            for word in step.words.iter().skip(1) {
                words.push(stocked.filled(&name, word).await);
            }
            if let Some(at) = words.iter().position(|word| word == "NUMBER:SET") {
                // The number and the set that the command shows when it is given without it.
                let preview = [&words[..at - 1], &["--json".to_owned()]].concat();
                let (_, said) = stocked.run(&preview).await;
                let found =
                    said.lines().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
                let found = found.unwrap_or_else(|| panic!("{said}"));
                words[at] = format!("{}:{}", found["counted_n"], found["set"].as_str().unwrap());
            }
            let (code, said) = stocked.run(&words).await;
            if code != step.code || said.trim().is_empty() {
                wrong.push(format!(
                    "{name}: `{}` ended with {code}, not {}: {said}",
                    words.join(" "),
                    step.code
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
