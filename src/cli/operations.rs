//! Acts on all rows that a filter finds: a preview with the risks first, then, once its number is confirmed, a durable
//! operation that the command follows to its end. `operations` shows, follows, approves, continues and cancels them.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::api_client::{ApiAnswer, ApiError, pause};
use super::output::Column::{self, Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields, table, with_times};
use super::remote::{
    ListColumn, ListRow, PagingArgs, Query, Remote, ServerCommand, VersionArgs, WhyArgs, filter_in_words,
    rows, to,
};
use super::shared::{Ending, Usage, complain, say};
use hooklatch_contract::{
    BulkFigures, NamedCount, OperationOrder, OperationPreview, OperationState, OperationSteps,
    OperationSubject, OperationView, PreviewedAct, Risk, SkippedRow, StepView,
};
use hooklatch_core::figures::{grouped, plural};
use hooklatch_core::times::parse_time;

/// A filter: the names of the contract in the order in which they are printed, with their values; null for what was not
/// given.
pub(super) struct Filter(pub(super) Vec<(&'static str, Value)>);

impl Filter {
    /// True when nothing is chosen.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, value)| value.is_null())
    }

    /// The filter as a type of the contract.
    pub(super) fn read<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        Ok(T::deserialize(self.json())?)
    }

    fn json(&self) -> Value {
        let given = self.0.iter().filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>().into()
    }

    /// Calls `work` with the filter as the values of a query.
    pub(super) fn with_query<T>(&self, work: impl FnOnce(&Query<'_>) -> T) -> T {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let texts: Vec<_> =
            self.0.iter().map(|(name, value)| (*name, (!value.is_null()).then(|| text(value)))).collect();
        work(&texts.iter().map(|(name, text)| (*name, text.as_deref())).collect::<Vec<_>>())
    }
}

/// A time of a filter that was given as `--name`; "so long ago" becomes a time.
pub(super) fn time(name: &str, text: Option<&String>, now_ms: i64) -> Result<Value, Usage> {
    let time = text.map(|text| parse_time(text, now_ms)).transpose();
    time.map(|at_ms| json!(at_ms)).map_err(|why| Usage(format!("--{name}: {why}")))
}

/// Arguments of what may act on several.
#[derive(Args)]
struct BulkArgs {
    /// Confirm the set to act on, as printed without this option. On a terminal you may type the number instead; a
    /// script does nothing without it.
    #[arg(long, value_name = "NUMBER:SET", value_parser = confirmed)]
    yes: Option<Confirmed>,
    /// Do not wait until the operation ends.
    #[arg(long)]
    no_wait: bool,
    /// Run even if another operation does the same to some of these rows and is unfinished or ended in the last
    /// 10 minutes.
    #[arg(long)]
    again: bool,
    /// Sizes of the first steps of an act that makes calls, such as 1,10,100; the rest is the last step. 0: no steps.
    #[arg(long, value_name = "ROWS", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(0..=100_000))]
    steps: Vec<u64>,
    /// Rows a second, with steps.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    per_second: Option<u32>,
    /// Stop above this percentage of failed calls, with steps.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    stop_percent: Option<u32>,
}

impl BulkArgs {
    /// The steps of the arguments; `None` for those of the server.
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

/// The rows of the preview: their number, and a digest of the set.
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

/// Arguments of what is done to one row, or to all that a filter finds.
#[derive(Args)]
pub(super) struct ActArgs {
    #[command(flatten)]
    why: WhyArgs,
    #[command(flatten)]
    version: VersionArgs,
    #[command(flatten)]
    bulk: BulkArgs,
}

impl ActArgs {
    /// Does `act` to one of `nouns`, such as `["events", "stripe", "evt_1"]`, and prints that it is `done`; or to all
    /// that the filter finds, where `nouns` names none.
    pub(super) fn act<T: ListRow>(
        &self,
        remote: &Remote,
        (act, done): (&str, &str),
        nouns: &[&str],
        filter: &Filter,
    ) -> anyhow::Result<ExitCode> {
        let noun = T::NOUN;
        let usage = |why: String| Err(Usage(why).into());
        match (nouns, filter.is_empty()) {
            ([] | [_], true) => {
                usage(format!("name one {noun}, or say --state and what else they have in common"))
            }
            ([_], false) if self.version.header().is_some() => {
                usage(format!("--if-match is about one {noun}: name it"))
            }
            ([nouns], false) => {
                let subject = json!({ (*nouns): { "act": act, "filter": filter.json() } });
                self.bulk.perform::<T>(remote, OperationSubject::deserialize(subject)?, filter, &self.why)
            }
            (_, false) => usage(format!("name one {noun} or say a filter, not both")),
            ([path @ .., id], true) => {
                let path = [path, &[id, "decide"]].concat();
                remote.decide((&path, id), &to(act, &self.why), (&self.why, Some(&self.version)), done)
            }
        }
    }
}

impl BulkArgs {
    /// Shows the preview, begins the operation once its number was given or typed, and follows it.
    fn perform<T: ListRow>(
        &self,
        remote: &Remote,
        subject: OperationSubject,
        filter: &Filter,
        why: &WhyArgs,
    ) -> anyhow::Result<ExitCode> {
        let preview: ApiAnswer<OperationPreview> =
            remote.api.post_query(&["operations", "preview"], Some(&subject.choice()))?;
        let (figures, filter) = (&preview.view.figures, filter.with_query(filter_in_words));
        let Confirmed { counted_n, set } = match &self.yes {
            Some(_) if figures.is_more => {
                let found = plural(figures.counted_n, T::NOUN);
                let why = "say more, such as a provider or a time, and do it in parts";
                return Err(Usage(format!("more than {found}: {why}")).into());
            }
            Some(_) if figures.counted_n == 0 => {
                complain(format!("no {}s with {filter}: there is nothing to do", T::NOUN));
                return Ok(ExitCode::SUCCESS);
            }
            Some(confirmed) => confirmed.clone(),
            None if show_preview::<T>(remote, &subject, &preview, &filter) => {
                Confirmed { counted_n: figures.counted_n, set: preview.view.set.clone() }
            }
            None => return Ok(Ending::NotDone.code()),
        };
        let (steps, reason) = (self.steps(), why.reason.clone());
        let order = OperationOrder { subject, counted_n, set, reason, steps, again: self.again };
        let begun: ApiAnswer<OperationView> = remote.order(&["operations"], &order, why)?;
        let id = &begun.view.operation_id;
        if self.no_wait || begun.view.state == OperationState::Waiting {
            remote.print(&begun, |view, _| Shown::text(&view.operation_id).as_str().to_owned());
        }
        if begun.view.state == OperationState::Waiting {
            let approve = command("approve", id);
            complain(format!("nothing was done yet: another person has to approve it\n  {approve}"));
            return Ok(Ending::NotDone.code());
        }
        if self.no_wait {
            if !remote.screen.is_json {
                complain("it runs; `hooklatch operations wait` follows it");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let cancel = command("cancel", id);
        complain(format!("operation {id}: it goes on when you leave; to stop it:\n  {cancel}"));
        let end = follow(remote, begun, None)?;
        Ok(print_end(remote, &end).code())
    }
}

/// Prints the preview and its risks. True when a person at a terminal typed the number.
fn show_preview<T: ListRow>(
    remote: &Remote,
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
    if remote.screen.is_json {
        say(with_times(preview.raw.clone()));
    } else {
        show_rows(&remote.screen, &preview.view);
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
    complain(act_in_full(act, preview.view.approvals_n));
    if let Some(recent) = &preview.view.recent {
        complain(Shown::text(recent.in_words()).as_str());
    }
    if !remote.screen.is_json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        return typed(figures.counted_n, act);
    }
    complain(format!("nothing was done: --yes {}:{} acts on them", figures.counted_n, preview.view.set));
    false
}

/// Prints some of the rows, and the figures of all.
fn show_rows(screen: &Screen, preview: &OperationPreview) {
    if !preview.events.is_empty() {
        screen.print(&rows(screen, &preview.events, true));
    }
    if !preview.messages.is_empty() {
        screen.print(&rows(screen, &preview.messages, true));
    }
    screen.print(&in_figures(screen, &preview.figures));
}

/// True when a person types the number; any other input is a no.
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

/// What an act does to all of the rows, in which steps, and whether a second operator must approve.
fn act_in_full(act: &PreviewedAct, approvals_n: u32) -> String {
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
    let mut facts = vec![("providers", named(&figures.providers))];
    if !figures.destinations.is_empty() {
        facts.push(("destinations", named(&figures.destinations)));
    }
    facts.extend(figures.first_at_ms.map(|ms| ("first", screen.time(ms))));
    facts.extend(figures.last_at_ms.map(|ms| ("last", screen.time(ms))));
    let calls = format!(
        "{}, {} open, {} of these never tried",
        grouped(figures.calls_n),
        grouped(figures.open_n),
        grouped(figures.untried_n)
    );
    facts.push(("calls", Shown::text(calls)));
    fields(screen, &facts)
}

#[derive(Subcommand)]
pub(super) enum Operations {
    /// List operations, newest first.
    List(PagingArgs),
    /// Show one operation and its progress.
    Show {
        /// Operation id.
        operation_id: String,
    },
    /// Wait until one operation ends; exit code 7 if it still runs.
    Wait {
        /// Operation id.
        operation_id: String,
        /// Seconds to wait. Default: until it ends.
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// Approve an operation that another operator ordered.
    Approve(DecideArgs),
    /// Continue an operation that stopped after failed calls.
    Continue(DecideArgs),
    /// Cancel an operation. Finished rows stay done.
    Cancel(DecideArgs),
}

#[derive(Args)]
pub(super) struct DecideArgs {
    /// Operation id.
    operation_id: String,
    #[command(flatten)]
    why: WhyArgs,
}

impl ServerCommand for Operations {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(paging) => remote.list::<OperationView>(&["operations"], &[], Some(paging)),
            Self::Show { operation_id } => {
                let found: ApiAnswer<OperationView> = remote.api.get(&["operations", operation_id], &[])?;
                remote.print(&found, in_full);
                if found.view.state == OperationState::Waiting && !remote.screen.is_json {
                    let path = ["operations", operation_id, "preview"];
                    let preview = remote.api.get::<OperationPreview>(&path, &[])?.view;
                    show_rows(&remote.screen, &preview);
                    preview.acts.iter().for_each(|act| say(act_in_full(act, 1)));
                }
                Ok(ExitCode::SUCCESS)
            }
            Self::Wait { operation_id, timeout } => {
                let found = remote.api.get(&["operations", operation_id], &[])?;
                let end = follow(remote, found, timeout.map(Duration::from_secs))?;
                Ok(print_end(remote, &end).code())
            }
            Self::Approve(args) => args.decide(remote, "approve"),
            Self::Continue(args) => args.decide(remote, "continue"),
            Self::Cancel(args) => args.decide(remote, "cancel"),
        }
    }
}

impl DecideArgs {
    fn decide(&self, remote: &Remote, word: &str) -> anyhow::Result<ExitCode> {
        let path = ["operations", &self.operation_id, word];
        remote.print(&remote.order(&path, &self.why.order(), &self.why)?, in_full);
        Ok(ExitCode::SUCCESS)
    }
}

/// The command that decides about an operation, to be typed as it stands but for the reason.
pub(super) fn command(word: &str, operation_id: &str) -> String {
    format!("hooklatch operations {word} {operation_id} --reason \"…\"")
}

impl ListRow for OperationView {
    const NOUN: &'static str = "operation";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("ordered (UTC)"), |one, screen| screen.time(one.created_at_ms)),
        (Id("operation id"), |one, _| Shown::text(&one.operation_id)),
        (Whole("state"), |one, _| state(one.state)),
        (Whole("done"), |one, _| Shown::text(progress(one))),
        (Loose("what"), |one, _| Shown::text(in_words(&one.subject))),
        (Whole("by"), |one, _| Shown::text(&one.actor)),
        (Loose("reason"), |one, _| Shown::text(&one.reason)),
    ];
}

const STEPS: [Column; 6] =
    [Whole("step"), Whole("rows"), Whole("acted on"), Whole("calls open"), Whole("good"), Whole("failed")];

fn step_cells(n: usize, step: &StepView) -> Vec<Shown> {
    let counts = [step.rows_n, step.changed_n, step.open_n(), step.good_n, step.failed_n];
    let number = Shown::number(u64::try_from(n + 1).unwrap_or_default());
    std::iter::once(number).chain(counts.into_iter().map(Shown::number)).collect()
}

impl ListRow for SkippedRow {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("passed over"), |one, _| Shown::text(&one.subject)),
        (Whole("why"), |one, _| Shown::text(&one.outcome)),
        (Whole("state"), |one, _| Shown::or_dash(one.state.as_deref())),
    ];
}

