//! One mistake each: the key that the error names, and its remedy.

use super::{BILLING, STRIPE, loaded, name, right};

#[test]
fn each_mistake_names_its_key_and_the_remedy() {
    #[track_caller]
    fn check(text: &str, key: &str, part: &str) {
        let problems = loaded(text, &[]).expect_err(text);
        let found = problems.iter().any(|problem| problem.key == key && problem.to_string().contains(part));
        assert!(found, "no problem of `{key}` with `{part}` in {problems:#?}");
        assert_eq!(problems.len(), 1, "{problems:#?}");
        assert!(
            problems[0].source.ends_with("hooklatch.toml") && !problems[0].remedy.is_empty(),
            "{problems:#?}"
        );
    }
    check("[server]\nlistn = \"127.0.0.1:1\"", "server.listn", "did you mean `server.listen`?");
    check("[servre]\nlisten = \"127.0.0.1:1\"", "servre", "did you mean `server`?");
    check("colour = 1", "colour", "is not a key of Hooklatch; known here: server, admin");
    check("server = 5", "server", "is a whole number, wanted a table");
    check("[server]\nlisten = 8080", "server.listen", "is a whole number, wanted a text");
    check("[server]\nlisten = \"localhost\"", "server.listen", "`localhost` is not an address");
    check(
        "[server]\nbody_bytes_max = 1",
        "server.body_bytes_max",
        "`1` is out of bounds; write a whole number from 1024",
    );
    check("[server]\nbody_bytes_max = -5", "server.body_bytes_max", "`-5` is out of bounds");
    check("[server]\nbody_bytes_max = 2000.5", "server.body_bytes_max", "wanted a whole number");
    check("[server]\nbody_bytes_max = \"2000\"", "server.body_bytes_max", "wanted a whole number");
    check("[server]\npublic_url = \"hooks.example.com\"", "server.public_url", "begin it with https://");
    check("[server]\npublic_url = \"ftp://hooks.example.com\"", "server.public_url", "another scheme");
    check("[server]\npublic_url = \"https://a.example/?x=1\"", "server.public_url", "query or fragment");
    check("[server]\ninflight_bytes_max = 1000", "server.inflight_bytes_max", "out of bounds");
    check("[server]\nevents_n_max = 0", "server.events_n_max", "from 1 to 100000");
    check("[server]\nhandler_timeout_ms = 9", "server.handler_timeout_ms", "from 10 to 30000");
    check("[server]\nunreadable_bytes_max = -1", "server.unreadable_bytes_max", "out of bounds");
    check("[server]\nwrite_timeout_ms = 5", "server.write_timeout_ms", "from 100 to 300000");
    check("[server]\nbody_bytes_per_s_min = 1048577", "server.body_bytes_per_s_min", "from 0 to 1048576");
    check("[server]\nconnection_life_ms = 1", "server.connection_life_ms", "from 1000 to 86400000");
    check("[server]\nconnection_requests_n_max = 0", "server.connection_requests_n_max", "from 1 to 1000000");
    check("[server]\npeer_share_percent = 101", "server.peer_share_percent", "from 1 to 100");
    check("[server]\nproxies = [\"proxy\"]", "server.proxies[0]", "neither an address nor a range");
    check("[admin]\napprovals_n = 3", "admin.approvals_n", "from 1 to 2");
    check("[admin]\napproval_h = 169", "admin.approval_h", "from 1 to 168");
    check("[admin]\nhosts = [\"a:80\"]", "admin.hosts[0]", "without a port");
    check("[admin]\npublic_url = \"ops.example.com\"", "admin.public_url", "begin it with https://");
    check("[admin]\npublic_url = \"https://a.example/?x=1\"", "admin.public_url", "query or fragment");
    check("[admin]\npublic_url = \"https://a.example/a b\"", "admin.public_url", "spaces");
    check("[admin]\npublic_url = \"https://a.example/a//b\"", "admin.public_url", "choose a simpler path");
    check("[admin]\npublic_url = \"https://a.example/%41\"", "admin.public_url", "choose a simpler path");
    check("[admin]\npublic_url = \"https://a.example/v1/x\"", "admin.public_url", "such as /hooklatch");
    check("[admin]\nlisten = \"127.0.0.1:8080\"", "admin.listen", "is where the receiver listens");
    check(
        "[admin]\ntokens = [{ name = \"ops\", role = \"boss\", token = \"0123456789abcdef\" }]",
        "admin.tokens[0].role",
        "\"viewer\" or \"reader\" or \"operator\" or \"admin\"",
    );
    check(
        "[admin]\ntokens = [{ name = \"ops\", role = \"viewer\", token = \"short\" }]",
        "admin.tokens[0].token",
        "16 to 1024",
    );
    check("[admin]\ntokens = [{ name = \"ops\", role = \"viewer\" }]", "admin.tokens[0].token", "is missing");
    let scoped = |scope: &str| {
        format!(
            "[admin]\ntokens = [{{ name = \"ops\", role = \"viewer\", token = \"0123456789abcdef\", {scope} }}]"
        )
    };
    check(&scoped("providers = [\"A B\"]"), "admin.tokens[0].providers[0]", "is not a name");
    check(&scoped("destinations = \"billing\""), "admin.tokens[0].destinations", "wanted a list");
    check("[database]\nurl = \"mysql://root@localhost/x\"", "database.url", "scheme `mysql`");
    check("[database]\nurl = \"hooklatch.db\"", "database.url", "write sqlite://PATH");
    for empty in ["", " "] {
        let text = format!("[database]\nurl = \"{empty}\"");
        check(&text, "database.url", "is empty");
        check(&text, "database.url", "write sqlite://PATH");
    }
    check("[database]\nurl = \"sqlite://~/hooklatch.db\"", "database.url", "only a shell replaces `~`");
    check("[database]\nurl = \"sqlite:///\"", "database.url", "names the folder `/`, wanted a file");
    check("[database]\nurl = \"sqlite://data/\"", "database.url", "such as sqlite://data/hooklatch.db");
    check("[database]\nurl = \"sqlite://x.db?mode=memory\"", "database.url", "in memory");
    check("[database]\ncreate = 1", "database.create", "wanted true or false");
    check("[database]\nurl = \"postgres://a,,b/x\"", "database.url", "empty host");
    check("[database]\nurl = \"postgres:///x?host=a,b\"", "database.url", "several HOST:PORT between commas");
    check("[database]\nurl = \"postgres://a/x?target_session_attrs=standby\"", "database.url", "read-write");
    check("[database]\nconnect_wait_ms = 3600001", "database.connect_wait_ms", "0 to 3600000");
    check("[database]\npooling = \"statement\"", "database.pooling", "transaction");
    check("[database]\nreplicated = 1", "database.replicated", "wanted true or false");
    check("[database]\nmigrate = \"yes\"", "database.migrate", "wanted true or false");
    check(
        "[destinations.far]\nurl = \"http://127.0.0.1:9/\"\nxyzzy = 1",
        "destinations.far.xyzzy",
        "config.default.toml lists the",
    );
    check("[outbox]\nlease_ms = 5", "outbox.lease_ms", "from 1000 to 3600000");
    check("[log]\nformat = \"xml\"", "log.format", "\"auto\" or \"human\" or \"json\"");
    check("[log]\nfilter = \"a=b=c\"", "log.filter", "is not a log filter");
    check("[retention]\nids_days = 0", "retention.ids_days", "from 1 to 3650");
    check("[retention]\naudit_days = 4000", "retention.audit_days", "from 1 to 3650");
    check("[retention]\nevery_ms = 86400001", "retention.every_ms", "from 0 to 86400000");
    check(
        "[retention]\nbodies_days = 91",
        "retention.bodies_days",
        "set retention.messages_days to 91 or more",
    );
    check("[retention]\nmessages_days = 20", "retention.messages_days", "a message is kept longest");
    check("[retention]\nbodies_day = 9", "retention.bodies_day", "did you mean `retention.bodies_days`?");
    check(
        "[retention]\nids_days = 29\n[providers.stripe]\nsecrets = [\"s\"]",
        "retention.ids_days",
        "provider `stripe`",
    );
    check(
        "[retention]\nids_days = 90\n[providers.github]\nsecrets = [\"s\"]",
        "retention.ids_days",
        "provider `github` needs, 400 days: its kind `github` signs no time whose age is bounded",
    );
}

