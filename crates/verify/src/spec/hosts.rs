//! The hosts that may be requested: names that are written out, with one variable part at most. A pattern never
//! matches a host that another party can have.

/// Domains below which anybody can have a host: no `*` may stand there.
const SHARED: [&str; 24] = [
    "amazonaws.com",
    "amazonaws.com.cn",
    "appspot.com",
    "azurewebsites.net",
    "cloudfront.net",
    "cloudfunctions.net",
    "digitaloceanspaces.com",
    "firebaseapp.com",
    "fly.dev",
    "github.io",
    "gitlab.io",
    "googleapis.com",
    "herokuapp.com",
    "netlify.app",
    "ngrok.io",
    "onrender.com",
    "pages.dev",
    "r2.dev",
    "run.app",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "windows.net",
    "workers.dev",
];
/// Second labels that are a part of the top-level domain below two letters, as in `co.uk`.
const SECOND: [&str; 8] = ["ac", "co", "com", "edu", "gov", "ne", "net", "org"];
/// Placeholder for a region of AWS.
const REGION: &str = "{region}";

/// The reason why a pattern is wrong; `None` when it is good. It is exact, or `*` is its first label, or `{region}` one
/// of them.
pub(super) fn mistake_of(pattern: &str) -> Option<&'static str> {
    let labels: Vec<&str> = pattern.split('.').collect();
    let is_plain = |label: &&str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let (first, rest) = labels.split_first()?;
    let places_n = labels.iter().filter(|label| ["*", REGION].contains(label)).count();
    if places_n > 1 || !labels.iter().all(|label| ["*", REGION].contains(label) || is_plain(label)) {
        return Some("write the sender's hosts in lower case, each with one `*` or `{region}` at most");
    }
    if rest.contains(&"*") {
        return Some("a `*` is the first label: what stands behind it has to be the sender's own domain");
    }
    let own_n = match rest {
        [.., second, top] if top.len() == 2 && SECOND.contains(second) => 3,
        _ => 2,
    };
    if *first == "*" && rest.len() < own_n {
        return Some("a `*` needs the sender's own domain behind it, not a top-level one");
    }
    let own = rest.join(".");
    let is_below = |shared: &str| own == shared || own.ends_with(&format!(".{shared}"));
    if *first == "*" && SHARED.iter().any(|shared| is_below(shared)) {
        return Some(
            "anybody can have a host there: write it out, or `{region}` where a region of AWS stands",
        );
    }
    if pattern.ends_with(REGION) || labels.len() < 2 && pattern != "localhost" {
        return Some("it is no host of a sender");
    }
    None
}

/// True when `host` is one of `patterns`.
pub fn is_host_of(host: &str, patterns: &[String]) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    patterns.iter().any(|pattern| {
        let wanted: Vec<&str> = pattern.split('.').collect();
        let fits = |(wanted, label): (&&str, &&str)| match *wanted {
            "*" => !label.is_empty(),
            REGION => is_region(label),
            wanted => wanted.eq_ignore_ascii_case(label),
        };
        wanted.len() == labels.len() && wanted.iter().zip(&labels).all(fits)
    })
}

/// True when a certificate's `name` is one of `patterns`, where `{region}` is the region of the host that had it.
pub(super) fn is_name_of(name: &str, host: &str, patterns: &[String]) -> bool {
    let region = host.split('.').find(|label| is_region(label));
    patterns.iter().any(|pattern| match region {
        Some(region) => pattern.replace(REGION, region).eq_ignore_ascii_case(name),
        None => pattern.eq_ignore_ascii_case(name),
    })
}

/// True when this is a region of AWS, such as `us-gov-west-1`: two letters, words, one digit.
fn is_region(label: &str) -> bool {
    let parts: Vec<&str> = label.split('-').collect();
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let is_digit = |part: &str| part.len() == 1 && part.bytes().all(|b| b.is_ascii_digit());
    // `s3-us-west-2` is a host of S3 and no region.
    let [area, words @ .., last] = parts.as_slice() else { return false };
    area.len() == 2 && is_word(area) && !words.is_empty() && words.iter().all(is_word) && is_digit(last)
}

