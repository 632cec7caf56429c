//! Looking at targets while nobody connects to them.

use std::io;
use std::sync::{Arc, Weak};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::group::{Group, Member};
use super::{ConnectError, connect_to};

/// Long enough for a status line's version and status.
const STATUS_LINE: usize = 12;

/// A target is not as it should be.
#[derive(Debug, thiserror::Error)]
enum Unhealthy {
    #[error("cannot connect")]
    Connect(#[source] ConnectError),
    #[error("cannot ask for its state")]
    Ask(#[source] io::Error),
    #[error("it answers `{0}`")]
    Answer(String),
}

/// Looks at all targets of a group, until that is gone.
pub(super) async fn watch(group: Weak<Group>) {
    let Some(every) = group
        .upgrade()
        .and_then(|group| group.balancing.check.as_ref().map(|check| check.every))
    else {
        return;
    };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(group) = group.upgrade() else {
            return;
        };
        let mut looks = JoinSet::new();
        for member in group.members() {
            let (group, member) = (Arc::clone(&group), Arc::clone(member));
            looks.spawn(async move { look(&group, &member).await });
        }
        drop(group);
        while looks.join_next().await.is_some() {}
    }
}

async fn look(group: &Group, member: &Member) {
    let Some(check) = &group.balancing.check else {
        return;
    };
    let asking = ask(group, member, check.path.as_deref());
    let result = match timeout(check.timeout, asking).await {
        Ok(answer) => answer.map_err(|error| crate::chain(&error)),
        Err(_elapsed) => Err(format!(
            "no answer within {}",
            units::format_span(check.timeout)
        )),
    };
    group.looked(member, result);
}

async fn ask(group: &Group, member: &Member, path: Option<&str>) -> Result<(), Unhealthy> {
    let addresses = group.resolve(member).await.map_err(Unhealthy::Connect)?;
    let host = member.target.host.clone();
    let mut outcome = Err(ConnectError::NoAddress { host });
    for peer in addresses {
        outcome = connect_to(group.dialer.profile(), peer).await;
        if outcome.is_ok() {
            break;
        }
    }
    let (stream, _) = outcome.map_err(Unhealthy::Connect)?;
    match path {
        None => Ok(()),
        Some(path) => ask_for(stream, path, &member.target.authority()).await,
    }
}

async fn ask_for(mut stream: TcpStream, path: &str, host: &str) -> Result<(), Unhealthy> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: longhaul-check\r\nConnection: close\r\n\r\n"
    );
    let written = stream.write_all(request.as_bytes()).await;
    written.map_err(Unhealthy::Ask)?;
    let mut status = [0; STATUS_LINE];
    let read = stream.read_exact(&mut status).await;
    read.map_err(Unhealthy::Ask)?;
    // RFC 9112 §4: `HTTP/1.1 200`.
    if status.starts_with(b"HTTP/1.") && b"23".contains(&status[9]) {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&status).escape_debug().to_string();
    Err(Unhealthy::Answer(answer))
}
