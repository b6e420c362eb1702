//! `vectors`: judges files of signed requests, each at its own time with its own secrets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::shared::{complain, say, tell_problems};
use crate::load::Kinds;
use crate::vectors::{Judged, judge};

#[derive(Args)]
pub(super) struct VectorsArgs {
    /// Files in the format of `providers/*/vectors.json`, or folders of such files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// One JSON object a line: id, kind, expect, verdict, step.
    #[arg(long)]
    json: bool,
}

/// Exit code 1 when a verdict differs from its expectation and that matters.
pub(super) fn vectors(args: &VectorsArgs, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    tell_problems(kinds);
    let mut all = Vec::new();
    for file in args.files.iter().map(|path| files(path)).collect::<anyhow::Result<Vec<_>>>()?.concat() {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("could not read `{}`", file.display()))?;
        let judged = judge(&text, kinds).map_err(|why| anyhow::anyhow!("`{}`: {why}", file.display()))?;
        all.extend(judged);
    }
    for one in &all {
        say(if args.json { serde_json::to_string(one)? } else { row(one) });
    }
    let wrong_n = all.iter().filter(|one| one.is_wrong).count();
    if wrong_n > 0 {
        complain(format!("{wrong_n} of {} verdicts differ", all.len()));
    }
    Ok(if wrong_n == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(one: &Judged) -> String {
    let mark = if one.is_wrong { "DIFFERS" } else { "" };
    format!("{:<28} {:<18} {:<8} {:<12} {:<10} {mark}", one.id, one.kind, one.expect, one.verdict, one.step)
}

/// `path` itself, or the JSON files of a folder in the order of their names; of a kind's, not its pairs.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("could not read `{}`", path.display()))?;
    let mut files: Vec<PathBuf> =
        entries.collect::<Result<Vec<_>, _>>()?.iter().map(std::fs::DirEntry::path).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.retain(|file| !file.ends_with("identity.json"));
    files.sort();
    Ok(files)
}
