//! CPU time of other processes, by `/proc`: Linux only, elsewhere nothing is known.

use std::collections::BTreeMap;
use std::fs;

/// One tick of `/proc`, a hundredth of a second on every Linux that matters here. Microseconds.
const TICK_US: u64 = 10_000;

/// Processes whose CPU time counts, each with those below it.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchedProcesses {
    /// The process of the receiver.
    pub server: Option<u32>,
    /// The postmaster; an SQLite database is part of the server.
    pub database: Option<u32>,
}

/// CPU time used so far, or in between. Microseconds; `None` where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CpuUs {
    /// CPU time of the receiver. Microseconds.
    pub server: Option<u64>,
    /// CPU time of the database's processes. Microseconds.
    pub database: Option<u64>,
    /// CPU time of this process, which sends. Microseconds.
    pub generator: Option<u64>,
}

impl CpuUs {
    /// Returns what was used since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let used = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            server: used(self.server, before.server),
            database: used(self.database, before.database),
            generator: used(self.generator, before.generator),
        }
    }

    /// Returns the time of server and database together; `None` when neither is known.
    pub fn both(self) -> Option<u64> {
        match (self.server, self.database) {
            (None, None) => None,
            (server, database) => Some(server.unwrap_or_default() + database.unwrap_or_default()),
        }
    }
}

impl WatchedProcesses {
    /// Reads what they have used until now.
    pub fn read(&self) -> CpuUs {
        let all = processes();
        let of = |root: u32| {
            let ticks = family(&all, root).iter().filter_map(|pid| Some(all.get(pid)?.ticks)).sum::<u64>();
            all.contains_key(&root).then_some(ticks * TICK_US)
        };
        let generator = all.get(&std::process::id()).map(|one| one.own_ticks * TICK_US);
        CpuUs { server: self.server.and_then(of), database: self.database.and_then(of), generator }
    }
}

/// The processes below this one, as far as they can be seen.
pub(super) fn below(root: u32) -> Vec<u32> {
    family(&processes(), root).split_off(1)
}

/// This one and those below it.
fn family(all: &BTreeMap<u32, Process>, root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let mut n = 0;
    // A process that has a parent in the family belongs to it.
    while let Some(parent) = family.get(n).copied() {
        family.extend(all.iter().filter(|(_, one)| one.parent == parent).map(|(pid, _)| *pid));
        n += 1;
    }
    family
}

/// A process, as `/proc/PID/stat` has it.
struct Process {
    parent: u32,
    /// User and system time with that of children that have ended.
    ticks: u64,
    /// The same without that of its children.
    own_ticks: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

fn process(stat: &str) -> Option<Process> {
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
    let times = fields.get(11..15)?;
    Some(Process {
        parent: u32::try_from(*fields.get(1)?).ok()?,
        ticks: times.iter().sum(),
        own_ticks: times.iter().take(2).sum(),
    })
}

/// The process that listens on this TCP port of this machine, where we may know it: our own user's, or anybody's for
/// root. Of PostgreSQL's, when we may not look into its files, the only postmaster there is.
pub fn listener_of(port: u16) -> Option<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().filter_map(|line| listening_inode(line, port)).collect::<Vec<_>>())
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let has_it = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| link.to_str().is_some_and(|link| inodes.iter().any(|inode| inode == link)))
    };
    let all = processes();
    // A child that was forked has its parent's files open as well: the parent is meant.
    let found: Vec<u32> = all.keys().copied().filter(has_it).collect();
    let is_eldest = |pid: &&u32| all.get(pid).is_none_or(|one| !found.contains(&one.parent));
    found.iter().find(is_eldest).copied().or_else(|| (!inodes.is_empty()).then(|| only_postmaster(&all))?)
}

fn listening_inode(line: &str, port: u16) -> Option<String> {
    let mut fields = line.split_whitespace();
    let (_, local_port) = fields.nth(1)?.rsplit_once(':')?;
    let is_listening = fields.nth(1)? == "0A";
    let is_it = is_listening && u16::from_str_radix(local_port, 16).ok()? == port;
    is_it.then(|| fields.nth(5).map(str::to_owned))?
}

fn only_postmaster(all: &BTreeMap<u32, Process>) -> Option<u32> {
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_one = |(pid, one): &(&u32, &Process)| {
        name(**pid).trim() == "postgres" && name(one.parent).trim() != "postgres"
    };
    let mut found = all.iter().filter(is_one).map(|(pid, _)| *pid);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_process_is_called() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 9 0 5 6 7";
        let one = process(stat).expect("read");
        assert_eq!((one.parent, one.ticks, one.own_ticks), (7, 124, 120));
        assert!(process("42 (x) S 7").is_none() && process("").is_none());
    }

    #[test]
    fn the_one_who_listens_is_found_by_its_port() {
        let line =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 0 100";
        assert_eq!(listening_inode(line, 0x1F90).as_deref(), Some("4711"));
        assert_eq!(listening_inode(line, 80), None);
        assert_eq!(listening_inode(&line.replace(" 0A ", " 01 "), 0x1F90), None);
        if cfg!(target_os = "linux") {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("bound").port();
            assert_eq!(listener_of(port), Some(std::process::id()));
            let read = WatchedProcesses { server: Some(std::process::id()), database: None }.read();
            assert!(read.server.is_some() && read.database.is_none() && read.generator.is_some());
        }
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let some = |us| CpuUs { server: Some(us), database: None, generator: Some(us) };
        let used = some(30).since(some(10));
        assert_eq!((used.server, used.database, used.both()), (Some(20), None, Some(20)));
        assert_eq!(CpuUs::default().since(some(1)).both(), None);
    }
}
