//! Every command of the pages for newcomers is run, against a server that is started as they say, and its output must
//! have what the comment beside it promises: a status, an outcome, a member of JSON such as `"effects_n":1`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::super::process::{client, free_ports, until};
use super::text::{blocks, inline, page, pages};

/// Commands that are not run here, and why.
const NOT_RUN: [(&str, &str); 1] = [("./scripts/test", "it is the gate, which runs this test")];

/// What starts the server of a page.
const SERVE: &str = "cargo run -- serve --dev";

const OUTCOMES: [&str; 6] = ["accepted", "duplicate", "conflict", "superseded", "replayed", "unreadable"];

/// One command of a page, and the promises in its comments.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    promise: String,
}

/// The commands of a block of `sh`. A comment belongs to the line it stands on, or to the next command that says
/// anything.
fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut promise = String::new();
    for line in text.replace("\\\n", " ").lines() {
        let (command, comment) = match line.strip_prefix('#') {
            Some(comment) => ("", comment),
            None => line.split_once("  #").unwrap_or((line, "")),
        };
        let command = command.trim();
        promise.push_str(comment.trim());
        promise.push(' ');
        let is_silent = !["curl ", "hooklatch ", "cargo ", "./"].iter().any(|word| command.contains(word));
        if !command.is_empty() {
            let said = if is_silent { String::new() } else { std::mem::take(&mut promise).trim().to_owned() };
            steps.push(Step { command: command.to_owned(), promise: said });
        }
    }
    steps
}

/// What a promise names that its output does not have.
fn broken(promise: &str, output: &str) -> Vec<String> {
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect()
    };
    let expected = words(promise);
    let is_status = |word: &&String| {
        word.len() == 3 && word.parse::<u16>().is_ok_and(|status| (100..600).contains(&status))
    };
    let named = expected.iter().filter(|word| is_status(word) || OUTCOMES.contains(&word.as_str()));
    let printed = words(output);
    let missing = named.filter(|word| !printed.contains(word)).cloned();
    let members = promise.split('"').skip(1).step_by(2).zip(promise.split('"').skip(2).step_by(2));
    let members = members.filter_map(|(name, rest)| {
        let digits: String = rest.strip_prefix(':')?.chars().take_while(char::is_ascii_digit).collect();
        Some(format!("\"{name}\":{digits}"))
    });
    missing.chain(members.filter(|member| !output.contains(member))).collect()
}

/// A folder and ports of a page's own, with the server that the page starts.
struct Reader {
    folder: TempDir,
    receiver: SocketAddr,
    admin: SocketAddr,
    server: Option<Child>,
}

impl Reader {
    fn new() -> Self {
        let (receiver, admin) = free_ports();
        Self { folder: tempfile::tempdir().unwrap(), receiver, admin, server: None }
    }

