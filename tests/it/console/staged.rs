//! A server with something to look at: a sender whose events are routed to a destination of the test's, and people of
//! every role.

use std::time::Duration;

use super::Browser;
use crate::database::Database;
use crate::process::{Server, client, now_s, stripe_header, until};
use crate::stub::Stub;

pub const VIEWER: &str = "viewer-token-0123456789";
pub const READER: &str = "reader-token-0123456789";
pub const OPERATOR: &str = "operator-token-0123456789";

/// A server that routes everything of `stripe` to a stub, which holds what is not known and keeps what was answered.
pub struct Stage {
    pub server: Server,
    pub stub: Stub,
}

impl Stage {
    pub async fn set(database: &Database) -> Self {
        let stub = Stub::start().await;
        let token = |token: &str| {
            let role = token.split('-').next().unwrap();
            format!("[[admin.tokens]]\nname = \"{role}\"\nrole = \"{role}\"\ntoken = \"{token}\"\n")
        };
        let more = format!(
            "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
             [destinations.billing]\nurl = \"{}\"\nunknown = \"hold\"\ncapture = {{ bytes_max = 16384 }}\n\
             retry = {{ first_ms = 20, max_ms = 50 }}\n{}",
            stub.url(),
            [VIEWER, READER, OPERATOR].map(token).concat()
        );
        Self { server: Server::start(&database.url, &more).await, stub }
    }

    pub async fn person(&self, token: &str) -> Browser {
        Browser::signed_in(self.server.admin, token).await
    }

    /// The body of an event with these members in its object.
    pub fn body(id: &str, more: &str) -> String {
        format!(r#"{{"id":"{id}","type":"invoice.paid","data":{{"object":{{{more}}}}}}}"#)
    }

    /// Sends an event with these members in its object; the outcome.
    pub async fn send(&self, id: &str, more: &str) -> String {
        self.send_bytes(Self::body(id, more).into_bytes()).await
    }

    /// Sends these bytes, signed; the outcome.
    pub async fn send_bytes(&self, body: Vec<u8>) -> String {
        let request = client().post(self.server.url("/webhooks/stripe"));
        let request = request.header("stripe-signature", stripe_header(&body, now_s()));
        let answer = request.body(body).send().await.unwrap();
        let outcome = answer.headers().get("hooklatch-outcome").expect("an outcome");
        outcome.to_str().unwrap().to_owned()
    }

    /// Waits until the stub was called so often, and nothing is open any more.
    pub async fn until_done(&self, calls_n: u32) {
        let viewer = crate::contract::Operator::new(self.server.admin, VIEWER);
        until(
            "all calls are made",
            Duration::from_secs(30),
            || self.server.log(),
            async || {
                let ready = ["ready", "leased"].map(|state| format!("/messages?state={state}"));
                let mut open_n = 0;
                for path in &ready {
                    open_n += viewer.get(path).await.body["items"].as_array().unwrap().len();
                }
                self.stub.requests_n() >= calls_n && open_n == 0
            },
        )
        .await;
    }
}
