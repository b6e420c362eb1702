//! Unusual requests: the same response on both databases, and within limits.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hooklatch_receive::providers::builtin;
use hooklatch_receive::vectors::{Vector, judge};
use hooklatch_verify::jws_hs256;
use serde_json::{Value, json};

use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, post_stripe, stripe, stripe_header};
use crate::providers::vectors_of;
use hooklatch_receive::provider::Kind;

on_both!(an_odd_id_has_the_same_answer_on_both_databases);

async fn an_odd_id_has_the_same_answer_on_both_databases(database: &Database) {
    let server = Server::start(&database.url, "").await;
    let of = |id: &str| format!(r#"{{"id":"{id}","type":"x"}}"#).into_bytes();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (of("evt_1"), "accepted"),
        (of("EVT_1"), "accepted"),
        (of("evt_1 "), "accepted"),
        (of("\u{e9}vt"), "accepted"),
        (of("e\u{301}vt"), "accepted"),
        (of(&"x".repeat(255)), "accepted"),
        (of(&"x".repeat(256)), "accepted"),
        (of(&"x".repeat(8_192)), "accepted"),
        (of(&"\u{e9}".repeat(128)), "accepted"),
        (of("a\\u0000b"), "accepted"),
        (of("a\\nb"), "accepted"),
        (of("a\\ud800b"), "accepted"),
        (of(""), "accepted"),
        (b"{\"id\":\"a\xff\",\"type\":\"x\"}".to_vec(), "unreadable"),
        (br#"{"id":"a","id":"b","type":"x"}"#.to_vec(), "unreadable"),
        (br#"{"id":9007199254740992,"type":"x"}"#.to_vec(), "accepted"),
        (br#"{"id":9007199254740993,"type":"x"}"#.to_vec(), "accepted"),
        (br#"{"id":1e3,"type":"x"}"#.to_vec(), "accepted"),
        (br#"{"id":"big","type":"x","n":1e400}"#.to_vec(), "accepted"),
    ];
    for (body, want) in &cases {
        let what = String::from_utf8_lossy(body).chars().take(60).collect::<String>();
        for want in [want, "duplicate"] {
            let request = client().post(server.url("/webhooks/stripe"));
            let request = request.header("stripe-signature", stripe_header(body, now_s())).body(body.clone());
            let answer = request.send().await.unwrap();
            let outcome =
                answer.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap().to_owned());
            assert_eq!((answer.status().as_u16(), outcome.as_deref()), (200, Some(want)), "{what}");
        }
    }
    let sql = "SELECT COUNT(DISTINCT event_id) FROM processed_webhook_events";
    assert_eq!(database.count(sql).await, i64::try_from(cases.len()).unwrap());
}

/// The texts of `value`, at any depth: what an attacker could take for a key.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    found.insert(value.to_string());
    match value {
        Value::String(text) => _ = found.insert(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| texts(one, found)),
        Value::Object(map) => map.values().for_each(|one| texts(one, found)),
        _ => {}
    }
}

/// `vector` with `token` where it had its own, and everything that is known to the public as a key.
fn forged(vector: &Value, own: &str, token: &str) -> Value {
    let mut forged = vector.clone();
    let headers = vector["headers"].to_string().replace(own, token);
    forged["headers"] = serde_json::from_str(&headers).unwrap();
    forged["expect"] = json!("invalid");
    forged
}

#[test]
fn no_token_that_chooses_its_own_algorithm_or_key_verifies() {
    let kinds = builtin();
    let mut forgeries = Vec::new();
    let mut kinds_n = 0;
    for kind in &kinds {
        let vectors: Vec<Value> = serde_json::from_str(&vectors_of(kind.kind())).unwrap();
        let id = format!("{}-own-ok", kind.kind());
        let Some(vector) = vectors.iter().find(|vector| vector["id"] == id.as_str()) else { continue };
        let headers = vector["headers"].as_object().unwrap();
        let values = headers.values().filter_map(Value::as_str).flat_map(|value| value.split([' ', '=']));
        let Some(own) =
            values.into_iter().find(|word| word.starts_with("eyJ") && word.matches('.').count() == 2)
        else {
            continue;
        };
        kinds_n += 1;
        let genuine = judge(&json!([forged(vector, own, own)]).to_string(), &kinds).unwrap();
        assert!(genuine[0].is_wrong, "{}: the genuine token is believed, so this can tell", kind.kind());
        let mut parts = own.split('.');
        let [head, claims, signature] = [(); 3].map(|()| parts.next().unwrap().to_owned());
        let decoded = |part: &str| String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        let (head, claims_text) = (decoded(&head), decoded(&claims));
        let good: Value = serde_json::from_str(&head).unwrap();
        let own_alg = good["alg"].as_str().unwrap().to_owned();
        let mut heads = Vec::new();
        for alg in ["none", "None", "NONE", "", "HS256", "hs256", "HS512", "RS256", "RS512", "ES256", "PS256"]
        {
            if alg != own_alg {
                heads.push(head.replace(&format!("\"{own_alg}\""), &format!("\"{alg}\"")));
            }
        }
        for more in [
            json!({ "crit": ["x"] }),
            json!({ "kid": "../../../dev/null" }),
            json!({ "jku": "https://evil.test/keys", "kid": "evil" }),
            json!({ "jwk": { "kty": "oct", "k": "AA" }, "kid": "evil" }),
        ] {
            let mut head = good.clone();
            head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            heads.push(head.to_string());
        }
        for head in heads {
            let head = BASE64_URL_SAFE_NO_PAD.encode(head);
            for signature in [signature.as_str(), "", "AA"] {
                forgeries.push(forged(vector, own, &format!("{head}.{claims}.{signature}")));
            }
        }
        // A well-known text, as the secret of an HMAC.
        let mut known = BTreeSet::from([String::new()]);
        if own_alg != "HS256" {
            texts(&vector["settings"], &mut known);
            for key in known.clone() {
                known.insert(key.clone() + "\n");
            }
        }
        for key in known {
            let ours = jws_hs256(key.as_bytes(), &claims_text);
            forgeries.push(forged(vector, own, &ours));
        }
    }
    assert!(kinds_n >= 3, "{kinds_n} kinds carry a token");
    let mut text = String::new();
    write!(text, "{}", Value::Array(forgeries.clone())).unwrap();
    let judged = judge(&text, &kinds).unwrap();
    assert_eq!(judged.len(), forgeries.len());
    let authenticated: Vec<_> = judged.iter().filter(|one| one.is_wrong).collect();
    assert!(authenticated.is_empty(), "{authenticated:#?}");
    assert!(serde_json::from_str::<Vec<Vector>>(&text).is_ok());
}

#[tokio::test]
async fn a_compressed_body_is_verified_and_stored_unchanged() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, "").await;
    // `{"id":"evt_1","type":"x"}` by gzip; a bomb looks no different.
    let zipped =
        hex::decode("1f8b0800000000000203ab56ca4c51b2524a2d2b893754d2512aa92c4805722b946a01ed3ac71319000000");
    let zipped = zipped.unwrap();
    let signed = stripe_header(&zipped, now_s());
    for (signature, status, outcome) in [("t=1,v1=00", 401, None), (signed.as_str(), 200, Some("unreadable"))]
    {
        let request = client().post(server.url("/webhooks/stripe")).header("content-encoding", "gzip");
        let request = request.header("stripe-signature", signature).body(zipped.clone());
        let answer = request.send().await.unwrap();
        let found = answer.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap());
        assert_eq!((answer.status().as_u16(), found), (status, outcome));
    }
    let sql = "SELECT LENGTH(body) FROM webhook_payloads";
    assert_eq!(database.count(sql).await, i64::try_from(zipped.len()).unwrap(), "never inflated");
}

