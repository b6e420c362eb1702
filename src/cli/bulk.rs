//! What acts on all that a filter finds: shown first with what it risks, then, once its number was given, a durable
//! operation that is followed to its end.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;

use super::api_client::{ApiAnswer, OrderPlace};
use super::decide::WhyArgs;
use super::desk::{Desk, ListRow, filter_in_words, rows};
use super::ending::Ending;
use super::operations::{command, ended, follow};
use super::output::{Screen, Shown, fields, grouped, plural, told, with_times};
use super::shared::{Usage, complain, say};
use crate::api::{
    BulkFigures, CountView, NamedCount, OperationOrder, OperationPreview, OperationState, OperationSteps,
    OperationSubject, OperationView, PreviewedAct, Risk,
};

/// Arguments of what may act on several.
#[derive(Args)]
pub(super) struct BulkArgs {
    /// Act on all that the filter finds, if they are these: the number and the set that are shown without it. Without it a
    /// person at a terminal is asked to type the number, and a script does nothing.
    #[arg(long, value_name = "NUMBER:SET", value_parser = confirmed)]
    yes: Option<Confirmed>,
    /// Do not wait for the end of the operation.
    #[arg(long)]
    no_wait: bool,
    /// Order it although another operation does the same, or does it to some of the same rows, and is unfinished or ended in
    /// the last 10 minutes.
    #[arg(long)]
    again: bool,
    /// Rows of the first steps of what makes calls, such as 1,10,100; the rest follows as the last step. 0: no steps.
    #[arg(long, value_name = "ROWS", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(0..=100_000))]
    steps: Vec<u64>,
    /// Most rows a second, where there are steps.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    per_second: Option<u32>,
    /// Share of failed calls above which it stops by itself, where there are steps. Percent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    stop_percent: Option<u32>,
}

impl BulkArgs {
    /// The steps that were asked for; `None` for those of the server.
    fn steps(&self) -> Option<OperationSteps> {
        if self.steps.is_empty() && self.per_second.is_none() && self.stop_percent.is_none() {
            return None;
        }
        let default = OperationSteps::default();
        let sizes = if self.steps.is_empty() { default.sizes } else { self.steps.clone() };
        Some(OperationSteps {
            sizes: sizes.into_iter().filter(|size| *size > 0).collect(),
            per_s: self.per_second.unwrap_or(default.per_s),
            stop_percent: self.stop_percent.unwrap_or(default.stop_percent),
        })
    }
}

/// The rows that a person has seen: how many they are, and which.
#[derive(Clone)]
struct Confirmed {
    counted_n: u64,
    set: String,
}

/// `1204:5d41402abc4b2a76`, as it is printed.
fn confirmed(text: &str) -> Result<Confirmed, String> {
    let (counted_n, set) = text.split_once(':').unwrap_or_default();
    let counted_n = number(counted_n).filter(|_| !set.is_empty());
    let counted_n = counted_n.ok_or("is not a number and a set: give what is shown without --yes")?;
    Ok(Confirmed { counted_n, set: set.to_owned() })
}

/// A number as it is printed, with or without its commas.
fn number(text: &str) -> Option<u64> {
    text.chars().filter(|one| *one != ',').collect::<String>().parse().ok()
}

