//! `restore-check`: what a restored database may lack and may send twice, and how it is taken over. The command prints
//! a report, as JSON or in words: what the database is, what is missing, what may be sent twice, what to do next. It
//! acts only with `--yes`.

use hooklatch_receive::provider::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::with_times;
use super::shared::{Ending, Usage, block_on, complain, opened_alone, say};
use crate::app::refuse_empty_elsewhere;
use hooklatch_core::config::{Config, DestinationConfig, LogConfig};
use hooklatch_core::figures::{grouped, plural};
use hooklatch_core::logging;
use hooklatch_core::times::{ago, format_moment, parse_time, rfc3339};
use hooklatch_core::types::{Clock, MessageState, Repeat, UnixMs};
use hooklatch_operator::load::{Kinds, loaded};
use hooklatch_operator::setup::refuse_without_keys;
use hooklatch_receive::provider::Provider;
use hooklatch_store::{
    NODE_SEEN_EVERY, OpenCount, ProviderTrace, RestoreFacts, RestoreState, Store, TakeOver, TakenOver,
    WitnessFinding,
};
use hooklatch_verify::spec::{Resend, Spec};

#[derive(Args)]
#[command(after_help = "Examples:
  hooklatch restore-check                                    shows the findings, changes nothing
  hooklatch restore-check --backed-up-at 2026-11-22T03:00Z --acknowledged-until 2026-11-22T14:02:11Z
  hooklatch restore-check --yes --pause --reason \"disk of db1 lost\"   takes the database over, destinations paused