    /// Where the page says 8080 and 8081, these ports are meant.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_hooklatch")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("HOOKLATCH__SERVER__LISTEN", self.receiver.to_string())
            .env("HOOKLATCH__SERVER__PUBLIC_URL", format!("http://{}", self.receiver))
            .env("HOOKLATCH__ADMIN__LISTEN", self.admin.to_string())
            .env("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef0123456789abcdef")
            .env("HOOKLATCH_OPS_TOKEN", "0123456789abcdef0123456789abcdef")
            .env("SHOP_TOKEN", "tok_0123456789abcdef0123456789abcdef")
            .stdin(Stdio::null());
        command
    }

    async fn serve(&mut self, arguments: &[&str]) {
        let mut command = self.command(env!("CARGO_BIN_EXE_hooklatch"));
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.server = Some(command.args(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let (url, client) = (format!("http://{}/readyz", self.admin), client());
        let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        until("the server is ready", Duration::from_secs(30), log, async || {
            client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
    }

    /// Runs a command in bash as a terminal would: variables and functions of the commands before it are there.
    fn run(&self, command: &str) -> Output {
        let command = command
            .replace("127.0.0.1:8080", &self.receiver.to_string())
            .replace("127.0.0.1:8081", &self.admin.to_string());
        let script = format!(
            "cargo() {{ shift 2; hooklatch \"$@\"; }}\n[ -e state ] && . ./state\n{command}\nstatus=$?\n\
             {{ declare -p | grep '^declare -- '; declare -f; }} >state\nexit $status\n"
        );
        self.command("bash").args(["-c", &script]).output().unwrap()
    }

    async fn check(&self, step: &Step) {
        // A page that waits for something waits long enough here as well.
        let (is_waiting, command) = match step.command.split_once("; ") {
            Some((wait, command)) if wait.starts_with("sleep ") => (true, command),
            _ => (false, step.command.as_str()),
        };
        let look = || {
            let ran = self.run(command);
            let output =
                format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            let broken = broken(&step.promise, &output);
            let fault = (!ran.status.success() || !broken.is_empty())
                .then(|| format!("{step:?}\nmissing {broken:?}, {}:\n{output}", ran.status));
            fault.map_or(Ok(()), Err)
        };
        if !is_waiting {
            return look().unwrap_or_else(|fault| panic!("{fault}"));
        }
        let last = std::cell::RefCell::new(String::new());
        until(
            "the comment comes true",
            Duration::from_secs(30),
            || last.borrow().clone(),
            async || look().map_err(|fault| last.replace(fault)).is_ok(),
        )
        .await;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }
}

async fn follow(name: &str) {
    let mut reader = Reader::new();
    let mut served_n = 0;
    for block in blocks(&page(name)) {
        // The configuration that the next commands are about.
        if block.language == "toml" {
            reader = Reader::new();
            let database = format!("sqlite://{}", reader.folder.path().join("page.db").display());
            let text = block.text.replace("sqlite:///var/lib/hooklatch/hooklatch.db", &database);
            std::fs::write(reader.folder.path().join("hooklatch.toml"), text).unwrap();
            let secrets = reader.folder.path().join("secrets");
            std::fs::create_dir(&secrets).unwrap();
            std::fs::write(secrets.join("stripe"), "whsec_0123456789abcdef0123456789abcdef").unwrap();
            std::fs::write(secrets.join("ops_token"), "0123456789abcdef0123456789abcdef").unwrap();
        }
        if block.language != "sh" {
            continue;
        }
        for step in steps(&block.text) {
            if NOT_RUN.iter().any(|(command, _)| *command == step.command) {
                continue;
            }
            let is_shown = step.command.contains("curl -i ");
            assert!(!is_shown || !broken(&step.promise, "").is_empty(), "say what comes back: {step:?}");
            match step.command.as_str() {
                SERVE => reader.serve(&["serve", "--dev"]).await,
                "hooklatch serve" => reader.serve(&["serve"]).await,
                _ => {
                    reader.check(&step).await;
                    continue;
                }
            }
            served_n += 1;
        }
    }
    assert!(served_n > 0, "{name} starts no server");
}

#[tokio::test]
async fn every_command_of_the_readme_does_what_it_says() {
    follow("README.md").await;
}

#[tokio::test]
async fn every_command_of_the_first_steps_does_what_it_says() {
    follow("docs/getting-started.md").await;
}

#[tokio::test]
async fn every_command_of_the_page_for_our_own_services_does_what_it_says() {
    follow("docs/first-party.md").await;
}

/// The arguments of a command: what is in quotes is one of them.
fn words_of(arguments: &str) -> Vec<String> {
    let parts = arguments.split('"').enumerate();
    let words = parts.flat_map(|(n, part)| match n % 2 {
        // A number to fill in is a number to the command.
        0 => part.split_whitespace().map(|word| word.replace("NUMBER", "1").replace("SET", "5e7")).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn commands_in_the_text_name_what_there_is() {
    let mut wrong = Vec::new();
    for name in pages() {
        let text = page(&name);
        let fenced = blocks(&text).into_iter().filter(|block| block.language == "sh");
        let fenced = fenced.flat_map(|block| steps(&block.text)).map(|step| step.command);
        for command in inline(&text).into_iter().chain(fenced) {
            let Some(arguments) = command.strip_prefix("hooklatch ") else { continue };
            // `…` behind a command stands for whatever follows; behind an option, for its value.
            let is_open = arguments.ends_with(" …") && !arguments.trim_end_matches(" …").ends_with("secret");
            let arguments = if is_open { arguments.trim_end_matches(" …") } else { arguments };
            let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
                .args(words_of(arguments))
                .arg("--help")
                .current_dir(std::env::temp_dir())
                .output()
                .unwrap();
            if !ran.status.success() {
                let why = String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or_default().to_owned();
                wrong.push(format!("{name}: `{command}`: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "these commands are none:\n  {}", wrong.join("\n  "));
}

#[test]
fn a_comment_belongs_to_its_line_or_to_the_next_command_with_output() {
    let step =
        |command: &str, promise: &str| Step { command: command.to_owned(), promise: promise.to_owned() };
    let text =
        "x='a # b'\n# Again: 200, duplicate.\nbody=1\ncurl -i a \\\n  -d b\nhooklatch send x   # 401\n";
    let want = [
        step("x='a # b'", ""),
        step("body=1", ""),
        step("curl -i a    -d b", "Again: 200, duplicate."),
        step("hooklatch send x", "401"),
    ];
    assert_eq!(steps(text), want);
}

#[test]
fn a_promise_is_broken_by_missing_output() {
    #[track_caller]
    fn check(promise: &str, output: &str, want: &[&str]) {
        assert_eq!(broken(promise, output), want, "{promise}");
    }
    check("Nothing runs twice, for 3 days.", "", &[]);
    check("200, accepted", "HTTP/1.1 200 OK\r\nhooklatch-outcome: accepted\r\n", &[]);
    check("200, accepted", "HTTP/1.1 200 OK\r\nhooklatch-outcome: duplicate\r\n", &["accepted"]);
    check("401.", "HTTP/1.1 4010", &["401"]);
    check("\"requests_n\":3 and \"effects_n\":1", r#"{"requests_n":3,"effects_n":2}"#, &["\"effects_n\":1"]);
}
