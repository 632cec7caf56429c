use alloc::string::String;

use crate::packet::Side;

/// What both ends of an SSH connection call themselves (RFC 4253 §4.2), the part before the comment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SshBanners {
    /// The client's, such as `SSH-2.0-OpenSSH_9.6`.
    pub client: Option<String>,
    /// The server's.
    pub server: Option<String>,
}

/// Looks for identification strings in the first payload of each side.
#[derive(Clone, Debug, Default)]
pub(crate) struct SshFollower {
    banners: SshBanners,
    seen: [bool; 2],
}

impl SshFollower {
    /// New payload from `side`; `head` is its captured start.
    pub(crate) fn on_data(&mut self, side: Side, head: &[u8]) {
        let (slot, seen) = match side {
            Side::Client => (&mut self.banners.client, &mut self.seen[0]),
            Side::Server => (&mut self.banners.server, &mut self.seen[1]),
        };
        if !core::mem::replace(seen, true) {
            *slot = banner(head);
        }
    }

    pub(crate) fn finish(self) -> Option<SshBanners> {
        (self.banners.client.is_some() || self.banners.server.is_some()).then_some(self.banners)
    }
}

/// The identification string at the start of `head`, without its comment.
fn banner(head: &[u8]) -> Option<String> {
    //= https://www.rfc-editor.org/rfc/rfc4253#section-4.2
    //# The maximum length of the string is 255 characters,
    //# including the Carriage Return and Line Feed.
    const LONGEST: usize = 255;
    let head = &head[..head.len().min(LONGEST)];
    let end = head
        .iter()
        .position(|byte| !byte.is_ascii_graphic())
        .unwrap_or(head.len());
    let line = core::str::from_utf8(&head[..end]).ok()?;
    line.starts_with("SSH-").then(|| line.into())
}
