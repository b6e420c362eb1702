//! `test-event`: an event that an operator makes, on a server that has real ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::api_client::ApiAnswer;
use super::decide::WhyArgs;
use super::desk::Desk;
use super::output::with_times;
use super::reach::ReachArgs;
use super::shared::{Usage, complain, say, unknown};
use super::sign::body_of_file;
use crate::api::{ProviderView, TestEventOrder, TestEventView};
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct TestEventArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Name of the provider.
    provider: String,
    /// Type of the sample; the kind's first one by default. With --body the type of kinds that carry it in a header.
    event_type: Option<String>,
    /// Take this file's text as the body instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Dispatch it. Its calls go to the real destinations, each with `Hooklatch-Synthetic: true`: a destination that does
    /// not look at this header does what it does for a real event. Without it nothing follows from the event.
    #[arg(long)]
    route: bool,
    #[command(flatten)]
    why: WhyArgs,
}

/// Runs `hooklatch test-event`.
pub(super) fn test_event(
    args: &TestEventArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let body = args.body.as_deref().map(body_of_file).transpose()?.map(String::from_utf8);
    let body = body.transpose().context("--body: the file is no UTF-8 text")?;
    if let (Some(wanted), None) = (&args.event_type, &body) {
        let found: ApiAnswer<ProviderView> = desk.api.get(&["providers", &args.provider], &[])?;
        let samples = found.view.samples;
        if !samples.contains(wanted) {
            let what = format!("kind `{}` has no sample of", found.view.kind);
            return Err(Usage(unknown(&what, wanted, samples.iter().map(String::as_str))).into());
        }
    }
    if args.route {
        complain("--route: real destinations get its calls, each with `Hooklatch-Synthetic: true`");
    }
    let (event_type, reason) = (args.event_type.clone(), args.why.reason.clone());
    let order = TestEventOrder { event_type, body, route: args.route, reason };
    let path = ["providers", &args.provider, "test-events"];
    let made: ApiAnswer<TestEventView> = desk.order(&path, &order, &args.why, None)?;
    if desk.screen.is_json {
        say(with_times(made.raw));
        return Ok(ExitCode::SUCCESS);
    }
    let end = if made.view.route { "it is dispatched" } else { "nothing follows from it" };
    for event_id in &made.view.event_ids {
        say(format!("{event_id}: a test event of {} ({}); {end}", made.view.provider, made.view.event_type));
    }
    complain(format!("`hooklatch events show {} ID` shows what became of it", args.provider));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use crate::provider::filled_sample;
    use crate::types::IncomingEvent;
    use crate::verify::{self, DevKeys, SignAt, Verified};

    /// Kinds whose samples make no test event: nobody but their sender can write what is to be read.
    const NONE_OF: [&str; 1] = ["apple_app_store"];
    /// Further ones of which only who has the secret can write it.
    const SIGNED_ALONE: [&str; 4] = ["adyen", "braintree", "redsys", "wechat_pay"];

    #[test]
    fn every_kind_makes_test_events_of_its_samples_with_ids_that_no_sender_has() {
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("readable");
        let id = "0b5e".to_owned();
        let (mut none_of, mut signed_alone) = (Vec::new(), Vec::new());
        for kind in crate::providers::builtin() {
            let Ok(provider) = kind.dev(&keys) else { continue };
            for (event_type, sample) in kind.sample_list() {
                let body = filled_sample(sample, "123456789012345test", 1_700_000_000);
                let at = SignAt {
                    now_s: 1_700_000_000,
                    url: provider.url().to_owned(),
                    id: id.clone(),
                    event_type: event_type.to_owned(),
                };
                let events = provider.test_events(body.as_bytes(), &at, 100).expect("a request");
                let is_none = |events: &[IncomingEvent]| {
                    events.is_empty() || events.iter().any(|event| event.unreadable.is_some())
                };
                // Where a key of the sender's is needed to sign, nothing is signed.
                let unsigned = verify::unsigned(provider.spec(), body.as_bytes(), &at).request(&at);
                let unsigned = Verified::by_operator(unsigned.expect("a request"), &id);
                let unsigned = provider.read_at_most(&unsigned, 100);
                if is_none(&events) {
                    none_of.push(kind.kind().to_owned());
                } else if is_none(&unsigned) {
                    signed_alone.push(kind.kind().to_owned());
                }
                for event in &events {
                    assert!(event.key.is_synthetic() && event.identity == "operator/1", "{}", kind.kind());
                    assert!(event.replay_key.is_none() && event.window_ms.is_none(), "{}", kind.kind());
                }
            }
        }
        for list in [&mut none_of, &mut signed_alone] {
            list.dedup();
        }
        assert_eq!(
            (none_of, signed_alone),
            (NONE_OF.map(str::to_owned).to_vec(), SIGNED_ALONE.map(str::to_owned).to_vec())
        );
    }
}
