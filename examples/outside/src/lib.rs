//! A ledger for what Stripe and Adyen say was paid: built-in kinds, handlers of our own, and our own table.

use hooklatch::prelude::*;

/// Our own tables, step by step: each is applied once, and never changed after that.
pub const LEDGER: [(&str, &str); 1] = [(
    "0001_ledger",
    "CREATE TABLE ledger (
        payment TEXT NOT NULL PRIMARY KEY,
        sender TEXT NOT NULL,
        amount BIGINT NOT NULL
    )",
)];

/// The kinds with what we do about their events.
pub fn kinds() -> Vec<Provider> {
    vec![
        kind("stripe").on_tx("invoice.paid", invoice_paid),
        kind("adyen").on_tx("AUTHORISATION", authorised).on("CHARGEBACK", charged_back),
    ]
}

/// An invoice that a customer of Stripe paid.
#[derive(Deserialize)]
pub struct Invoice {
    id: String,
    /// Cents.
    amount_paid: i64,
}

async fn invoice_paid(tx: &mut Tx, event: Event<Invoice>) -> Handled {
    let invoice = event.payload;
    enter(tx, &invoice.id, "stripe", invoice.amount_paid).await?;
    Ok(Effects::new().call("receipts", json!({ "invoice": invoice.id })))
}

/// An item of an Adyen notification.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    psp_reference: String,
    amount: Amount,
}

/// An amount of Adyen's.
#[derive(Deserialize)]
pub struct Amount {
    /// Cents.
    value: i64,
}

async fn authorised(tx: &mut Tx, event: Event<Item>) -> Handled {
    let item = event.payload;
    enter(tx, &item.psp_reference, "adyen", item.amount.value).await?;
    Ok(Effects::new())
}

/// Plain: no I/O, and a test calls it.
pub fn charged_back(event: Event<Item>) -> Handled {
    let item = event.payload;
    if item.amount.value == 0 {
        return ignore("nothing was charged back");
    }
    Ok(Effects::new().call("people", json!({ "payment": item.psp_reference, "amount": item.amount.value })))
}

async fn enter(tx: &mut Tx, payment: &str, sender: &str, amount: i64) -> anyhow::Result<()> {
    let sql = "INSERT INTO ledger (payment, sender, amount) VALUES ($1, $2, $3)";
    tx.execute(sql, &[payment.into(), sender.into(), amount.into()]).await?;
    Ok(())
}
