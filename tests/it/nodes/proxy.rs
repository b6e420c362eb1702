//! One address before a database that can fall silent: bytes are swallowed without an error, as when a machine or
//! a network behind an address disappears without closing connections.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Debug, Clone, Copy)]
struct State {
    /// Connections of an earlier epoch are silent.
    epoch: u64,
    /// True when new ones are as well.
    is_silent: bool,
    /// True when those of an earlier epoch are cut instead.
    is_cut: bool,
    /// Where new ones go, on loopback.
    to: u16,
}

pub(super) struct SilentProxy {
    pub port: u16,
    state: watch::Sender<State>,
    _lines: JoinSet<()>,
}

impl SilentProxy {
    pub async fn before(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, watched) = watch::channel(State { epoch: 0, is_silent: false, is_cut: false, to });
        let mut lines = JoinSet::new();
        lines.spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((ours, _)) = listener.accept().await {
                lines.spawn(line(ours, watched.clone()));
            }
        });
        Self { port, state, _lines: lines }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Open connections are silent from now on; new ones reach the server on that port.
    pub fn silence_open_connections(&self, to: u16) {
        self.next(State { epoch: 0, is_silent: false, is_cut: false, to });
    }

    /// Open and new connections are silent from now on.
    pub fn silence_everything(&self) {
        let to = self.state.borrow().to;
        self.next(State { epoch: 0, is_silent: true, is_cut: false, to });
    }

    /// Open connections are cut; new ones reach the server on that port.
    pub fn cut(&self, to: u16) {
        self.next(State { epoch: 0, is_silent: false, is_cut: true, to });
    }

    /// New connections reach the server on that port; open ones stay.
    pub fn point_to(&self, to: u16) {
        self.state.send_modify(|state| state.to = to);
    }

    fn next(&self, next: State) {
        self.state.send_modify(|state| *state = State { epoch: state.epoch + 1, ..next });
    }
}

async fn line(mut ours: TcpStream, state: watch::Receiver<State>) {
    let State { epoch, is_silent, to, .. } = *state.borrow();
    let mut swallowed = vec![0; 65_536];
    if is_silent {
        while let Ok(1..) = ours.read(&mut swallowed).await {}
        return;
    }
    let Ok(theirs) = TcpStream::connect(("127.0.0.1", to)).await else { return };
    let (from_us, to_us) = ours.into_split();
    let (from_them, to_them) = theirs.into_split();
    let mut cut = state.clone();
    let state = Arc::new(state);
    let is_on = move || state.borrow().epoch == epoch;
    // Once it is silent, neither side notices that the other closes.
    let both = async {
        tokio::join!(copied(from_us, to_them, is_on.clone()), copied(from_them, to_us, is_on.clone()))
    };
    tokio::select! {
        _ = both => {}
        _ = cut.wait_for(|state| state.epoch != epoch && state.is_cut) => {}
    }
}

async fn copied(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    is_on: impl Fn() -> bool,
) {
    let mut bytes = vec![0; 65_536];
    loop {
        let read = from.read(&mut bytes).await;
        if !is_on() {
            if !matches!(read, Ok(1..)) {
                std::future::pending::<()>().await;
            }
            continue;
        }
        match read {
            Ok(n @ 1..) if to.write_all(&bytes[..n]).await.is_ok() => {}
            _ => {
                drop(to.shutdown().await);
                return;
            }
        }
    }
}
