//! The manager of services that started this process, such as systemd: the sockets that it opened for us
//! (`sd_listen_fds`), and the notifications that it gets (`sd_notify`).
//!
//! Both are agreed on in variables of the environment, so that nothing happens here without a manager; `app` decides
//! when. Clients that connect between the end of one process and the start of the next wait in the sockets, and are
//! refused by neither.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tracing::{debug, warn};

use hooklatch_core::config::Environment;

/// Variable with the socket of the manager.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Most notifications that wait for a manager that does not read them; further ones are dropped.
const WAITING_N_MAX: usize = 16;

/// Part of the time that the watchdog allows between two signs of life, in which one is given: a few may be missed.
const BEAT_PART: u32 = 4;

/// Variable with the names of the sockets, between colons: `FileDescriptorName=` of their units.
const NAMES: &str = "LISTEN_FDNAMES";
/// Variables with their number, and with the id of the process that they are for.
const COUNT: &str = "LISTEN_FDS";
const FOR: &str = "LISTEN_PID";

/// The names of our sockets: the receiver's, and the operators' listener's.
const OWNERS: [&str; 2] = ["server", "admin"];

/// The manager of this process; sends nothing where there is none.
#[derive(Debug)]
pub struct Manager {
    beat: Option<Duration>,
    /// Queue of the notifier thread: a manager that does not read would otherwise block the sender, and with it the
    /// stop.
    queue: Option<SyncSender<String>>,
}

impl Manager {
    /// The manager that started this process.
    pub fn of_process() -> Self {
        let mut allowed_us = 0;
        // The variables stay: we start no process, and to change them is not safe beside other threads.
        let is_watched = sd_notify::watchdog_enabled(false, &mut allowed_us) && allowed_us > 0;
        let is_there = Environment::of_process().get(SOCKET).is_some_and(|socket| !socket.is_empty());
        Self {
            beat: is_watched.then(|| Duration::from_micros(allowed_us) / BEAT_PART),
            queue: is_there.then(start_notifier).flatten(),
        }
    }

    /// Interval of the signs of life that it wants; `None` when it wants none.
    pub fn beat(&self) -> Option<Duration> {
        self.beat
    }

    /// Sends the state of the server, in a line for people.
    pub fn status(&self, text: &str) {
        self.send(&[NotifyState::Status(text)]);
    }

    /// Notifies that the start is over: units that wait for us may begin.
    pub fn ready(&self, text: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(text)]);
    }

    /// Gives a sign of life.
    pub fn alive(&self) {
        self.send(&[NotifyState::Watchdog]);
    }

    /// Notifies that the stop has begun, and within which time it ends: we may not be killed sooner.
    pub fn stopping(&self, text: &str, within: Duration) {
        let within_us = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
        self.send(&[
            NotifyState::Stopping,
            NotifyState::Status(text),
            NotifyState::ExtendTimeoutUsec(within_us),
        ]);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        let Some(queue) = &self.queue else { return };
        let text = states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        if queue.try_send(text).is_err() {
            debug!("the service manager ({SOCKET}) does not read notifications");
        }
    }
}

/// Starts the notifier thread, which ends when the queue is closed.
fn start_notifier() -> Option<SyncSender<String>> {
    let (queue, waiting) = sync_channel(WAITING_N_MAX);
    let started =
        std::thread::Builder::new().name("manager".to_owned()).spawn(move || send_all(&waiting)).map(drop);
    if let Err(error) = &started {
        warn!(%error, "could not start the thread that notifies the service manager");
    }
    started.ok().map(|()| queue)
}

/// Sends all queued notifications, and warns once of a manager that is not there.
fn send_all(waiting: &Receiver<String>) {
    let mut is_there = true;
    for text in waiting {
        let sent = sd_notify::notify(false, &[NotifyState::Custom(&text)]);
        if let (Err(error), true) = (&sent, is_there) {
            warn!(%error, "could not notify the service manager ({SOCKET})");
        }
        is_there = sent.is_ok();
    }
}

/// The open sockets of this process, by whose they are.
#[derive(Debug, Default)]
pub struct Sockets {
    /// The receiver's, for senders.
    pub server: Option<TcpListener>,
    /// The operators' listener, for monitors.
    pub admin: Option<TcpListener>,
}

/// Reason why the sockets that we were handed cannot be used; `Display` says what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketMistake {
    #[error(
        "{n} sockets were handed to us ({NAMES}={names:?}), and there are two listeners: take the others out of the socket units"
    )]
    TooMany { n: usize, names: String },
    #[error(
        "a socket that was handed to us is called `{name}`: write FileDescriptorName=server or FileDescriptorName=admin into its unit, or leave all names out to have the first taken for server and the second for admin"
    )]
    Name { name: String },
    #[error("two sockets that were handed to us are called `{name}`: one of them is enough")]
    Twice { name: &'static str },
    #[error(
        "the socket `{name}` that was handed to us cannot be used: {why}; write ListenStream=ADDRESS:PORT and Accept=no into its unit"
    )]
    Kind { name: &'static str, why: String },
    #[error(
        "the socket `{name}` that was handed to us listens on {found}, and {name}.listen is {wanted}: write the same address into ListenStream= and {name}.listen"
    )]
    Address { name: &'static str, found: SocketAddr, wanted: SocketAddr },
}

