//! What kind of destination a destination is, by the scheme of its url; the keys that kind needs; and the format
//! in which messages reach it. No url of a broker is ever shown: it may hold a password.

use config::ValueKind;

use super::Secret;
use super::field::{Checker, Field, Table};

/// What a destination is, and what that kind needs to know besides how to treat answers.
#[derive(Debug, Clone)]
pub enum Target {
    /// Calls, to the destination's `url`.
    Http,
    /// NATS `JetStream`.
    Nats {
        /// `nats://` or `tls://`.
        url: Secret,
        /// A subject that a stream takes.
        subject: String,
    },
    /// `RabbitMQ`, or whatever speaks AMQP 0.9.1 with publisher confirms.
    Rabbitmq {
        /// `amqp://` or `amqps://`.
        url: Secret,
        /// Empty for the default exchange.
        exchange: String,
        /// With the default exchange, the name of a queue.
        routing_key: String,
    },
    /// Redis Streams.
    Redis {
        /// `redis://` or `rediss://`.
        url: Secret,
        /// The stream's key.
        stream: String,
        /// About how many entries are kept; all when absent.
        stream_len_max: Option<u64>,
    },
    /// Kafka.
    Kafka {
        /// `kafka://` or `kafkas://`, with one address or several.
        url: Secret,
        /// Where to.
        topic: String,
    },
    /// A table in another PostgreSQL database.
    PostgresTable {
        /// `postgres://`.
        url: Secret,
        /// The parts of its name, each an identifier: `["schema", "table"]` or `["table"]`.
        table: Vec<String>,
    },
}

/// In which form a message reaches its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The body as it is; what else is known of it in headers, where the destination has them.
    Raw,
    /// `CloudEvents` 1.0, structured: one JSON document.
    CloudEvents,
}

/// What the schemes stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Nats,
    Rabbitmq,
    Redis,
    Kafka,
    PostgresTable,
}

/// Which keys belong to what alone. Those of HTTP are read by `destination.rs`.
const KEYS: [(Kind, &[&str]); 6] = [
    (
        Kind::Http,
        &[
            "headers",
            "query",
            "retry_after_max_ms",
            "sign_secret",
            "statuses",
            "method",
            "private_hosts",
            "auth",
            "hmac",
            "tls",
            "proxy",
            "http_version",
            "connect_timeout_ms",
            "success",
            "capture",
        ],
    ),
    (Kind::Nats, &["subject"]),
    (Kind::Rabbitmq, &["exchange", "routing_key"]),
    (Kind::Redis, &["stream", "stream_len_max"]),
    (Kind::Kafka, &["topic"]),
    (Kind::PostgresTable, &["table"]),
];

impl Kind {
    fn of(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once("://")?;
        match scheme {
            "http" | "https" => Some(Self::Http),
            "nats" | "tls" => Some(Self::Nats),
            "amqp" | "amqps" => Some(Self::Rabbitmq),
            "redis" | "rediss" => Some(Self::Redis),
            "kafka" | "kafkas" => Some(Self::Kafka),
            "postgres" | "postgresql" => Some(Self::PostgresTable),
            _ => None,
        }
    }

    /// Its cargo feature, and whether this program was built with it.
    fn feature(self) -> (&'static str, bool) {
        match self {
            Self::Http => ("", true),
            Self::Nats => ("nats", cfg!(feature = "nats")),
            Self::Rabbitmq => ("rabbitmq", cfg!(feature = "rabbitmq")),
            Self::Redis => ("redis", cfg!(feature = "redis")),
            Self::Kafka => ("kafka", cfg!(feature = "kafka")),
            Self::PostgresTable => ("postgres-table", cfg!(feature = "postgres-table")),
        }
    }

    fn schemes(self) -> &'static str {
        match self {
            Self::Http => "http:// and https://",
            Self::Nats => "nats:// and tls://",
            Self::Rabbitmq => "amqp:// and amqps://",
            Self::Redis => "redis:// and rediss://",
            Self::Kafka => "kafka:// and kafkas://",
            Self::PostgresTable => "postgres://",
        }
    }
}

