//! The relay as a library: serves a configuration file until standard input ends, and prints each event; with
//! `--quiet`, warnings alone.
//!
//! ```sh
//! cargo run --release -p longhaul-relay --example serve -- examples/relay.toml [--quiet]
//! ```
//!
//! Builds in a fraction of the time of the whole binary, so benchmarks of the relay alone can use it.

#![allow(clippy::print_stdout, reason = "an example talks to a terminal")]

use std::error::Error;

use longhaul_relay::{Audience, Config, Event, Order};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: serve FILE.toml [--quiet]")?;
    let quiet = std::env::args()
        .nth(2)
        .is_some_and(|word| word == "--quiet");
    let config = Config::from_toml(&std::fs::read_to_string(path)?)?;
    let (orders, given) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut rest = Vec::new();
        // Whether it ends or breaks, nobody is there any more.
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        let _ = orders.send(Order::Stop).await;
    });
    let tell = |event: Event| println!("{event:?}");
    let audience = if quiet {
        Audience::of_other_than_connections(move |event| {
            if matches!(event, Event::Warning { .. }) {
                tell(event);
            }
        })
    } else {
        tell.into()
    };
    longhaul_relay::run(config, Vec::new(), audience, given).await?;
    Ok(())
}
