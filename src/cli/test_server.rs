//! Whether a server accepts fake events: only its own configuration allows that, and no option overrides it.

use std::time::Duration;

/// Longest time that the server has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Refuses a server that does not answer `Hooklatch-Test: true` at the address of its provider. The check sends a
/// request without an event.
pub(super) async fn needs_test_server(client: &reqwest::Client, url: &str) -> anyhow::Result<()> {
    let answer = client.head(url).timeout(ANSWER_WITHIN).send().await;
    let answer = answer.map_err(|error| {
        anyhow::Error::from(error).context(format!(
            "no answer from {url}, so nothing was sent: it is not known to be a test server. --url names another one, such as \
             http://127.0.0.1:8080"
        ))
    })?;
    let word = answer.headers().get("hooklatch-test").and_then(|value| value.to_str().ok());
    anyhow::ensure!(
        word == Some("true"),
        "{url} does not say that it is a test server, so nothing was sent: fake events with a real signature would be \
         acted upon like real ones. Send to `hooklatch serve --dev`, or to a server with `test = true` in [server]; for a \
         server that has real events, `hooklatch test-event` makes one that is marked and, by default, calls nobody"
    );
    Ok(())
}
