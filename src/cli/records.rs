//! What a server records besides events and messages, and permissions on it: `whoami`, `settings`, `tokens`, `audit`,
//! `pairing`, `rejected`, `statistics` and `search`.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;

use super::api_client::{ApiAnswer, OrderPlace};
use super::output::Column::{self, Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields, table, with_times};
use super::remote::{ListColumn, ListRow, PagingArgs, Remote, ServerCommand, WhyArgs, rows};
use super::shared::{Ending, Usage, complain, say};
use hooklatch_contract::{
    ActivityCount, ActivityView, AuditView, BacklogView, EventView, MeView, MessageView, Page, PairingView,
    RejectedGroup, RejectedView, SearchHit, SearchView, SettingView, TokenMade, TokenOrder, TokenView,
    UnknownPathView,
};
use hooklatch_core::times::format_moment;
use hooklatch_core::types::Role;

/// `whoami`: the server that is reached, and what the token may do there.
#[derive(Args)]
pub(super) struct Whoami {}

impl ServerCommand for Whoami {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        remote.show(&["me"], &[], |view: &MeView, screen, _| {
            let kind =
                if view.is_test { "a test server: it may have fake events" } else { "not a test server" };
            let bodies = if view.is_encrypting { "stored under a key" } else { "stored as they come" };
            let facts = [
                ("server", Shown::text(remote.api.server())),
                ("name", Shown::text(view.server_name.as_deref().unwrap_or("–"))),
                ("kind", Shown::text(kind)),
                ("version", Shown::text(&view.version)),
                ("you are", Shown::text(&view.name)),
                ("role", Shown::text(view.role.as_str())),
                ("providers", names(view.providers.as_ref())),
                ("destinations", names(view.destinations.as_ref())),
                ("bodies", Shown::text(bodies)),
            ];
            fields(screen, &facts)
        })
    }
}

fn names(names: Option<&Vec<String>>) -> Shown {
    Shown::text(names.map_or_else(|| "all".to_owned(), |names| names.join(", ")))
}

/// `settings`: the configuration that a running server has in force.
#[derive(Subcommand)]
pub(super) enum Settings {
    /// List every value in force and its source. Secrets are not shown.
    List(PagingArgs),
}

impl ServerCommand for Settings {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let Self::List(paging) = self;
        remote.list::<SettingView>(&["settings"], &[], Some(paging))
    }
}

impl ListRow for SettingView {
    const NOUN: &'static str = "setting";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("key"), |one, _| Shown::text(&one.key)),
        (Loose("value"), |one, _| {
            let place = one.secret_in.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
            Shown::text(one.value.clone().unwrap_or_else(|| format!("(secret, set{place})")))
        }),
        (Whole("layer"), |one, _| Shown::text(one.layer.as_str())),
        (Loose("from"), |one, _| Shown::text(&one.source)),
    ];
}

