use std::fmt;
use std::str::FromStr;

/// A congestion control of ours.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Controller {
    /// RFC 3649, with the table of its appendix B.
    HighSpeed,
    /// Westwood+ (Grieco and Mascolo, 2004).
    WestwoodPlus,
    /// RFC 5681 and 6582, with a settable initial ssthresh.
    NewReno,
}

/// What is to be put into the kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// How it decides.
    pub controller: Controller,
    /// Its name in the kernel.
    pub name: Name,
    /// Initial slow start threshold in segments; only [`Controller::NewReno`] has one.
    pub initial_ssthresh: Option<u32>,
}

/// The kernel's name of a controller of ours: machine-global, so it begins with `lh_`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name(String);

/// A text does not name a controller, or is no name for one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// Nothing of ours is called like this.
    #[error("`{0}` is none of highspeed, westwood+ and newreno")]
    Controller(String),
    /// The kernel would refuse it, or it could be somebody else's.
    #[error(
        "`{0}` is no name for a controller of ours: `{PREFIX}` and up to 12 letters, digits, `_` or `.`"
    )]
    Name(String),
}

/// What tells our names from those of other owners.
pub(crate) const PREFIX: &str = "lh_";
/// `TCP_CA_NAME_MAX` of `include/net/tcp.h`, without the final zero.
const LONGEST: usize = 15;

// === impl Controller ===

impl Controller {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::HighSpeed, Self::WestwoodPlus, Self::NewReno];

    /// As profiles and people call it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HighSpeed => "highspeed",
            Self::WestwoodPlus => "westwood+",
            Self::NewReno => "newreno",
        }
    }

    /// As sections of the object call it.
    pub(crate) const fn section(self) -> &'static str {
        match self {
            Self::HighSpeed => "highspeed",
            Self::WestwoodPlus => "westwood",
            Self::NewReno => "newreno",
        }
    }

    /// The name that it gets where nobody asks for another: with the threshold, because several may be loaded.
    #[must_use]
    pub fn default_name(self, initial_ssthresh: Option<u32>) -> Name {
        let mut name = format!("{PREFIX}{}", self.section());
        if let Some(segments) = initial_ssthresh {
            // Of a threshold with more digits the last count: two such names may meet, and the kernel says so.
            let digits = segments.to_string();
            let room = LONGEST - name.len() - 1;
            let tail = digits.len().saturating_sub(room);
            name = format!("{name}_{}", &digits[tail..]);
        }
        Name(name)
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Controller {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|one| one.as_str() == text || one.section() == text)
            .ok_or_else(|| NameError::Controller(text.to_owned()))
    }
}

// === impl Name ===

impl Name {
    /// The name as the kernel has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The letters that the kernel takes for names of eBPF objects (`bpf_obj_name_cpy`).
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        let is_name = text.len() > PREFIX.len()
            && text.len() <= LONGEST
            && text.starts_with(PREFIX)
            && text.bytes().all(is_letter);
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Name(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_are_names_and_differ() {
        let mut names = std::collections::BTreeSet::new();
        for controller in Controller::ALL {
            for ssthresh in [None, Some(1), Some(64), Some(9999)] {
                let name = controller.default_name(ssthresh);
                assert_eq!(name.as_str().parse::<Name>(), Ok(name.clone()));
                names.insert(name);
            }
            let longest = controller.default_name(Some(u32::MAX));
            assert!(longest.as_str().parse::<Name>().is_ok());
        }
        assert_eq!(names.len(), 12);
    }

    #[test]
    fn names_of_other_owners_and_of_no_kernel_are_refused() {
        for text in ["cubic", "lh_", "lh_a b", "lh_westwood+", "lh_0123456789abc"] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
        assert_eq!("westwood+".parse(), Ok(Controller::WestwoodPlus));
        assert_eq!("westwood".parse(), Ok(Controller::WestwoodPlus));
    }
}
