//! Whose fault an error is, and therefore the exit code: scripts branch on it.

use std::fmt;

/// An error with its exit code and, where there is one, the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) error: anyhow::Error,
    pub(crate) hint: Option<String>,
}

/// Exit codes of every verb.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// 1: an assertion does not hold, or `--fail-on` was hit.
    Assertion,
    /// 2: usage, configuration or input.
    Usage,
    /// 3: privilege, kernel, or another part of the machine.
    Environment,
    /// 4: a bug of ours.
    Bug,
}

impl Kind {
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Assertion => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Bug => 4,
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, error: impl Into<anyhow::Error>) -> Self {
        Self {
            kind,
            error: error.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Attaches whose fault it is to an error that a library returned.
pub(crate) trait Blame<T> {
    fn usage(self, context: impl fmt::Display + Send + Sync + 'static) -> Result<T, Failure>;
    fn environment(self, context: impl fmt::Display + Send + Sync + 'static) -> Result<T, Failure>;
    fn bug(self, context: impl fmt::Display + Send + Sync + 'static) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Blame<T> for Result<T, E> {
    fn usage(self, context: impl fmt::Display + Send + Sync + 'static) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Kind::Usage, error.into().context(context)))
    }

    fn environment(self, context: impl fmt::Display + Send + Sync + 'static) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Kind::Environment, error.into().context(context)))
    }

    fn bug(self, context: impl fmt::Display + Send + Sync + 'static) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Kind::Bug, error.into().context(context)))
    }
}
