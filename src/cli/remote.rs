//! The shape of every command of the operator API. A noun defines its arguments as clap's structs, its paths in
//! [`ServerCommand::run`], and its columns in [`ListRow::COLUMNS`].
//!
//! [`ReachArgs`] chooses the server and the token: from arguments, else variables, else a profile, else the
//! configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ColorChoice, Subcommand};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::api_client::{ApiAnswer, ApiClient, OrderPlace};
use super::output::{Column, Screen, Shown, Tone, table, with_times};
use super::shared::{NotFound, Usage, complain, is_reader_gone, say, typed_secret};
use hooklatch_contract::{Order, OrderResult, PAGE_N_DEFAULT, PAGE_N_MAX, Page, ReasonOrder};
use hooklatch_core::config::{DEV_TOKEN, Environment};
use hooklatch_core::figures::plural;
use hooklatch_core::mistakes::nearest;
use hooklatch_core::times::format_moment;
use hooklatch_operator::load::{
    Kinds, Profile, Settings, find_profile, load_for_tools, profiles_file, reachable,
};

/// Arguments of every command that asks a running server.
#[derive(Args, Default)]
pub(super) struct ReachArgs {
    /// Profile in ~/.config/hooklatch/profiles.toml.
    #[arg(long, global = true, value_name = "NAME", env = "HOOKLATCH_PROFILE", help_heading = "Server")]
    pub(super) profile: Option<String>,
    /// URL of the operator listener. Default: that of the profile, or `admin.listen` of the configuration.
    #[arg(long, global = true, env = "HOOKLATCH_URL", help_heading = "Server")]
    pub(super) url: Option<String>,
    /// API token. Default: that of the profile, or the strongest of the configuration. `-` reads a line of standard
    /// input: other users of the machine can read command lines.
    #[arg(
        long,
        global = true,
        env = "HOOKLATCH_TOKEN",
        hide_env_values = true,
        help_heading = "Server",
        value_name = "TOKEN"
    )]
    pub(super) token: Option<String>,
    /// PEM file with the only CA certificates to trust.
    #[arg(long, global = true, value_name = "FILE", env = "HOOKLATCH_CA_FILE", help_heading = "Server")]
    pub(super) ca_file: Option<PathBuf>,
    /// Print JSON instead of tables, one object on a line.
    #[arg(long, global = true, help_heading = "Output")]
    pub(super) json: bool,
    /// Colours: `auto` (on a terminal, unless `NO_COLOR` is set), `always` or `never`.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(super) color: ColorChoice,
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
        let is_needed = self.url.is_none() || self.token.is_none();
        self.decided(profile, || own_server(file, kinds, is_needed))
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

/// Without a usable configuration the arguments may still be sufficient; where it `is_needed`, what is wrong with it is
/// said, or a refused token has no visible cause.
fn own_server(file: Option<&Path>, kinds: &Kinds, is_needed: bool) -> OwnServer {
    let admin = match load_for_tools(&Settings::of_process(file), kinds) {
        Ok(config) => Some(config.admin),
        Err(problems) => {
            if let Some(problem) = problems.first().filter(|_| is_needed) {
                complain(format!(
                    "warning: neither address nor token is from the configuration, which cannot be used: {problem}"
                ));
            }
            None
        }
    };
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

/// Values of a query; those that are `None` were not given.
pub(super) type Query<'a> = [(&'static str, Option<&'a str>)];

/// A command that queries a server.
pub(super) trait ServerCommand {
    /// Sends the request, and prints the answer.
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode>;
}

/// A noun with subcommands, and the server that they query.
#[derive(Args)]
pub(super) struct Noun<C: Subcommand> {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: C,
}

/// A command with its arguments, and the server that it queries.
#[derive(Args)]
pub(super) struct Standalone<C: Args> {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(flatten)]
    command: C,
}

impl<C: Subcommand + ServerCommand> Noun<C> {
    pub(super) fn run(&self, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
        self.command.run(&Remote::open(&self.reach, file, kinds)?)
    }
}

impl<C: Args + ServerCommand> Standalone<C> {
    pub(super) fn run(&self, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
        self.command.run(&Remote::open(&self.reach, file, kinds)?)
    }
}

/// Arguments of every list.
#[derive(Args)]
pub(super) struct PagingArgs {
    /// Rows of a page, 1 to 500.
    #[arg(long, default_value_t = PAGE_N_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_N_MAX)))]
    limit: u32,
    /// Continue after an earlier page: the cursor that it printed.
    #[arg(long)]
    cursor: Option<String>,
    /// Print all pages.
    #[arg(long)]
    all: bool,
}

impl Default for PagingArgs {
    fn default() -> Self {
        Self { limit: PAGE_N_DEFAULT, cursor: None, all: false }
    }
}

