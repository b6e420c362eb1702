//! What a request costs before any key is known: every part of it that an unauthenticated sender may make longer costs
//! linearly more. The tests compare a request and one four times as long, by the least work of several tries.

use std::time::Duration;

use hooklatch_receive::provider::{ActiveProvider, Kind};
use hooklatch_receive::providers::builtin;

use crate::providers::{NOW_S, dev, request};

/// Four times as much, and what a machine that does other things adds. A cost that grows with the square is sixteen.
const RATIO_MAX: f64 = 9.0;
/// What nothing is compared below: noise. Nanoseconds.
const FLOOR_NS: f64 = 400_000.0;
/// Most times that a pair is measured: the least that was seen counts, noise only adds.
const ROUNDS_N: usize = 12;

type Headers = Vec<(String, String)>;

/// A request with `n` of something that an unauthenticated sender can repeat.
struct Attack {
    kind: &'static str,
    what: &'static str,
    /// How many of them make the shorter request.
    n: usize,
    make: fn(usize) -> (Headers, String),
}

fn header(name: &str, value: String) -> Headers {
    vec![(name.to_owned(), value)]
}

fn form(name: &str, value: &str) -> Headers {
    let content_type = ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned());
    vec![(name.to_owned(), value.to_owned()), content_type]
}

fn signed_by_rfc9421(input: String, digest: String) -> Headers {
    let mut headers = header("signature-input", input);
    headers.extend(header("signature", "sig1=:AAAA:".to_owned()));
    headers.extend(header("content-digest", digest));
    headers
}

fn nested(depth: usize, n: usize) -> String {
    format!("{}{}{}", "[".repeat(depth), vec!["1"; n].join(","), "]".repeat(depth))
}

const HEX: &str = "0123456789abcdef0123456789abcdef01234567";
const BASE64: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAA=";

