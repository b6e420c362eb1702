//! Which server a command reaches and as whom; what it says when it reaches none; completions and manuals.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::samples::answer;
use super::server::{Says, Stand, ran};

/// A server, and a file of profiles that names it as `here` and another one, which does not run, as `away`.
async fn with_profiles() -> Stand {
    let stand = Stand::start(|received| answer(received, "x")).await;
    let folder = stand.home().join(".config/hooklatch");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "[here]\nurl = \"{}\"\ntoken = {{ env = \"TOKEN_OF_HERE\" }}\n\
         [away]\nurl = \"http://127.0.0.1:9\"\ntoken = {{ file = \"away-token\" }}\n[bare]\nurl = \"{}\"\n",
        stand.url(),
        stand.url(),
    );
    std::fs::write(folder.join("away-token"), "token-of-away-0123456789").unwrap();
    std::fs::write(folder.join("profiles.toml"), text).unwrap();
    let own = "[admin]\nlisten = \"127.0.0.1:9\"\n\
               tokens = [{ name = \"ops\", role = \"operator\", token = \"token-of-the-configuration\" }]\n";
    std::fs::write(stand.home().join("hooklatch.toml"), own).unwrap();
    stand
}

/// Arguments, variables, and the token that is sent or the exit code.
type Given<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], Result<&'a str, i32>);

#[tokio::test]
async fn arguments_come_before_variables_before_a_profile_before_the_configuration() {
    let stand = with_profiles().await;
    let url = stand.url();
    let given: [Given<'_>; 8] = [
        (&["--profile", "here"], &[], Ok("token-of-here-0123456789")),
        (&[], &[("HOOKLATCH_PROFILE", "here")], Ok("token-of-here-0123456789")),
        (&["--profile", "here"], &[("HOOKLATCH_PROFILE", "away")], Ok("token-of-here-0123456789")),
        (
            &["--profile", "here", "--token", "of-the-argument"],
            &[("HOOKLATCH_TOKEN", "v")],
            Ok("of-the-argument"),
        ),
        (&["--profile", "away", "--url", &url], &[], Ok("token-of-away-0123456789")),
        (&["--url", &url], &[], Ok("token-of-the-configuration")),
        (&["--profile", "bare"], &[], Err(2)),
        (&[], &[], Err(5)),
    ];
    for (arguments, env, want) in given {
        let before_n = stand.received().len();
        let mut command = stand.command(&[&["whoami"][..], arguments].concat());
        command.env("TOKEN_OF_HERE", "token-of-here-0123456789").envs(env.iter().copied());
        let said = ran(command).await;
        match want {
            Ok(token) => {
                assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
                assert_eq!(stand.received()[before_n].header("authorization"), format!("Bearer {token}"));
            }
            Err(code) => {
                assert_eq!(
                    (said.code, stand.received().len()),
                    (code, before_n),
                    "{arguments:?}: {}",
                    said.err
                );
            }
        }
    }
}

#[tokio::test]
async fn a_bad_profile_is_reported_with_file_key_and_remedy() {
    let stand = with_profiles().await;
    let file = stand.home().join(".config/hooklatch/profiles.toml");
    let run = async |arguments: &[&str]| ran(stand.command(arguments)).await;
    let said = run(&["whoami", "--profile", "prod"]).await;
    assert!(said.code == 2 && said.err.contains("no profile is called `prod`"), "{}", said.err);
    assert!(said.err.contains("there are away, bare, here"), "{}", said.err);
    let said = run(&["whoami", "--profile", "here"]).await;
    assert!(
        said.code == 2 && said.err.contains("here.token:") && said.err.contains("`TOKEN_OF_HERE` is not set"),
        "{}",
        said.err
    );
    std::fs::write(&file, "[prod]\nurl = \"ops.test\"\ntokn = \"s3cr3t-s3cr3t-s3cr3t\"\n").unwrap();
    let said = run(&["whoami", "--profile", "prod"]).await;
    for part in ["profiles.toml: prod.url:", "prod.tokn: is not a key", "did you mean `prod.token`?"] {
        assert!(said.code == 2 && said.err.contains(part), "no `{part}` in {}", said.err);
    }
    assert!(!said.err.contains("s3cr3t"), "{}", said.err);
    std::fs::remove_file(&file).unwrap();
    let said = run(&["whoami", "--profile", "prod"]).await;
    assert!(said.code == 2 && said.err.contains("cannot be read"), "{}", said.err);
    let said = run(&["check"]).await;
    assert_eq!(said.code, 0, "no other command needs them: {}", said.err);
}

