//! Which fields a kind has, and what they may hold.

use units::Bytes;

use super::{Kind, Workload};

/// Largest object, stream or burst of one connection.
const LARGEST: Bytes = Bytes::mib(1024);
/// Most connections at once: what `longhaul flow` carries side by side.
pub(crate) const MOST_CONNECTIONS: u32 = 4_096;
/// Longest time a workload may run.
const LONGEST_S: u64 = 3_600;

impl Workload {
    /// What is wrong with it by itself: fields below the workload's, and what to do.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = self.fields_without_meaning();
        self.missing(&mut problems);
        self.out_of_range(&mut problems);
        problems
    }

    /// Fields that are set and that the kind does not have.
    fn fields_without_meaning(&self) -> Vec<(&'static str, String)> {
        use Kind::{Burst, Command, Download, Exchange, Replicate, Stream, Upload};
        let every_but_exchange = [Upload, Download, Stream, Burst, Replicate, Command].as_slice();
        let fields: [(&str, bool, &[Kind]); 13] = [
            ("bytes", self.bytes.is_some(), every_but_exchange),
            ("sizes", !self.sizes.is_empty(), &[Upload, Download]),
            ("duration", self.duration.is_some(), &[Stream, Command]),
            (
                "direction",
                self.direction.is_some(),
                &[Stream, Burst, Command],
            ),
            (
                "parallel",
                self.parallel.is_some(),
                &[Upload, Download, Stream, Exchange, Burst, Replicate],
            ),
            ("part", self.part.is_some(), &[Upload, Download, Replicate]),
            ("request", self.request.is_some(), &[Exchange]),
            ("response", self.response.is_some(), &[Exchange]),
            ("count", self.count.is_some(), &[Exchange, Burst, Replicate]),
            ("idle", self.idle.is_some(), &[Exchange, Burst]),
            ("read-pause", self.read_pause.is_some(), &[Download, Stream]),
            (
                "tls",
                self.tls.is_some(),
                &[Upload, Download, Replicate, Command],
            ),
            (
                "command",
                self.command.is_some(),
                &[Upload, Download, Replicate, Command],
            ),
        ];
        fields
            .into_iter()
            .filter(|(_, set, kinds)| *set && !kinds.contains(&self.kind))
            .map(|(field, _, kinds)| {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
                let message = format!(
                    "has no meaning for kind `{}`, only for `{}`",
                    self.kind,
                    kinds.join("`, `")
                );
                (field, message)
            })
            .chain(self.beyond_a_program())
            .collect()
    }

    /// Fields that a program would never hear of.
    fn beyond_a_program(&self) -> impl Iterator<Item = (&'static str, String)> {
        let deaf = self.command.is_some() && self.kind != Kind::Command;
        [
            ("sizes", !self.sizes.is_empty()),
            ("part", self.part.is_some()),
            ("parallel", self.parallel.is_some()),
            ("read-pause", self.read_pause.is_some()),
        ]
        .into_iter()
        .filter(move |(_, set)| deaf && *set)
        .map(|(field, _)| {
            let message = "a program moves one object of `bytes` in its own way: leave this out";
            (field, message.to_owned())
        })
    }

    fn missing(&self, problems: &mut Vec<(&'static str, String)>) {
        let mut report = |field, message: &str| problems.push((field, message.to_owned()));
        let sized = self.bytes.is_some() || !self.sizes.is_empty();
        match self.kind {
            Kind::Upload | Kind::Download => {
                if !sized {
                    report(
                        "bytes",
                        "say how much: `bytes`, or `sizes` for several objects",
                    );
                }
                if self.bytes.is_some() && !self.sizes.is_empty() {
                    report("sizes", "either `bytes` or `sizes`, not both");
                }
            }
            Kind::Burst | Kind::Replicate => {
                if self.bytes.is_none() {
                    report("bytes", "say how much");
                }
                if self.kind == Kind::Burst && self.idle.is_none() {
                    report(
                        "idle",
                        "a burst follows idle time: say how much, such as `idle = \"5 s\"`",
                    );
                }
            }
            Kind::Stream => {
                if self.bytes.is_some() == self.duration.is_some() {
                    report("duration", "a stream has either `bytes` or a `duration`");
                }
            }
            Kind::Exchange => {
                if self.request() == Bytes::ZERO || self.response() == Bytes::ZERO {
                    report("request", "request and response need at least 1 B each");
                }
            }
            Kind::Command => {
                if self.command.is_none() {
                    report("command", "name the program: `command = \"...\"`");
                }
            }
        }
    }

    fn out_of_range(&self, problems: &mut Vec<(&'static str, String)>) {
        let mut report = |field, message| problems.push((field, message));
        let size = |bytes: Bytes| bytes == Bytes::ZERO || bytes > LARGEST;
        if let Some(bytes) = self.bytes.filter(|bytes| size(*bytes)) {
            report("bytes", format!("{bytes} is outside 1 B to 1 GiB"));
        }
        if let Some(bytes) = self.sizes.iter().find(|bytes| size(**bytes)) {
            report("sizes", format!("{bytes} is outside 1 B to 1 GiB"));
        }
        for (field, bytes) in [("request", self.request), ("response", self.response)] {
            if let Some(bytes) = bytes.filter(|bytes| *bytes > LARGEST) {
                report(field, format!("{bytes} is above 1 GiB"));
            }
        }
        if let Some(part) = self.part {
            // S3 refuses smaller parts but the last ("EntityTooSmall"); ranges may be of any size.
            let least = if self.kind == Kind::Download {
                Bytes::new(1)
            } else {
                Bytes::mib(5)
            };
            if part < least {
                report(
                    "part",
                    format!("{part} is below {least}, the least that S3 takes"),
                );
            }
        }
        if let Some(parallel) = self.parallel
            && !(1..=MOST_CONNECTIONS).contains(&parallel)
        {
            report(
                "parallel",
                format!("{parallel} is outside 1 to {MOST_CONNECTIONS}"),
            );
        }
        if self.count == Some(0) {
            report("count", "0 measures nothing".to_owned());
        }
        if let Some(duration) = self.duration
            && !(1..=LONGEST_S).contains(&duration.get().as_secs())
        {
            report("duration", format!("{duration} is outside 1 s to 1 h"));
        }
        if self.rivals.iter().any(|rival| rival.count == 0) {
            report(
                "rivals",
                "a rival of 0 flows is none; leave it out".to_owned(),
            );
        }
        let rivals: u32 = self
            .rivals
            .iter()
            .fold(0, |sum, rival| sum.saturating_add(rival.count));
        if rivals > MOST_CONNECTIONS {
            report(
                "rivals",
                format!("{rivals} flows are more than {MOST_CONNECTIONS}"),
            );
        }
    }
}
