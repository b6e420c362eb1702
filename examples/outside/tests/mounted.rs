//! The receiver inside a server of our own, in a program that has a log and a recorder of metrics already.

use axum::Router;
use axum::routing::get;
use hooklatch::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_our_own_takes_the_receiver_beside_its_pages_and_stops_in_order() -> anyhow::Result<()> {
    // The first one keeps both.
    metrics::set_global_recorder(metrics::NoopRecorder).expect("the first recorder");
    tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::new())?;

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("hooklatch.toml");
    let database = folder.path().join("ours.db");
    let toml = format!(
        "[database]\nurl = \"sqlite://{}\"\n[providers.adyen]\nsecrets = [\"{}\"]\n\
         [destinations.receipts]\nurl = \"http://127.0.0.1:9/\"\n[destinations.people]\nurl = \"http://127.0.0.1:9/\"\n",
        database.display(),
        "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
    );
    std::fs::write(&file, toml)?;
    let app = App::load(Some(&file), outside::kinds())?.migrate("ledger", outside::LEDGER);
    assert!(app.install_log().is_err(), "the program has one");
    let (webhooks, background) = app.router().await?;

    let pages = Router::new().route("/", get(|| async { "our page" })).fallback_service(webhooks);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, pages).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(async move { server.await });

    let ask = async |request: &str| -> anyhow::Result<String> {
        let mut connection = tokio::net::TcpStream::connect(addr).await?;
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let page = ask("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
    assert!(page.ends_with("our page"), "{page}");
    let unsigned =
        "POST /webhooks/adyen HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let answer = ask(unsigned).await?;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");

    drop(stop);
    server.await??;
    background.stop().await;
    Ok(())
}
