//! Two pages for operators: the configuration that is in force, and the audit log.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Browser;
use crate::contract::Operator;
use crate::database::{Database, On, on_sqlite};
use crate::process::{Server, until};

on_sqlite!(the_audit_log_is_read_page_by_page);

const ADMIN: &str = "admin-token-0123456789";
const OPERATOR: &str = "operator-token-0123456789";
const SCOPED: &str = "scoped-token-0123456789";
const MORE: &str = "[[admin.tokens]]\nname = \"ann\"\nrole = \"admin\"\ntoken = \"admin-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"operator-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"sam\"\nrole = \"operator\"\ntoken = \"scoped-token-0123456789\"\n\
    providers = [\"stripe\"]\ndestinations = [\"billing\"]\n\
    [retention]\nids_days = 500\nbodies_days = 30\n\
    [destinations.billing]\nurl = \"https://u.internal/s3cr3t-path?s3cr3t-key\"\nheaders = { x-key = \"s3cr3t-header\" }\n\
    [destinations.\"mail-two\"]\nurl = \"https://b.internal/\"\n";

#[tokio::test]
async fn settings_show_values_and_their_sources_and_no_secret() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, MORE).await;
    let ann = Operator::new(server.admin, ADMIN);
    let all = ann.get("/settings?limit=500").await;
    let find = |key: &str| -> Value {
        all.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["key"] == key)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(find("retention.ids_days")["value"], "500");
    assert_eq!(
        (&find("retention.ids_days")["layer"], &find("retention.ids_days")["is_default"]),
        (&json!("file"), &json!(false))
    );
    assert_eq!(
        (&find("outbox.poll_ms")["layer"], &find("outbox.poll_ms")["is_default"]),
        (&json!("default"), &json!(true))
    );
    assert_eq!(find("destinations.billing.url")["value"], "\"https://u.internal/…\"");
    assert_eq!(find("destinations.billing.headers.x-key")["is_secret"], true);
    assert_eq!(find("admin.tokens[1].role")["value"], "\"operator\"");
    let text = all.body.to_string();
    for secret in ["s3cr3t", "whsec_", "0123456789"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    // The same, a few at a time.
    let (mut keys, mut next) = (Vec::new(), Some(String::new()));
    while let Some(cursor) = next {
        let query = if cursor.is_empty() { String::new() } else { format!("&cursor={cursor}") };
        let page = ann.get(&format!("/settings?limit=7{query}")).await.body;
        keys.extend(page["items"].as_array().unwrap().iter().map(|one| one["key"].clone()));
        next = page["next"].as_str().map(str::to_owned);
    }
    let wanted: Vec<Value> =
        all.body["items"].as_array().unwrap().iter().map(|one| one["key"].clone()).collect();
    assert_eq!(keys, wanted);
    let sam = Operator::new(server.admin, SCOPED).get("/settings?limit=500").await.body;
    let is_own = |one: &Value| {
        let key = one["key"].as_str().unwrap();
        key.starts_with("providers.stripe.") || key.starts_with("destinations.billing.")
    };
    assert!(
        sam["items"].as_array().unwrap().len() >= 3 && sam["items"].as_array().unwrap().iter().all(is_own),
        "{sam}"
    );
    let ops = Operator::new(server.admin, OPERATOR).get("/settings?limit=500").await.body.to_string();
    assert!(!ops.contains("admin.tokens") && ops.contains("admin.listen"), "{ops}");
}

#[tokio::test]
async fn the_page_of_settings_is_filtered_by_section_key_and_difference() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, MORE).await;
    let ops = Browser::signed_in(server.admin, OPERATOR).await;
    let all = ops.get("/settings").await.text;
    assert!(all.len() < 60_000, "{}", all.len());
    for part in
        ["ids_days", "hooklatch.toml", ">set<", "poll_ms", "destinations.mail-two", "https://u.internal/…"]
    {
        assert!(all.contains(part), "no {part} in {all}");
    }
    for secret in ["s3cr3t", "whsec_", "0123456789"] {
        assert!(!all.contains(secret), "{secret}");
    }
    let differs = ops.get("/settings?differs=yes").await.text;
    assert!(
        differs.contains("ids_days") && !differs.contains("poll_ms") && differs.contains("checked"),
        "{differs}"
    );
    let section = ops.get("/settings?section=retention").await.text;
    assert!(section.contains("ids_days") && !section.contains("poll_ms"), "{section}");
    let key = ops.get("/settings?key=poll").await.text;
    assert!(key.contains("poll_ms") && !key.contains("ids_days"), "{key}");
    let none = ops.get("/settings?key=%3Cscript%3E").await.text;
    assert!(none.contains("No value is found") && !none.contains("<script>"), "{none}");
    let sam = Browser::signed_in(server.admin, SCOPED).await.get("/settings").await.text;
    assert!(
        sam.contains("providers.stripe") && !sam.contains("ids_days") && !sam.contains("mail-two"),
        "{sam}"
    );
}

async fn the_audit_log_is_read_page_by_page(database: &Database) {
    let mut server = Server::prepare(&database.url, MORE);
    server.spawn().await;
    let ops = Browser::signed_in(server.admin, OPERATOR).await;
    let admin = Operator::new(server.admin, ADMIN);
    for n in 0..60 {
        let act = if n % 2 == 0 { "pause" } else { "resume" };
        let order = json!({ "act": act, "reason": format!("<b>reason {n}</b>") });
        assert_eq!(admin.post("/destinations/billing/decide", &format!("k{n}"), &order).await.status, 200);
    }
    let page = ops.get("/audit").await.text;
    assert!(page.contains("&lt;b&gt;reason 59&lt;/b&gt;") && !page.contains("<b>reason"), "{page}");
    assert!(!page.contains("reason 5&"), "{page}");
    let next = page.split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let older = ops.get(&next.replace("&amp;", "&")).await.text;
    for part in ["reason 5&", "sign_in", "from 127.0.0.1", "Back to the newest"] {
        assert!(older.contains(part), "no {part} in {older}");
    }
    // A line for each row, although `log.filter` is "warn", with the digest of its detail and not the detail.
    let rows = admin.get("/audit?limit=500").await.body;
    let rows = rows["items"].as_array().unwrap();
    assert!(rows.len() >= 61, "{}", rows.len());
    let line_of = |log: &str, seq: i64| {
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut lines = lines.filter(|line| line["target"] == "hooklatch::audit");
        lines.find(|line| line["audit_seq"] == seq)
    };
    for row in rows {
        let (seq, detail) = (row["audit_seq"].as_i64().unwrap(), row["detail"].as_str().unwrap());
        until(
            "a log line for the row",
            Duration::from_secs(20),
            || server.log(),
            async || line_of(&server.log(), seq).is_some(),
        )
        .await;
        let line = line_of(&server.log(), seq).unwrap();
        assert_eq!(line["detail_sha256"], hex::encode(Sha256::digest(detail)), "{line}");
        assert!(!line.to_string().contains("reason"), "{line}");
    }
}
