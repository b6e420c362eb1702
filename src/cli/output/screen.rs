//! Where a command prints: on a terminal of some width, with colours or without, or into a pipe.

use std::io::{IsTerminal, Write};

use super::shown::Tone;
use crate::cli::shared::{heed, say};
use crate::config::Environment;
use crate::plain::Plain;
use crate::types::Clock;

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always, into pipes and files too.
    Always,
    /// At no time, whatever it is printed on.
    Never,
}

/// The place where a command prints.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    /// Columns of the terminal; `None` for a pipe or a file, where nothing is cut.
    pub(crate) columns_n: Option<usize>,
    /// True when tones are shown as colours.
    pub(crate) has_colours: bool,
    /// True when programs read it.
    pub(crate) is_json: bool,
    /// The time from which times are told.
    pub(crate) now_ms: i64,
}

impl Screen {
    /// The stdout of this process.
    pub(crate) fn of_process(env: &Environment, choice: ColourChoice, is_json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let columns_n = if is_terminal { terminal_columns() } else { None };
        let has_colours = wants_colours(env, choice, is_terminal) && !is_json;
        Self { columns_n, has_colours, is_json, now_ms: Clock::system().now_ms() }
    }

    /// The text in its tone. It must hold nothing that steers a terminal.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Head => "1",
            Tone::Good => "32",
            Tone::Waits => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
        };
        if self.has_colours && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// Prints lines that were made of cells and painted.
    pub(crate) fn print(&self, lines: &str) {
        if self.has_colours {
            heed(Plain::new(std::io::stdout(), true).write_all(format!("{lines}\n").as_bytes()));
        } else {
            say(lines);
        }
    }
}

fn wants_colours(env: &Environment, choice: ColourChoice, is_terminal: bool) -> bool {
    let is_unwanted = env.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    match choice {
        ColourChoice::Always => true,
        ColourChoice::Never => false,
        ColourChoice::Auto => is_terminal && !is_unwanted && env.get("TERM") != Some("dumb"),
    }
}

/// Columns of the terminal; `None` when it does not say.
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns_n| *columns_n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        #[track_caller]
        fn check(env: &[(&str, &str)], choice: ColourChoice, is_terminal: bool, want: bool) {
            let env = env.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            assert_eq!(wants_colours(&env, choice, is_terminal), want, "{choice:?}");
        }
        check(&[], ColourChoice::Auto, true, true);
        check(&[], ColourChoice::Auto, false, false);
        check(&[("NO_COLOR", "1")], ColourChoice::Auto, true, false);
        check(&[("NO_COLOR", "")], ColourChoice::Auto, true, true);
        check(&[("TERM", "dumb")], ColourChoice::Auto, true, false);
        check(&[("NO_COLOR", "1")], ColourChoice::Always, false, true);
        check(&[], ColourChoice::Never, true, false);
    }

    #[test]
    fn a_tone_is_a_colour_where_there_are_colours_and_nothing_elsewhere() {
        let mut screen = Screen { columns_n: None, has_colours: true, is_json: false, now_ms: 0 };
        assert_eq!(screen.paint(Tone::Bad, "dead"), "\u{1b}[31mdead\u{1b}[0m");
        assert_eq!(
            (screen.paint(Tone::Plain, "x"), screen.paint(Tone::Good, "")),
            ("x".into(), String::new())
        );
        screen.has_colours = false;
        assert_eq!(screen.paint(Tone::Bad, "dead"), "dead");
    }
}
