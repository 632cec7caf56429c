//! Remedies as commands: what to run where, and how to take it back.

use std::fmt::Write as _;

use record::explain::{Document, Finding, Steps};

use super::layout::paragraph;
use super::{Emphasis, Style};
use crate::clean::for_terminal;
use crate::sentence;

const WIDTH: usize = 80;

/// Commands of all findings; the same ones for several findings stand once.
pub(super) fn commands(text: &mut String, document: &Document, style: Style) {
    let mut groups: Vec<(&Steps, Vec<&Finding>)> = Vec::new();
    for finding in &document.findings {
        for steps in &finding.steps {
            let same = |(other, _): &&mut (&Steps, Vec<&Finding>)| {
                let says = |steps: &Steps| steps.commands.is_empty().then(|| steps.says.clone());
                (&other.system, &other.at, &other.commands, says(other))
                    == (&steps.system, &steps.at, &steps.commands, says(steps))
            };
            match groups.iter_mut().find(same) {
                Some((_, findings)) => findings.push(finding),
                None => groups.push((steps, vec![finding])),
            }
        }
    }
    if groups.is_empty() {
        return;
    }
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, "Commands"));
    text.push('\n');
    for (steps, findings) in groups {
        let mut names: Vec<&str> = findings
            .iter()
            .map(|finding| finding.name.as_str())
            .collect();
        names.dedup();
        let title = format!(
            "{} on {}: {}",
            names.join(", "),
            steps.system,
            sentence::steps(steps)
        );
        text.push_str(&paragraph("  ", &title, WIDTH));
        text.push_str(&paragraph("    ", &steps.says, WIDTH));
        // Not broken: they are to be copied.
        for line in &steps.commands {
            let _ = writeln!(text, "      {}", for_terminal(line));
        }
        for (index, line) in steps.undo.iter().enumerate() {
            let label = if index == 0 { "undo  " } else { "      " };
            let _ = writeln!(text, "    {label}{}", for_terminal(line));
        }
        let profile = findings
            .iter()
            .find_map(|finding| finding.profile.as_deref());
        if let Some(profile) = profile {
            let said = format!(
                "Or a relay beside that host with the profile `{profile}` (`longhaul profile show {profile}`)."
            );
            text.push_str(&paragraph("    ", &said, WIDTH));
        }
    }
}