#[test]
fn mistakes_of_senders_and_destinations_name_their_place() {
    #[track_caller]
    fn check(text: &str, key: &str, part: &str) {
        let problems = loaded(text, &[]).expect_err(text);
        let found = problems.iter().any(|problem| problem.key == key && problem.to_string().contains(part));
        assert!(found && problems.len() == 1, "no problem of `{key}` with `{part}` in {problems:#?}");
    }
    let stripe = |more: &str| format!("{STRIPE}{more}");
    let route = |route: &str| format!("{STRIPE}routes = [{route}]\n{BILLING}");
    let billing = |more: &str| format!("{BILLING}{more}");
    check("[providers.Stripe]\nkind = \"stripe\"\nsecrets = [\"s\"]", "providers.Stripe", "is not a name");
    check(
        "[providers.stripee]\nsecrets = [\"s\"]",
        "providers.stripee.kind",
        "did you mean kind = \"stripe\"?",
    );
    check(
        "[providers.acme]\nsecrets = [\"s\"]",
        "providers.acme.kind",
        "set `kind` to one of stripe, github",
    );
    check("[providers.stripe]", "providers.stripe.secrets", "is missing");
    check("[providers.stripe]\nsecrets = []", "providers.stripe.secrets", "is an empty list");
    check(
        "[providers.stripe]\nsecrets = [\"a\", \" \"]",
        "providers.stripe.secrets[1]",
        "is an empty secret",
    );
    check("[providers.stripe]\nsecrets = [5]", "providers.stripe.secrets[0]", "is not a secret");
    check(
        "[providers.stripe]\nsecrets = [{ env = \"NOT_SET\" }]",
        "providers.stripe.secrets[0]",
        "`NOT_SET` is not set",
    );
    check(
        "[providers.stripe]\nsecrets = [{ file = \"nowhere\" }]",
        "providers.stripe.secrets[0]",
        "cannot be read",
    );
    check(
        "[providers.stripe]\nsecrets = [{ path = \"x\" }]",
        "providers.stripe.secrets[0].path",
        "known here: env, file, credential",
    );
    check(
        "[providers.stripe]\nsecrets = [{ env = \"A\", file = \"b\" }]",
        "providers.stripe.secrets[0]",
        "names no place, or two",
    );
    check(
        &stripe("on_handler_error = \"drop\""),
        "providers.stripe.on_handler_error",
        "\"keep\" or \"reject\"",
    );
    check(
        &stripe("on_conflict = \"drop\""),
        "providers.stripe.on_conflict",
        "`drop` is not one of the words for this key; write \"keep\" or \"dispatch\"",
    );
    check(&stripe("on_conflict = true"), "providers.stripe.on_conflict", "wanted a text");
    check(&stripe("types = \"orders\""), "providers.stripe.types", "wanted a list");
    check(
        &stripe("types = []"),
        "providers.stripe.types",
        "name the types that the sender is configured to send",
    );
    check(&stripe("types = [\"a\", 5]"), "providers.stripe.types[1]", "wanted a text");
    check(&stripe("types = [\"a*b\"]"), "providers.stripe.types[0]", "`a*b` is not a type pattern");
    check(&stripe("types = [\"\"]"), "providers.stripe.types[0]", "is not a type pattern");
    check(&stripe("types = [\"a\\u0000\"]"), "providers.stripe.types[0]", "control character");
    let many = (0..257).map(|n| format!("\"a{n}\"")).collect::<Vec<_>>().join(", ");
    check(&stripe(&format!("types = [{many}]")), "providers.stripe.types", "the limit is 256");
    check(&stripe("tolerance_s = 0"), "providers.stripe.tolerance_s", "from 1 to 86400");
    check(&stripe("tolerance_s = 86401"), "providers.stripe.tolerance_s", "`86401` is out of bounds");
    check(&stripe("tolerance_s = \"5m\""), "providers.stripe.tolerance_s", "wanted a whole number");
    check(&stripe("max_age_s = 60"), "providers.stripe.max_age_s", "300 s; write tolerance_s");
    let other = |kind: &str, more: &str| format!("[providers.{kind}]\nsecrets = [\"s\"]\n{more}");
    check(&other("github", "tolerance_s = 60"), "providers.github.tolerance_s", "no signed time");
    check(&other("github", "max_age_s = 60"), "providers.github.max_age_s", "no signed time");
    check(&other("dlocal", "tolerance_s = 60"), "providers.dlocal.tolerance_s", "write max_age_s");
    check(&other("dlocal", "max_age_s = 59"), "providers.dlocal.max_age_s", "from 60 to 34560000");
    check(&stripe("retry = { first_ms = 0 }"), "providers.stripe.retry.first_ms", "from 1 to");
    check(
        &stripe("retry = { first_ms = 10, max_ms = 5 }"),
        "providers.stripe.retry.max_ms",
        "below the first delay",
    );
    check(
        &route("{ on = [\"*\"], to = \"biling\" }"),
        "providers.stripe.routes[0].to",
        "did you mean \"billing\"?",
    );
    check(
        &route("{ on = [\"*\"], to = \"nowhere\" }"),
        "providers.stripe.routes[0].to",
        "add a table [destinations.nowhere]",
    );
    check(
        &route("{ on = [\"a.*.b\"], to = \"billing\" }"),
        "providers.stripe.routes[0].on[0]",
        "is not a type pattern",
    );
    check(&route("{ on = [], to = \"billing\" }"), "providers.stripe.routes[0].on", "is an empty list");
    check(&route("{ to = \"billing\" }"), "providers.stripe.routes[0].on", "is missing");
    let more =
        |key: &str, text: &str| route(&format!("{{ on = [\"*\"], to = \"billing\", {key} = '{text}' }}"));
    let (lane, when) = ("providers.stripe.routes[0].lane", "providers.stripe.routes[0].when");
    check(&more("lane", "customer"), lane, "`customer` at character 1: `customer` is not known");
    check(&more("lane", "payload.a == 1"), lane, "expected the end; `==` compares");
    check(&more("lane", "headers[\"x-a\"]"), lane, "reads the header `x-a`, which no signature covers");
    check(
        &more("when", "payload.amount = 1"),
        when,
        "at character 16: expected `and`, `or` or the end; `==` compares",
    );
    check(&more("when", "amount > 1"), when, "write payload.NAME, envelope.NAME or headers[\"NAME\"]");
    check(&more("when", "headers[\"user-agent\"] == \"x\""), when, "reads the header `user-agent`");
    check(&more("when", &"(".repeat(1_001)), when, "is longer than 1000 bytes");
    check(
        &format!("{STRIPE}payload = \"/data\"\n{BILLING}"),
        "providers.stripe.payload",
        "`/data` is neither the kind's own nor the whole; write payload = \"\"",
    );
    check("[destinations.billing]", "destinations.billing.url", "is missing");
    check("[destinations.billing]\nurl = \"billing/x\"", "destinations.billing.url", "is not a URL");
    check("[destinations.billing]\nurl = \"ftp://billing\"", "destinations.billing.url", "another scheme");
    check(
        "[destinations.billing]\nurl = \"https://me:pw@billing\"",
        "destinations.billing.url",
        "has a user or password",
    );
    check(
        &billing("timeout_ms = 30000"),
        "destinations.billing.timeout_ms",
        "is not below outbox.lease_ms (30000)",
    );
    check(
        &billing("[outbox]\nlease_ms = 5000"),
        "destinations.billing.timeout_ms",
        "is not below outbox.lease_ms (5000)",
    );
    check("[server]\nlisten = \"127.0.0.1:8081\"", "server.listen", "write admin.listen");
    check(
        "[server]\nlisten = \"127.0.0.1:81\"\n[admin]\nlisten = \"127.0.0.1:81\"",
        "admin.listen",
        "is where the receiver listens",
    );
    check(&billing("unknown = \"query\""), "destinations.billing.query", "say how to ask");
    check(
        &billing("unknown = \"maybe\""),
        "destinations.billing.unknown",
        "\"retry\" or \"query\" or \"hold\"",
    );
    check(
        &billing("query = { url = \"https://x/{{ message.id }}\", pointer = \"/a\" }"),
        "destinations.billing.query",
        "set unknown = \"query\"",
    );
    check(
        &billing("unknown = \"query\"\nquery = { url = \"https://x/y\", pointer = \"/a\" }"),
        "destinations.billing.query.url",
        "asks the same",
    );
    check(
        &billing(
            "unknown = \"query\"\nquery = { url = \"https://x/{{ message.id }}{{ id }}\", pointer = \"/a\" }",
        ),
        "destinations.billing.query.url",
        "cannot be filled in: undefined value",
    );
    for (url, part) in [
        ("https://x/{event_id}", "has `{event_id}`, which is not filled in; write `{{ event.id }}`"),
        ("https://x/{{ message.id", "is not a template: syntax error"),
        ("https://x/{{ payload.id }}", "cannot be filled in: undefined value"),
        ("https://{{ message.id }}/x", "leaves the host to a template"),
        ("x/{{ message.id }}", "is not a URL"),
    ] {
        let query = format!("unknown = \"query\"\nquery = {{ url = \"{url}\", pointer = \"/a\" }}");
        check(&billing(&query), "destinations.billing.query.url", part);
    }
    let asked = |keys: &str| {
        billing(&format!(
            "unknown = \"query\"\nquery = {{ url = \"https://x/{{{{ message.id }}}}\", pointer = \"/a\", {keys} }}"
        ))
    };
    for after_ms in ["999", "86400001", "-1", "\"1m\""] {
        let key = "destinations.billing.query.after_ms";
        check(&asked(&format!("after_ms = {after_ms}")), key, "1000 to 86400000");
    }
    check(&asked("after_ms = 79200000"), "destinations.billing.query", "below key_valid_for_ms");
    check(
        &asked("equals = \"a\", pending = [\"b\", \"a\"]"),
        "destinations.billing.query.pending[1]",
        "means one thing",
    );
    check(
        &asked("pending = \"b\", absent = [\"c\", \"b\"]"),
        "destinations.billing.query.absent[1]",
        "is what `pending` says, too",
    );
    check(
        &billing("statuses = { 504 = \"maybe\" }"),
        "destinations.billing.statuses.504",
        "done, retry, dead or unknown",
    );
    check(
        &billing("unknown = \"query\"\nquery = { url = \"https://x/{{ message.id }}\", pointer = \"a.b\" }"),
        "destinations.billing.query.pointer",
        "\"/a/b\"",
    );
    check(&billing("headers = { Host = \"x\" }"), "destinations.billing.headers.Host", "sets itself");
    check(
        &billing("headers = { authorization = \"a\\nb\" }"),
        "destinations.billing.headers.authorization",
        "cannot carry",
    );
}