#[tokio::test]
async fn half_a_header_is_not_waited_for_longer_than_configured() {
    /// Less than without any configuration.
    const LASTED_MAX: Duration = Duration::from_secs(9);
    let database = Database::create(On::Sqlite).await.unwrap();
    // `header_timeout_ms` is 2,000 there.
    let server = Server::start(&database.url, "").await;
    let receiver = server.receiver;
    let mut lingering = Vec::new();
    for said in ["", "POST /webh", "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nx-slow: "] {
        lingering.push(std::thread::spawn(move || {
            let mut stream = TcpStream::connect(receiver).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            stream.write_all(said.as_bytes()).unwrap();
            let since = Instant::now();
            let mut chunk = [0; 256];
            // A byte now and then is no reason to wait longer.
            while since.elapsed() < LASTED_MAX {
                match stream.read(&mut chunk) {
                    Ok(0) => return since.elapsed(),
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        if !said.is_empty() && stream.write_all(b"a").is_err() {
                            return since.elapsed();
                        }
                    }
                    Err(_) => return since.elapsed(),
                }
            }
            since.elapsed()
        }));
    }
    assert_eq!(post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), "accepted");
    for one in lingering {
        let lasted = tokio::task::spawn_blocking(|| one.join().unwrap()).await.unwrap();
        assert!(lasted < LASTED_MAX, "it lasted {lasted:?}");
    }
}

#[tokio::test]
async fn repeated_replays_of_one_request_do_not_flood_the_log() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("filter = \"warn\"", "filter = \"info\"")).unwrap();
    server.spawn().await;
    let (body, header) = stripe("evt_1", now_s());
    let (client, url, started) = (client(), server.url("/webhooks/stripe"), Instant::now());
    for n in 0..400 {
        let request = client.post(&url).header("stripe-signature", &header).body(body.clone());
        let answer = request.send().await.unwrap();
        let want = if n == 0 { "accepted" } else { "duplicate" };
        assert_eq!(answer.headers()["hooklatch-outcome"], want);
    }
    let lines_n = server.log().lines().filter(|line| line.contains("received a request")).count();
    let seconds_n = usize::try_from(started.elapsed().as_secs()).unwrap() + 2;
    assert!(lines_n <= 1 + 10 * seconds_n && lines_n < 400, "{lines_n} lines in {seconds_n} s");
    // What is new has its line all the same.
    assert_eq!(post_stripe(&client, &url, "evt_2").await.as_deref(), Ok("accepted"));
    let log = server.log();
    assert!(log.lines().any(|line| line.contains("evt_2") && line.contains("accepted")), "{log}");
}