Exit codes: 0 done or nothing to do, 7 the database waits for the take-over.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct RestoreArgs {
    /// Time of the backup, or the point in time of the recovery. Default: as recorded in the database.
    #[arg(long, value_name = "TIME")]
    backed_up_at: Option<String>,
    /// Time until which the lost database may have acknowledged events. Default: now.
    #[arg(long, value_name = "TIME")]
    acknowledged_until: Option<String>,
    /// Take the database over, so that `serve` starts on it.
    #[arg(long, requires = "reason")]
    yes: bool,
    /// Reason for the audit log: one line, at most 255 bytes.
    #[arg(long)]
    reason: Option<String>,
    /// Pause every destination until `hooklatch destinations resume`.
    #[arg(long)]
    pause: bool,
    /// Keep tokens created at run time, although some may have been revoked since the backup.
    #[arg(long)]
    keep_tokens: bool,
    /// The database was only moved: stopped, then copied completely.
    #[arg(long, conflicts_with_all = ["pause", "keep_tokens", "backed_up_at", "acknowledged_until"])]
    moved: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// `hooklatch restore-check`: opens the database itself, so no server may run on it.
pub(super) fn restore_check(
    args: &RestoreArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?.config;
    let now_ms = Clock::system().now_ms();
    let backed_up_at_ms = time(args.backed_up_at.as_deref(), "--backed-up-at", now_ms)?;
    let until_ms = time(args.acknowledged_until.as_deref(), "--acknowledged-until", now_ms)?;
    if backed_up_at_ms.is_some_and(|at_ms| at_ms > until_ms.unwrap_or(now_ms)) {
        return Err(Usage("--backed-up-at is later than --acknowledged-until, or than now".to_owned()).into());
    }
    if args
        .reason
        .as_ref()
        .is_some_and(|reason| reason.is_empty() || reason.len() > 255 || reason.contains('\n'))
    {
        return Err(Usage("--reason is one line of 1 to 255 bytes".to_owned()).into());
    }
    if args.yes {
        // The line of its row in the audit log; no other line.
        let log = LogConfig { filter: "off".to_owned(), ..config.log.clone() };
        logging::install(&log, hooklatch_outbox::silent_log_targets())?;
    }
    let started = Instant::now();
    block_on(async {
        let opened = opened_alone(&config.database, &config.encryption, "").await?;
        if args.yes
            && let Some(who) = running(&opened.store, started).await?
        {
            complain(format!(
                "node `{who}` runs on this database. Stop every server of it, then give the command again: what a server sends while the \
                 database is taken over may be sent twice. Nothing was changed"
            ));
            opened.store.close().await;
            return Ok(Ending::Refused.code());
        }
        let given = GivenTimes { backed_up_at_ms, until_ms, now_ms };
        let done = look(args, &opened.store, &config, kinds, &given).await;
        opened.store.close().await;
        done
    })
}

/// The node that runs on this database, if any: it has a session, and its row advances meanwhile. Sessions alone are no
/// proof, because a pooler keeps them after their client has gone; nor are rows, because a backup contains them.
async fn running(store: &Store, started: Instant) -> anyhow::Result<Option<String>> {
    let ms = |since: Instant| i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
    if store.sessions_of_others(ms(started)).await.context("could not look for other servers")? == 0 {
        return Ok(None);
    }
    let watched = Instant::now();
    while watched.elapsed() < NODE_SEEN_EVERY + Duration::from_secs(1) {
        // A node writes its row by itself.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let nodes =
            store.node_list(Clock::system().now_ms()).await.context("could not look for other servers")?;
        if let Some(node) = nodes.into_iter().find(|node| node.ago_ms < ms(watched)) {
            return Ok(Some(node.node));
        }
    }
    Ok(None)
}

/// The times in the arguments.
#[expect(clippy::struct_field_names, reason = "all of them are moments")]
struct GivenTimes {
    backed_up_at_ms: Option<UnixMs>,
    until_ms: Option<UnixMs>,
    now_ms: UnixMs,
}

impl GivenTimes {
    /// As arguments, each after a blank.
    fn in_words(&self) -> String {
        [("--backed-up-at", self.backed_up_at_ms), ("--acknowledged-until", self.until_ms)]
            .into_iter()
            .filter_map(|(name, at_ms)| at_ms.and_then(rfc3339).map(|at| format!(" {name} {at}")))
            .collect()
    }
}

fn time(text: Option<&str>, name: &str, now_ms: UnixMs) -> anyhow::Result<Option<UnixMs>> {
    let read = text.map(|text| parse_time(text, now_ms).map_err(|why| Usage(format!("{name}: {why}"))));
    Ok(read.transpose()?)
}

/// The keys that rows of this database are encrypted with and that the configuration does not have. Another key under
/// an id that it has was refused when the database was opened.
async fn keys_missing(store: &Store) -> anyhow::Result<Vec<String>> {
    let used = store.keys_in_use().await.context("could not look for encryption keys")?;
    let is_missing = |key_id: &String| store.ring().key_ids().all(|known| known != key_id);
    let missing: BTreeSet<String> = used.into_iter().map(|one| one.key_id).filter(is_missing).collect();
    Ok(missing.into_iter().collect())
}

async fn look(
    args: &RestoreArgs,
    store: &Store,
    config: &Config,
    kinds: &Kinds,
    given: &GivenTimes,
) -> anyhow::Result<ExitCode> {
    let witness = store.witness_state().await.context("could not look at the witness")?;
    let foreign = witness.filter(|found| found.finding == WitnessFinding::Other);
    if let Some(witness) = &foreign {
        refuse_empty_elsewhere(store, &witness.path).await?;
    }
    let state = store.restore_state().await.context("could not tell what this database is")?;
    let facts = store.restore_facts().await.context("could not look at the database")?;
    let made_at_ms = match state {
        RestoreState::Backup { made_at_ms } => Some(made_at_ms),
        _ => None,
    };
    let from_ms = given.backed_up_at_ms.or(made_at_ms).unwrap_or(facts.newest_at_ms);
    let until_ms = given.until_ms.unwrap_or(given.now_ms).max(from_ms);
    let ran_until_ms = match state {
        RestoreState::Older { ran_until_ms } => Some(ran_until_ms),
        _ => None,
    };
    let moments = Moments { from_ms, until_ms, ran_until_ms, now_ms: given.now_ms };
    let mut report = RestoreReport::of(state, &facts, &moments, config, kinds);
    report.keys_missing = keys_missing(store).await?;
    report.is_of_another_installation = foreign.is_some();
    let is_waiting = state != RestoreState::Same || given.backed_up_at_ms.is_some();
    report.is_declared = given.backed_up_at_ms.is_some();
    report.times_given = given.in_words();
    if !args.yes {
        say(if args.json { report.to_json()? } else { in_words(&report, given.now_ms) });
        return Ok(if is_waiting { Ending::NotDone.code() } else { ExitCode::SUCCESS });
    }
    refuse_without_keys(store, &config.encryption).await.context("nothing was taken over")?;
    let reason = args.reason.clone().unwrap_or_default();
    if args.moved {
        store.restore_is_moved(&reason, given.now_ms).await.context("could not note it")?;
        complain("noted: nothing is missing, the database is in another place");
        return Ok(ExitCode::SUCCESS);
    }
    if !is_waiting {
        complain(
            "nothing says that this database was restored: if it was, name the moment of its backup by --backed-up-at",
        );
        return Ok(Ending::Refused.code());
    }
    let names = config.destinations.keys().map(ToString::to_string);
    let word = TakeOver {
        from_ms: Some(from_ms),
        until_ms,
        paused: names.filter(|_| args.pause).collect(),
        are_tokens_kept: args.keep_tokens,
        reason,
        now_ms: given.now_ms,
    };
    let taken =
        store.restore_take_over(word).await.context("could not take it over; give the command again")?;
    say(if args.json {
        report.with(&taken).to_json()?
    } else {
        done_in_words(&report, &taken, given.now_ms)
    });
    Ok(ExitCode::SUCCESS)
}

const DAY_MS: i64 = 86_400_000;

/// The times on which the report is based.
#[expect(clippy::struct_field_names, reason = "all of them are moments")]
struct Moments {
    from_ms: UnixMs,
    until_ms: UnixMs,
    /// The last server ran at least until then, where that is known.
    ran_until_ms: Option<UnixMs>,
    now_ms: UnixMs,
}

/// The facts of a restored database.
#[derive(Debug, Clone, Serialize)]
struct RestoreReport {
    /// What the database is: `same`, `backup`, `older`, `elsewhere`, `point_in_time` or `took_over`.
    state: &'static str,
    installation_id: String,
    /// The one that ran here last was another: all keys differ from those of before.
    is_of_another_installation: bool,
    /// The caller says that it was restored, and when it was backed up.
    is_declared: bool,
    /// The arguments that gave times, to be repeated with --yes.
    #[serde(skip)]
    times_given: String,
    /// Nothing that was committed before is missing.
    from_ms: UnixMs,
    /// The end of the lost time.
    to_ms: UnixMs,
    /// The last server ran at least until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    ran_until_ms: Option<UnixMs>,
    newest_event_at_ms: UnixMs,
    providers: Vec<SenderLoss>,
    messages: Vec<MessageRisk>,
    retry_events_n: u64,
    running_operations_n: u64,
    tokens_n: u64,
    restores_n: u64,
    audit_seq: i64,
    /// Ids of keys that rows are encrypted with and that the configuration does not have.
    keys_missing: Vec<String>,
    /// Set once the database was taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_over: Option<Value>,
}

/// Events of one provider that were acknowledged with 200 and are not in this database.
#[derive(Debug, Clone, Serialize)]
struct SenderLoss {
    provider: String,
    kind: String,
    title: String,
    newest_at_ms: Option<UnixMs>,
    /// Estimated number of events, at the rate of the day before.
    expected_n: u64,
    asking: ResendWay,
    /// Hours for which the sender can be asked, where its documentation says.
    resend_h: Option<u32>,
    docs: String,
}

/// Open messages, and what happens to them.
#[derive(Debug, Clone, Serialize)]
struct MessageRisk {
    destination: String,
    state: &'static str,
    messages_n: u64,
    fate: MessagesFate,
    key_valid_until_ms: Option<UnixMs>,
}

impl RestoreReport {
    fn of(
        state: RestoreState,
        facts: &RestoreFacts,
        moments: &Moments,
        config: &Config,
        kinds: &Kinds,
    ) -> Self {
        let traces: BTreeMap<&str, &ProviderTrace> =
            facts.providers.iter().map(|one| (one.provider.as_str(), one)).collect();
        let names = config.providers.iter().map(|(name, provider)| (name.as_str(), provider.kind.as_str()));
        let gone =
            traces.keys().filter(|name| !config.providers.keys().any(|known| known.as_str() == **name));
        let all = names.chain(gone.map(|name| (*name, "")));
        let loss = |(name, kind): (&str, &str)| {
            let spec = kinds.iter().find(|one| one.kind() == kind).and_then(|one: &Provider| one.spec().ok());
            sender_loss((name, kind), spec, traces.get(name).copied(), moments)
        };
        let risk = |open: &OpenCount| {
            let known = config.destinations.iter().find(|(name, _)| name.as_str() == open.destination);
            let times = (moments.from_ms, moments.now_ms);
            let (fate, key_valid_until_ms) =
                fate(known.map(|(_, config)| config), open.state, open.first_sent_at_ms, times);
            MessageRisk {
                destination: open.destination.clone(),
                state: open.state.as_str(),
                messages_n: open.messages_n,
                fate,
                key_valid_until_ms,
            }
        };
        Self {
            state: state.as_str(),
            installation_id: facts.installation_id.clone(),
            is_of_another_installation: false,
            is_declared: false,
            times_given: String::new(),
            from_ms: moments.from_ms,
            to_ms: moments.until_ms,
            ran_until_ms: moments.ran_until_ms,
            newest_event_at_ms: facts.newest_at_ms,
            providers: all.map(loss).collect(),
            messages: facts.open.iter().map(risk).collect(),
            retry_events_n: facts.retry_n,
            running_operations_n: facts.operations_n,
            tokens_n: facts.tokens_n,
            restores_n: facts.restores_n,
            audit_seq: facts.audit_seq,
            keys_missing: Vec::new(),
            taken_over: None,
        }
    }

    /// The report of a database that was taken over.
    fn with(self, taken: &TakenOver) -> Self {
        let taken_over = Some(json!({
            "messages_n": taken.messages_n, "operations_n": taken.operations_n, "tokens_n": taken.tokens_n,
            "sessions_n": taken.sessions_n, "paused_n": taken.paused_n,
        }));
        Self { taken_over, ..self }
    }

    /// One line of JSON, with times beside milliseconds.
    fn to_json(&self) -> anyhow::Result<String> {
        Ok(with_times(serde_json::to_value(self)?).to_string())
    }
}

fn sender_loss(
    (name, kind): (&str, &str),
    spec: Option<&Spec>,
    trace: Option<&ProviderTrace>,
    moments: &Moments,
) -> SenderLoss {
    let Moments { from_ms, until_ms, now_ms, .. } = *moments;
    let (asking, resend_h) = resend_way(spec, (from_ms, until_ms), now_ms);
    let lost_ms = u128::from(until_ms.saturating_sub(from_ms).unsigned_abs());
    let expected = trace.map_or(0, |one| u128::from(one.day_n) * lost_ms / u128::from(DAY_MS.unsigned_abs()));
    SenderLoss {
        provider: name.to_owned(),
        kind: kind.to_owned(),
        title: spec.map_or_else(|| kind.to_owned(), |spec| spec.title.clone()),
        newest_at_ms: trace.map(|one| one.newest_at_ms),
        expected_n: u64::try_from(expected).unwrap_or(u64::MAX),
        asking,
        resend_h,
        docs: spec.map(|spec| spec.docs.clone()).unwrap_or_default(),
    }
}

const HOUR_MS: i64 = 3_600_000;

/// What happens to messages after the database was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum MessagesFate {
    /// They are sent under their keys, which the destination still knows.
    Sent,
    /// The destination is asked first.
    Asked,
    /// They are held, because the destination knows no keys.
    HeldUnknown,
    /// Those whose key may be forgotten by now are held, the others are sent.
    HeldOld,
    /// They wait for a person, as before.
    Person,
    /// No such destination is configured, so nothing takes them.
    Stray,
}