#[test]
fn each_mistake_about_calls_names_its_key_and_the_remedy() {
    #[track_caller]
    fn check(more: &str, key: &str, part: &str) {
        let problems = loaded(&format!("{BILLING}{more}"), &[]).expect_err(more);
        let key = format!("destinations.billing.{key}");
        assert!(problems.len() == 1 && problems[0].key == key, "no problem of `{key}` in {problems:#?}");
        assert!(problems[0].to_string().contains(part), "no `{part}` in {problems:#?}");
        assert!(!format!("{problems:?}").contains("canary"), "no secret is shown");
    }
    check("method = \"post\"", "method", "write POST");
    check("method = \"{{ a\"", "method", "is not a template: syntax error");
    check("body = \"{{ payload.id | nope }}\"", "body", "unknown filter");
    check("body = \"{{ payload.id | upper(1) }}\"", "body", "write it without arguments");
    check("body = \"{{ payload.ids | map('nope') }}\"", "body", "templates have no filter `nope`");
    check("method = \"{{ payload.ids | select('gt') }}\"", "method", "`other` is missing");
    check(
        "body = \"{body}\"",
        "body",
        "is not JSON, and nothing is filled in; write values as {{ payload.id }}",
    );
    check("content_type = \"text/plain\"", "content_type", "without `body`");
    check("private_hosts = [\"10.0.0.0/99\"]", "private_hosts[0]", "address range");
    check("auth = { secret = \"canary\" }", "auth", "scheme = \"basic\"");
    check("auth = { scheme = \"basic\", secret = \"canary\" }", "auth.user", "user and a password");
    check("auth = { scheme = \"basic\", user = \"a:b\", secret = \"canary\" }", "auth.user", "colon");
    check(
        "auth = { scheme = \"bearer\", user = \"a\", secret = \"canary\" }",
        "auth.user",
        "with \"bearer\"",
    );
    check("auth = { scheme = \"bearer\" }", "auth.secret", "is missing");
    check("hmac = { secret = \"canary\" }", "hmac.header", "is missing");
    check("hmac = { header = \"Host\", secret = \"canary\" }", "hmac.header", "sets itself");
    for (signed, key, part) in [
        (
            "{timestamp}.{body}",
            "hmac.signed",
            "has `{timestamp}`, which is not filled in; write `{{ timestamp }}`",
        ),
        ("{{ timestamp }}.{body}", "hmac.signed", "has `{body}`, which is not filled in; write `{{ body }}`"),
        ("{{ url }}{{ body }}", "hmac.signed", "cannot be filled in: undefined value"),
        ("{{ idempotency_key }}", "hmac.signed", "{{ body }} must be there"),
        ("{{ body | upper }}{{ body }}", "hmac.signed", "cannot be filled in: undefined value"),
        ("{{ body", "hmac.signed", "is not a template: syntax error"),
        ("{{ timestamp }}{{ body }}", "hmac.timestamp_header", "given the signed time"),
    ] {
        check(&format!("hmac = {{ header = \"x\", secret = \"canary\", signed = \"{signed}\" }}"), key, part);
    }
    check("tls = { ca = \"canary\" }", "tls.ca", "is not in PEM form");
    check("tls = { key = \"-----BEGIN PRIVATE KEY-----\" }", "tls.certificate", "is missing");
    check("proxy = \"socks5://me:canary@proxy\"", "proxy", "is not the URL of a proxy");
    check("http_version = \"3\"", "http_version", "\"auto\" or \"1.1\" or \"2\"");
    check("connect_timeout_ms = 5", "connect_timeout_ms", "from 10 to 60000");
    check("success = { pointer = \"ok\" }", "success.pointer", "write it as \"/ok\"");
    check(
        "success = { pointer = \"/ok\", otherwise = \"done\" }",
        "success.otherwise",
        "\"retry\" or \"dead\"",
    );
    check(
        "heartbeat = true\nunknown = \"query\"\nquery = { url = \"https://x/{{ message.id }}\", pointer = \"/a\" }",
        "heartbeat",
        "could be asked about",
    );
    check("capture = { bytes_max = 0 }", "capture.bytes_max", "from 1 to 65536");
}

