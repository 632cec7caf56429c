//! The body of a fuzz target: a plain function, so that `cargo test` runs it too.

use alloc::string::{String, ToString as _};

use crate::packet::Packet;
use crate::script::{Script, Step};
use crate::{Endpoint, Tolerance, play};

/// Reads arbitrary text. What can be read can be played, and every packet is printed as it is read.
pub fn fuzz_script(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(script) = Script::read(&text) else {
        return;
    };
    for line in &script.lines {
        if let Step::Arrive(packet) | Step::Expect(packet) = &line.step {
            let printed = packet.to_string();
            assert_eq!(Packet::read(&printed).as_ref(), Ok(packet), "{printed}");
        }
    }
    play(&script, &mut Endpoint::new(&script), Tolerance::default());
}
