//! The server and the token of a command: from arguments, else variables, else a profile, else the configuration.

use std::path::{Path, PathBuf};

use clap::Args;

use super::output::ColourChoice;
use super::shared::{Usage, complain, typed_secret};
use hooklatch_core::config::{DEV_TOKEN, Environment};
use hooklatch_operator::load::{
    Kinds, Profile, Settings, find_profile, load_for_tools, profiles_file, reachable,
};

/// Arguments of every command that asks a running server.
#[derive(Args, Default)]
pub(super) struct ReachArgs {
    /// A server of ~/.config/hooklatch/profiles.toml, by its name.
    #[arg(long, global = true, value_name = "NAME", env = "HOOKLATCH_PROFILE", help_heading = "Server")]
    pub(super) profile: Option<String>,
    /// URL of the operator side; that of the profile, or `admin.listen` of the configuration by default.
    #[arg(long, global = true, env = "HOOKLATCH_URL", help_heading = "Server")]
    pub(super) url: Option<String>,
    /// A token for it; that of the profile, or the strongest of the configuration by default. `-` reads a line of standard
    /// input: what stands on a command line, everybody on the machine can read.
    #[arg(
        long,
        global = true,
        env = "HOOKLATCH_TOKEN",
        hide_env_values = true,
        help_heading = "Server",
        value_name = "TOKEN"
    )]
    pub(super) token: Option<String>,
    /// PEM file with the only certificates by which its name is believed.
    #[arg(long, global = true, value_name = "FILE", env = "HOOKLATCH_CA_FILE", help_heading = "Server")]
    pub(super) ca_file: Option<PathBuf>,
    /// Print JSON, one object on a line, instead of tables.
    #[arg(long, global = true, help_heading = "Output")]
    pub(super) json: bool,
    /// Colours: on a terminal (`auto`, unless `NO_COLOR` is set), `always` or `never`.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(super) color: ColourChoice,
}

/// A server that a command reaches.
pub(super) struct ReachedServer {
    pub(super) url: reqwest::Url,
    pub(super) token: String,
    pub(super) ca_file: Option<PathBuf>,
}

/// The server of the configuration.
struct OwnServer {
    url: String,
    token: Option<String>,
}

impl ReachArgs {
    /// Chooses the server. URL, token and certificates are each taken from the first source that has them; the token
    /// of the configuration is never sent to a server of a profile.
    pub(super) fn server(
        &self,
        env: &Environment,
        file: Option<&Path>,
        kinds: &Kinds,
    ) -> anyhow::Result<ReachedServer> {
        let profile = self.profile.as_deref().map(|name| named_profile(env, name)).transpose()?;
        self.decided(profile, || own_server(file, kinds))
    }

    fn decided(
        &self,
        profile: Option<Profile>,
        own: impl FnOnce() -> OwnServer,
    ) -> anyhow::Result<ReachedServer> {
        let Some(profile) = profile else {
            let own = own();
            let url = parsed(self.url.as_deref().unwrap_or(&own.url))?;
            // The token is published, so it is used only for a server on this machine.
            let dev = || is_loopback(&url).then(|| DEV_TOKEN.to_owned());
            let token = typed_secret(self.token.as_deref())?.or(own.token).or_else(dev);
            let token = token.ok_or_else(|| Usage(format!("no token for {url}: {TOKEN_REMEDY}")))?;
            return Ok(ReachedServer { url, token, ca_file: self.ca_file.clone() });
        };
        let url = parsed(self.url.as_deref().unwrap_or(&profile.url))?;
        let token = typed_secret(self.token.as_deref())?.or_else(|| Some(profile.token?.reveal().to_owned()));
        let token = token.ok_or_else(|| {
            let name = self.profile.as_deref().unwrap_or_default();
            Usage(format!("profile `{name}` has no token: {TOKEN_REMEDY}"))
        })?;
        Ok(ReachedServer { url, token, ca_file: self.ca_file.clone().or(profile.ca_file) })
    }
}

const TOKEN_REMEDY: &str =
    "write token = { env = \"NAME\" } into its profile, or give one with HOOKLATCH_TOKEN or --token";