/// Judges messages of which the oldest was sent first at `first_sent_at_ms`, or may have been since `from_ms`. With it,
/// until when their destination knows the keys.
fn fate(
    config: Option<&DestinationConfig>,
    state: MessageState,
    first_sent_at_ms: Option<UnixMs>,
    (from_ms, now_ms): (UnixMs, UnixMs),
) -> (MessagesFate, Option<UnixMs>) {
    let Some(config) = config else { return (MessagesFate::Stray, None) };
    if matches!(state, MessageState::Held | MessageState::Dead) {
        return (MessagesFate::Person, None);
    }
    let for_ms = i64::try_from(config.key_valid_for_ms).unwrap_or(i64::MAX);
    let until_ms = first_sent_at_ms.unwrap_or(from_ms).min(from_ms).saturating_add(for_ms);
    match config.unknown.word().repeat(true, now_ms < until_ms) {
        Repeat::HoldUnknown => (MessagesFate::HeldUnknown, None),
        Repeat::Ask => (MessagesFate::Asked, Some(until_ms)),
        Repeat::HoldOldKey => (MessagesFate::HeldOld, Some(until_ms)),
        Repeat::Send => (MessagesFate::Sent, Some(until_ms)),
    }
}

/// Whether a sender can be made to resend what was acknowledged with 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ResendWay {
    /// By its dashboard or API, for all of the lost time.
    Possible,
    /// By its dashboard or API, but not for the beginning of the lost time any more.
    Partly,
    /// Its documentation names no way: compare with what its API lists.
    Unknown,
    /// Its kind is not known here.
    NoKind,
}