impl Sockets {
    /// Takes the sockets of this process. `server` and `admin` are the addresses in the configuration: what people read
    /// there must be where we listen.
    pub fn of_process(server: SocketAddr, admin: SocketAddr) -> Result<Self, SocketMistake> {
        let env = Environment::of_process();
        let names = env.get(NAMES).unwrap_or_default();
        // Before there is a list of them, because an arbitrary number in the variable would be its length.
        let is_ours = env.get(FOR).is_none_or(|id| id.is_empty() || id == std::process::id().to_string());
        let n = env.get(COUNT).and_then(|n| n.parse().ok()).filter(|_| is_ours).unwrap_or(0);
        if n > OWNERS.len() {
            return Err(SocketMistake::TooMany { n, names: names.to_owned() });
        }
        let mut handed = ListenFd::from_env();
        let owners = owners(names, handed.len())?;
        let mut sockets = Self::default();
        for (n, owner) in owners.into_iter().enumerate() {
            let unfit = |why: String| SocketMistake::Kind { name: owner, why };
            let socket = handed.take_tcp_listener(n).map_err(|error| unfit(error.to_string()))?;
            let Some(socket) = socket else { continue };
            let (place, wanted) = match owner {
                "server" => (&mut sockets.server, server),
                _ => (&mut sockets.admin, admin),
            };
            *place = Some(fitting(socket, owner, wanted)?);
        }
        Ok(sockets)
    }
}

/// Whose each of `n` sockets is: by the names that are between the colons, or by their order.
fn owners(names: &str, n: usize) -> Result<Vec<&'static str>, SocketMistake> {
    // Systemd calls a socket by its unit when that says nothing else, and `unknown` when there is no unit.
    let names: Vec<&str> = names.split(':').chain(std::iter::repeat("")).take(n).collect();
    if names.iter().all(|name| !OWNERS.contains(name)) {
        return Ok(OWNERS.into_iter().take(n).collect());
    }
    let mut owners = Vec::new();
    for name in names {
        let Some(owner) = OWNERS.into_iter().find(|owner| *owner == name) else {
            return Err(SocketMistake::Name { name: name.to_owned() });
        };
        if owners.contains(&owner) {
            return Err(SocketMistake::Twice { name: owner });
        }
        owners.push(owner);
    }
    Ok(owners)
}

/// The socket, when it listens on the configured address.
fn fitting(
    socket: TcpListener,
    name: &'static str,
    wanted: SocketAddr,
) -> Result<TcpListener, SocketMistake> {
    let unfit = |why: String| SocketMistake::Kind { name, why };
    let found = socket.local_addr().map_err(|error| unfit(error.to_string()))?;
    // With Accept=yes it is a connection. Only a connection has a peer.
    let socket = TcpStream::from(OwnedFd::from(socket));
    if socket.peer_addr().is_ok() {
        return Err(unfit("it is a connection, not a listener".to_owned()));
    }
    let is_free = wanted.port() == 0 && wanted.ip() == found.ip();
    if found != wanted && !is_free {
        return Err(SocketMistake::Address { name, found, wanted });
    }
    Ok(TcpListener::from(OwnedFd::from(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_identified_by_name_or_by_order() {
        const SERVER: &str = "server";
        const ADMIN: &str = "admin";
        #[track_caller]
        fn check(names: &str, n: usize, want: &[&str]) {
            assert_eq!(owners(names, n).expect("owners"), want, "{names} {n}");
        }
        check("", 0, &[]);
        check("server:admin", 0, &[]);
        check("", 1, &[SERVER]);
        check("", 2, &[SERVER, ADMIN]);
        check("unknown", 1, &[SERVER]);
        check("hooklatch.socket:hooklatch.socket", 2, &[SERVER, ADMIN]);
        check("server", 1, &[SERVER]);
        check("admin", 1, &[ADMIN]);
        check("admin:server", 2, &[ADMIN, SERVER]);
    }

    #[test]
    fn ambiguous_names_are_refused() {
        #[track_caller]
        fn check(names: &str, n: usize, part: &str) {
            let error = owners(names, n).expect_err(names).to_string();
            assert!(error.contains(part), "{error}");
        }
        check("server:web", 2, "is called `web`");
        check("server", 2, "is called ``");
        check("admin:admin", 2, "two sockets that were handed to us are called `admin`");
    }

    #[test]
    fn a_socket_must_listen_where_the_configuration_says() {
        let listener = || TcpListener::bind("127.0.0.1:0").expect("a listener");
        let take =
            |socket: TcpListener, wanted: &str| fitting(socket, "admin", wanted.parse().expect("an address"));
        let one = listener();
        let address = one.local_addr().expect("its address").to_string();
        let same = take(one, &address).expect("the same address");
        assert_eq!(same.local_addr().expect("its address").to_string(), address);
        take(listener(), "127.0.0.1:0").expect("any port");
        let error = take(listener(), "0.0.0.0:0").expect_err("another address").to_string();
        assert!(error.contains("admin.listen is 0.0.0.0:0"), "{error}");
        let open = listener();
        let stream = TcpStream::connect(open.local_addr().expect("its address")).expect("a connection");
        let error = take(OwnedFd::from(stream).into(), "127.0.0.1:0").expect_err("a connection").to_string();
        assert!(error.contains("not a listener") && error.contains("Accept=no"), "{error}");
    }
}