/// What is to be done to all that a filter finds.
pub(super) struct Bulk {
    pub(super) query: Vec<(&'static str, Option<String>)>,
    pub(super) subject: OperationSubject,
    /// The arguments as they were typed: the same when the command is given again.
    pub(super) typed: String,
}

/// A count in words.
pub(super) fn counted(count: &CountView, noun: &str) -> String {
    let more = if count.is_more { "at least " } else { "" };
    format!("{more}{}", plural(count.counted_n, noun))
}

/// The things that arguments have said about what a command acts on.
pub(super) struct Said {
    /// True when one is named.
    pub(super) is_named: bool,
    /// True when a filter is said.
    pub(super) is_filtered: bool,
    /// True when its version is said.
    pub(super) has_version: bool,
}

impl Said {
    /// True when a command is about one `noun`, false when it is about all that a filter finds.
    pub(super) fn is_about_one(&self, noun: &str) -> Result<bool, Usage> {
        match (self.is_named, self.is_filtered) {
            (true, true) => Err(Usage(format!("name one {noun} or say a filter, not both"))),
            (true, false) => Ok(true),
            (false, false) => {
                Err(Usage(format!("name one {noun}, or say --state and what else they have in common")))
            }
            (false, true) if self.has_version => {
                Err(Usage(format!("--if-match is about one {noun}: name it")))
            }
            (false, true) => Ok(false),
        }
    }
}

/// Shows what would be acted on, and begins the operation once its number was given or typed; follows it.
pub(super) fn perform<T: ListRow>(
    desk: &Desk,
    bulk: Bulk,
    why: &WhyArgs,
    args: &BulkArgs,
) -> anyhow::Result<ExitCode> {
    let (again, steps) = (args.again, args.steps());
    let meaning = format!("{} {} {again} {steps:?}", bulk.typed, why.reason);
    let asked =
        OrderPlace { path: &["operations"], meaning: &meaning, key: why.key.as_deref(), if_match: None };
    let mut seen = args.yes.clone();
    // What was ordered before and not answered has been counted then; now it would find what is left.
    if args.yes.is_none() || !desk.api.left(&asked) {
        let preview: ApiAnswer<OperationPreview> =
            desk.api.ask_about(&["operations", "preview"], &bulk.subject.choice())?;
        let query: Vec<_> = bulk.query.iter().map(|(name, value)| (*name, value.as_deref())).collect();
        let (figures, filter) = (&preview.view.figures, filter_in_words(&query));
        if args.yes.is_none() {
            if !show_preview::<T>(desk, &bulk.subject, &preview, &filter) {
                return Ok(Ending::NotDone.code());
            }
            seen = Some(Confirmed { counted_n: figures.counted_n, set: preview.view.set.clone() });
        } else if figures.is_more {
            let found = plural(figures.counted_n, T::NOUN);
            return Err(Usage(format!(
                "more than {found}: say more, such as a provider or a time, and do it in parts"
            ))
            .into());
        } else if figures.counted_n == 0 {
            complain(format!("no {}s with {filter}: there is nothing to do", T::NOUN));
            return Ok(ExitCode::SUCCESS);
        }
    }
    let Some(Confirmed { counted_n, set }) = seen else { return Ok(Ending::NotDone.code()) };
    let order =
        OperationOrder { subject: bulk.subject, counted_n, set, reason: why.reason.clone(), steps, again };
    let begun: ApiAnswer<OperationView> = desk.api.post(&asked, &order)?;
    let id = &begun.view.operation_id;
    if begun.view.state == OperationState::Waiting {
        desk.show(&begun, |view| view.operation_id.clone());
        complain(format!(
            "nothing was done yet: another person has to approve it\n  {}",
            command("approve", id)
        ));
        return Ok(Ending::NotDone.code());
    }
    if args.no_wait {
        if desk.screen.is_json {
            say(with_times(begun.raw));
        } else {
            say(id);
            complain("it runs; `hooklatch operations wait` follows it");
        }
        return Ok(ExitCode::SUCCESS);
    }
    complain(format!("operation {id}: it goes on when you leave; to stop it:\n  {}", command("cancel", id)));
    let end = follow(desk, begun, None)?;
    Ok(ended(desk, &end).code())
}

/// Says what would be acted on and what that risks. True when a person at a terminal typed the number.
fn show_preview<T: ListRow>(
    desk: &Desk,
    subject: &OperationSubject,
    preview: &ApiAnswer<OperationPreview>,
    filter: &str,
) -> bool {
    let figures = &preview.view.figures;
    let found = format!(
        "{}{} with {filter}",
        if figures.is_more { "more than " } else { "" },
        plural(figures.counted_n, T::NOUN)
    );
    if desk.screen.is_json {
        say(with_times(preview.raw.clone()));
    } else {
        show_rows(&desk.screen, &preview.view);
        say(&found);
    }
    let act = preview.view.acts.iter().find(|one| one.act == subject.act());
    let Some(act) = act else {
        complain(if figures.is_more {
            "nothing was done: that is more than one operation acts on; say more, such as a provider or a time"
        } else {
            "nothing was done: there is nothing to do"
        });
        return false;
    };
    complain(in_full(act, preview.view.approvals_n));
    if let Some(recent) = &preview.view.recent {
        complain(Shown::text(recent.in_words()).as_str());
    }
    if !desk.screen.is_json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        return typed(figures.counted_n, act);
    }
    complain(format!("nothing was done: --yes {}:{} acts on them", figures.counted_n, preview.view.set));
    false
}

/// Prints some of the rows, and the figures of all.
pub(super) fn show_rows(screen: &Screen, preview: &OperationPreview) {
    if !preview.events.is_empty() {
        screen.print(&rows(screen, &preview.events, true));
    }
    if !preview.messages.is_empty() {
        screen.print(&rows(screen, &preview.messages, true));
    }
    screen.print(&in_figures(screen, &preview.figures));
}

/// True when a person types the number; anything else is no.
fn typed(counted_n: u64, act: &PreviewedAct) -> bool {
    complain(format!("{}: type the number {counted_n} to do it, or press Enter to leave:", act.label));
    let mut line = String::new();
    let is_read = std::io::stdin().read_line(&mut line).is_ok();
    let is_typed = is_read && number(line.trim()) == Some(counted_n);
    if !is_typed {
        complain("nothing was done");
    }
    is_typed
}

/// What an act does to all of them, how, and who else has to agree.
pub(super) fn in_full(act: &PreviewedAct, approvals_n: u32) -> String {
    let risk = match act.risk {
        Risk::None => String::new(),
        risk => format!("CAREFUL: {}. ", risk.in_words()),
    };
    let steps = act.steps.as_ref().map(OperationSteps::in_words);
    let same = act.same_operation_id.as_ref().map(|id| {
        format!(
            "Operation {id} does the same, or does it to some of the same rows, and is unfinished or ended less than 10 \
             minutes ago: --again orders it all the same."
        )
    });
    let approval = (approvals_n > 1).then(|| "Another person has to approve it before it begins.".to_owned());
    let first = format!("{risk}{}", act.sentence);
    [Some(first), steps, same, approval].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn in_figures(screen: &Screen, figures: &BulkFigures) -> String {
    let named = |counts: &[NamedCount]| {
        let one = |count: &NamedCount| format!("{} {}", count.name, grouped(count.counted_n));
        Shown::text(counts.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    let time = |ms: Option<i64>| ms.map(|ms| Shown::text(told(ms, screen.now_ms)));
    let mut facts = vec![("providers", named(&figures.providers))];
    if !figures.destinations.is_empty() {
        facts.push(("destinations", named(&figures.destinations)));
    }
    facts.extend(time(figures.first_at_ms).map(|at| ("first", at)));
    facts.extend(time(figures.last_at_ms).map(|at| ("last", at)));
    let calls = format!(
        "{}, {} open, {} of these never tried",
        grouped(figures.calls_n),
        grouped(figures.open_n),
        grouped(figures.untried_n)
    );
    facts.push(("calls", Shown::text(calls)));
    fields(screen, &facts)
}
