//! A Patroni cluster of two with etcd behind, HAProxy before: the primary is killed under load.

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::load::Load;
use super::server::{command, event_ids, folder, signal};
use crate::needs;
use crate::process::{Server, client, free_port, until};

const TIMEOUT: Duration = Duration::from_mins(2);
/// Patroni gives a dead primary's lock away after this; nothing is quicker.
const TTL_S: u64 = 20;

struct Member {
    name: &'static str,
    port: u16,
    api_port: u16,
    child: Option<Child>,
}

struct Cluster {
    folder: TempDir,
    etcd: Child,
    haproxy: Option<Child>,
    members: Vec<Member>,
    port: u16,
}

impl Cluster {
    async fn start() -> Option<Self> {
        let (etcd, haproxy) = (needs::place("HOOKLATCH_TEST_ETCD")?, needs::place("HOOKLATCH_TEST_HAPROXY")?);
        needs::place("HOOKLATCH_TEST_PATRONI")?;
        let folder = folder();
        let (client_port, peer_port) = (free_port().port(), free_port().port());
        let log = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        let (ours, peers) =
            (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
        let etcd = command(etcd, folder.path())
            .args(["--data-dir", "etcd", "--listen-client-urls", &ours, "--advertise-client-urls", &ours])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .stdout(Stdio::null())
            .stderr(log("etcd.log"))
            .spawn()
            .unwrap();
        let member =
            |name| Member { name, port: free_port().port(), api_port: free_port().port(), child: None };
        let members = vec![member("one"), member("two")];
        let mut cluster = Self { folder, etcd, haproxy: None, members, port: free_port().port() };
        for n in 0..2 {
            cluster.write_member(n, client_port);
            cluster.run(n);
            // The first one makes the cluster, the second one joins it.
            let path = ["/primary", "/sync"][n];
            cluster.answers(n, path).await;
        }
        cluster.haproxy = Some(cluster.haproxy(&haproxy));
        Some(cluster)
    }

    fn write_member(&self, n: usize, etcd_port: u16) {
        let bin = needs::place("HOOKLATCH_TEST_PG_BIN").unwrap();
        let Member { name, port, api_port, .. } = &self.members[n];
        let folder = self.folder.path().display();
        let config = format!(
            "scope: hooklatch\nname: {name}\n\
             restapi: {{listen: '127.0.0.1:{api_port}', connect_address: '127.0.0.1:{api_port}'}}\n\
             etcd3: {{host: '127.0.0.1:{etcd_port}'}}\n\
             bootstrap:\n\
             \x20 dcs:\n\
             \x20   ttl: {TTL_S}\n\
             \x20   loop_wait: 2\n\
             \x20   retry_timeout: 5\n\
             \x20   synchronous_mode: true\n\
             \x20   postgresql: {{use_pg_rewind: false, parameters: {{max_connections: 100, unix_socket_directories: '{folder}'}}}}\n\
             \x20 initdb: [{{encoding: UTF8}}, no-locale, {{auth: trust}}]\n\
             postgresql:\n\
             \x20 listen: '127.0.0.1:{port}'\n\
             \x20 connect_address: '127.0.0.1:{port}'\n\
             \x20 data_dir: '{folder}/{name}'\n\
             \x20 bin_dir: '{bin}'\n\
             \x20 pgpass: '{folder}/{name}.pgpass'\n\
             \x20 authentication: {{superuser: {{username: postgres, password: x}}, replication: {{username: replicator, password: x}}}}\n\
             \x20 pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']\n"
        );
        std::fs::write(self.folder.path().join(format!("{name}.yml")), config).unwrap();
    }

    fn run(&mut self, n: usize) {
        let member = &self.members[n];
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join(format!("{}.log", member.name)))
            .unwrap();
        let child = command(needs::place("HOOKLATCH_TEST_PATRONI").unwrap(), self.folder.path())
            .arg(format!("{}.yml", member.name))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.members[n].child = Some(child);
    }

    fn haproxy(&self, place: &str) -> Child {
        let mut config = format!(
            "global\n  maxconn 500\ndefaults\n  mode tcp\n  timeout connect 2s\n  timeout client 30m\n  timeout server 30m\n\
             listen primary\n  bind 127.0.0.1:{}\n  option httpchk GET /primary\n  http-check expect status 200\n\
             \x20 default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n",
            self.port
        );
        for Member { name, port, api_port, .. } in &self.members {
            writeln!(config, "  server {name} 127.0.0.1:{port} check port {api_port}").unwrap();
        }
        std::fs::write(self.folder.path().join("haproxy.cfg"), config).unwrap();
        let log = std::fs::File::create(self.folder.path().join("haproxy.log")).unwrap();
        command(place, self.folder.path())
            .args(["-db", "-f", "haproxy.cfg"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    async fn is(&self, n: usize, path: &str) -> bool {
        let url = format!("http://127.0.0.1:{}{path}", self.members[n].api_port);
        client().get(url).send().await.is_ok_and(|answer| answer.status().is_success())
    }

    async fn answers(&self, n: usize, path: &str) {
        let log = || {
            let name = format!("{}.log", self.members[n].name);
            std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
        };
        until(path, TIMEOUT, log, async || self.is(n, path).await).await;
    }

    async fn primary(&self) -> usize {
        usize::from(!self.is(0, "/primary").await)
    }

    /// SIGKILL of Patroni and of its PostgreSQL.
    fn kill(&mut self, n: usize) {
        let member = &mut self.members[n];
        let mut patroni = member.child.take().unwrap();
        let pid_file = self.folder.path().join(member.name).join("postmaster.pid");
        let pid = std::fs::read_to_string(pid_file).unwrap().lines().next().unwrap().to_owned();
        patroni.kill().unwrap();
        patroni.wait().unwrap();
        assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for mut child in
            self.haproxy.take().into_iter().chain(self.members.iter_mut().filter_map(|one| one.child.take()))
        {
            // Patroni stops its PostgreSQL.
            signal(&child, "TERM");
            drop(child.wait());
        }
        signal(&self.etcd, "TERM");
        drop(self.etcd.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nightly_a_killed_patroni_primary_loses_nothing_that_was_taken() {
    if !needs::is_nightly() {
        return;
    }
    let Some(mut cluster) = Cluster::start().await else { return };
    let one = Server::start(&cluster.url(), "").await;
    let other = Server::start(&cluster.url(), "").await;
    let load = Load::start(&[&one, &other], 4);
    load.flows(500, TIMEOUT).await;
    for _ in 0..2 {
        let primary = cluster.primary().await;
        cluster.kill(primary);
        let killed = Instant::now();
        cluster.answers(1 - primary, "/primary").await;
        let gap = load.gap(killed, Duration::from_millis(500), TIMEOUT).await;
        assert!(gap < Duration::from_secs(TTL_S + 20), "first event taken {gap:?} after the kill");
        load.flows(500, TIMEOUT).await;
        // The killed one comes back, from nothing, as the standby that the next round needs.
        std::fs::remove_dir_all(cluster.folder.path().join(cluster.members[primary].name)).unwrap();
        cluster.run(primary);
        cluster.answers(primary, "/sync").await;
        load.flows(100, TIMEOUT).await;
    }
    assert_eq!(load.lost(event_ids(&cluster.url())).await, Vec::<String>::new());
}
