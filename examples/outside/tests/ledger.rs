//! Signed requests of both senders, and what they led to.

use hooklatch::testing::{Trial, event};
use outside::{Item, LEDGER, charged_back, kinds};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_paid_stands_in_the_ledger_once_however_often_it_is_told() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let trial =
        Trial::start(folder.path(), kinds(), &["receipts", "people"], |app| app.migrate("ledger", LEDGER))
            .await?;
    for (kind, event_type, id) in
        [("stripe", "invoice.paid", "evt_1"), ("adyen", "AUTHORISATION", "1234567890123456")]
    {
        assert_eq!(trial.send(kind, event_type, id).await?, "accepted", "{kind}");
        assert_eq!(trial.send(kind, event_type, id).await?, "duplicate", "{kind}");
        let rows =
            trial.fetch("SELECT payment, amount FROM ledger WHERE sender = $1", &[kind.into()]).await?;
        assert_eq!(rows.len(), 1, "{kind}");
        assert!(rows[0].int("amount")? > 0 && !rows[0].text("payment")?.is_empty(), "{kind}");
    }
    assert_eq!(trial.messages().await?, ["receipts"]);
    trial.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_body_that_the_sender_did_not_sign_so_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let trial =
        Trial::start(folder.path(), kinds(), &["receipts", "people"], |app| app.migrate("ledger", LEDGER))
            .await?;
    let why = trial.send_body("adyen", "no JSON at all", "AUTHORISATION", "1").await.unwrap_err().to_string();
    assert!(!why.is_empty());
    assert!(trial.fetch("SELECT payment FROM ledger", &[]).await?.is_empty());
    trial.stop().await;
    Ok(())
}

#[test]
fn a_chargeback_is_told_to_people_unless_nothing_was_charged_back() -> anyhow::Result<()> {
    let adyen = hooklatch::kind("adyen");
    let effects = charged_back(event::<Item>(&adyen, "CHARGEBACK")?)?;
    assert_eq!(effects.messages()[0].destination, "people");
    Ok(())
}
