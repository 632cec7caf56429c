//! Which of several certificates a client is shown.

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificates of one listener, in the configuration's order.
#[derive(Debug)]
pub(super) struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    pub(super) fn new(certified: Vec<Arc<CertifiedKey>>) -> Self {
        Self(certified)
    }
}

impl ResolvesServerCert for Certificates {
    /// The first that is for the name asked for and can sign as the client wants; without such a one the
    /// first that can sign, and the client judges for itself.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello
            .server_name()
            .and_then(|name| ServerName::try_from(name).ok());
        let can_sign = |certified: &&Arc<CertifiedKey>| {
            certified
                .key
                .choose_scheme(hello.signature_schemes())
                .is_some()
        };
        let mut usable = self.0.iter().filter(can_sign);
        let named = name.and_then(|name| {
            let mut usable = usable.clone();
            usable.find(|certified| is_for(certified, &name))
        });
        named.or_else(|| usable.next()).cloned()
    }
}

fn is_for(certified: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = certified.cert.first().map(ParsedCertificate::try_from);
    parsed.is_some_and(|parsed| parsed.is_ok_and(|leaf| verify_server_name(&leaf, name).is_ok()))
}
