//! `whoami`: the server that is reached, and what the token may do there.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::api_client::ApiAnswer;
use super::desk::Desk;
use super::output::{Screen, Shown, fields};
use super::reach::ReachArgs;
use crate::api::MeView;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct WhoamiArgs {
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs `hooklatch whoami`: one request.
pub(super) fn whoami(args: &WhoamiArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let found: ApiAnswer<MeView> = desk.api.get(&["me"], &[])?;
    desk.show(&found, |view| facts(view, &desk));
    Ok(ExitCode::SUCCESS)
}

fn facts(view: &MeView, desk: &Desk) -> String {
    let screen: &Screen = &desk.screen;
    let names = |names: &Option<Vec<String>>| {
        Shown::text(names.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(", ")))
    };
    fields(
        screen,
        &[
            ("server", Shown::text(desk.api.server())),
            ("name", Shown::text(view.server_name.as_deref().unwrap_or("–"))),
            (
                "kind",
                Shown::text(if view.is_test {
                    "a test server: it may have fake events"
                } else {
                    "not a test server"
                }),
            ),
            ("version", Shown::text(&view.version)),
            ("you are", Shown::text(&view.name)),
            ("role", Shown::text(view.role.as_str())),
            ("providers", names(&view.providers)),
            ("destinations", names(&view.destinations)),
            (
                "bodies",
                Shown::text(if view.is_encrypting { "stored under a key" } else { "stored as they come" }),
            ),
        ],
    )
}
