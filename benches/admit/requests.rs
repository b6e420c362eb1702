//! What is sent: Stripe events of about 2 KiB, or Slack challenges of the same size, which are answered after
//! verification alone. Cheaper than signing by a kind's spec, so that the sender leaves the machine to the server.

use std::io::Write;

use hmac::{Hmac, KeyInit, Mac};
use hooklatch_bench::{Maker, Mix};
use sha2::Sha256;

/// The secret of every contestant.
pub(crate) const SECRET: &str = "whsec_bench_0123456789abcdef0123456789";

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Event,
    Challenge,
}

struct Requests {
    body: Body,
    mac: Hmac<Sha256>,
    padding: String,
    seed: u64,
    text: Vec<u8>,
}

/// Requests with ids that no other call's have.
pub(crate) fn mix(body: Body) -> Mix {
    let requests = Requests {
        body,
        mac: Hmac::new_from_slice(SECRET.as_bytes()).unwrap(),
        padding: "Lorem ipsum dolor sit amet, 1999 eur. ".repeat(47),
        seed: fastrand::u64(..),
        text: Vec::new(),
    };
    Mix::new(Box::new(requests), 0.0, 0.0)
}

impl Maker for Requests {
    fn make(&mut self, now_s: i64, request: &mut Vec<u8>) -> Result<(), String> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 63 bits, as the ids that `remembered.rs` writes: new ones fall anywhere between them.
        let (id, padding, customer) = (self.seed >> 1, &self.padding, (self.seed >> 7) % 50);
        self.text.clear();
        let (path, signed_before) = match self.body {
            Body::Event => {
                write!(
                    self.text,
                    r#"{{"id":"evt_1P{id:019}","object":"event","api_version":"2025-09-30.clover","created":{now_s},"type":"invoice.paid","livemode":true,"pending_webhooks":1,"data":{{"object":{{"id":"in_{id:019}","object":"invoice","customer":"cus_{customer:04}","amount_paid":1999,"currency":"eur","description":"{padding}"}}}},"request":{{"id":null,"idempotency_key":null}}}}"#
                )
                .unwrap();
                ("stripe", format!("{now_s}."))
            }
            Body::Challenge => {
                write!(
                    self.text,
                    r#"{{"type":"url_verification","challenge":"c{id:019}","token":"{padding}","object":"event","api_version":"2025-09-30.clover","created":{now_s},"livemode":true,"pending":{{"id":"in_{id:019}","object":"invoice","amount_paid":1999,"currency":"eur"}},"request":{{"id":null,"idempotency_key":null}}}}"#
                )
                .unwrap();
                ("slack", format!("v0:{now_s}:"))
            }
        };
        let mut mac = self.mac.clone();
        mac.update(signed_before.as_bytes());
        mac.update(&self.text);
        let signature = hex::encode(mac.finalize().into_bytes());
        write!(
            request,
            "POST /webhooks/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            self.text.len()
        )
        .unwrap();
        match self.body {
            Body::Event => write!(request, "stripe-signature: t={now_s},v1={signature}\r\n\r\n"),
            Body::Challenge => write!(
                request,
                "x-slack-request-timestamp: {now_s}\r\nx-slack-signature: v0={signature}\r\n\r\n"
            ),
        }
        .unwrap();
        request.extend_from_slice(&self.text);
        Ok(())
    }
}
