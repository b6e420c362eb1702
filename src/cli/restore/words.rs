//! The report as people read it: what it is, what is missing, what may be sent twice, what to do next.

use super::judged::{MessagesFate, ResendWay};
use super::report::{MessageRisk, RestoreReport, SenderLoss};
use crate::cli::output::{ago, grouped, plural, told};
use crate::store::TakenOver;
use crate::types::UnixMs;

/// Everything that was found.
pub(super) fn in_words(report: &RestoreReport, now_ms: UnixMs) -> String {
    let at = |ms| told(ms, now_ms);
    let mut lines = vec![what(report.standing).to_owned()];
    if report.standing == "same" {
        lines.push(format!(
            "Its newest event came at {}. If it was restored all the same, say --backed-up-at TIME.",
            at(report.newest_event_at_ms)
        ));
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
            "What ran last was here until {} at least. If you know that it answered nobody after some moment, say \
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
        "\nNothing was changed. To take it over: hooklatch restore-check --yes --reason \"…\" (with --pause: no destination \
         is called before you resume it). The last row of the audit log is {}: rows with \
         higher numbers in the log that you keep elsewhere are of the time that is lost.",
        report.audit_seq
    ));
    lines.join("\n")
}

/// What was done, and what is left to a person.
pub(super) fn done_in_words(report: &RestoreReport, taken: &TakenOver, now_ms: UnixMs) -> String {
    let mut lines = vec![
        format!(
            "Taken over. {} open messages count as perhaps sent since {}; {} operations were cancelled, {} tokens revoked, {} \
             sessions ended, {} destinations paused.",
            grouped(taken.messages_n),
            told(taken.from_ms, now_ms),
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

fn what(standing: &str) -> &'static str {
    match standing {
        "backup" => "This database is a backup that `hooklatch backup` made.",
        "older" => "This database is older than what ran last here: a copy of its file was put back.",
        "elsewhere" => {
            "This database was read in from a dump, or is in another server or database than the one that ran last."
        }
        "point_in_time" => "The server of this database was restored to an earlier point in time.",
        "took_over" => "Another server took over, and what was confirmed last may be missing.",
        _ => "This is the database that ran last, as far as it can tell.",
    }
}

fn sender(one: &SenderLoss, now_ms: UnixMs) -> String {
    let newest = one
        .newest_at_ms
        .map_or_else(|| "no event yet".to_owned(), |ms| format!("newest {}", told(ms, now_ms)));
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
    let until = one.key_valid_until_ms.map(|ms| told(ms, now_ms)).unwrap_or_default();
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

fn others(report: &RestoreReport) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |n: u64, what: String| {
        if n > 0 {
            lines.push(what);
        }
    };
    let n = report.retry_events_n;
    add(n, format!("\n{} to be dispatched again: what follows is judged the same way.", plural(n, "event")));
    let n = report.running_operations_n;
    add(
        n,
        format!(
            "{} that ran: cancelled when it is taken over; look before you give the order again.",
            plural(n, "operation")
        ),
    );
    let n = report.tokens_n;
    add(
        n,
        format!(
            "{} that people made: revoked when it is taken over, unless --keep-tokens; all sessions end.",
            plural(n, "token")
        ),
    );
    for key_id in &report.keys_missing {
        add(
            1,
            format!(
                "Rows are encrypted with the key `{key_id}`, which [encryption] keys does not have: put it back before you take \
                 the database over, or what it encrypted is neither shown nor sent."
            ),
        );
    }
    let n = report.restores_n;
    add(n, format!("It was restored before: {}.", plural(n, "time")));
    lines
}