/// Without a usable configuration the arguments may still be sufficient.
fn own_server(file: Option<&Path>, kinds: &Kinds) -> OwnServer {
    let admin = load_for_tools(&Settings::of_process(file), kinds).ok().map(|config| config.admin);
    let listen = admin
        .as_ref()
        .map_or_else(|| "127.0.0.1:8081".to_owned(), |admin| reachable(admin.listen).to_string());
    let scheme = if admin.as_ref().is_some_and(|admin| admin.tls.is_some()) { "https" } else { "http" };
    let token = admin.and_then(|admin| {
        let strongest = admin.tokens.into_iter().max_by_key(|token| token.role)?;
        Some(strongest.token.reveal().to_owned())
    });
    OwnServer { url: format!("{scheme}://{listen}"), token }
}

fn named_profile(env: &Environment, name: &str) -> anyhow::Result<Profile> {
    let Some(file) = profiles_file(env) else {
        let why = "there is no place for profiles: set HOME or XDG_CONFIG_HOME".to_owned();
        return Err(Usage(why).into());
    };
    let found = find_profile(&file, env, name).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Usage(lines.join("\n"))
    })?;
    for warning in &found.warnings {
        complain(format!("warning: {warning}"));
    }
    found.profile.ok_or_else(|| {
        let known = if found.names.is_empty() { "none".to_owned() } else { found.names.join(", ") };
        Usage(format!("no profile is called `{name}` in {}; there are {known}", file.display())).into()
    })
}

fn parsed(url: &str) -> anyhow::Result<reqwest::Url> {
    let why = match reqwest::Url::parse(url) {
        Err(error) => error.to_string(),
        Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
            "it begins with neither http:// nor https://".to_owned()
        }
        Ok(url) => return Ok(url),
    };
    Err(Usage(format!("--url `{url}`: {why}; write it as http://127.0.0.1:8081")).into())
}

/// True when the URL names this machine.
pub(super) fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::config::Secret;

    fn own() -> OwnServer {
        OwnServer { url: "http://127.0.0.1:9999".to_owned(), token: Some("of-the-configuration".to_owned()) }
    }

    fn profile(token: Option<&str>) -> Profile {
        let ca_file = Some(PathBuf::from("/ca.pem"));
        Profile { url: "https://ops.test".to_owned(), token: token.map(Secret::new), ca_file }
    }

    fn args(url: Option<&str>, token: Option<&str>) -> ReachArgs {
        let text = |text: &str| text.to_owned();
        ReachArgs {
            url: url.map(text),
            token: token.map(text),
            profile: Some(text("prod")),
            ..Default::default()
        }
    }

    #[test]
    fn arguments_come_before_a_profile_and_that_before_the_configuration() {
        #[track_caller]
        fn check(args: &ReachArgs, profile: Option<Profile>, want: (&str, &str, Option<&str>)) {
            let server = args.decided(profile, own).expect("a server");
            let ca_file = server.ca_file.as_ref().map(|path| path.to_str().expect("text"));
            assert_eq!((server.url.as_str(), server.token.as_str(), ca_file), want);
        }
        let (given, t) = (Some("http://given.test"), Some("given"));
        check(&args(None, None), None, ("http://127.0.0.1:9999/", "of-the-configuration", None));
        check(&args(given, t), None, ("http://given.test/", "given", None));
        check(&args(None, None), Some(profile(Some("p"))), ("https://ops.test/", "p", Some("/ca.pem")));
        check(&args(given, None), Some(profile(Some("p"))), ("http://given.test/", "p", Some("/ca.pem")));
        check(&args(None, t), Some(profile(None)), ("https://ops.test/", "given", Some("/ca.pem")));
    }

    #[test]
    fn a_token_is_sent_only_to_the_server_it_is_meant_for() {
        #[track_caller]
        fn check(
            args: &ReachArgs,
            profile: Option<Profile>,
            own_token: Option<&str>,
            want: Result<&str, &str>,
        ) {
            let own = || OwnServer { token: own_token.map(str::to_owned), ..own() };
            match (args.decided(profile, own), want) {
                (Ok(server), want) => assert_eq!(Ok(server.token.as_str()), want),
                (Err(error), want) => {
                    assert!(error.to_string().contains(want.expect_err("an error")), "{error}");
                }
            }
        }
        check(&args(None, None), Some(profile(None)), Some("own"), Err("profile `prod` has no token"));
        check(&args(None, None), None, None, Ok(DEV_TOKEN));
        check(&args(Some("http://[::1]:1"), None), None, None, Ok(DEV_TOKEN));
        check(&args(Some("https://ops.test"), None), None, None, Err("no token for https://ops.test"));
        check(&args(Some("data:text/plain,x"), None), None, None, Err("neither http://"));
        check(&args(Some("ops.test:8081"), None), None, None, Err("--url `ops.test:8081`"));
    }
}
