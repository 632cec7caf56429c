//! What runs above TCP, as the record carries it.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use connections::{Connection, SshBanners, TlsHandshake};
use record::explain as record;

use crate::analysis::Analysed;

/// TLS set-up of a connection.
pub(crate) fn tls(connection: &Connection) -> Option<record::Tls> {
    let tls = connection.tls.as_ref()?;
    let since_hello = |mark: connections::Mark| mark.at.since(tls.client_hello.at).as_secs_f64();
    Some(record::Tls {
        version: tls.version.map(|version| version.to_string()),
        round_trips: tls.round_trips,
        resumed: tls.resumed,
        group: tls.group.map(|group| group.to_string()),
        groups_offered: tls.groups_offered.iter().map(ToString::to_string).collect(),
        key_shares: tls.key_shares.iter().map(ToString::to_string).collect(),
        retry: tls.retry,
        early_data: tls.early_data,
        client_hello_bytes: tls.client_hello_bytes,
        client_hello_segments: tls.client_hello_segments,
        server_name: tls.server_name.clone(),
        handshake_s: tls.done.map(since_hello),
        first_data_s: tls.first_data.map(since_hello),
    })
}

/// SSH identification of a connection.
pub(crate) fn ssh(connection: &Connection) -> Option<record::Ssh> {
    let SshBanners { client, server } = connection.ssh.clone()?;
    Some(record::Ssh { client, server })
}

/// Options, versions and groups in use, per host and role.
pub(crate) fn census(connections: &[Analysed]) -> record::Census {
    record::Census {
        clients: by_host(connections, Role::Client),
        servers: by_host(connections, Role::Server),
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    Client,
    Server,
}

/// One entry per host, those with most connections first.
fn by_host(connections: &[Analysed], role: Role) -> Vec<record::CensusEntry> {
    let mut hosts: BTreeMap<&str, record::CensusEntry> = BTreeMap::new();
    for Analysed { connection, .. } in connections {
        let (end, flow) = match role {
            Role::Client => (&connection.client, &connection.to_server),
            Role::Server => (&connection.server, &connection.to_client),
        };
        let entry = hosts
            .entry(&end.host)
            .or_insert_with(|| record::CensusEntry {
                host: end.host.clone(),
                ..record::CensusEntry::default()
            });
        entry.connections += 1;
        if let Some(syn) = flow.syn {
            entry.mss.count(&or_none(syn.mss));
            entry.window_scale.count(&or_none(syn.window_scale));
            entry.sack.count(yes_or_no(syn.sack_permitted));
            entry.timestamps.count(yes_or_no(syn.timestamps));
        }
        if let Some(tls) = &connection.tls {
            note_tls(entry, tls);
        }
        let banner = connection.ssh.as_ref().and_then(|ssh| match role {
            Role::Client => ssh.client.as_deref(),
            Role::Server => ssh.server.as_deref(),
        });
        if let Some(banner) = banner {
            entry.ssh.count(banner);
        }
    }
    let mut entries: Vec<record::CensusEntry> = hosts.into_values().collect();
    // Stable: hosts with as many connections stay in order of their names.
    entries.sort_by_key(|entry| Reverse(entry.connections));
    entries
}

fn note_tls(entry: &mut record::CensusEntry, tls: &TlsHandshake) {
    if let Some(version) = tls.version {
        entry.tls_versions.count(&version.to_string());
    }
    if let Some(group) = tls.group {
        entry.tls_groups.count(&group.to_string());
    }
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

const fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
