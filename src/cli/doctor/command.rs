//! Whom the doctor asks, and how the command ends.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::alone::alone;
use super::outside::outside;
use super::told::{DoctorReport, told};
use crate::api::{DoctorView, FindingVerdict, FindingView, ProbeView};
use crate::cli::api_client::{ApiAnswer, ApiError};
use crate::cli::desk::Desk;
use crate::cli::ending::Ending;
use crate::cli::reach::ReachArgs;
use crate::doctor;
use crate::load::Kinds;

#[derive(Args)]
#[command(after_help = "Examples:
  hooklatch doctor                      everything, in a few seconds
  hooklatch doctor --all                what is well, too
  hooklatch doctor --json | jq '.findings[] | select(.verdict == \"failure\")'

Ends with 0 when all is well, 8 with warnings, 1 with failures.")]
pub(in crate::cli) struct DoctorArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Show what is well, too.
    #[arg(long)]
    all: bool,
    /// Read every page of SQLite's file as well, for up to 12 s.
    #[arg(long)]
    deep: bool,
    /// Send no requests through `server.public_url`.
    #[arg(long)]
    no_probe: bool,
    /// PEM file with the only certificates by which `server.public_url` is believed.
    #[arg(long, value_name = "FILE")]
    public_ca_file: Option<PathBuf>,
}

/// Runs `hooklatch doctor`: asks, sends probes, prints.
pub(in crate::cli) fn doctor(
    args: &DoctorArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let deep = args.deep.then_some("true");
    let asked: Result<ApiAnswer<DoctorView>, ApiError> = desk.api.get(&["doctor"], &[("deep", deep)]);
    let report = match asked {
        Ok(answer) => {
            let mut findings = answer.view.findings;
            if !args.no_probe {
                findings.extend(probed(&desk, args)?);
            }
            DoctorReport {
                server: Some(desk.api.server().to_owned()),
                node: Some(answer.view.node),
                version: Some(answer.view.version),
                findings,
            }
        }
        Err(error @ ApiError::Unreached { .. })
            if args.reach.profile.is_none() && args.reach.url.is_none() =>
        {
            let nobody = doctor::SERVER.warning(error.to_string()).cure(
                "start it, or name it with --url or --profile; what follows is from the configuration and the database alone",
            );
            let mut findings = vec![nobody];
            findings.extend(desk.api.run(alone(file, kinds, args.deep)));
            DoctorReport { server: None, node: None, version: None, findings }
        }
        Err(error) => return Err(error.into()),
    };
    let report = DoctorReport { findings: doctor::in_order(report.findings), ..report };
    told(&desk.screen, &report, args.all);
    Ok(ending(&report.findings).code())
}

/// What requests through `server.public_url` show.
fn probed(desk: &Desk, args: &DoctorArgs) -> anyhow::Result<Vec<FindingView>> {
    let asked: Result<ApiAnswer<ProbeView>, ApiError> = desk.api.ask(&["probes"]);
    match asked {
        Ok(answer) => desk.api.run(outside(&answer.view, args.public_ca_file.as_deref())),
        Err(error) => {
            Ok(vec![doctor::REACHED.unknown(format!("the server gave no token for probes: {error}"))])
        }
    }
}

fn ending(findings: &[FindingView]) -> Ending {
    match findings.iter().map(|finding| finding.verdict).max() {
        Some(FindingVerdict::Failure) => Ending::Failed,
        Some(FindingVerdict::Warning) => Ending::Warned,
        _ => Ending::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides_how_the_command_ends() {
        let [well, unknown, warning, failure] = [
            doctor::SERVER.well("x"),
            doctor::SERVER.unknown("x"),
            doctor::SERVER.warning("x"),
            doctor::SERVER.failure("x"),
        ];
        for (findings, want) in [
            (vec![], Ending::Done),
            (vec![well.clone(), unknown], Ending::Done),
            (vec![warning.clone(), well], Ending::Warned),
            (vec![failure, warning], Ending::Failed),
        ] {
            assert_eq!(ending(&findings), want);
        }
    }
}
