//! Servers, those first whose transfers were held back longest.

use std::fmt::Write as _;

use record::explain::{Document, Traffic};

use super::layout::{Align, Table};
use super::{Emphasis, Style};
use crate::clean::for_terminal;
use crate::quantity::{DASH, bytes, seconds, seconds_or_dash};

/// Rows of the table; the document has all servers and all pairs.
const SHOWN: usize = 10;
const WIDTH: usize = 80;

/// A line per server, where there are several.
pub(super) fn servers(text: &mut String, document: &Document, style: Style) {
    use Align::{Left, Right};
    if document.servers.len() < 2 {
        return;
    }
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, "Servers, by time held back"));
    text.push('\n');
    let mut table = Table::new(2, &[Left, Right, Right, Right, Right, Right, Left]);
    table.row(["server", "n", "RTT", "up", "down", "held", "mostly"]);
    for server in document.servers.iter().take(SHOWN) {
        table.row(cells(server));
    }
    table.fit(WIDTH);
    for (index, line) in table.lines().iter().enumerate() {
        if index == 0 {
            text.push_str(&style.paint(Emphasis::Quiet, line));
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    if let Some(more) = document
        .servers
        .len()
        .checked_sub(SHOWN)
        .filter(|more| *more > 0)
    {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  and {more} more");
    }
}

fn cells(server: &Traffic) -> [String; 7] {
    [
        for_terminal(&format!("{}:{}", server.server.host, server.server.port)),
        server.connections.to_string(),
        seconds_or_dash(server.rtt_s),
        bytes(server.bytes_to_server),
        bytes(server.bytes_to_client),
        seconds(server.held_s),
        server
            .mostly
            .map_or_else(|| DASH.into(), |limit| limit.to_string()),
    ]
}