/// All that is known of an operation.
fn in_full(view: &OperationView, screen: &Screen) -> String {
    let mut facts = vec![
        ("operation", Shown::text(&view.operation_id)),
        ("what", Shown::text(in_words(&view.subject))),
        ("state", state(view.state)),
        ("done", Shown::text(progress(view))),
        ("ordered", screen.time(view.created_at_ms)),
        ("by", Shown::text(&view.actor)),
        ("reason", Shown::text(&view.reason)),
    ];
    facts.extend(view.finished_at_ms.map(|ms| ("ended", screen.time(ms))));
    facts.extend(view.cancelled_by.as_deref().map(|actor| ("cancelled by", Shown::text(actor))));
    facts.extend(view.approved_by.as_deref().map(|actor| ("approved by", Shown::text(actor))));
    facts.extend(view.approve_until_ms.map(|ms| ("to be approved until", screen.time(ms))));
    facts.extend(view.note.as_deref().map(|note| ("why", Shown::text(note))));
    let mut parts = vec![fields(screen, &facts)];
    if let Some(steps) = &view.steps {
        let lines: Vec<Vec<Shown>> =
            steps.list.iter().enumerate().map(|(n, step)| step_cells(n, step)).collect();
        parts.push(table(screen, &STEPS, &lines, true));
    }
    if !view.skipped.is_empty() {
        parts.push(rows(screen, &view.skipped, true));
    }
    parts.join("\n\n")
}