#[tokio::test]
async fn a_configuration_whose_token_is_not_used_is_named_with_what_is_wrong() {
    let stand = Stand::start(|_| Says::problem(401, "unauthorized", "send a bearer token")).await;
    std::fs::write(stand.home().join("hooklatch.toml"), "[admin]\ntokns = []\n").unwrap();
    let wrong = "hooklatch.toml: admin.tokns: is not a key";
    let said = ran(stand.command(&["whoami", "--url", &stand.url()])).await;
    assert!(said.code == 6 && said.err.contains("warning: neither address nor token"), "{}", said.err);
    assert!(said.err.contains(wrong), "{}", said.err);
    let said = ran(stand.command(&["whoami", "--url", &stand.url(), "--token", "0123456789abcdef"])).await;
    assert!(said.code == 6 && !said.err.contains(wrong), "it is not needed: {}", said.err);
}

#[tokio::test]
async fn a_file_of_tokens_that_everybody_can_read_is_warned_of() {
    let stand = Stand::start(|received| answer(received, "x")).await;
    std::fs::set_permissions(stand.home(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let folder = stand.home().join(".config/hooklatch");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("profiles.toml");
    let text = format!("[here]\nurl = \"{}\"\ntoken = \"0123456789abcdef0123\"\n", stand.url());
    std::fs::write(&file, text).unwrap();
    for (mode, is_warned) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = ran(stand.command(&["whoami", "--profile", "here"])).await;
        assert_eq!((said.code, said.err.contains("warning: ")), (0, is_warned), "{}", said.err);
    }
}

#[tokio::test]
async fn how_a_command_ends_is_its_exit_code() {
    for (status, code) in [(400, 2), (401, 6), (403, 6), (404, 3), (409, 4), (412, 4), (500, 1), (503, 5)] {
        let stand = Stand::start(move |_| Says::problem(status, "a_code", "the reason")).await;
        let said = stand.run(&["events", "show", "stripe", "evt_1"]).await;
        assert_eq!(said.code, code, "{status}: {}", said.err);
        assert!(
            said.out.is_empty() && said.err.contains(&format!("the reason ({status} a_code)")),
            "{}",
            said.err
        );
    }
    let stand = Stand::start(|_| Says::ok(serde_json::json!({ "title": "another program" }))).await;
    let said = stand.run(&["events", "list"]).await;
    assert!(said.code == 1 && said.err.contains("not as this version understands"), "{}", said.err);
    let said = ran(stand.command(&["events", "list", "--url", "http://127.0.0.1:9"])).await;
    assert!(
        said.code == 5
            && said.err.contains("cannot reach http://127.0.0.1:9")
            && said.err.contains("start the server"),
        "{}",
        said.err
    );
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_hooklatch")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = [
        "audit",
        "check",
        "completions",
        "destinations",
        "doctor",
        "erase",
        "events",
        "explain",
        "health",
        "lanes",
        "man",
        "messages",
        "migrate",
        "new-kind",
        "operations",
        "pairing",
        "providers",
        "prune",
        "rejected",
        "search",
        "send",
        "serve",
        "settings",
        "sign",
        "statistics",
        "tail",
        "test-event",
        "tokens",
        "vectors",
        "what-if",
        "whoami",
    ];
    let page = run(&["man"]);
    assert!(page.contains(".TH hooklatch 1") && page.contains("EXIT STATUS"), "{page}");
    assert!(page.contains(".SH \"HOOKLATCH MESSAGES SEND\""), "commands of commands too");
    for command in commands {
        let title = command.to_uppercase().replace('-', "\\-");
        assert!(page.contains(&format!(".SH \"HOOKLATCH {title}\"")), "no {command}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        let missing: Vec<&&str> = commands.iter().filter(|command| !script.contains(**command)).collect();
        assert!(missing.is_empty() && script.contains("created-before"), "{shell}: {missing:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("hooklatch.bash");
    std::fs::write(&script, run(&["completions", "bash"])).unwrap();
    let parsed = Command::new("bash").arg("-n").arg(&script).status().unwrap();
    assert!(parsed.success());
    run(&["man", "--folder", folder.path().to_str().unwrap()]);
    for name in ["hooklatch.1", "hooklatch-events.1", "hooklatch-events-list.1"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