/// True when `path` is `pattern`, in which `{hex}` is lower-case hexadecimal and `{name}` letters, digits, `-` and `_`.
pub(super) fn is_path_of(path: &str, pattern: &str) -> bool {
    let is_hex: fn(u8) -> bool = |b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let is_name: fn(u8) -> bool = |b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    for (place, is_of) in [("{hex}", is_hex), ("{name}", is_name)] {
        if let Some((before, after)) = pattern.split_once(place) {
            let between = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            return between.is_some_and(|text| !text.is_empty() && text.bytes().all(is_of));
        }
    }
    path == pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_the_senders_own_hosts_and_no_bucket_of_anybody() {
        let patterns = ["*.paypal.com", "sns.{region}.amazonaws.com", "paypal.com"].map(str::to_owned);
        for host in
            ["api.paypal.com", "paypal.com", "SNS.us-east-1.amazonaws.com", "sns.us-gov-west-1.amazonaws.com"]
        {
            assert!(is_host_of(host, &patterns), "{host}");
        }
        for host in [
            "a.b.paypal.com",
            "evilpaypal.com",
            "paypal.com.evil.test",
            ".paypal.com",
            "",
            "x.sns.y.amazonaws.com",
            "sns.s3-us-west-2.amazonaws.com",
            "sns.s3-website-us-west-2.amazonaws.com",
            "sns.s3.amazonaws.com",
            "sns.elb.amazonaws.com",
            "sns.us-east-10.amazonaws.com",
            "sns.us-1.amazonaws.com",
            "sns..amazonaws.com",
        ] {
            assert!(!is_host_of(host, &patterns), "{host}");
        }
    }

    #[test]
    fn a_pattern_that_could_fit_a_strangers_host_is_refused() {
        for bad in [
            "*",
            "*.com",
            "*.co.uk",
            "*.*.paypal.com",
            "a_b.com",
            "sns.*.amazonaws.com",
            "*.amazonaws.com",
            "*.s3.amazonaws.com",
            "*.github.io",
            "api.*.com",
            "a.*",
            "",
            "com",
            "A.com",
            "a..com",
            "a.{region}",
            "*.{region}.amazonaws.com",
        ] {
            assert!(mistake_of(bad).is_some(), "{bad}");
        }
        for good in
            ["*.paypal.com", "api.circle.com", "sns.{region}.amazonaws.com.cn", "*.acme.co.uk", "localhost"]
        {
            assert_eq!(mistake_of(good), None, "{good}");
        }
    }

    #[test]
    fn names_are_of_the_hosts_region_and_paths_are_whole() {
        let names = ["sns.amazonaws.com", "sns-signing.{region}.amazonaws.com"].map(str::to_owned);
        let is_name = |name: &str| is_name_of(name, "sns.af-south-1.amazonaws.com", &names);
        assert!(is_name("sns.amazonaws.com") && is_name("sns-signing.af-south-1.amazonaws.com"));
        assert!(!is_name("sns-signing.eu-west-1.amazonaws.com") && !is_name("evil.example"));
        assert!(!is_name_of("sns-signing.{region}.amazonaws.com", "sns.eu-west-1.amazonaws.com", &names));
        let pattern = "/SimpleNotificationService-{hex}.pem";
        assert!(is_path_of("/SimpleNotificationService-0a9f.pem", pattern));
        for bad in [
            "/SimpleNotificationService-.pem",
            "/a/SimpleNotificationService-0a.pem",
            "/x.pem",
            "/",
            "/SimpleNotificationService-0a/../x.pem",
            "/SimpleNotificationService-0A.pem",
        ] {
            assert!(!is_path_of(bad, pattern), "{bad}");
        }
    }
}
