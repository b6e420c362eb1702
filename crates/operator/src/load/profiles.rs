//! Profiles: the servers that an operator's commands reach, by name. A file of the person's own, not of a server.
//!
//! ```toml
//! [prod]
//! url = "https://ops.example.com:8081"
//! token = { env = "HOOKLATCH_PROD_TOKEN" }
//! ca_file = "prod-ca.pem"
//! ```

use std::path::{Path, PathBuf};

use super::layers::toml_layer;
use hooklatch_core::config::{
    Checker, ConfigProblem, Environment, Found, Secret, Table, UrlRule, http_url, open_to_all,
};

/// One server, as a person reaches it.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The operator side, without a path of the API.
    pub url: String,
    /// The person's token there; `None` when it is given otherwise.
    pub token: Option<Secret>,
    /// The only certificates that are trusted for its name; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
}

/// One profile of a file, and what is allowed in it and most likely not meant.
#[derive(Debug)]
pub struct FoundProfile {
    /// The profile; `None` when there is none of that name.
    pub profile: Option<Profile>,
    /// Names of all profiles.
    pub names: Vec<String>,
    /// Files with secrets that every user of the machine can read.
    pub warnings: Vec<ConfigProblem>,
}

/// The file of profiles: `hooklatch/profiles.toml` below `XDG_CONFIG_HOME`, which is `~/.config` by default. A folder
/// that is not absolute counts as not set, as the XDG specification wants it.
pub fn profiles_file(env: &Environment) -> Option<PathBuf> {
    let absolute = |name| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("hooklatch/profiles.toml"))
}

/// Reads a profile; on failure everything that is wrong with it. Others may be wrong, or need secrets that are not
/// here.
pub fn find_profile(file: &Path, env: &Environment, name: &str) -> Result<FoundProfile, Vec<ConfigProblem>> {
    let source = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        let remedy = "write [NAME] url = \"https://…\" and token = { env = \"…\" } into it";
        vec![ConfigProblem::new(&source, "", format!("cannot be read: {error}"), remedy)]
    })?;
    let map = toml_layer(&source, &text)?;
    let folder = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let checker = Checker::new(env, folder, source);
    let (mut names, mut found) = (Vec::new(), None);
    for (one, field) in Table::root(&checker, map).entries() {
        if one == name {
            found = field.section(profile).flatten();
        }
        names.push(one);
    }
    let Found { mut problems, warnings, secret_files, .. } = checker.into_found();
    if !problems.is_empty() {
        problems.sort();
        return Err(problems);
    }
    let open = secret_files.iter().filter_map(|path| open_to_all(path));
    Ok(FoundProfile { profile: found, names, warnings: warnings.into_iter().chain(open).collect() })
}

fn profile(table: &mut Table<'_>) -> Option<Profile> {
    let url = table.needed("url", "write url = \"https://HOST:PORT\", the operator side");
    let url = url.and_then(|field| http_url(&field, &field.text()?, UrlRule::Public));
    let (token, ca_file) = (table.get("token"), table.get("ca_file"));
    Some(Profile { url: url?, token, ca_file })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_profile_is_a_server_with_a_token_from_wherever_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("profiles.toml");
        let text = "[prod]\nurl = \"https://ops.example.com:8081/\"\ntoken = { env = \"PROD\" }\nca_file = \"ca.pem\"\n\
                    [test]\nurl = \"http://127.0.0.1:8081\"\ntoken = { file = \"token\" }\n\
                    [bare]\nurl = \"http://127.0.0.1:8082\"\n[away]\nurl = \"x\"\ntoken = { env = \"NOT_SET\" }\n";
        std::fs::write(&file, text).expect("written");
        std::fs::write(folder.path().join("token"), "from-a-file-0123456789\n").expect("written");
        let env = env(&[("PROD", "from-the-environment")]);
        let find = |name: &str| find_profile(&file, &env, name).expect("no problem").profile;
        let prod = find("prod").expect("a profile");
        assert_eq!(prod.url, "https://ops.example.com:8081");
        assert_eq!(prod.ca_file, Some(folder.path().join("ca.pem")));
        assert_eq!(prod.token.expect("a token").reveal(), "from-the-environment");
        assert_eq!(
            find("test").and_then(|test| test.token).expect("a token").reveal(),
            "from-a-file-0123456789"
        );
        assert!(find("bare").expect("a profile").token.is_none());
        assert_eq!(find_profile(&file, &env, "away").expect_err("two problems").len(), 2);
        let none = find_profile(&file, &env, "missing").expect("no problem");
        assert!(none.profile.is_none() && none.names == ["away", "bare", "prod", "test"]);
    }

    #[test]
    fn a_bad_file_is_reported_by_key_and_remedy_without_secrets() {
        #[track_caller]
        fn check(text: &str, wanted: &[&str]) {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("profiles.toml");
            std::fs::write(&file, text).expect("written");
            let problems = find_profile(&file, &env(&[]), "prod").err().unwrap_or_default();
            let report = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            for part in wanted {
                assert!(report.contains(part), "no `{part}` in {report}");
            }
            assert!(report.contains("profiles.toml: ") && !report.contains("s3cr3t"), "{report}");
        }
        check("[prod]\ntoken = \"s3cr3t\"\n", &["prod.url: is missing", "the operator side"]);
        check(
            "[prod]\nurl = \"ops.example.com\"\n",
            &["prod.url:", "is not a URL", "begin it with https://"],
        );
        check(
            "[prod]\nurl = \"http://a\"\ntokn = \"s3cr3t\"\n",
            &["prod.tokn: is not a key", "`prod.token`"],
        );
        check("[prod]\nurl = \"http://a\"\ntoken = 5\n", &["prod.token: is not a secret", "{ env = "]);
        check("[prod]\nurl = \"http://a\"\ntoken = { env = \"NONE\" }\n", &["`NONE` is not set"]);
        check("[prod]\nurl = 5\n", &["prod.url: is a whole number"]);
        check("prod = 5\n", &["prod: is a whole number, wanted a table"]);
        check("[prod\nurl = \"s3cr3t\"\n", &["line 1"]);
        let missing =
            find_profile(Path::new("/nowhere/profiles.toml"), &env(&[]), "prod").expect_err("a problem");
        assert!(missing[0].to_string().contains("cannot be read"), "{missing:?}");
    }

    #[test]
    fn a_token_that_everybody_can_read_is_warned_of() {
        // Below a folder that every user may enter; `tempdir` makes one for its owner alone.
        let folder = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let file = folder.path().join("profiles.toml");
        std::fs::write(&file, "[prod]\nurl = \"http://127.0.0.1:1\"\ntoken = \"0123456789abcdef\"\n")
            .expect("written");
        for (mode, warnings_n) in [(0o644, 1), (0o600, 0)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("set");
            let found = find_profile(&file, &env(&[]), "prod").expect("a profile");
            assert_eq!(found.warnings.len(), warnings_n, "{mode:o}: {:?}", found.warnings);
        }
    }

    #[test]
    fn folders_of_a_person_are_where_their_desktop_says() {
        #[track_caller]
        fn check(pairs: &[(&str, &str)], want: Option<&str>) {
            assert_eq!(profiles_file(&env(pairs)), want.map(PathBuf::from));
        }
        check(&[], None);
        check(&[("HOME", "/home/a")], Some("/home/a/.config/hooklatch/profiles.toml"));
        check(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "/x")], Some("/x/hooklatch/profiles.toml"));
        check(
            &[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "x")],
            Some("/home/a/.config/hooklatch/profiles.toml"),
        );
        check(&[("HOME", "")], None);
    }
}
