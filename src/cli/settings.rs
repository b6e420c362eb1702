//! `settings`: the configuration that a running server has in force.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::desk::{Desk, ListRow, PagingArgs};
use super::output::{Column, Screen, Shown};
use super::reach::ReachArgs;
use crate::api::SettingView;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct SettingsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: SettingsCommand,
}

#[derive(Subcommand)]
enum SettingsCommand {
    /// List every value that is in force, and where it came from; secrets without themselves.
    List(PagingArgs),
}

/// Runs `hooklatch settings …`.
pub(super) fn settings(args: &SettingsArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let SettingsCommand::List(paging) = &args.command;
    desk.list::<SettingView>(&["settings"], &[], paging)?;
    Ok(ExitCode::SUCCESS)
}

impl ListRow for SettingView {
    const NOUN: &'static str = "setting";
    const COLUMNS: &'static [Column] =
        &[Column::Whole("key"), Column::Loose("value"), Column::Whole("layer"), Column::Loose("from")];

    fn cells(&self, _screen: &Screen) -> Vec<Shown> {
        let secret = || {
            format!(
                "(secret, set{})",
                self.secret_in.as_ref().map_or_else(String::new, |place| format!(" in {place}"))
            )
        };
        vec![
            Shown::text(&self.key),
            Shown::text(self.value.clone().unwrap_or_else(secret)),
            Shown::text(self.layer.as_str()),
            Shown::text(&self.source),
        ]
    }
}
