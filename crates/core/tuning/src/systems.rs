//! The same advice for hosts that can't be read from here: commands that show, change and undo.

pub(crate) mod aix;
pub(crate) mod bigip;
pub(crate) mod macos;
pub(crate) mod windows;

use record::tune::{Document, Finding, Kind, VERSION};
use units::Bytes;

use crate::Path;

/// A system that is only advised.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum System {
    /// Windows 10, Server 2016 and later.
    Windows,
    /// AIX 7.
    Aix,
    /// macOS 11 and later.
    Macos,
    /// F5 BIG-IP.
    Bigip,
}

/// What to look at and to change there for transfers over `path`. Nothing is predicted: what the host has
/// now is not known.
#[must_use]
pub fn advise(system: System, path: &Path) -> Document {
    let (name, findings) = match system {
        System::Windows => ("windows", windows::findings(path)),
        System::Aix => ("aix", aix::findings(path)),
        System::Macos => ("macos", macos::findings(path)),
        System::Bigip => ("bigip", bigip::findings(path)),
    };
    Document {
        schema: "longhaul.tune".to_owned(),
        version: VERSION,
        host: record::tune::Host {
            system: name.to_owned(),
            ..record::tune::Host::default()
        },
        path: path.record(),
        findings,
        predictions: Vec::new(),
        unpredicted: Some(
            "this host was not read, so it is not known what it has now and what a change would bring"
                .to_owned(),
        ),
        fine: Vec::new(),
        unknown: Vec::new(),
    }
}

/// A buffer that holds what flies on the path and a queue of as much, in whole 64 KiB; at most 1 GiB, the
/// largest window that scaling can say (RFC 7323 section 2.3).
pub(crate) fn buffer(path: &Path) -> u64 {
    const STEP: u64 = 64 * 1024;
    let twice = path.bdp().get().saturating_mul(2);
    twice
        .div_ceil(STEP)
        .saturating_mul(STEP)
        .clamp(4 * STEP, 1 << 30)
}

/// One piece of advice.
fn finding(
    name: &str,
    kind: Kind,
    says: String,
    source: &str,
    commands: Vec<String>,
    undo: Vec<String>,
) -> Finding {
    Finding {
        name: name.to_owned(),
        kind,
        says,
        source: source.to_owned(),
        changes: Vec::new(),
        commands,
        undo,
        gains: Vec::new(),
    }
}

fn in_flight(path: &Path) -> String {
    let bdp: Bytes = path.bdp();
    format!("{bdp} fly on this path")
}