/// Arguments of everything that changes something.
#[derive(Args)]
pub(super) struct WhyArgs {
    /// Reason for the audit log: one line, at most 255 bytes.
    #[arg(long)]
    pub(super) reason: String,
    /// Idempotency key of the request. Default: a new one for each run. The error of a command without an answer names
    /// the key to repeat it with.
    #[arg(long)]
    pub(super) key: Option<String>,
}

impl WhyArgs {
    /// An order with a reason alone.
    pub(super) fn order(&self) -> ReasonOrder {
        ReasonOrder { reason: self.reason.clone() }
    }
}

/// An argument of commands about one subject, which may have changed since the operator looked at it.
#[derive(Args)]
pub(super) struct VersionArgs {
    /// Act only on this version, which `show` prints.
    #[arg(long, value_name = "VERSION")]
    if_match: Option<String>,
}

impl VersionArgs {
    /// The version as a header value: in quotes, also where a shell removed them.
    pub(super) fn header(&self) -> Option<String> {
        let version = self.if_match.as_deref()?;
        let is_whole = version.starts_with('"') || version.starts_with("W/") || version == "*";
        Some(if is_whole { version.to_owned() } else { format!("\"{version}\"") })
    }
}

/// A column of a list, and its field of a row.
pub(super) type ListColumn<T> = (Column, fn(&T, &Screen) -> Shown);

/// A row of a list.
pub(super) trait ListRow: Sized + 'static {
    /// The noun for one of them, such as `event`, where there are lists of it alone.
    const NOUN: &'static str = "row";
    /// The columns of the table, each with its field.
    const COLUMNS: &'static [ListColumn<Self>];

    /// The fields of this row.
    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        Self::COLUMNS.iter().map(|(_, cell)| cell(self, screen)).collect()
    }
}

/// A server, and the screen that its answers are printed on.
pub(super) struct Remote {
    pub(super) api: ApiClient,
    pub(super) screen: Screen,
}

impl Remote {
    /// Chooses the server, and how output is printed.
    pub(super) fn open(reach: &ReachArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<Self> {
        let env = Environment::of_process();
        let screen = Screen::of_process(&env, reach.color, reach.json);
        Ok(Self { api: ApiClient::new(reach.server(&env, file, kinds)?)?, screen })
    }

    /// Prints an answer: for programs as the server sent it, for people as `draw` renders it.
    pub(super) fn print<T>(&self, answer: &ApiAnswer<T>, draw: impl FnOnce(&T, &Screen) -> String) {
        if self.screen.is_json {
            say(with_times(answer.raw.clone()));
        } else {
            self.screen.print(&draw(&answer.view, &self.screen));
        }
    }

    /// Gets the view at this path, and prints it with its version.
    pub(super) fn show<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
        draw: impl FnOnce(&T, &Screen, Option<&str>) -> String,
    ) -> anyhow::Result<ExitCode> {
        let found = self.api.get(path, query)?;
        self.print(&found, |view, screen| draw(view, screen, found.etag.as_deref()));
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a list, a page or all of it, and on stderr the next cursor and how far the server searched. Without
    /// `paging` the list is one page.
    pub(super) fn list<T: ListRow + DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
        paging: Option<&PagingArgs>,
    ) -> anyhow::Result<ExitCode> {
        let limit = paging.map(|paging| paging.limit.to_string());
        let mut cursor = paging.and_then(|paging| paging.cursor.clone());
        let mut rows_n = 0;
        loop {
            let place = [("limit", limit.as_deref()), ("cursor", cursor.as_deref())];
            let answer: ApiAnswer<Page<T>> = self.api.get(path, &[query, &place].concat())?;
            let page = &answer.view;
            if self.screen.is_json || !page.items.is_empty() {
                self.print(&answer, |page, screen| rows(screen, &page.items, rows_n == 0));
            }
            rows_n += page.items.len();
            if !paging.is_some_and(|paging| paging.all) || page.next.is_none() || is_reader_gone() {
                if rows_n == 0 {
                    self.check_names::<T>(query)?;
                }
                if !self.screen.is_json {
                    notes(&self.screen, page, rows_n, query);
                }
                return Ok(ExitCode::SUCCESS);
            }
            cursor = answer.view.next;
        }
    }

