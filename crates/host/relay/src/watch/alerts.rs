//! What somebody should look at, from events.

use std::time::Duration;

use record::page::{Alert, Severity};

use crate::Event;
use crate::trunk::TrunkEvent;

/// Alerts that are kept. What is told again is not kept twice.
const KEPT: usize = 100;
/// The longest text: a peer may have a part in it.
const LONGEST: usize = 600;

/// Alerts, the one that was told last at the end.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    told: u64,
    alerts: Vec<Alert>,
}

// === impl Alerts ===

impl Alerts {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an event is no alert until somebody says so here"
    )]
    pub(super) fn notice(&mut self, event: &Event, now: Duration) {
        match event {
            Event::Warning { name, text } => {
                let severity = match *name {
                    "origin-unreachable" | "accept-shortage" => Severity::Error,
                    _ => Severity::Warning,
                };
                self.raise(severity, name, "", text, now);
            }
            Event::Target {
                target,
                available: false,
                why,
            } => self.raise(Severity::Error, "target-gone", target, why, now),
            Event::Target { target, .. } => self.clear("target-gone", target, now),
            Event::ReloadFailed { why } => {
                self.raise(Severity::Error, "reload-failed", "", why, now);
            }
            Event::Reloaded { .. } => self.clear("reload-failed", "", now),
            Event::PrimingFailed { why, .. } => {
                self.raise(Severity::Warning, "priming-failed", "", why, now);
            }
            Event::Trunk(event) => self.notice_trunk(event, now),
            _ => {}
        }
    }

    /// Newest first.
    pub(super) fn list(&self) -> Vec<Alert> {
        self.alerts.iter().rev().cloned().collect()
    }

    pub(super) fn raise(
        &mut self,
        severity: Severity,
        name: &str,
        about: &str,
        text: &str,
        now: Duration,
    ) {
        let now_s = now.as_secs_f64();
        let text: String = text.chars().take(LONGEST).collect();
        let again = self.alerts.iter().position(|alert| {
            // Of what comes and goes, the time that it is there is one alert.
            alert.name == name && alert.about == about && alert.cleared_s.is_none()
        });
        let alert = if let Some(place) = again {
            let before = self.alerts.remove(place);
            Alert {
                count: before.count + 1,
                last_s: now_s,
                text,
                ..before
            }
        } else {
            self.told += 1;
            Alert {
                id: self.told,
                severity,
                name: name.to_owned(),
                about: about.to_owned(),
                text,
                count: 1,
                first_s: now_s,
                last_s: now_s,
                cleared_s: None,
            }
        };
        if self.alerts.len() == KEPT {
            self.alerts.remove(0);
        }
        self.alerts.push(alert);
    }

    pub(super) fn clear(&mut self, name: &str, about: &str, now: Duration) {
        let lasting = self.alerts.iter_mut().filter(|alert| {
            alert.name == name && alert.about == about && alert.cleared_s.is_none()
        });
        for alert in lasting {
            alert.cleared_s = Some(now.as_secs_f64());
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an event is no alert until somebody says so here"
    )]
    fn notice_trunk(&mut self, event: &TrunkEvent, now: Duration) {
        match event {
            TrunkEvent::WanUnreachable {
                trunk, via, why, ..
            } => {
                let text = format!("no connection to {via}: {why}");
                self.raise(Severity::Error, "wan-unreachable", trunk, &text, now);
            }
            TrunkEvent::WanConnected(wan) => self.clear("wan-unreachable", &wan.trunk, now),
            TrunkEvent::SessionEnded { trunk, why, .. } => {
                self.raise(Severity::Warning, "session-ended", trunk, why, now);
            }
            TrunkEvent::IntegrityAlarm { trunk, stream, .. } => {
                let text = format!(
                    "stream {stream} was reset: the bytes that arrived are not those that were sent"
                );
                self.raise(Severity::Error, "integrity", trunk, &text, now);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn target(available: bool) -> Event {
        Event::Target {
            target: "10.0.0.6:9000".into(),
            available,
            why: "refused".into(),
        }
    }

    #[test]
    fn a_target_that_comes_back_clears_its_alert_and_goes_again_with_a_new_one() {
        let mut alerts = Alerts::default();
        for (second, available) in [(1, false), (2, false), (5, true), (9, false)] {
            alerts.notice(&target(available), at(second));
        }
        let list = alerts.list();
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].count, list[0].cleared_s), (1, None));
        assert_eq!((list[1].count, list[1].cleared_s), (2, Some(5.0)));
        assert_eq!((list[1].first_s, list[1].last_s), (1.0, 2.0));
        assert_eq!(list[1].severity, Severity::Error);
    }

    #[test]
    fn what_is_told_again_and_again_is_one_alert_and_all_are_bounded() {
        let mut alerts = Alerts::default();
        for second in 0..1000 {
            let warning = Event::Warning {
                name: "accept-shortage",
                text: format!("{second}"),
            };
            alerts.notice(&warning, at(second));
            let gone = Event::Target {
                target: format!("10.0.0.1:{second}"),
                available: false,
                why: "x".repeat(10_000),
            };
            alerts.notice(&gone, at(second));
        }
        let list = alerts.list();
        assert_eq!(list.len(), KEPT);
        let shortage = list.iter().find(|alert| alert.name == "accept-shortage");
        assert_eq!(shortage.map(|alert| alert.count), Some(1000));
        assert!(list.iter().all(|alert| alert.text.len() <= LONGEST));
    }
}
