//! The layout of `--help`: commands by purpose, an example of each, and one line for the options that all commands of
//! the operator API share. `completions` and `man` print the list of commands for shells and as manual pages.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use super::shared::{EXIT_CODES, note_closed_pipe, say};

/// Every command, grouped by purpose.
const GROUPS: [(&str, &str); 6] = [
    ("Run a server", "serve check migrate what-if health doctor"),
    (
        "Inspect a running server and act",
        "search events messages destinations lanes rejected operations tail statistics erase",
    ),
    ("Providers and signatures", "providers new-kind sign send test-event explain vectors pairing"),
    ("Access", "whoami tokens audit settings"),
    ("Database", "prune backup restore-check keys"),
    ("This program", "completions man"),
];

/// Examples, each an argument list that works as it stands but for its names. A command with commands of its own shows
/// the first one of each of these.
const EXAMPLES: &str = include_str!("examples.txt");

const SHARED: &str = "Options of every command that calls a server (see `hooklatch whoami --help`):
  --profile NAME, --url URL, --token TOKEN, --ca-file FILE, --json, --color WHEN";

/// Headings of options that all commands of the API have. The help shows them only for `whoami`; completions and the
/// man page always have them.
const SHARED_HEADINGS: [&str; 2] = ["Server", "Output"];

/// The commands with this layout.
pub(super) fn laid_out(program: Command, is_help: bool) -> Command {
    let names: Vec<String> = program.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}\n",
        grouped(&program)
    );
    let program = names.iter().fold(program, |program, name| {
        program.mut_subcommand(name, |command| {
            with_examples(command, &format!("hooklatch {name}"), (false, is_help))
        })
    });
    program.help_template(template)
}

/// The commands with what they do, by purpose.
fn grouped(program: &Command) -> String {
    let width = program.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for (title, names) in GROUPS {
        _ = write!(text, "\n{title}:\n");
        for command in names.split(' ').filter_map(|name| program.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let about = about.split(". ").next().unwrap_or_default();
            _ = writeln!(text, "  {:width$}  {about}", command.get_name());
        }
    }
    text
}

fn with_examples(command: Command, path: &str, (is_api, is_help): (bool, bool)) -> Command {
    let is_shared =
        |arg: &clap::Arg| arg.get_help_heading().is_some_and(|heading| SHARED_HEADINGS.contains(&heading));
    let is_api = is_api || command.get_arguments().any(is_shared);
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let mut examples: Vec<&str> = examples(path).collect();
    if !names.is_empty() {
        let first = |name: &String| self::examples(&format!("{path} {name}")).next();
        examples.retain(|one| !names.iter().any(|name| is_of(one, &format!("{path} {name}"))));
        examples.extend(names.iter().filter_map(first));
    }
    let mut after = format!("Examples:\n  {}", examples.join("\n  "));
    let explains = path == "hooklatch whoami";
    if is_help && is_api && !explains {
        after = format!("{after}\n\n{SHARED}");
    }
    let command = names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |inner| with_examples(inner, &path, (is_api, is_help)))
    });
    let command = command.mut_args(|arg| {
        let is_hidden = is_help && is_shared(&arg) && !explains;
        if is_hidden { arg.hide(true) } else { arg }
    });
    command.after_help(after)
}

/// The examples of a command and of those below it.
fn examples(path: &str) -> impl Iterator<Item = &'static str> {
    EXAMPLES.lines().filter(move |one| is_of(one, path))
}

/// True when an example begins with these words.
fn is_of(example: &str, path: &str) -> bool {
    example.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Prints the completions of `program` for a shell.
pub(super) fn completions(mut program: Command, shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "hooklatch", &mut script);
    note_closed_pipe(std::io::stdout().write_all(&script));
    ExitCode::SUCCESS
}

/// Prints the man page, of everything on one page; or writes a page for each command into a folder.
pub(super) fn man(program: Command, folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Some(folder) = folder else {
        note_closed_pipe(std::io::stdout().write_all(&page(&program)?));
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("could not create `{}`", folder.display()))?;
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, program};

    /// The words of an example; quotes hold a text together.
    fn words(example: &str) -> Vec<String> {
        let parts = example.split('"').enumerate();
        let words = parts.flat_map(|(n, part)| {
            if n % 2 == 1 {
                vec![part.to_owned()]
            } else {
                part.split_whitespace().map(str::to_owned).collect()
            }
        });
        words.collect()
    }

    fn each(command: &Command, path: &str, check: &mut impl FnMut(&str, &Command)) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let path = format!("{path} {}", inner.get_name());
            check(&path, inner);
            each(inner, &path, check);
        }
    }

    #[test]
    fn every_command_has_an_example_and_every_example_is_read() {
        let mut paths = Vec::new();
        each(&program(true), "hooklatch", &mut |path, command| {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let own = examples(path).next().unwrap_or_else(|| panic!("{path} has no example"));
            assert!(after.contains(own), "{path}: {after}");
            paths.push(path.to_owned());
        });
        assert!(paths.len() > 60, "{paths:?}");
        for example in EXAMPLES.lines() {
            let read = Cli::try_parse_from(words(example));
            assert!(read.is_ok(), "{example}: {}", read.err().map(|why| why.to_string()).unwrap_or_default());
            assert!(paths.iter().any(|path| is_of(example, path)), "{example}");
        }
    }

    #[test]
    fn the_help_has_each_command_once_in_a_group() {
        let mut program = program(true);
        let names: Vec<String> = program.get_subcommands().map(|one| one.get_name().to_owned()).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        grouped.sort_unstable();
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        assert_eq!(grouped, sorted);
        let help = program.render_help().to_string();
        for name in names {
            assert_eq!(help.matches(&format!("\n  {name} ")).count(), 1, "{name}: {help}");
        }
        assert!(help.contains("--config") && help.contains("Exit codes"), "{help}");
    }

    #[test]
    fn options_of_all_commands_take_two_lines_of_the_help_of_each() {
        let mut program = program(true);
        program.build();
        let mut seen_n = 0;
        each(&program, "hooklatch", &mut |path, command| {
            let mut command = command.clone();
            let help = command.render_long_help().to_string();
            if path == "hooklatch whoami" {
                assert!(help.contains("HOOKLATCH_TOKEN") && help.contains("profiles.toml"), "{help}");
            } else {
                assert!(!help.contains("HOOKLATCH_TOKEN"), "{path}: {help}");
                seen_n += help.matches(SHARED).count();
            }
        });
        assert!(seen_n > 40, "{seen_n}");
        let mut list = program.find_subcommand("events").and_then(|one| one.find_subcommand("list")).cloned();
        let help = list.as_mut().map(|one| one.render_help().to_string()).unwrap_or_default();
        assert!(help.lines().count() <= 40, "{}: {help}", help.lines().count());
    }
}