/// The keys of all kinds, as far as they are there.
struct Taken {
    subject: Option<(Field, String)>,
    exchange: Option<(Field, String)>,
    routing_key: Option<(Field, String)>,
    stream: Option<(Field, String)>,
    stream_len_max: Option<u64>,
    topic: Option<(Field, String)>,
    table: Option<(Field, String)>,
}

/// Reads `url` and the keys that belong to its scheme. The text is the url of calls; empty for brokers.
pub(super) fn target(checker: &mut Checker<'_>, table: &mut Table) -> Option<(String, Target)> {
    let remedy = "write where messages go: url = \"https://…\"";
    let field = table.needed(checker, "url", remedy);
    let url = field.and_then(|field| Some((text_or_secret(checker, &field)?, field)));
    let kind = url.as_ref().and_then(|(text, _)| Kind::of(text));
    if let Some(kind) = kind {
        misfits(checker, table, kind);
    }
    let taken = Taken {
        subject: table.text(checker, "subject"),
        exchange: table.text(checker, "exchange"),
        routing_key: table.text(checker, "routing_key"),
        stream: table.text(checker, "stream"),
        stream_len_max: table.number(checker, "stream_len_max", 1..=1_000_000_000_000),
        topic: table.text(checker, "topic"),
        table: table.text(checker, "table"),
    };
    let (text, field) = url?;
    let Some(kind) = kind.filter(|kind| *kind != Kind::Http) else {
        return Some((super::destination::call_url(checker, &field, &text)?, Target::Http));
    };
    if let Some((why, remedy)) = url_mistake(kind, &text) {
        checker.problem(&field, why, remedy);
    }
    let (feature, is_built) = kind.feature();
    if !is_built {
        let why = format!(
            "needs the feature `{feature}` for {}, which this program was built without",
            kind.schemes()
        );
        checker.problem(&field, why, format!("build it with `cargo build --features {feature}`"));
    }
    Some((String::new(), taken.target(checker, table, kind, Secret::new(text))?))
}

/// The format; as it is unless it says otherwise.
pub(super) fn format(checker: &mut Checker<'_>, table: &mut Table) -> Format {
    let words = [("raw", Format::Raw), ("cloudevents", Format::CloudEvents)];
    table.word(checker, "format", &words).unwrap_or(Format::Raw)
}

fn text_or_secret(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    match field.value.kind {
        ValueKind::Table(_) => field.clone().secret(checker).map(|secret| secret.reveal().to_owned()),
        _ => field.text(checker),
    }
}

/// Keys that belong to another scheme than the url's.
fn misfits(checker: &mut Checker<'_>, table: &Table, kind: Kind) {
    for (owner, keys) in KEYS.iter().filter(|(owner, _)| *owner != kind) {
        for key in *keys {
            let Some(field) = table.peek(checker, key) else { continue };
            let why = format!("does not fit this destination's url: it is for {}", owner.schemes());
            checker.problem(&field, why, "remove it, or change the url");
        }
    }
    if let Some(field) = table.peek(checker, "unknown").filter(|_| kind != Kind::Http)
        && matches!(&field.value.kind, ValueKind::String(word) if word == "query")
    {
        let why = "is \"query\", and only http:// and https:// can be asked";
        checker.problem(&field, why, "write \"retry\" or \"hold\"");
    }
}

/// What is wrong with a broker's url, without quoting it.
fn url_mistake(kind: Kind, text: &str) -> Option<(String, String)> {
    let remedy = match kind {
        Kind::Kafka => "write kafka://HOST:PORT or kafka://USER:PASSWORD@HOST:PORT,HOST:PORT",
        Kind::PostgresTable => "write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        _ => "write it as SCHEME://USER:PASSWORD@HOST:PORT",
    };
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Some(("has spaces or control characters".to_owned(), remedy.to_owned()));
    }
    let is_right = if kind == Kind::Kafka {
        kafka_hosts(text).is_some()
    } else {
        reqwest::Url::parse(text).is_ok_and(|url| url.host_str().is_some_and(|host| !host.is_empty()))
    };
    (!is_right).then(|| ("is not a url with a host".to_owned(), remedy.to_owned()))
}