/// `tokens`: who may use the operators' API.
#[derive(Subcommand)]
pub(super) enum Tokens {
    /// List tokens, without their secrets.
    List(PagingArgs),
    /// Create a token and print it, once.
    Make {
        /// Unique name of its holder, for the audit log.
        name: String,
        /// Role of its holder.
        #[arg(long, value_parser = roles())]
        role: Role,
        /// Providers in its scope, separated by commas. Default: all.
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        providers: Option<Vec<String>>,
        /// Destinations in its scope, separated by commas. Default: all.
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        destinations: Option<Vec<String>>,
        /// Lifetime: 12h, 90d; from 60s to 366d.
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        valid_for: u64,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Revoke a token on every node at once.
    Revoke {
        /// Token id, as `tokens list` shows it.
        token_id: String,
        #[command(flatten)]
        why: WhyArgs,
    },
}

fn roles() -> impl TypedValueParser<Value = Role> {
    let words = PossibleValuesParser::new(Role::ALL.map(Role::as_str));
    words.try_map(|word| Role::parse(&word).ok_or("is no role"))
}

impl ServerCommand for Tokens {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(paging) => return remote.list::<TokenView>(&["tokens"], &[], Some(paging)),
            Self::Make { name, role, providers, destinations, valid_for, why } => {
                // An empty list would mean "no provider", which is never intended, and not "all".
                if [providers, destinations].into_iter().flatten().flatten().any(String::is_empty) {
                    return Err(Usage("a name is empty: leave the option out to reach all".to_owned()).into());
                }
                let order = TokenOrder {
                    name: name.clone(),
                    role: *role,
                    providers: providers.clone(),
                    destinations: destinations.clone(),
                    valid_for_s: *valid_for,
                    reason: why.reason.clone(),
                };
                // Nobody sees a token whose answer was lost, and its name is taken until it is revoked.
                let if_unknown = format!(
                    "whether the token was made is not known: if `hooklatch tokens list` shows `{name}`, revoke it there, as \
                     it is not shown again; then give the same command again"
                );
                let place = OrderPlace::new(&["tokens"], why.key.as_deref());
                let made: ApiAnswer<TokenMade> = remote.api.post(&place.or(&if_unknown), &order)?;
                let until = made.view.facts.expires_at_ms.map(|ms| format_moment(ms, remote.screen.now_ms));
                let until = until.unwrap_or_else(|| "it is revoked".to_owned());
                let advice = format!("it is shown once: keep it; good until {until} (UTC)");
                print_secret(remote, &made, &made.view.token, &advice);
            }
            Self::Revoke { token_id, why } => {
                let gone: ApiAnswer<TokenView> =
                    remote.order(&["tokens", token_id, "revoke"], &why.order(), why)?;
                remote.print(&gone, |token, _| format!("{}: revoked", Shown::text(&token.name).as_str()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a secret that is shown once, alone on stdout.
fn print_secret<T>(remote: &Remote, answer: &ApiAnswer<T>, secret: &str, advice: &str) {
    if remote.screen.is_json {
        return say(with_times(answer.raw.clone()));
    }
    say(secret);
    complain(advice);
}

/// Reads `60s`, `15m`, `12h` or `90d`.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let found =
        units.into_iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, s)));
    let seconds = found.and_then(|(n, s)| n.checked_mul(s)).filter(|s| (60..=31_622_400).contains(s));
    seconds.ok_or_else(|| "write 12h or 90d; from 60s to 366d".to_owned())
}

impl ListRow for TokenView {
    const NOUN: &'static str = "token";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("name"), |one, _| Shown::text(&one.name)),
        (Whole("role"), |one, _| Shown::text(one.role.as_str())),
        (Whole("state"), |one, _| match (one.is_good, one.revoked_at_ms) {
            (true, _) => Shown::text("good").in_tone(Tone::Good),
            (false, Some(_)) => Shown::text("revoked").in_tone(Tone::Faint),
            (false, None) => Shown::text("expired").in_tone(Tone::Faint),
        }),
        (Loose("providers"), |one, _| names(one.providers.as_ref())),
        (Loose("destinations"), |one, _| names(one.destinations.as_ref())),
        (Whole("good until (UTC)"), |one, screen| screen.time_or_dash(one.expires_at_ms)),
        (Whole("last used (UTC)"), |one, screen| screen.time_or_dash(one.last_used_at_ms)),
        (Id("token id"), |one, _| Shown::text(one.token_id.as_deref().unwrap_or("of the configuration"))),
    ];
}

/// `audit`: who decided what, and who read contents.
#[derive(Subcommand)]
pub(super) enum Audit {
    /// List decisions and reads of content, newest first.
    List(PagingArgs),
}

impl ServerCommand for Audit {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let Self::List(paging) = self;
        remote.list::<AuditView>(&["audit"], &[], Some(paging))
    }
}

impl ListRow for AuditView {
    const NOUN: &'static str = "decision";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("number"), |one, _| Shown::text(one.audit_seq.to_string())),
        (Whole("time (UTC)"), |one, screen| screen.time(one.at_ms)),
        (Whole("who"), |one, _| Shown::text(&one.actor)),
        (Whole("what"), |one, _| Shown::text(&one.action)),
        (Id("subject"), |one, _| Shown::or_dash(subject(one))),
        (Loose("detail"), |one, _| Shown::text(&one.detail)),
    ];
}

/// The narrowest subject of a row.
fn subject(row: &AuditView) -> Option<String> {
    let event = row.event_id.as_deref().map(|id| format!("{} {id}", row.provider.as_deref().unwrap_or("?")));
    row.message_id.clone().or(event).or_else(|| row.operation_id.clone()).or_else(|| row.provider.clone())
}

/// `pairing PROVIDER`: the secret that a sender gave the server while it was pairing; the server forgets it with this.
#[derive(Args)]
pub(super) struct Pairing {
    /// Name of the provider.
    provider: String,
    /// Idempotency key of the request. Default: a new one for each run.
    #[arg(long)]
    key: Option<String>,
}

