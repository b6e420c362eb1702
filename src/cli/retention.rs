//! Puts into words how long ids are remembered, who decided that, and how long senders send again.

use serde_json::{Value, json};

use crate::config::RetentionConfig;
use crate::spec::{Resend, Spec};

/// The retention in words for people; `None` where there is no provider.
pub(super) fn in_words(retention: &RetentionConfig) -> Option<String> {
    let (name, days, why) = retention.deciding()?;
    Some(match retention.ids_days {
        None => format!("ids are remembered for {days} days at most, for provider `{name}`: {why}"),
        Some(set) => format!(
            "ids are remembered for {set} days, as retention.ids_days says; at least {days} are needed, for provider \
             `{name}`: {why}"
        ),
    })
}

/// The retention as JSON for programs, with every provider.
pub(super) fn as_json(retention: &RetentionConfig) -> Value {
    let providers = retention.ids_of.iter().map(|(name, kept)| {
        json!({
            "provider": name.as_str(), "days": retention.ids_days_for(name), "days_min": kept.days_min,
            "why": if retention.ids_days.is_none() { &kept.why } else { &kept.why_min },
        })
    });
    json!({ "ids_days": retention.ids_days, "providers": providers.collect::<Vec<_>>() })
}

/// Says how long a sender sends an event again: by itself, and when it is asked to.
pub(super) fn sent_again(spec: &Spec) -> String {
    format!("{}{}", hours(spec.horizon_h), when_asked(spec))
}

/// Says what is known of asking it to, to be put behind how long it does so by itself.
pub(super) fn when_asked(spec: &Spec) -> String {
    match spec.resend_h {
        None => String::new(),
        Some(Resend::Hours(asked)) => format!("; when asked to, {}", hours(asked)),
        Some(Resend::Unbounded) => "; when asked to, without a limit".to_owned(),
    }
}

/// Writes `resend_h` for programs: null, a number of hours, or `unbounded`.
pub(super) fn resend_json(spec: &Spec) -> Value {
    match spec.resend_h {
        None => Value::Null,
        Some(Resend::Hours(hours)) => json!(hours),
        Some(Resend::Unbounded) => json!("unbounded"),
    }
}

fn hours(hours: u32) -> String {
    if hours > 48 && hours.is_multiple_of(24) { format!("{} days", hours / 24) } else { format!("{hours} h") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::IdsKept;
    use crate::types::Name;

    fn spec(more: &str) -> Spec {
        let text = include_str!("../../providers/stripe/provider.toml");
        let own = ["horizon_h", "resend_h", "retry_span_s"];
        let lines = text.lines().filter(|line| !own.iter().any(|key| line.starts_with(key)));
        let rest: Vec<&str> = lines.collect();
        Spec::parse(&format!("{more}\n{}", rest.join("\n"))).expect("a spec")
    }

    #[test]
    fn how_long_a_sender_sends_again_is_told_in_its_largest_whole_unit() {
        #[track_caller]
        fn check(more: &str, words: &str, json: &Value) {
            let spec = spec(more);
            assert_eq!((sent_again(&spec).as_str(), &resend_json(&spec)), (words, json));
        }
        check("horizon_h = 48", "48 h", &Value::Null);
        check("horizon_h = 72\nresend_h = 720", "3 days; when asked to, 30 days", &json!(720));
        check("horizon_h = 73", "73 h", &Value::Null);
        let without_limit = "1 h; when asked to, without a limit";
        check("horizon_h = 1\nresend_h = \"unbounded\"", without_limit, &json!("unbounded"));
    }

    #[test]
    fn the_provider_that_needs_ids_the_longest_is_named_with_its_reason() {
        let kept = |days, days_min| IdsKept {
            days,
            why: format!("needs {days}"),
            days_min,
            why_min: format!("at least {days_min}"),
        };
        let name = |text: &str| Name::parse(text).expect("a name");
        let ids_of: BTreeMap<Name, IdsKept> =
            [(name("a"), kept(60, 30)), (name("b"), kept(400, 7))].into_iter().collect();
        let mut retention = RetentionConfig { ids_of, ..RetentionConfig::default() };
        let words = in_words(&retention).expect("words");
        assert_eq!(words, "ids are remembered for 400 days at most, for provider `b`: needs 400");
        retention.ids_days = Some(90);
        let words = in_words(&retention).expect("words");
        assert!(words.starts_with("ids are remembered for 90 days, as retention.ids_days says"), "{words}");
        assert!(words.ends_with("at least 30 are needed, for provider `a`: at least 30"), "{words}");
        assert_eq!(as_json(&retention)["providers"][1]["days"], 90);
        assert_eq!(in_words(&RetentionConfig::default()), None);
    }
}