#[test]
fn a_template_of_an_address_is_an_address_around_its_values() {
    #[track_caller]
    fn check(url: &str, more: &str, part: &str) {
        let problems =
            loaded(&format!("[destinations.billing]\nurl = \"{url}\"\n{more}"), &[]).expect_err(url);
        assert!(problems.len() == 1 && problems[0].key == "destinations.billing.url", "{problems:#?}");
        assert!(problems[0].to_string().contains(part), "no `{part}` in {problems:#?}");
    }
    check("{{ payload.url }}", "", "is not a URL");
    check("{{ payload.scheme }}://far/", "", "scheme");
    check("https://far/{{ payload.id", "", "is not a template");
    let proxied = "proxy = \"http://proxy:3128\"";
    check("https://{{ payload.host }}/x", proxied, "the proxy would look it up unseen");
    let right = format!("[destinations.billing]\nurl = \"https://far/{{{{ payload.id }}}}\"\n{proxied}");
    loaded(&right, &[]).expect("the host is fixed");
    loaded(&format!("{BILLING}heartbeat = true\ntimeout_ms = 600000"), &[]).expect("longer than the lease");
}

#[test]
fn how_many_calls_at_once_follows_from_who_decides_about_them() {
    for (keys, want) in [
        ("", (64, true)),
        ("adaptive = true", (64, true)),
        ("adaptive = false", (8, false)),
        ("unknown = \"hold\"", (8, true)),
        ("unknown = \"hold\"\nconcurrency_n = 30", (30, true)),
        ("adaptive = false\nconcurrency_n = 3", (3, false)),
    ] {
        let config = right(&format!("[destinations.far]\nurl = \"http://far\"\n{keys}"), &[]);
        let far = &config.destinations[&name("far")];
        assert_eq!((far.concurrency_n, far.adaptive), want, "{keys}");
    }
}

#[test]
fn single_braces_in_an_address_are_refused_because_nothing_would_be_put_there() {
    for url in ["https://billing.test/{id}", "https://billing.test/{{ payload.id }}/{event_id}"] {
        let problems = loaded(&format!("[destinations.billing]\nurl = \"{url}\"\n"), &[]).expect_err(url);
        let report = problems.iter().map(ToString::to_string).collect::<String>();
        assert!(problems.len() == 1 && problems[0].key == "destinations.billing.url", "{problems:#?}");
        assert!(report.contains("}`, which is not filled in; write values as {{ payload.id }}"), "{report}");
    }
    let literal = "[destinations.billing]\nurl = \"https://billing.test/\"\ncontent_type = \"text/plain\"\nbody = \"{body}\"\n";
    assert!(loaded(literal, &[]).is_ok(), "text may hold braces");
}