    /// Fails when a list is empty because its filter names a provider or a destination that the server does not have.
    fn check_names<T: ListRow>(&self, query: &Query<'_>) -> anyhow::Result<()> {
        for (noun, value) in query.iter().filter_map(|(name, value)| Some((*name, (*value)?))) {
            let (path, command) = match noun {
                "provider" => ("providers", "providers --live"),
                "destination" => ("destinations", "destinations list"),
                _ => continue,
            };
            // A token that may not list them gets the list without this check.
            let Ok(all) = self.api.get::<Page<Named>>(&[path], &[]) else { continue };
            let names: Vec<&str> = all.view.items.iter().map(|one| one.name.as_str()).collect();
            if names.is_empty() || names.contains(&value) {
                continue;
            }
            let hint = match nearest(value, names) {
                Some(name) => format!("; did you mean `{}`?", Shown::text(name).as_str()),
                None => format!(", or it is out of the token's reach: `hooklatch {command}` lists them"),
            };
            let (what, value) = (filter_in_words(query), Shown::text(value));
            let why = format!("no {}s with {what}: no {noun} is called `{}`{hint}", T::NOUN, value.as_str());
            return Err(NotFound(why).into());
        }
        Ok(())
    }

    /// Sends any order.
    pub(super) fn order<T: DeserializeOwned>(
        &self,
        path: &[&str],
        order: &impl Serialize,
        why: &WhyArgs,
    ) -> anyhow::Result<ApiAnswer<T>> {
        self.api.post(&OrderPlace::new(path, why.key.as_deref()), order)
    }

    /// Orders `order` about the subject at `path`, if that still has this version, and prints that it was done.
    pub(super) fn decide(
        &self,
        (path, subject): (&[&str], &str),
        order: &impl Serialize,
        (why, version): (&WhyArgs, Option<&VersionArgs>),
        done: &str,
    ) -> anyhow::Result<ExitCode> {
        let version = version.and_then(VersionArgs::header);
        let place = OrderPlace { if_match: version.as_deref(), ..OrderPlace::new(path, why.key.as_deref()) };
        self.decide_at(&place, subject, order, done)
    }

    /// Orders `order` at this place, and prints that it was done.
    pub(super) fn decide_at(
        &self,
        place: &OrderPlace<'_>,
        subject: &str,
        order: &impl Serialize,
        done: &str,
    ) -> anyhow::Result<ExitCode> {
        let answer: ApiAnswer<OrderResult> =
            self.api.post(place, order).with_context(|| subject.to_owned())?;
        if self.screen.is_json {
            say(&answer.raw);
        } else {
            say(format!("{subject}: {done}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The order to do `act`.
pub(super) fn to<A: Copy>(act: A, why: &WhyArgs) -> Order<A> {
    Order { act, reason: why.reason.clone() }
}

/// A provider or a destination of a list.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Rows of one kind as a table.
pub(super) fn rows<T: ListRow>(screen: &Screen, items: &[T], has_head: bool) -> String {
    let columns: Vec<Column> = T::COLUMNS.iter().map(|(column, _)| *column).collect();
    let lines: Vec<Vec<Shown>> = items.iter().map(|item| item.cells(screen)).collect();
    table(screen, &columns, &lines, has_head)
}

/// The version as a fact, without its quotes.
pub(super) fn version_fact(version: Option<&str>) -> Option<(&'static str, Shown)> {
    version.map(|version| ("version", Shown::text(version.trim_matches('"')).in_tone(Tone::Faint)))
}

/// A filter in words, such as `state held, provider stripe`; empty for none.
pub(super) fn filter_in_words(query: &Query<'_>) -> String {
    let given =
        query.iter().filter_map(|(name, value)| Some(format!("{} {}", name.replace('_', " "), (*value)?)));
    given.collect::<Vec<_>>().join(", ")
}

fn notes<T: ListRow>(screen: &Screen, page: &Page<T>, rows_n: usize, query: &Query<'_>) {
    if rows_n == 0 {
        let filter = filter_in_words(query);
        let with = if filter.is_empty() { String::new() } else { format!(" with {filter}") };
        complain(format!("no {}s{with}", T::NOUN));
    }
    for row in &page.damaged {
        complain(Shown::text(row.sentence()).as_str().to_owned());
    }
    if let Some(back_ms) = page.looked_back_to_ms {
        let rows = plural(u64::try_from(rows_n).unwrap_or(u64::MAX), T::NOUN);
        let back = format_moment(back_ms, screen.now_ms);
        complain(format!("{rows} so far: looked back to {back}, and no further"));
    }
    if let Some(next) = &page.next {
        complain(format!("there are more: --cursor {next}, or --all"));
    }
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

    #[test]
    fn a_version_is_a_header_with_its_quotes_or_without() {
        #[track_caller]
        fn check(given: &str, want: &str) {
            let version = VersionArgs { if_match: Some(given.to_owned()) };
            assert_eq!(version.header().as_deref(), Some(want));
        }
        check("\"5f1d\"", "\"5f1d\"");
        check("5f1d", "\"5f1d\"");
        check("*", "*");
        assert_eq!(VersionArgs { if_match: None }.header(), None);
    }
}
