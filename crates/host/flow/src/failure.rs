use std::io;

use crate::engine::EngineError;
use crate::protocol::FrameError;

/// A connection did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// It could not be made, or not as asked.
    #[error("the connection could not be made")]
    Open(#[source] EngineError),
    /// Writing failed.
    #[error("cannot send to the peer")]
    Send(#[source] io::Error),
    /// Reading failed.
    #[error("cannot receive from the peer")]
    Receive(#[source] io::Error),
    /// What came is not the protocol.
    #[error("the peer sent something that is no flow")]
    Protocol(#[source] FrameError),
    /// A frame that has no place here.
    #[error("the peer sent {what}")]
    Unexpected {
        /// What it was.
        what: &'static str,
    },
    /// The server said why it will not.
    #[error("the server refused: {why}")]
    Refused {
        /// Its words.
        why: String,
    },
    /// The peer closed before all was said.
    #[error("the peer closed the connection before {missing}")]
    Ended {
        /// What had not come.
        missing: &'static str,
    },
    /// The peer kept silent.
    #[error("{missing} did not come in time")]
    Late {
        /// What had not come.
        missing: &'static str,
    },
    /// The run was stopped.
    #[error("the run was stopped")]
    Stopped,
}
