//! The rules, one file per subject. A rule says what it found, or that it is fine, or what it could not
//! read: it never stays silent.

mod buffers;
mod capacity;
mod congestion;
mod device;
mod live;
mod restart;
mod switches;

use record::tune::{Change, Finding, Kind};

use crate::{Host, Path, Settings};

/// Where most sysctls are described.
const IP_SYSCTL: &str = "Linux, Documentation/networking/ip-sysctl.rst";

/// A finding, and what of its change the simulator plays.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) finding: Finding,
    pub(crate) played: Played,
}

/// How a change shows in a simulated host.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Played {
    /// Sysctls and their new values.
    pub(crate) sysctls: Vec<(String, String)>,
    /// First window of new connections, in segments.
    pub(crate) initial_cwnd: Option<u32>,
}

/// What all rules said.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) proposals: Vec<Proposal>,
    pub(crate) fine: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

pub(crate) fn judge(host: &Host, path: &Path) -> Judged {
    let mut judged = Judged::default();
    buffers::judge(host, path, &mut judged);
    switches::judge(&host.settings, &mut judged);
    restart::judge(host, &mut judged);
    congestion::judge(host, path, &mut judged);
    capacity::judge(host, path, &mut judged);
    device::judge(host, path, &mut judged);
    live::judge(host, path, &mut judged);
    judged
}

// === impl Judged ===

impl Judged {
    fn fine(&mut self, says: impl Into<String>) {
        self.fine.push(says.into());
    }

    fn unknown(&mut self, key: &str) {
        self.unknown.push(format!(
            "`{key}` could not be read, so nothing is said about it"
        ));
    }

    /// Sysctls are to change.
    fn sysctls(
        &mut self,
        name: &str,
        kind: Kind,
        says: impl Into<String>,
        source: &str,
        changes: Vec<Change>,
    ) {
        let set = |key: &str, value: &str| format!("sysctl -w {key}='{}'", spaced(value));
        let played = Played {
            sysctls: changes
                .iter()
                .map(|change| (change.key.clone(), change.to.clone()))
                .collect(),
            initial_cwnd: None,
        };
        let finding = Finding {
            name: name.to_owned(),
            kind,
            says: says.into(),
            source: source.to_owned(),
            commands: changes.iter().map(|c| set(&c.key, &c.to)).collect(),
            undo: changes.iter().map(|c| set(&c.key, &c.from)).collect(),
            changes,
            gains: Vec::new(),
        };
        self.proposals.push(Proposal { finding, played });
    }

    /// A route is to change, which `--apply` leaves to a person.
    fn route(
        &mut self,
        name: &str,
        says: impl Into<String>,
        source: &str,
        commands: [String; 2],
        played: Played,
    ) {
        let [change, undo] = commands;
        self.considered(name, says, source, vec![change], vec![undo]);
        if let Some(proposal) = self.proposals.last_mut() {
            proposal.played = played;
        }
    }

    /// Something else than a sysctl may be worth a change, which `--apply` leaves to a person.
    fn considered(
        &mut self,
        name: &str,
        says: impl Into<String>,
        source: &str,
        commands: Vec<String>,
        undo: Vec<String>,
    ) {
        let finding = Finding {
            name: name.to_owned(),
            kind: Kind::Consider,
            says: says.into(),
            source: source.to_owned(),
            changes: Vec::new(),
            commands,
            undo,
            gains: Vec::new(),
        };
        self.proposals.push(Proposal {
            finding,
            played: Played::default(),
        });
    }
}

/// `key` from what it is to `to`.
fn change(settings: &Settings, key: &str, to: impl Into<String>) -> Change {
    Change {
        key: key.to_owned(),
        from: settings.text(key).unwrap_or_default().to_owned(),
        to: to.into(),
    }
}

/// A value on one line: the kernel separates numbers by tabs.
fn spaced(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
