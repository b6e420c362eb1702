//! RabbitMQ: copies arrive, with the same `message_id`; what no queue takes comes back.

use std::time::Duration;

use hooklatch_core::config::UnknownPolicy;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use tokio::sync::Mutex;

use super::{Bench, Received, TestDestination, server, shows_no_password, unique};
use crate::database::{Database, On};
use crate::process::{Server, client, post_stripe, until};

struct Rabbitmq {
    channel: Channel,
    exchange: String,
    queue: String,
    /// What was taken out of the queue so far.
    taken: Mutex<Vec<Received>>,
    _connection: Connection,
}

async fn rabbitmq() -> Option<(Rabbitmq, u16)> {
    let url = server("HOOKLATCH_TEST_RABBITMQ_URL")?;
    let connection = Connection::connect(url.as_str(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let (exchange, queue, taken) = (String::new(), unique("hooklatch"), Mutex::default());
    let rabbitmq = Rabbitmq { channel, exchange, queue, taken, _connection: connection };
    Some((rabbitmq, url.port().unwrap_or(5_672)))
}

impl Rabbitmq {
    async fn declare(&self) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(self.queue.as_str().into(), options, FieldTable::default()).await.unwrap();
    }
}

impl TestDestination for Rabbitmq {
    const DROPS_COPIES: bool = false;
    const NOTICES: bool = true;

    fn keys(&self, port: u16) -> String {
        let (exchange, queue) = (&self.exchange, &self.queue);
        let url = format!("amqp://guest:guest@127.0.0.1:{port}");
        format!("url = \"{url}\"\nexchange = \"{exchange}\"\nrouting_key = \"{queue}\"")
    }

    async fn received(&self) -> Vec<Received> {
        let mut taken = self.taken.lock().await;
        let options = BasicGetOptions { no_ack: true };
        while let Some(got) = self.channel.basic_get(self.queue.as_str().into(), options).await.unwrap() {
            let properties = &got.delivery.properties;
            assert_eq!(*properties.delivery_mode(), Some(2), "persistent");
            assert_eq!(properties.kind().as_ref().unwrap().as_str(), "invoice.paid");
            let headers = properties.headers().clone().unwrap();
            let metadata = headers.inner().iter().map(|(name, value)| {
                let value = String::from_utf8(value.as_long_string().unwrap().as_bytes().to_vec()).unwrap();
                (name.as_str().to_owned(), value)
            });
            let key = properties.message_id().as_ref().unwrap().as_str().to_owned();
            let metadata = metadata.collect();
            taken.push(Received { key, body: got.delivery.data.clone(), metadata });
        }
        taken.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_has_one_message_id_and_a_lost_answer_is_unknown() {
    let Some((rabbitmq, port)) = rabbitmq().await else { return };
    rabbitmq.declare().await;
    Bench::new(&rabbitmq, port, false).await.shows().await;
}

#[cfg(feature = "otel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_says_of_which_span_it_is() {
    let Some((rabbitmq, port)) = rabbitmq().await else { return };
    rabbitmq.declare().await;
    super::shows_its_span(&rabbitmq, port).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_queue_takes_is_tried_again_whatever_the_destination_knows() {
    let Some((rabbitmq, port)) = rabbitmq().await else { return };
    let bench = Bench::new(&rabbitmq, port, false).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    bench.outbox(UnknownPolicy::Hold).run_due().await.unwrap();
    let error = bench.error("evt_1").await;
    assert_eq!(bench.fixture.state("evt_1").await, "ready", "{error}");
    assert!(error.contains("returned with 312 NO_ROUTE: no queue is bound for this routing key"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_not_there_is_tried_again() {
    let Some((mut rabbitmq, port)) = rabbitmq().await else { return };
    rabbitmq.exchange = unique("nowhere");
    let bench = Bench::new(&rabbitmq, port, false).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    bench.outbox(UnknownPolicy::Hold).run_due().await.unwrap();
    let error = bench.error("evt_1").await;
    assert_eq!(bench.fixture.state("evt_1").await, "ready", "{error}");
    assert!(error.starts_with("not sent") && error.contains("no exchange"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_deleted_under_a_connection_leaves_nothing_to_decide() {
    let Some((mut rabbitmq, port)) = rabbitmq().await else { return };
    rabbitmq.declare().await;
    rabbitmq.exchange = unique("gone");
    let (exchange, queue) = (rabbitmq.exchange.clone(), rabbitmq.queue.clone());
    let declare = async || {
        let channel = &rabbitmq.channel;
        let (kind, options) = (ExchangeKind::Fanout, ExchangeDeclareOptions::default());
        let declared =
            channel.exchange_declare(exchange.as_str().into(), kind, options, FieldTable::default());
        declared.await.unwrap();
        let (from, to, options) =
            (exchange.as_str().into(), queue.as_str().into(), QueueBindOptions::default());
        channel.queue_bind(to, from, "".into(), options, FieldTable::default()).await.unwrap();
    };
    declare().await;
    let bench = Bench::new(&rabbitmq, port, false).await;
    let outbox = bench.outbox(UnknownPolicy::Hold);
    bench.fixture.message("evt_1", &["billing"]).await;
    outbox.run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "done", "{}", bench.error("evt_1").await);
    let delete = rabbitmq.channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default());
    delete.await.unwrap();
    bench.fixture.message("evt_2", &["billing"]).await;
    outbox.run_due().await.unwrap();
    let error = bench.error("evt_2").await;
    assert_eq!(bench.fixture.state("evt_2").await, "ready", "surely not sent: {error}");
    assert!(error.contains("no exchange"), "{error}");
    declare().await;
    bench.fixture.step_to_the_end(&outbox).await;
    assert_eq!(bench.fixture.state("evt_2").await, "done", "{}", bench.error("evt_2").await);
    assert_eq!(bench.keys().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_back_is_not_logged() {
    let Some((rabbitmq, port)) = rabbitmq().await else { return };
    let database = Database::create(On::Sqlite).await.unwrap();
    let more = format!(
        "routes = [{{ on = [\"*\"], to = \"far\" }}]\n\
         [destinations.far]\nurl = \"amqp://guest:guest@127.0.0.1:{port}/%2f\"\nrouting_key = \"{}\"",
        rabbitmq.queue
    );
    let server = Server::start(&database.url, &more).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    let logged = async || server.log().contains("returned with 312 NO_ROUTE");
    until("it is logged as refused", Duration::from_secs(30), || server.log(), logged).await;
    assert!(!server.log().contains("BasicReturnMessage"), "{}", server.log());
}

#[tokio::test]
async fn a_password_in_a_url_is_never_shown() {
    shows_no_password("url = \"amqp://user:canary@127.0.0.1:1\"\nrouting_key = \"a\"").await;
}