impl ServerCommand for Pairing {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let path = ["providers", &self.provider, "pairing"];
        let place = OrderPlace::new(&path, self.key.as_deref()).or(
            "whether the secret was shown is not known: give the same command again; if none is left, its answer was lost: \
             pair once more",
        );
        let found: ApiAnswer<PairingView> = remote.api.post(&place, &json!({}))?;
        let advice = "it is shown once: keep it, and take `pairing` out of the configuration";
        print_secret(remote, &found, &found.view.secret, advice);
        Ok(ExitCode::SUCCESS)
    }
}

/// `rejected`: requests that were refused, and why.
#[derive(Subcommand)]
pub(super) enum Rejected {
    /// List rejected requests and the reasons, newest first.
    ///
    /// Step `request`: refused before verification, for its size, speed or method. Step `address`: not in
    /// `allow_from`. Others: the signature is not valid.
    List {
        /// Name of the provider.
        #[arg(long)]
        provider: Option<String>,
        /// Reason, such as `mismatch`.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Count rejected requests by provider, reason and client: the 50 largest groups.
    Groups,
    /// List POSTs to paths without a provider, with the provider that was probably meant.
    ///
    /// Each node keeps 32 paths in memory, since its start.
    Paths,
}

impl ServerCommand for Rejected {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        match self {
            Self::List { provider, reason, paging } => {
                let query = [("provider", provider.as_deref()), ("reason", reason.as_deref())];
                remote.list::<RejectedView>(&["rejected"], &query, Some(paging))
            }
            Self::Groups => {
                remote.show(&["rejected", "groups"], &[], |page: &Page<RejectedGroup>, screen, _| {
                    rows_or(screen, &page.items, "no refused request is kept")
                })
            }
            Self::Paths => remote.show(&["backlog"], &[], |view: &BacklogView, screen, _| {
                let none = "no path without a provider was posted to since this node started";
                rows_or(screen, &view.unknown_paths, none)
            }),
        }
    }
}

fn rows_or<T: ListRow>(screen: &Screen, items: &[T], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { rows(screen, items, true) }
}

fn plain_or_dash(text: Option<&String>) -> Shown {
    Shown::text(text.map_or("-", String::as_str))
}

impl ListRow for RejectedView {
    const NOUN: &'static str = "refused request";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("received (UTC)"), |one, screen| screen.time(one.received_at_ms)),
        (Whole("provider"), |one, _| Shown::text(&one.provider)),
        (Whole("step"), |one, _| Shown::text(&one.step)),
        (Whole("reason"), |one, _| Shown::text(&one.reason)),
        (Id("client"), |one, _| plain_or_dash(one.client_address.as_ref())),
        (Loose("detail"), |one, _| Shown::text(&one.detail)),
    ];
}

impl ListRow for RejectedGroup {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("requests"), |one, _| Shown::text(one.requests_n.to_string())),
        (Whole("last (UTC)"), |one, screen| screen.time(one.last_at_ms)),
        (Whole("provider"), |one, _| Shown::text(&one.provider)),
        (Id("client"), |one, _| plain_or_dash(one.client_address.as_ref())),
        (Loose("reason"), |one, _| Shown::text(&one.reason)),
    ];
}

impl ListRow for UnknownPathView {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("last (UTC)"), |one, screen| screen.time(one.last_at_ms)),
        (Whole("requests"), |one, _| Shown::text(one.requests_n.to_string())),
        (Id("client"), |one, _| plain_or_dash(one.client_address.as_ref())),
        (Whole("did it mean"), |one, _| plain_or_dash(one.nearest_provider.as_ref())),
        (Whole("signed like"), |one, _| plain_or_dash(one.signature_of_kind.as_ref())),
        (Loose("path"), |one, _| Shown::text(&one.path)),
    ];
}

/// `statistics`: what all nodes counted, hour by hour.
#[derive(Args)]
pub(super) struct Statistics {
    /// Provider whose requests are shown. Default: all.
    #[arg(long)]
    provider: Option<String>,
    /// Destination whose calls are shown. Default: all.
    #[arg(long)]
    destination: Option<String>,
    /// Hours to look back, 1 to 9,600; day by day for more than 168.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=9_600))]
    hours: u32,
}

impl ServerCommand for Statistics {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let hours = self.hours.to_string();
        let query = [
            ("provider", self.provider.as_deref()),
            ("destination", self.destination.as_deref()),
            ("hours_n", Some(hours.as_str())),
        ];
        remote.show(&["activity"], &query, |view: &ActivityView, screen, _| counted(view, screen))
    }
}

const COUNT_COLUMNS: [Column; 4] = [Whole("since (UTC)"), Whole("what"), Whole("ended as"), Whole("number")];

