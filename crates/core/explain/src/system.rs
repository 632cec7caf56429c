//! What system a SYN looks like: its remaining hops, window and options differ from stack to stack.
//!
//! Sources: p0f's signatures (Zalewski, p0f.fp), Linux `tcp_select_initial_window`, the defaults of Windows
//! (`Get-NetTCPSetting`), XNU, AIX `no` and BIG-IP's `tcp` profile. A router or a proxy on the way may send
//! other SYNs than the host behind it; that is who opened this connection.

use connections::SynOptions;
use tuning::remedies::Target;

/// A system, and what speaks for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Guess {
    pub(crate) target: Target,
    pub(crate) because: String,
}

/// The system that sends such a SYN or SYN-ACK; `None` where several do, or nothing captured tells.
pub(crate) fn guess(syn: &SynOptions) -> Option<Guess> {
    let ttl = syn.ttl?;
    let mss = syn.mss.filter(|mss| *mss > 0)?;
    let started_at = [64_u8, 128, 255].into_iter().find(|start| ttl <= *start)?;
    let target = match started_at {
        128 => Target::Windows,
        // A window of whole segments beside the largest hop count: a device that ends TCP itself. Old Solaris has both,
        // and offers no SACK.
        255 if syn.window.is_multiple_of(mss) && syn.sack_permitted => Target::Bigip,
        64 => of_unix(syn, ttl)?,
        _ => return None,
    };
    let scale = syn
        .window_scale
        .map_or_else(|| "none".to_owned(), |shift| shift.to_string());
    let has = |option: bool| if option { "with" } else { "without" };
    Some(Guess {
        target,
        because: format!(
            "its SYN looks like it: TTL {ttl}, window {}, MSS {mss}, window scale {scale}, {} SACK, {} \
             timestamps",
            syn.window,
            has(syn.sack_permitted),
            has(syn.timestamps)
        ),
    })
}

fn of_unix(syn: &SynOptions, ttl: u8) -> Option<Target> {
    /// AIX starts with 60 hops, Linux and macOS with 64.
    const AIX_HOPS: u8 = 60;
    const AIX_WINDOWS: [u16; 3] = [16_384, 32_768, 65_535];
    match (syn.sack_permitted, syn.window_scale) {
        (true, Some(5 | 6)) if syn.window == u16::MAX => Some(Target::Macos),
        (true, Some(6..)) => Some(Target::Linux),
        (false, None | Some(0..=4)) if ttl <= AIX_HOPS && AIX_WINDOWS.contains(&syn.window) => {
            Some(Target::Aix)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(ttl: u8, window: u16, scale: Option<u8>, sack: bool) -> SynOptions {
        SynOptions {
            mss: Some(1460),
            window_scale: scale,
            sack_permitted: sack,
            timestamps: sack,
            window,
            ttl: Some(ttl),
        }
    }

    fn target(syn: SynOptions) -> Option<Target> {
        guess(&syn).map(|guess| guess.target)
    }

    #[test]
    fn known_stacks_are_told_by_their_syns() {
        assert_eq!(target(syn(64, 64_240, Some(7), true)), Some(Target::Linux));
        assert_eq!(target(syn(51, 65_160, Some(7), true)), Some(Target::Linux));
        assert_eq!(
            target(syn(115, 64_240, Some(8), true)),
            Some(Target::Windows)
        );
        assert_eq!(target(syn(64, 65_535, Some(6), true)), Some(Target::Macos));
        assert_eq!(target(syn(58, 16_384, None, false)), Some(Target::Aix));
        assert_eq!(target(syn(250, 4_380, None, true)), Some(Target::Bigip));
    }

    #[test]
    fn what_no_stack_is_known_for_gives_no_guess() {
        assert_eq!(target(syn(64, 5_000, None, true)), None);
        assert_eq!(target(syn(250, 5_000, None, true)), None);
        // Solaris 2.6.
        assert_eq!(target(syn(251, 8_760, None, false)), None);
        let unseen = SynOptions {
            ttl: None,
            ..syn(64, 64_240, Some(7), true)
        };
        assert_eq!(target(unseen), None);
    }
}
