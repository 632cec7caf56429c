//! What a handshake agreed on, for events.

use rustls::{CommonState, HandshakeKind, ProtocolVersion};
use tokio_rustls::TlsStream;

use crate::event::TlsReport;

/// What a connection's handshake agreed on; `None` before it is over. The name is the one that a client asked
/// for: towards a server, the caller knows it.
pub(crate) fn of<S>(stream: &TlsStream<S>) -> Option<TlsReport> {
    let (state, name): (&CommonState, _) = match stream {
        TlsStream::Server(stream) => {
            let (_, session) = stream.get_ref();
            (session, session.server_name().map(str::to_owned))
        }
        TlsStream::Client(stream) => (stream.get_ref().1, None),
    };
    let version = if state.protocol_version()? == ProtocolVersion::TLSv1_3 {
        "1.3"
    } else {
        "1.2"
    };
    let suite = state.negotiated_cipher_suite()?;
    Some(TlsReport {
        version: version.into(),
        cipher_suite: format!("{:?}", suite.suite()),
        group: state
            .negotiated_key_exchange_group()
            .map(|group| format!("{:?}", group.name())),
        resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
        server_name: name,
    })
}