const ATTACKS: [Attack; 22] = [
    Attack {
        kind: "braintree",
        what: "pairs of a key and a signature",
        n: 2_000,
        make: |n| {
            let pairs = format!("hooklatch_dev%7C{HEX}%26").repeat(n);
            (Headers::new(), format!("bt_signature={pairs}&bt_payload={}", "QUJD".repeat(n * 10)))
        },
    },
    Attack {
        kind: "twilio",
        what: "fields",
        n: 60_000,
        make: |n| (form("x-twilio-signature", BASE64), "a&".repeat(n)),
    },
    Attack {
        kind: "twilio",
        what: "bytes of a field",
        n: 60_000,
        make: |n| (form("x-twilio-signature", BASE64), format!("a={}", "%41".repeat(n))),
    },
    Attack {
        kind: "billplz",
        what: "fields",
        n: 60_000,
        make: |n| (Headers::new(), format!("x_signature={HEX}{}", "&a".repeat(n))),
    },
    Attack {
        kind: "alipay",
        what: "fields",
        n: 60_000,
        make: |n| (Headers::new(), format!("sign={BASE64}{}", "&a=1".repeat(n))),
    },
    Attack {
        kind: "paddle_classic",
        what: "fields",
        n: 60_000,
        make: |n| (Headers::new(), format!("p_signature={BASE64}{}", "&a".repeat(n))),
    },
    Attack {
        kind: "payu",
        what: "fields",
        n: 60_000,
        make: |n| (Headers::new(), format!("hash={HEX}{}", "&a".repeat(n))),
    },
    Attack {
        kind: "payu",
        what: "members",
        n: 20_000,
        make: |n| (Headers::new(), format!("{{\"hash\":\"{HEX}\"{}}}", ",\"a\":1".repeat(n))),
    },
    Attack {
        kind: "nowpayments",
        what: "values far inside",
        n: 20_000,
        make: |n| (header("x-nowpayments-sig", HEX.to_owned()), nested(63, n)),
    },
    Attack {
        kind: "nowpayments",
        what: "members",
        n: 10_000,
        make: |n| {
            let members: Vec<String> = (0..n).map(|n| format!("\"{}\":1", (n * 7_919) % 100_003)).collect();
            (header("x-nowpayments-sig", HEX.to_owned()), format!("{{{}}}", members.join(",")))
        },
    },
    Attack {
        kind: "segment",
        what: "values far inside",
        n: 20_000,
        make: |n| (header("x-signature", HEX.to_owned()), format!("[{}]", nested(60, n))),
    },
    Attack {
        kind: "midtrans",
        what: "values far inside",
        n: 20_000,
        make: |n| {
            let mut headers = header("x-signature", BASE64.to_owned());
            headers.extend(header("x-timestamp", "2026-01-01T00:00:00Z".to_owned()));
            (headers, nested(60, n))
        },
    },
    Attack {
        kind: "rfc9421",
        what: "parameters",
        n: 2_500,
        make: |n| {
            let parameters = (0..n).map(|n| format!(";a{n}")).collect::<Vec<_>>().concat();
            (signed_by_rfc9421(format!("sig1=(\"@method\"){parameters}"), String::new()), String::new())
        },
    },
    Attack {
        kind: "rfc9421",
        what: "components",
        n: 2_500,
        make: |n| {
            let names: Vec<String> = (0..n).map(|n| format!("\"a{n}\"")).collect();
            (signed_by_rfc9421(format!("sig1=({})", names.join(" ")), String::new()), String::new())
        },
    },
    Attack {
        kind: "rfc9421",
        what: "signatures",
        n: 2_500,
        make: |n| {
            let inputs: Vec<String> = (0..n).map(|n| format!("s{n}=()")).collect();
            (signed_by_rfc9421(inputs.join(","), String::new()), String::new())
        },
    },
    Attack {
        kind: "rfc9421",
        what: "digests of a body, and the body",
        n: 1_000,
        make: |n| {
            let input = format!("sig1=(\"@authority\" \"content-digest\");created={NOW_S};keyid=\"dev\"");
            let digests = vec!["sha-256=:AAAA:"; n].join(",");
            (signed_by_rfc9421(input, digests), "x".repeat(n * 100))
        },
    },
    Attack {
        kind: "contentful",
        what: "names of headers, and a header",
        n: 4_000,
        make: |n| {
            let mut headers = header("x-contentful-signature", HEX.to_owned());
            let names = format!("x-contentful-signed-headers,x-contentful-timestamp{}", ",a".repeat(n));
            headers.extend(header("x-contentful-signed-headers", names));
            headers.extend(header("x-contentful-timestamp", format!("{NOW_S}000")));
            headers.extend(header("a", "x".repeat(n)));
            (headers, String::new())
        },
    },
    Attack {
        kind: "stripe",
        what: "signatures",
        n: 2_000,
        make: |n| {
            (
                header("stripe-signature", format!("t={NOW_S}{}", format!(",v1={HEX}").repeat(n))),
                "{}".repeat(n * 20),
            )
        },
    },
    Attack {
        kind: "standard_webhooks",
        what: "signatures",
        n: 2_000,
        make: |n| {
            let mut headers = header("webhook-signature", format!("v1,{BASE64} v1a,{BASE64} ").repeat(n));
            headers.extend(header("webhook-id", "1".to_owned()));
            headers.extend(header("webhook-timestamp", NOW_S.to_string()));
            (headers, "{}".repeat(n * 20))
        },
    },
    Attack {
        kind: "aws_sns",
        what: "members",
        n: 20_000,
        make: |n| {
            let body =
                format!("{{\"SignatureVersion\":\"2\",\"Type\":\"Notification\"{}}}", ",\"a\":1".repeat(n));
            (Headers::new(), body)
        },
    },
    Attack {
        kind: "adyen",
        what: "items",
        n: 3_000,
        make: |n| {
            let item = format!(
                "{{\"NotificationRequestItem\":{{\"additionalData\":{{\"hmacSignature\":\"{BASE64}\"}}}}}}"
            );
            (Headers::new(), format!("{{\"notificationItems\":[{}]}}", vec![item; n].join(",")))
        },
    },
    Attack {
        kind: "tap",
        what: "members",
        n: 20_000,
        make: |n| {
            let body = format!(
                "{{\"id\":\"1\",\"amount\":1,\"currency\":\"USD\",\"status\":\"x\"{}}}",
                ",\"a\":1".repeat(n)
            );
            (header("hashstring", HEX.to_owned()), body)
        },
    },
];

/// What this thread worked so far. Nanoseconds.
fn cpu_ns() -> f64 {
    let worked = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(worked).unwrap().as_secs_f64() * 1e9
}

