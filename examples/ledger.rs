//! The library door with a transactional handler: a ledger in the very transaction that latches the event.
//!
//! Either the event, both entries and the message are there, or none of them. Run it with
//!   cargo run --example ledger -- FILE.toml
//! where the file has a `[providers.stripe]` and a `[destinations.receipts]`.

use hooklatch::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let file = std::env::args().nth(1).map(std::path::PathBuf::from);
    let app = App::load(file.as_deref(), vec![stripe()])?.migrate("ledger", LEDGER);
    app.install_log()?;
    app.run().await
}

/// Our own tables, step by step: each is applied once, and never changed after that.
const LEDGER: [(&str, &str); 1] = [(
    "0001_ledger",
    "CREATE TABLE ledger (
        invoice TEXT NOT NULL,
        account TEXT NOT NULL,
        amount BIGINT NOT NULL CHECK (amount <= 1000000),
        PRIMARY KEY (invoice, account)
    )",
)];

/// The built-in kind with a handler of ours.
fn stripe() -> Provider {
    kind("stripe").on_tx("invoice.paid", invoice_paid)
}

#[derive(Deserialize)]
struct Invoice {
    id: String,
    /// Cents.
    amount_paid: i64,
}

/// Two entries that add up to nothing, and a receipt. Whatever fails here undoes all of it, and the event
/// is handled again later.
async fn invoice_paid(tx: &mut Tx, event: Event<Invoice>) -> Handled {
    let invoice = event.payload;
    enter(tx, &invoice.id, "customer", -invoice.amount_paid).await?;
    // The table refuses what is above 1,000,000: the entry before this one goes with it.
    enter(tx, &invoice.id, "revenue", invoice.amount_paid).await?;
    Ok(Effects::new().call("receipts", json!({ "invoice": invoice.id })))
}

async fn enter(tx: &mut Tx, invoice: &str, account: &str, amount: i64) -> anyhow::Result<()> {
    let sql = "INSERT INTO ledger (invoice, account, amount) VALUES ($1, $2, $3)";
    tx.execute(sql, &[invoice.into(), account.into(), amount.into()]).await?;
    Ok(())
}