/// How a kind can resend events received from `from_ms` to `until_ms`, and the hours for which it can be asked.
fn resend_way(
    spec: Option<&Spec>,
    (from_ms, until_ms): (UnixMs, UnixMs),
    now_ms: UnixMs,
) -> (ResendWay, Option<u32>) {
    let Some(spec) = spec else { return (ResendWay::NoKind, None) };
    match spec.resend_h {
        None => (ResendWay::Unknown, None),
        Some(Resend::Unbounded) => (ResendWay::Possible, None),
        Some(Resend::Hours(hours)) => {
            let back_to_ms = now_ms.saturating_sub(i64::from(hours).saturating_mul(HOUR_MS));
            let word = if back_to_ms <= from_ms {
                ResendWay::Possible
            } else if back_to_ms < until_ms {
                ResendWay::Partly
            } else {
                ResendWay::Unknown
            };
            (word, Some(hours))
        }
    }
}

/// Everything that was found.
fn in_words(report: &RestoreReport, now_ms: UnixMs) -> String {
    let at = |ms| format_moment(ms, now_ms);
    let mut lines = vec![what(report).to_owned()];
    if report.state == "same" && !report.is_declared {
        let newest = if report.providers.iter().all(|one| one.newest_at_ms.is_none()) {
            "It has no event.".to_owned()
        } else {
            format!("Its newest event was received at {}.", at(report.newest_event_at_ms))
        };
        lines.push(format!("{newest} If it was restored all the same, say --backed-up-at TIME."));
        return lines.join("\n");
    }
    lines.push(format!(
        "Lost: what was acknowledged after {} and until {}, {} in all. No sender repeats that by itself.",
        at(report.from_ms),
        at(report.to_ms),
        ago(report.to_ms.saturating_sub(report.from_ms))
    ));
    if let Some(ms) = report.ran_until_ms {
        lines.push(format!(
            "What ran last was here until {} at least. If you know that it answered no sender after some moment, say \
             --acknowledged-until TIME.",
            at(ms)
        ));
    }
    lines.push("\nAsk these senders to send again what they sent in that time:".to_owned());
    lines.extend(report.providers.iter().map(|one| sender(one, now_ms)));
    lines.push("\nOpen messages, which may have been sent since the backup:".to_owned());
    if report.messages.is_empty() {
        lines.push("  none".to_owned());
    }
    lines.extend(report.messages.iter().map(|one| risk(one, now_ms)));
    lines.extend(others(report));
    lines.push(format!(
        "\nNothing was changed. To take it over: hooklatch restore-check{} --yes --reason \"…\" (with --pause: no \
         destination is called before you resume it). The last row of the audit log is {}: rows with \
         higher numbers in the log that you keep elsewhere belong to the lost time.",
        report.times_given, report.audit_seq
    ));
    lines.join("\n")
}