/// `HOST:PORT` for each broker, when all are right.
fn kafka_hosts(url: &str) -> Option<Vec<&str>> {
    let (_, rest) = url.split_once("://")?;
    let rest = rest.split(['/', '?']).next()?;
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    let is_right = |host: &str| {
        host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
    };
    hosts.split(',').map(|host| is_right(host).then_some(host)).collect()
}

impl Taken {
    fn target(self, checker: &mut Checker<'_>, table: &Table, kind: Kind, url: Secret) -> Option<Target> {
        let mut needed =
            |value: Option<(Field, String)>, key: &str, is_right: fn(&str) -> bool, rule: &str| {
                let Some((field, text)) = value else {
                    checker.missing(table.path(key), format!("write {key} = \"…\""));
                    return None;
                };
                if !is_right(&text) {
                    checker.problem_shown(&field, format!("is no {}", key.replace('_', " ")), rule);
                    return None;
                }
                Some(text)
            };
        Some(match kind {
            Kind::Http => Target::Http,
            Kind::Nats => {
                let rule = "write words with dots between them, without spaces or wildcards: webhooks.paid";
                Target::Nats { url, subject: needed(self.subject, "subject", is_subject, rule)? }
            }
            Kind::Rabbitmq => {
                let rule = "write at most 255 bytes";
                let exchange = match self.exchange {
                    Some(exchange) => needed(Some(exchange), "exchange", is_short, rule)?,
                    None => String::new(),
                };
                let routing_key = needed(self.routing_key, "routing_key", is_short, rule)?;
                Target::Rabbitmq { url, exchange, routing_key }
            }
            Kind::Redis => {
                let stream = needed(self.stream, "stream", |text| !text.is_empty(), "give it a name")?;
                Target::Redis { url, stream, stream_len_max: self.stream_len_max }
            }
            Kind::Kafka => {
                let rule = "write 1 to 249 letters, digits, `.`, `_` and `-`";
                Target::Kafka { url, topic: needed(self.topic, "topic", is_topic, rule)? }
            }
            Kind::PostgresTable => {
                let rule = "write table or schema.table; letters, digits and `_`, as the database stores it";
                let name = needed(self.table, "table", is_table, rule)?;
                Target::PostgresTable { url, table: name.split('.').map(str::to_owned).collect() }
            }
        })
    }
}

fn is_subject(text: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty()
            && !token.contains(['*', '>'])
            && token.chars().all(|c| !c.is_whitespace() && !c.is_control())
    };
    text.split('.').all(is_token)
}

fn is_short(text: &str) -> bool {
    text.len() <= 255
}

fn is_topic(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&text.len()) && !matches!(text, "." | "..") && text.bytes().all(is_fit)
}

/// One or two identifiers. They are quoted where they are used; this keeps surprises out all the same.
fn is_table(text: &str) -> bool {
    let is_identifier = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split('.').count() <= 2 && text.split('.').all(is_identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_the_rules_of_their_destination() {
        #[track_caller]
        fn check(is_right: fn(&str) -> bool, right: &[&str], wrong: &[&str]) {
            assert!(right.iter().all(|text| is_right(text)), "{right:?}");
            for text in wrong {
                assert!(!is_right(text), "{text}");
            }
        }
        check(is_subject, &["a", "a.b-c.d_1"], &["", "a..b", ".a", "a.", "a.*", "a.>", "a b"]);
        check(is_topic, &["a", "a.b-c_1"], &["", ".", "..", "a b", "é", "a/b"]);
        check(is_table, &["t", "s.t", "_t1"], &["", "a.b.c", "a.", "1t", "t;drop", "t\"", "a b", "é"]);
    }

    #[test]
    fn a_kafka_url_names_every_host_with_its_port() {
        assert_eq!(kafka_hosts("kafka://a:1,b:2").unwrap(), ["a:1", "b:2"]);
        assert_eq!(kafka_hosts("kafka://u:p%40@a:1?mechanism=plain").unwrap(), ["a:1"]);
        for wrong in ["kafka://", "kafka://a", "kafka://a:1,b", "kafka://a:x", "kafka://:1", "kafka://a:1,"] {
            assert_eq!(kafka_hosts(wrong), None, "{wrong}");
        }
    }
}
