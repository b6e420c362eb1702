//! Who types: the login of this process and its machine, for the audit log of whatever server is asked. A token alone does
//! not tell people apart who borrow the one of the server's configuration.

use crate::config::Environment;
use crate::types::TypedBy;

/// Variable that names the person where a login is shared.
const ACTOR: &str = "HOOKLATCH_ACTOR";

/// Who types in this process.
pub(super) fn of_process(env: &Environment) -> Option<TypedBy> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let uid = rustix::process::getuid().as_raw();
    typist(env, uid, &read("/etc/passwd"), &read("/proc/sys/kernel/hostname"))
}

/// `LOGIN@HOST`. Root is who became root, where `sudo` says so.
fn typist(env: &Environment, uid: u32, passwd: &str, host: &str) -> Option<TypedBy> {
    let of_uid = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    };
    let sudo = || env.get("SUDO_USER").filter(|_| uid == 0).map(str::to_owned);
    let login = env.get(ACTOR).filter(|name| !name.is_empty()).map(str::to_owned);
    let login = login.or_else(sudo).or_else(|| passwd.lines().find_map(of_uid));
    let login = login.unwrap_or_else(|| format!("uid-{uid}"));
    let host =
        [host.trim(), env.get("HOSTNAME").unwrap_or_default()].into_iter().find(|host| !host.is_empty());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let plain = |text: &str, chars_max: usize| -> String {
        text.chars().take(chars_max).map(|c| if is_plain(c) { c } else { '-' }).collect()
    };
    let host = host.map_or_else(String::new, |host| format!("@{}", plain(host, 50)));
    TypedBy::parse(&format!("{}{host}", plain(&login, 49)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_found_by_its_number_unless_somebody_says_who_it_is() {
        #[track_caller]
        fn check(pairs: &[(&str, &str)], uid: u32, host: &str, want: &str) {
            let env = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbroken\n";
            assert_eq!(typist(&env, uid, passwd, host).expect("a text").as_str(), want);
        }
        check(&[], 1000, "web-1\n", "ann@web-1");
        check(&[("USER", "eve"), ("SUDO_USER", "eve")], 1000, "web-1", "ann@web-1");
        check(&[("SUDO_USER", "ann")], 0, "web-1", "ann@web-1");
        check(&[], 0, "web-1", "root@web-1");
        check(&[("HOOKLATCH_ACTOR", "bob b\u{f6}hm")], 0, "web-1", "bob-b-hm@web-1");
        check(&[("HOSTNAME", "mac")], 7, "", "uid-7@mac");
        check(&[], 7, "", "uid-7");
        check(
            &[("HOOKLATCH_ACTOR", &"x".repeat(300))],
            0,
            &"y".repeat(300),
            &format!("{}@{}", "x".repeat(49), "y".repeat(50)),
        );
    }
}
