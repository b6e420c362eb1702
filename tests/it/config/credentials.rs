//! Secrets that a service manager put into a folder.

use super::{loaded, name, right};

#[test]
fn a_credential_is_a_file_of_the_folder_that_the_service_manager_names() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("stripe"), "whsec_of_the_credential\n").expect("a file");
    let text = |name: &str| format!("[providers.stripe]\nsecrets = [{{ credential = \"{name}\" }}]");
    let env = [("CREDENTIALS_DIRECTORY", folder.path().to_str().expect("text"))];
    let config = right(&text("stripe"), &env);
    assert!(config.providers[&name("stripe")].secrets[0].is("whsec_of_the_credential"));
    #[track_caller]
    fn check(text: &str, env: &[(&str, &str)], why: &str, remedy: &str) {
        let problems = loaded(text, env).expect_err(text);
        assert_eq!(problems.len(), 1, "{problems:#?}");
        assert_eq!(problems[0].key, "providers.stripe.secrets[0]");
        assert!(problems[0].why.contains(why) && problems[0].remedy.contains(remedy), "{problems:#?}");
    }
    let add = "LoadCredential=adyen:PATH";
    check(&text("adyen"), &env, "cannot be read: No such file", add);
    pipe(&folder.path().join("absent"));
    check(&text("absent"), &env, "it is a pipe to which nobody has written", "LoadCredential=absent:PATH");
    let path = folder.path().join("program");
    pipe(&path);
    let writes = std::thread::spawn(move || std::fs::write(path, "whsec_of_a_program\n"));
    let config = right(&text("program"), &env);
    assert!(config.providers[&name("stripe")].secrets[0].is("whsec_of_a_program"));
    writes.join().expect("it ends").expect("written");
    check(&text("adyen"), &[], "$CREDENTIALS_DIRECTORY is not set", add);
    check(&text("adyen"), &[("CREDENTIALS_DIRECTORY", "")], "$CREDENTIALS_DIRECTORY is not set", add);
    for odd in ["../shadow", "/etc/shadow", "", ".", "a b"] {
        check(&text(odd), &env, "is not the name of a credential", "into { file = … }");
    }
}

/// Makes a pipe that has a name.
fn pipe(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}