/// What was done, and what is left to a person.
fn done_in_words(report: &RestoreReport, taken: &TakenOver, now_ms: UnixMs) -> String {
    let mut lines = vec![
        format!(
            "Taken over. {} open messages count as perhaps sent since {}; {} operations were cancelled, {} tokens revoked, {} \
             sessions ended, {} destinations paused.",
            grouped(taken.messages_n),
            format_moment(taken.from_ms, now_ms),
            taken.operations_n,
            taken.tokens_n,
            taken.sessions_n,
            taken.paused_n
        ),
        "Now: start it, then ask the senders; what they send again has its old keys:".to_owned(),
    ];
    lines.extend(report.providers.iter().map(|one| sender(one, now_ms)));
    lines.push(
        "What was erased, paused, discarded or decided since the backup is to be done again: docs/backup.md"
            .to_owned(),
    );
    lines.join("\n")
}

fn what(report: &RestoreReport) -> &'static str {
    match report.state {
        "backup" => "This database is a backup that `hooklatch backup` made.",
        "older" => "This database is older than what ran last here: a copy of its file was put back.",
        "elsewhere" => {
            "This database was read in from a dump, or is in another server or database than the one that ran last."
        }
        "point_in_time" => "The server of this database was restored to an earlier point in time.",
        "took_over" => "Another server took over, and what was confirmed last may be missing.",
        _ if report.is_of_another_installation => {
            "This database is of another installation than the one that ran here last: all keys differ from those of before. \
             If that was not intended, put the right file back."
        }
        _ if report.is_declared => {
            "Nothing in this database shows that it was restored: the times are the ones that you gave."
        }
        _ => "This is the database that ran last, as far as it can tell.",
    }
}

