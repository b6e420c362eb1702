//! A receiver of one's own for one load: a process in a folder that goes away with it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::cpu::below;

/// Longest time until it listens.
const STARTS: Duration = Duration::from_secs(30);

/// A folder, a port and, once it was started, a process; all gone when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    addr: SocketAddr,
    admin: SocketAddr,
    /// A destination that takes connections and never answers.
    silent: TcpListener,
    child: Option<Child>,
}

impl Scratch {
    /// An empty folder and free ports.
    pub fn new() -> io::Result<Self> {
        let name = format!("hooklatch-bench-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let folder = std::env::temp_dir().join(name);
        // Both at once, so that they differ.
        let (receiver, admin) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
        let (addr, admin) = (receiver.local_addr()?, admin.local_addr()?);
        let silent = TcpListener::bind("127.0.0.1:0")?;
        std::fs::create_dir(&folder)?;
        Ok(Self { folder, addr, admin, silent, child: None })
    }

    /// Folder of its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Address that it listens on, or will listen on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// An SQLite database in its folder.
    pub fn sqlite_url(&self) -> String {
        format!("sqlite://{}", self.folder.join("bench.db").display())
    }

    /// The configuration of a Hooklatch that listens here, keeps its events in this database and routes those of
    /// provider `name` to the destination that never answers, one call at a time: messages are written, and calls stay
    /// out of the way. `more` is what else stands in that provider's table, and after it.
    pub fn config(&self, database_url: &str, name: &str, more: &str) -> io::Result<String> {
        // A text of JSON is one of TOML.
        let url = serde_json::Value::from(database_url);
        Ok(format!(
            "[server]\nlisten = \"{}\"\npublic_url = \"http://{}\"\nconnections_n_max = 4096\n\
             [admin]\nlisten = \"{}\"\n[database]\nurl = {url}\n[log]\nfilter = \"error\"\n\
             [outbox]\nlease_ms = 600000\n\
             [destinations.silent]\nurl = \"http://{}\"\ntimeout_ms = 540000\nconcurrency_n = 1\n\
             [providers.{name}]\nroutes = [{{ on = [\"*\"], to = \"silent\" }}]\n{more}",
            self.addr,
            self.addr,
            self.admin,
            self.silent.local_addr()?
        ))
    }

    /// Writes a configuration into the folder.
    pub fn write_config(&self, text: &str) -> io::Result<PathBuf> {
        let file = self.folder.join("hooklatch.toml");
        // It holds secrets.
        let mut open = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&file)?;
        open.write_all(text.as_bytes())?;
        Ok(file)
    }

    /// Starts `command` in the folder and waits until it listens. What it writes to stderr is shown.
    pub fn start(&mut self, command: &mut Command) -> io::Result<()> {
        let child = command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let child = self.child.insert(child);
        let started = Instant::now();
        while std::net::TcpStream::connect(self.addr).is_err() {
            if let Some(status) = child.try_wait()? {
                return Err(io::Error::other(format!("the receiver ended before it listened: {status}")));
            }
            if started.elapsed() > STARTS {
                return Err(io::Error::other(format!("nothing listened on {} in time", self.addr)));
            }
            // The pause between two connection attempts.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The process, once it was started.
    pub fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Workers that it started would outlive it.
            let workers = below(child.id());
            // Who ended by itself cannot be killed, which is as good.
            drop(child.kill());
            drop(child.wait());
            let pids = workers.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            pids.for_each(|pid| {
                kill_process(pid, Signal::KILL).ok();
            });
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
