//! A gateway's events as lines for people.

use gateway::Event;

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::GatewayListening { address, origin } => {
            format!("S3 on {address}, objects at {origin}")
        }
        Event::Answered {
            peer,
            operation,
            bucket,
            key,
            status,
            seconds,
            parts,
        } => {
            let object = format!("{bucket}/{key}");
            let parts = if *parts > 1 {
                format!(", {parts} parts")
            } else {
                String::new()
            };
            format!(
                "{peer} {operation} {}: {status} after {:.1} ms{parts}",
                object.escape_debug(),
                seconds * 1000.0
            )
        }
        Event::GaveUp { uploads, unheard } => {
            let rest = if *unheard > 0 {
                format!("; the store has not heard of {unheard}")
            } else {
                String::new()
            };
            format!("gave up {uploads} uploads that a crash had left{rest}")
        }
        Event::GatewayWarning { name, text } => format!("{} [{name}]", text.escape_debug()),
    }
}

pub(super) fn is_warning(event: &Event) -> bool {
    matches!(event, Event::GatewayWarning { .. })
}