fn sender(one: &SenderLoss, now_ms: UnixMs) -> String {
    let newest = one
        .newest_at_ms
        .map_or_else(|| "no event yet".to_owned(), |ms| format!("newest {}", format_moment(ms, now_ms)));
    let about = match one.expected_n {
        0 => String::new(),
        n => format!(", about {} missing by the day before", grouped(n)),
    };
    let how = match (one.asking, one.resend_h) {
        (ResendWay::Possible, Some(hours)) => format!("its dashboard or API sends again what is {hours} h old at most"),
        (ResendWay::Possible, None) => "its dashboard or API sends again, no limit is named".to_owned(),
        (ResendWay::Partly, hours) => format!(
            "its dashboard or API sends again, but only what is {} h old at most: compare the rest with what its API lists",
            hours.unwrap_or_default()
        ),
        (ResendWay::Unknown, _) => {
            "its documentation names no way for that time: compare with what its API lists, and ask its support".to_owned()
        }
        (ResendWay::NoKind, _) => "it is not configured any more".to_owned(),
    };
    format!("  {} ({}): {newest}{about}; {how}; {}", one.provider, one.title, one.docs)
}

fn risk(one: &MessageRisk, now_ms: UnixMs) -> String {
    let until = one.key_valid_until_ms.map(|ms| format_moment(ms, now_ms)).unwrap_or_default();
    let fate = match one.fate {
        MessagesFate::Sent => format!("are sent under their keys, which are known there until {until}"),
        MessagesFate::Asked => "the destination is asked whether it happened, first".to_owned(),
        MessagesFate::HeldUnknown => "are held: unknown = \"hold\"".to_owned(),
        MessagesFate::HeldOld => {
            format!("are held, as far as their keys may be forgotten; those of the oldest since {until}")
        }
        MessagesFate::Person => {
            "wait for a person, who may have decided since: look there before you do".to_owned()
        }
        MessagesFate::Stray => "no such destination is configured, so nothing takes them".to_owned(),
    };
    format!("  {}: {} {}: {fate}", one.destination, grouped(one.messages_n), one.state)
}

/// What else is to be known; nothing about what is not there.
fn others(report: &RestoreReport) -> Vec<String> {
    let some = |n: u64, noun: &str| (n > 0).then(|| plural(n, noun));
    let events = some(report.retry_events_n, "event")
        .map(|n| format!("\n{n} to be dispatched again: what follows is judged the same way."));
    let operations = some(report.running_operations_n, "operation").map(|n| {
        format!("{n} that ran: cancelled when it is taken over; look before you give the order again.")
    });
    let tokens = some(report.tokens_n, "token").map(|n| {
        format!(
            "{n} that people made: revoked when it is taken over, unless --keep-tokens; all sessions end."
        )
    });
    let keys = report.keys_missing.iter().map(|key_id| {
        format!(
            "Rows are encrypted with the key `{key_id}`, which [encryption] keys does not have: put it back before you take \
             the database over, or what it encrypted is neither shown nor sent."
        )
    });
    let restores = some(report.restores_n, "time").map(|n| format!("It was restored before: {n}."));
    events.into_iter().chain(operations).chain(tokens).chain(keys).chain(restores).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_operator::load::kinds;

    fn spec(kind: &str) -> Spec {
        let kinds = kinds(None, Vec::new());
        let found = kinds.iter().find(|one| one.kind() == kind).expect("a kind");
        found.spec().expect("a spec").clone()
    }

    #[test]
    fn a_sender_can_be_asked_for_as_long_as_its_kind_says() {
        const NOW_MS: i64 = 2_000 * HOUR_MS;
        // Stripe can be asked for 720 hours.
        for (from_h, until_h, wanted) in [
            (1_990, 1_999, ResendWay::Possible),
            (1_280, 1_999, ResendWay::Possible),
            (1_279, 1_999, ResendWay::Partly),
            (1_000, 1_280, ResendWay::Unknown),
        ] {
            let span = (from_h * HOUR_MS, until_h * HOUR_MS);
            assert_eq!(resend_way(Some(&spec("stripe")), span, NOW_MS), (wanted, Some(720)), "{from_h}");
        }
        assert_eq!(resend_way(Some(&spec("bitpay")), (0, 1), NOW_MS), (ResendWay::Possible, None));
        assert_eq!(resend_way(Some(&spec("adyen")), (0, 1), NOW_MS), (ResendWay::Unknown, None));
        assert_eq!(resend_way(None, (0, 1), NOW_MS), (ResendWay::NoKind, None));
    }
}
