//! `tokens`: who may use the operators' API.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::api_client::ApiAnswer;
use super::decide::WhyArgs;
use super::desk::{Desk, ListRow, PagingArgs};
use super::output::{Column, Screen, Shown, Tone, told, with_times};
use super::reach::ReachArgs;
use super::shared::{Usage, complain, say};
use super::states::roles;
use crate::api::{ReasonOrder, TokenMade, TokenOrder, TokenView};
use crate::load::Kinds;
use crate::types::Role;

#[derive(Args)]
pub(super) struct TokensArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: TokensCommand,
}

#[derive(Subcommand)]
enum TokensCommand {
    /// List the tokens, without themselves.
    List(PagingArgs),
    /// Make a token, and print it: once.
    Make {
        /// Name of its holder, for the audit log; unique.
        name: String,
        /// Role of its holder.
        #[arg(long, value_parser = roles())]
        role: Role,
        /// Providers that it reaches, with commas between them; all by default.
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        providers: Option<Vec<String>>,
        /// Destinations that it reaches, with commas between them; all by default.
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        destinations: Option<Vec<String>>,
        /// Time for which it is good: 12h, 90d; from 60s to 366d.
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        valid_for: u64,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Revoke a token, at once and on every node.
    Revoke {
        /// Id of the token, as `tokens list` shows it.
        token_id: String,
        #[command(flatten)]
        why: WhyArgs,
    },
}

/// Runs `hooklatch tokens …`.
pub(super) fn tokens(args: &TokensArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    match &args.command {
        TokensCommand::List(paging) => desk.list::<TokenView>(&["tokens"], &[], paging)?,
        TokensCommand::Make { name, role, providers, destinations, valid_for, why } => {
            // Nobody means "no provider" by an empty list; and it would not mean "all".
            let is_odd = |names: &Option<Vec<String>>| {
                names.as_ref().is_some_and(|names| names.iter().any(String::is_empty))
            };
            if is_odd(providers) || is_odd(destinations) {
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
            let made: ApiAnswer<TokenMade> = desk.order(&["tokens"], &order, why, None)?;
            if desk.screen.is_json {
                say(with_times(made.raw));
            } else {
                say(&made.view.token);
                let until = made.view.facts.expires_at_ms.map(|ms| told(ms, desk.screen.now_ms));
                complain(format!(
                    "it is shown once: keep it; good until {} (UTC)",
                    until.unwrap_or_else(|| "it is revoked".to_owned())
                ));
            }
        }
        TokensCommand::Revoke { token_id, why } => {
            let order = ReasonOrder { reason: why.reason.clone() };
            let path = ["tokens", token_id.as_str(), "revoke"];
            let gone: ApiAnswer<TokenView> = desk.order(&path, &order, why, None)?;
            desk.show(&gone, |token| format!("{}: revoked", Shown::text(&token.name).as_str()));
        }
    }
    Ok(ExitCode::SUCCESS)
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
    const COLUMNS: &'static [Column] = &[
        Column::Whole("name"),
        Column::Whole("role"),
        Column::Whole("state"),
        Column::Loose("providers"),
        Column::Loose("destinations"),
        Column::Whole("good until (UTC)"),
        Column::Whole("last used (UTC)"),
        Column::Id("token id"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        let time = |ms: Option<i64>| Shown::or_dash(ms.map(|ms| told(ms, screen.now_ms)));
        let names = |names: &Option<Vec<String>>| {
            Shown::text(names.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(", ")))
        };
        vec![
            Shown::text(&self.name),
            Shown::text(self.role.as_str()),
            token_state(self),
            names(&self.providers),
            names(&self.destinations),
            time(self.expires_at_ms),
            time(self.last_used_at_ms),
            self.token_id.as_deref().map_or_else(|| Shown::text("of the configuration"), Shown::text),
        ]
    }
}

fn token_state(token: &TokenView) -> Shown {
    match (token.is_good, token.revoked_at_ms) {
        (true, _) => Shown::text("good").in_tone(Tone::Good),
        (false, Some(_)) => Shown::text("revoked").in_tone(Tone::Faint),
        (false, None) => Shown::text("expired").in_tone(Tone::Faint),
    }
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
