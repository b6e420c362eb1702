//! `completions` and `man`: what a shell and a reader of manuals want of the list of commands.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use super::ending::EXIT_CODES;
use super::shared::{heed, say};

/// Prints the completions of `program` for a shell.
pub(super) fn completions(mut program: Command, shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "hooklatch", &mut script);
    heed(std::io::stdout().write_all(&script));
    ExitCode::SUCCESS
}

/// Prints the man page, of everything on one page; or writes a page for each command into a folder.
pub(super) fn man(program: Command, folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Some(folder) = folder else {
        heed(std::io::stdout().write_all(&page(&program)?));
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("could not make `{}`", folder.display()))?;
    clap_mangen::generate_to(program, folder)
        .with_context(|| format!("could not write into `{}`", folder.display()))?;
    say(folder.display());
    Ok(ExitCode::SUCCESS)
}

/// The page of the program, with a section for each command and each of its own.
fn page(program: &Command) -> anyhow::Result<Vec<u8>> {
    let mut program = program.clone().disable_help_subcommand(true);
    program.build();
    let mut page = Vec::new();
    let manual = clap_mangen::Man::new(program.clone());
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    manual.render_synopsis_section(&mut page)?;
    manual.render_description_section(&mut page)?;
    manual.render_options_section(&mut page)?;
    for command in program.get_subcommands() {
        section(command, &mut page)?;
    }
    writeln!(page, ".SH EXIT STATUS\n.nf\n{}\n.fi", EXIT_CODES.replace('-', "\\-"))?;
    manual.render_version_section(&mut page)?;
    Ok(page)
}

fn section(command: &Command, page: &mut Vec<u8>) -> anyhow::Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    writeln!(page, ".SH \"{}\"", name.replace('-', "\\-"))?;
    let mut text = Vec::new();
    let manual = clap_mangen::Man::new(command.clone());
    manual.render_synopsis_section(&mut text)?;
    manual.render_description_section(&mut text)?;
    if command.get_arguments().next().is_some() {
        manual.render_options_section(&mut text)?;
    }
    // These are parts of our section.
    page.extend_from_slice(String::from_utf8_lossy(&text).replace(".SH ", ".SS ").as_bytes());
    for inner in command.get_subcommands() {
        section(inner, page)?;
    }
    Ok(())
}