/// How much work it was: of several tries the least counts, because whatever else the machine does only adds.
fn cost_ns(provider: &ActiveProvider, (headers, body): &(Headers, String)) -> f64 {
    let raw = request(headers, body.as_bytes(), provider.url(), NOW_S);
    let before_ns = cpu_ns();
    let is_authenticated = provider.verify(raw).is_ok();
    let took_ns = cpu_ns() - before_ns;
    assert!(!is_authenticated, "{} believed what was not signed", provider.spec().kind);
    took_ns.max(FLOOR_NS)
}

#[test]
fn four_times_as_much_of_anything_costs_four_times_as_much() {
    let kinds = builtin();
    for Attack { kind, what, n, make } in ATTACKS {
        let provider = dev(kinds.iter().find(|one| one.kind() == kind).unwrap());
        let (short, long) = (make(n), make(4 * n));
        let (mut least, mut least_long) = (f64::MAX, f64::MAX);
        let is_linear = (0..ROUNDS_N).any(|_| {
            least = least.min(cost_ns(&provider, &short));
            least_long = least_long.min(cost_ns(&provider, &long));
            least_long / least <= RATIO_MAX
        });
        assert!(is_linear, "{kind}, {what}: {least} ns for {n}, {least_long} ns for four times as many");
    }
}

#[test]
fn a_mebibyte_of_anything_costs_a_few_times_a_signature_over_it() {
    let kinds = builtin();
    let find = |kind: &str| dev(kinds.iter().find(|one| one.kind() == kind).unwrap());
    // What cannot be avoided: a MAC of all of the body, and reading it as JSON once.
    let body = format!("[{}1]", "1,".repeat(512 * 1024 - 2));
    let plain = find("stripe");
    let mac = header("stripe-signature", format!("t={NOW_S},v1={}", "00".repeat(32)));
    let sent = (mac, body.clone());
    let mac_ns = (0..5).map(|_| cost_ns(&plain, &sent)).fold(f64::MAX, f64::min);
    let before_ns = cpu_ns();
    serde_json::from_str::<serde::de::IgnoredAny>(&body).unwrap();
    let unit_ns = mac_ns + cpu_ns() - before_ns;
    for Attack { kind, what, n, make } in ATTACKS {
        let one = make(n);
        let bytes_n = one.1.len() + one.0.iter().map(|(_, value)| value.len()).sum::<usize>();
        // Headers end at 64 KiB.
        let most = if one.1.len() < 10_000 { 64 * 1024 } else { 1024 * 1024 };
        let (provider, sent) = (find(kind), make(n * most / bytes_n));
        let ns = (0..3).map(|_| cost_ns(&provider, &sent)).fold(f64::MAX, f64::min);
        assert!(ns < 40.0 * unit_ns, "{kind}, {what}: {ns} ns, and a MAC and a look {unit_ns}");
    }
}

#[tokio::test]
async fn an_honest_request_is_answered_beside_the_dearest_ones() {
    const PROVIDERS: &str = "[providers.braintree]\n\
         settings = { public_key = \"my_public_key_01\", private_key = \"my_private_key_0123456789\" }\n\
         [providers.nowpayments]\nsecrets = [\"ipn-secret-key-0123456789\"]\n";
    let database = crate::database::Database::create(crate::database::On::Sqlite).await.unwrap();
    let server = crate::process::Server::start(&database.url, PROVIDERS).await;
    let client = crate::process::client();
    let pairs = format!("my_public_key_01%7C{HEX}%26").repeat(8_000);
    let forms = format!("bt_signature={pairs}&bt_payload={}", "QUJD".repeat(100_000));
    let mut attacks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let (path, body) = if n % 2 == 0 {
            ("/webhooks/braintree", forms.clone())
        } else {
            ("/webhooks/nowpayments", nested(63, 400_000))
        };
        let attack = client.post(server.url(path)).header("x-nowpayments-sig", HEX).body(body);
        attacks.spawn(async move { attack.send().await.map(|response| response.status().as_u16()) });
    }
    let url = server.url("/webhooks/stripe");
    let honest = crate::process::post_stripe(&client, &url, "evt_1");
    let honest = tokio::time::timeout(std::time::Duration::from_secs(5), honest).await;
    assert_eq!(honest.expect("not one after the other").as_deref(), Ok("accepted"));
    while let Some(answered) = attacks.join_next().await {
        let status = answered.unwrap().unwrap();
        assert!([401, 503].contains(&status), "{status}");
    }
}