fn state(state: OperationState) -> Shown {
    match state {
        OperationState::Running => Shown::text("running"),
        OperationState::Waiting => Shown::text("waiting for approval").in_tone(Tone::Waits),
        OperationState::Stopped => Shown::text("stopped").in_tone(Tone::Bad),
        OperationState::Done => Shown::text("done").in_tone(Tone::Good),
        OperationState::Cancelled => Shown::text("cancelled").in_tone(Tone::Waits),
    }
}

/// `412 of 1,000`, and how many were passed over.
fn progress(view: &OperationView) -> String {
    let skipped = match view.skipped_n {
        0 => String::new(),
        n => format!(", {} passed over", grouped(n)),
    };
    format!("{} of {}{skipped}", grouped(view.changed_n), grouped(view.total_n))
}

/// `send messages: state held, destination billing`.
fn in_words(subject: &OperationSubject) -> String {
    let (noun, filter) = match subject {
        OperationSubject::Messages { filter, .. } => ("messages", serde_json::to_value(filter)),
        OperationSubject::Events { filter, .. } => ("events", serde_json::to_value(filter)),
    };
    let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let act = subject.act().replace('_', " ");
    let filter = filter.unwrap_or_default();
    let members = filter.as_object().into_iter().flatten();
    let members: Vec<String> =
        members.map(|(name, value)| format!("{} {}", name.replace('_', " "), word(value))).collect();
    format!("{act} {noun}: {}", members.join(", "))
}