fn counted(view: &ActivityView, screen: &Screen) -> String {
    let requests = view.requests.iter().map(|one| ("requests of", one));
    let attempts = view.attempts.iter().map(|one| ("calls to", one));
    let cells = |(what, one): (&str, &ActivityCount)| {
        let what = Shown::text(format!("{what} {}", one.name));
        vec![screen.time(one.at_ms), what, Shown::text(&one.outcome), Shown::number(one.counted_n)]
    };
    let lines: Vec<Vec<Shown>> = requests.chain(attempts).map(cells).collect();
    if lines.is_empty() {
        return "nothing was counted in that time".to_owned();
    }
    table(screen, &COUNT_COLUMNS, &lines, true)
}

/// `search ID`: whatever an id leads to, and why it leads nowhere; 3 when nothing is found.
#[derive(Args)]
pub(super) struct Search {
    /// Id of an event, of something inside one (payment, order, invoice), of a message or object; an idempotency key;
    /// the name of an effect; or a URL that ends with an id. Six characters are enough for events.
    id: String,
}

impl ServerCommand for Search {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let found = remote.api.get::<SearchView>(&["search"], &[("id", Some(&self.id))])?;
        remote.print(&found, hits);
        Ok(if found.view.found.is_empty() { Ending::NotFound } else { Ending::Done }.code())
    }
}

const HIT_COLUMNS: [Column; 7] = [
    Whole("it is"),
    Whole("time (UTC)"),
    Whole("provider"),
    Whole("of"),
    Whole("state"),
    Whole("calls"),
    Loose("what"),
];

fn hits(view: &SearchView, screen: &Screen) -> String {
    let mut parts = if view.found.is_empty() {
        [format!("nothing found for {}", view.query), view.headline.clone()]
            .iter()
            .map(|line| Shown::text(line).as_str().to_owned())
            .collect()
    } else {
        let rows: Vec<Vec<Shown>> = view.found.iter().map(|hit| hit_cells(hit, screen)).collect();
        vec![table(screen, &HIT_COLUMNS, &rows, true)]
    };
    parts.extend(view.notes.iter().map(|note| Shown::text(note).as_str().to_owned()));
    parts.join("\n")
}

fn hit_cells(hit: &SearchHit, screen: &Screen) -> Vec<Shown> {
    match hit {
        SearchHit::EventId { event } => event_hit("an event", event, screen),
        SearchHit::SearchId { event } => event_hit("inside an event", event, screen),
        SearchHit::Object { event } => event_hit("an object", event, screen),
        SearchHit::MessageId { message } => message_hit("a message", message, screen),
        SearchHit::IdempotencyKey { message } => message_hit("a key", message, screen),
        SearchHit::EffectName { message } => message_hit("an effect", message, screen),
        SearchHit::Rejected { rejected } => vec![
            Shown::text("in a refusal"),
            screen.time(rejected.received_at_ms),
            Shown::text(&rejected.provider),
            Shown::text(&rejected.rejection_id),
            Shown::text(&rejected.step),
            Shown::or_dash(None::<&str>),
            Shown::text(&rejected.detail),
        ],
    }
}

fn event_hit(what: &str, event: &EventView, screen: &Screen) -> Vec<Shown> {
    let error = event.error.as_ref().or(event.delivery.error.as_ref()).map_or("", String::as_str);
    let parts = event.parts.join(" · ");
    let words = [event.event_type.as_str(), &parts, error];
    let words = words.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    vec![
        Shown::text(what),
        screen.time(event.received_at_ms),
        Shown::text(&event.provider),
        Shown::text(&event.event_id),
        Shown::event_state(event.state),
        Shown::delivery(&event.delivery),
        Shown::text(words),
    ]
}

fn message_hit(what: &str, message: &MessageView, screen: &Screen) -> Vec<Shown> {
    vec![
        Shown::text(what),
        screen.time(message.created_at_ms),
        Shown::text(&message.provider),
        Shown::text(message.message_id.to_string()),
        Shown::message_state(message.state),
        Shown::or_dash(None::<&str>),
        Shown::text(format!("{} to {} of {}", message.effect_name, message.destination, message.event_id)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_for_which_a_token_is_good_is_read_with_its_unit_and_within_its_bounds() {
        #[track_caller]
        fn check(text: &str, want: Option<u64>) {
            assert_eq!(seconds(text).ok(), want, "{text}");
        }
        check("60s", Some(60));
        check("15m", Some(900));
        check("12h", Some(43_200));
        check("366d", Some(31_622_400));
        for odd in ["59s", "367d", "", "d", "1", "-1d", "1.5h", "99999999999999999999d"] {
            check(odd, None);
        }
    }
}
