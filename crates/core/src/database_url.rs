//! PostgreSQL's URLs with several hosts, as libpq writes them: `postgres://user:password@one:5432,two:5432/database`.
//! An error about a wrong one never quotes it: it may hold a password.

/// Most hosts of one URL.
pub(crate) const HOSTS_N_MAX: usize = 16;

/// Returns a URL for each host of `url`, in its order, without `target_session_attrs`: we look for the host that takes
/// writes whatever it says. The error says what is wrong.
pub fn by_host(url: &str) -> Result<Vec<String>, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("is not a PostgreSQL URL")?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(at, path)| (at, Some(path)));
    let (user, hosts) =
        authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    let hosts: Vec<&str> = hosts.split(',').collect();
    if hosts.len() > HOSTS_N_MAX {
        return Err("names more than 16 hosts");
    }
    if hosts.len() > 1 && hosts.iter().any(|host| host.is_empty() || host.starts_with(':')) {
        return Err("has an empty host in its list of hosts");
    }
    let query = query.map(session_query).transpose()?.unwrap_or_default();
    let one = |host: &&str| {
        let user = user.map(|user| format!("{user}@")).unwrap_or_default();
        let path = path.map(|path| format!("/{path}")).unwrap_or_default();
        format!("{scheme}://{user}{host}{path}{query}")
    };
    Ok(hosts.iter().map(one).collect())
}

/// The query without what we do ourselves, with its question mark.
fn session_query(query: &str) -> Result<String, &'static str> {
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "target_session_attrs" if matches!(value, "read-write" | "primary") => {}
            "target_session_attrs" => {
                return Err("has a target_session_attrs other than read-write, and we write");
            }
            "host" | "hostaddr" | "port" if value.contains(',') || value.contains("%2C") => {
                return Err("lists hosts in its query");
            }
            _ => kept.push(pair),
        }
    }
    Ok(if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) })
}

#[cfg(test)]
mod tests {
    use super::by_host;

    #[test]
    fn each_host_of_a_url_becomes_a_url_of_its_own() {
        let cases: [(&str, &[&str]); 6] = [
            ("postgres://db/x", &["postgres://db/x"]),
            ("postgres://db", &["postgres://db"]),
            ("postgres:///x?host=/run/pg", &["postgres:///x?host=/run/pg"]),
            (
                "postgresql://me:p,w@a:1,b:2/x?sslmode=disable&target_session_attrs=read-write",
                &["postgresql://me:p,w@a:1/x?sslmode=disable", "postgresql://me:p,w@b:2/x?sslmode=disable"],
            ),
            ("postgres://[::1]:5432,b/x", &["postgres://[::1]:5432/x", "postgres://b/x"]),
            ("postgres://a,b?target_session_attrs=primary", &["postgres://a", "postgres://b"]),
        ];
        for (url, expected) in cases {
            assert_eq!(by_host(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn a_list_of_hosts_that_cannot_be_followed_is_refused() {
        let many = format!("postgres://{}/x", ["h"; 17].join(","));
        let cases = [
            ("postgres", "not a PostgreSQL URL"),
            ("postgres://a,,b/x", "empty host"),
            ("postgres://a,:5432/x", "empty host"),
            ("postgres://a,b/x?target_session_attrs=standby", "target_session_attrs"),
            ("postgres://a/x?target_session_attrs=any", "target_session_attrs"),
            ("postgres:///x?host=a,b", "in its query"),
            (many.as_str(), "more than 16"),
        ];
        for (url, expected) in cases {
            let why = by_host(url).unwrap_err();
            assert!(why.contains(expected), "{url}: {why}");
        }
    }
}
