use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{RawTcpProfile, TcpProfile, builtin};

/// The profiles of one configuration, beside the built-in ones.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProfileSet {
    written: BTreeMap<String, RawTcpProfile>,
}

/// A profile cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// Nothing has this name.
    #[error("there is no profile `{name}`; known are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// `extends` leads in a circle.
    #[error("profile `{name}` extends itself: {chain}")]
    Circle {
        /// The name asked for.
        name: String,
        /// The names on the way, joined by arrows.
        chain: String,
    },
    /// A name of a built-in profile was given to another.
    #[error("profile `{name}` is built in; choose another name and write `extends = \"{name}\"`")]
    Shadowed {
        /// The name.
        name: String,
    },
    /// A value is outside what a socket can be given.
    #[error("profile `{name}`: {problem}")]
    Value {
        /// The profile.
        name: String,
        /// The sentence, with the field in it.
        problem: String,
    },
}

impl ProfileSet {
    /// A set of the profiles as written, by name.
    #[must_use]
    pub fn new(written: BTreeMap<String, RawTcpProfile>) -> Self {
        Self { written }
    }

    /// The profile of this name with everything it inherits, checked. All problems are reported.
    pub fn resolve(&self, name: &str) -> Result<TcpProfile, Vec<ProfileError>> {
        let profile = self.lookup(name).map_err(|error| Vec::from([error]))?;
        let problems: Vec<_> = profile
            .problems()
            .into_iter()
            .map(|problem| ProfileError::Value {
                name: name.into(),
                problem,
            })
            .collect();
        if problems.is_empty() {
            Ok(profile)
        } else {
            Err(problems)
        }
    }

    /// Everything that is wrong with any profile of the set, used or not.
    #[must_use]
    pub fn problems(&self) -> Vec<ProfileError> {
        let names = self.written.keys();
        names.flat_map(|name| self.problems_of(name)).collect()
    }

    /// Everything that is wrong with the written profile of this name.
    #[must_use]
    pub fn problems_of(&self, name: &str) -> Vec<ProfileError> {
        if self.written.contains_key(name) && builtin::find(name).is_some() {
            return Vec::from([ProfileError::Shadowed { name: name.into() }]);
        }
        self.resolve(name).err().unwrap_or_default()
    }

    fn lookup(&self, name: &str) -> Result<TcpProfile, ProfileError> {
        let mut chain: Vec<&str> = Vec::new();
        let mut next = name;
        let mut profile = loop {
            if let Some(found) = builtin::find(next) {
                break found;
            }
            if chain.contains(&next) {
                chain.push(next);
                return Err(ProfileError::Circle {
                    name: name.into(),
                    chain: chain.join(" -> "),
                });
            }
            let (key, raw) =
                self.written
                    .get_key_value(next)
                    .ok_or_else(|| ProfileError::Unknown {
                        name: next.into(),
                        known: self.names().join(", "),
                    })?;
            chain.push(key);
            next = raw.extends.as_deref().unwrap_or("wan");
        };
        for name in chain.into_iter().rev() {
            profile = self.written[name].over(&profile, name);
        }
        Ok(profile)
    }

    fn names(&self) -> Vec<String> {
        let built_in = builtin::NAMES.iter().map(ToString::to_string);
        built_in.chain(self.written.keys().cloned()).collect()
    }
}
