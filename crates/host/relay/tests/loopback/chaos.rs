//! Clients and servers that reset, half-close and stall at points that a seed chooses.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use longhaul_relay::{Config, EndedBy, Event, TcpOptions};
use profile::Setting;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::{Relay, listen, noise, within};

/// Connections at the same time.
const CONNECTIONS: u32 = 120;

/// The longest stream; more than any buffer of the relay, so that stalls reach through it.
const LONGEST: u64 = 600_000;

/// What one end of a connection does with its own stream.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Sends all and ends it.
    Whole,
    /// Resets after so many bytes.
    Reset(usize),
    /// Sends nothing for a while after so many bytes, and then all.
    Stall(usize),
}

/// Both ends of one connection.
#[derive(Clone, Copy, Debug)]
struct Plan {
    up: usize,
    down: usize,
    client: Act,
    server: Act,
}

/// What an end has seen.
#[derive(Debug)]
struct Seen {
    bytes: Vec<u8>,
    /// Whether the stream came to its end, rather than to an error.
    whole: bool,
}

/// Marsaglia's xorshift64: a sequence that a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn length(&mut self) -> usize {
        // Short ones as often as long ones.
        let bound = [1, 100, 20_000, LONGEST][usize::try_from(self.below(4)).unwrap()];
        usize::try_from(self.below(bound + 1)).unwrap()
    }

    fn act(&mut self, length: usize) -> Act {
        let at = usize::try_from(self.below(length as u64 + 1)).unwrap();
        match self.below(4) {
            0 => Act::Reset(at),
            1 => Act::Stall(at),
            _ => Act::Whole,
        }
    }
}

impl Plan {
    /// The same on both ends, which know nothing of each other but the number.
    fn of(seed: u64, number: u32) -> Self {
        let mut dice = Dice(seed ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (up, down) = (dice.length(), dice.length());
        Self {
            up,
            down,
            client: dice.act(up),
            server: dice.act(down),
        }
    }
}

/// Sends what `act` says of the first `length` bytes of [`noise`], and reads what the other end sends.
async fn play(mut stream: TcpStream, length: usize, act: Act) -> Seen {
    let bytes = noise(length);
    let mut seen = Vec::new();
    let (mut written, mut read) = (None, None);
    {
        let (mut reader, mut writer) = stream.split();
        let mut writing = pin!(async {
            match act {
                Act::Whole => writer.write_all(&bytes).await?,
                Act::Reset(at) => {
                    writer.write_all(&bytes[..at]).await?;
                    return Ok(true);
                }
                Act::Stall(at) => {
                    writer.write_all(&bytes[..at]).await?;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    writer.write_all(&bytes[at..]).await?;
                }
            }
            writer.shutdown().await.map(|()| false)
        });
        let mut reading = pin!(reader.read_to_end(&mut seen));
        while written.is_none() || read.is_none() {
            tokio::select! {
                done = &mut writing, if written.is_none() => match done {
                    Ok(true) => break,
                    // A stream that cannot be written is broken: what comes from it may be as well.
                    other => written = Some(other.is_ok()),
                },
                done = &mut reading, if read.is_none() => read = Some(done.is_ok()),
            }
        }
    }
    if written.is_none() {
        stream.set_zero_linger().unwrap();
    }
    Seen {
        bytes: seen,
        whole: read == Some(true) && written == Some(true),
    }
}

async fn client(relay: SocketAddr, number: u32, plan: Plan) -> Seen {
    let mut stream = TcpStream::connect(relay).await.unwrap();
    stream.write_u32(number).await.unwrap();
    play(stream, plan.up, plan.client).await
}

/// The number of the connection, and what its server has seen; `None` where not even the number came.
async fn server(mut stream: TcpStream, seed: u64) -> Option<(u32, Seen)> {
    let number = stream.read_u32().await.ok()?;
    let plan = Plan::of(seed, number);
    Some((number, play(stream, plan.down, plan.server).await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_its_ends_do_nobody_gets_a_wrong_byte_or_takes_a_part_for_the_whole() {
    for (seed, by_tasks) in [
        (1, false),
        (1, true),
        (20_261_122, false),
        (20_261_122, true),
    ] {
        let (listener, target) = listen().await;
        let mut options = TcpOptions {
            listen: "127.0.0.1:0".into(),
            target: target.to_string(),
            ..TcpOptions::default()
        };
        if by_tasks {
            // Where there are several, one has to be chosen, which a task does.
            options.balance.also = vec![target.to_string()];
            options.balance.check_every = Some(Setting::Off);
        }
        let mut relay = Relay::start_with(Config::tcp(options).unwrap()).await;
        let address = relay.address;
        let mut clients = JoinSet::new();
        let mut servers = JoinSet::new();
        for number in 0..CONNECTIONS {
            let plan = Plan::of(seed, number);
            clients.spawn(async move { (number, client(address, number, plan).await) });
        }
        let accepting = async {
            for _ in 0..CONNECTIONS {
                let (stream, _) = listener.accept().await.unwrap();
                servers.spawn(server(stream, seed));
            }
        };
        within(accepting).await;
        let (longest, source) = (usize::try_from(LONGEST).unwrap(), noise(600_000));
        assert_eq!(longest, source.len());
        let check = |number: u32, seen: &Seen, length: usize, act: Act, by: &str| {
            let note = format!(
                "seed {seed}, connection {number}: {by} of {:?}",
                Plan::of(seed, number)
            );
            assert!(source.starts_with(&seen.bytes), "wrong bytes, {note}");
            if seen.whole {
                assert_eq!(seen.bytes.len(), length, "a part for the whole, {note}");
                assert!(!matches!(act, Act::Reset(_)), "an end for a reset, {note}");
            }
        };
        while let Some(joined) = within(clients.join_next()).await {
            let (number, seen) = joined.unwrap();
            let plan = Plan::of(seed, number);
            check(number, &seen, plan.down, plan.server, "the client");
            // Where nobody resets, nothing else may.
            if !matches!(
                (plan.client, plan.server),
                (Act::Reset(_), _) | (_, Act::Reset(_))
            ) {
                assert!(seen.whole, "seed {seed}, connection {number}: {plan:?}");
            }
        }
        while let Some(joined) = within(servers.join_next()).await {
            let Some((number, seen)) = joined.unwrap() else {
                continue;
            };
            let plan = Plan::of(seed, number);
            check(number, &seen, plan.up, plan.client, "the server");
        }
        let mut completed = 0;
        for _ in 0..CONNECTIONS {
            let done = relay.event(|event| match event {
                Event::ConnectionDone(done) => Some(done.ended_by),
                _ => None,
            });
            completed += u32::from(within(done).await == EndedBy::Completed);
        }
        let unbroken = (0..CONNECTIONS).filter(|&number| {
            let plan = Plan::of(seed, number);
            !matches!(
                (plan.client, plan.server),
                (Act::Reset(_), _) | (_, Act::Reset(_))
            )
        });
        assert_eq!(completed as usize, unbroken.count(), "seed {seed}");
    }
}