/// Waits between two looks: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Time for which a server may be away before it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);

/// Polls until the operation has ended, or for `within` at most; returns the last view.
pub(super) fn follow(
    remote: &Remote,
    begun: ApiAnswer<OperationView>,
    within: Option<Duration>,
) -> anyhow::Result<ApiAnswer<OperationView>> {
    let started = Instant::now();
    let (mut seen, mut wait) = (begun, LOOKS.0);
    let (mut shown, mut shown_at) = (String::new(), started);
    let mut away_since: Option<Instant> = None;
    remote.api.run(async {
        while seen.view.state == OperationState::Running && within.is_none_or(|most| started.elapsed() < most)
        {
            pause(wait).await;
            wait = (wait * 2).min(LOOKS.1);
            let id = seen.view.operation_id.clone();
            match remote.api.fetch(&["operations", &id], &[]).await {
                Ok(found) => (seen, away_since) = (found, None),
                Err(error) if is_away(&error) => {
                    if away_since.is_none() {
                        complain(format!("{error}; still looking"));
                    }
                    if away_since.get_or_insert_with(Instant::now).elapsed() > AWAY_MAX {
                        let more = format!("the operation goes on: `hooklatch operations wait {id}`");
                        return Err(anyhow::Error::from(error).context(more));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            let now = watched(&seen.view);
            if now != shown && shown_at.elapsed() >= PROGRESS_EVERY {
                complain(&now);
                (shown, shown_at) = (now, Instant::now());
            }
        }
        Ok(seen)
    })
}

/// `412 of 1,000; step 2 of 4: calls of 12 not tried yet`.
fn watched(view: &OperationView) -> String {
    let done = progress(view);
    let Some(steps) = &view.steps else { return done };
    let step = usize::try_from(steps.current.saturating_sub(1)).ok().and_then(|place| steps.list.get(place));
    let open_n = step.map_or(0, StepView::open_n);
    let waits =
        if open_n > 0 { format!(": calls of {} not tried yet", grouped(open_n)) } else { String::new() };
    format!("{done}; step {} of {}{waits}", steps.current, steps.list.len())
}

/// True for an error that a retry may clear.
fn is_away(error: &ApiError) -> bool {
    match error {
        ApiError::Unreached { .. } | ApiError::Lost { .. } => true,
        ApiError::Refused(problem) => matches!(problem.status, 429 | 502..=504),
        ApiError::Foreign { status, .. } => *status >= 500,
    }
}

/// Prints the result of the operation.
fn print_end(remote: &Remote, end: &ApiAnswer<OperationView>) -> Ending {
    remote.print(end, in_full);
    let id = &end.view.operation_id;
    match end.view.state {
        OperationState::Done => Ending::Done,
        OperationState::Running => Ending::NotDone,
        OperationState::Waiting => {
            complain(format!("another person has to approve it:\n  {}", command("approve", id)));
            Ending::NotDone
        }
        OperationState::Stopped => {
            let (go_on, end) = (command("continue", id), command("cancel", id));
            complain(format!(
                "it stopped because calls failed; look at them first, then one of:\n  {go_on}\n  {end}"
            ));
            Ending::Failed
        }
        OperationState::Cancelled => Ending::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::{EventAct, EventFilter, MessageAct, MessageFilter};
    use hooklatch_core::types::{EventState, MessageState};

    #[test]
    fn an_operation_is_described_in_words() {
        let filter = MessageFilter {
            state: Some(MessageState::Held),
            destination: Some("billing".to_owned()),
            ..Default::default()
        };
        let subject = OperationSubject::Messages { act: MessageAct::Send, filter };
        assert_eq!(in_words(&subject), "send messages: destination billing, state held");
        let filter =
            EventFilter { state: Some(EventState::Failed), received_to_ms: Some(5), ..Default::default() };
        let subject = OperationSubject::Events { act: EventAct::EraseAndDiscard, filter };
        assert_eq!(in_words(&subject), "erase and discard events: received to ms 5, state failed");
    }

    #[test]
    fn progress_says_the_step_and_what_it_waits_for() {
        let view = |steps: &str| -> OperationView {
            let text = format!(
                r#"{{"operation_id":"op-1","state":"running","subject":{{"messages":{{"act":"send","filter":{{}}}}}},
                "actor":"ann","reason":"x","created_at_ms":1,"finished_at_ms":null,"cancelled_by":null,
                "total_n":1000,"changed_n":412,"skipped_n":3,"skipped":[],"steps":{steps}}}"#
            );
            serde_json::from_str(&text).expect("an operation")
        };
        assert_eq!(watched(&view("null")), "412 of 1,000, 3 passed over");
        let steps = |changed_n: u64| {
            format!(
                r#"{{"per_s":50,"stop_percent":10,"current":2,"list":[
                {{"rows_n":1,"changed_n":1,"good_n":1,"failed_n":0}},
                {{"rows_n":999,"changed_n":{changed_n},"good_n":400,"failed_n":2}}]}}"#
            )
        };
        assert_eq!(
            watched(&view(&steps(414))),
            "412 of 1,000, 3 passed over; step 2 of 2: calls of 12 not tried yet"
        );
        assert_eq!(watched(&view(&steps(402))), "412 of 1,000, 3 passed over; step 2 of 2");
    }
}
