//! `longhaul relay ca`: the files, and how each kind of client is told to trust them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use relay::{Authority, AuthorityError};
use serde_json::json;

use super::arguments::RelayCa;
use crate::failure::{Failure, Kind};
use crate::output;

pub(super) fn make(arguments: &RelayCa) -> Result<ExitCode, Failure> {
    let files = Authority::make(&arguments.dir, &arguments.names).map_err(|error| {
        let kind = match error {
            AuthorityError::NoName | AuthorityError::Name { .. } => Kind::Usage,
            AuthorityError::Directory { .. }
            | AuthorityError::Read { .. }
            | AuthorityError::Write { .. } => Kind::Environment,
            AuthorityError::Library(_) => Kind::Bug,
        };
        let error = anyhow::Error::from(error).context("no certificate was made");
        Failure::new(kind, error)
    })?;
    let authority = absolute(&files.authority);
    if arguments.json {
        output::json(&json!({
            "authority": authority,
            "authority-kept": files.kept,
            "certificate": absolute(&files.certificate),
            "key": absolute(&files.key),
            "names": arguments.names,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let whence = if files.kept {
        "was there already"
    } else {
        "is new"
    };
    output::data(&format!(
        "The authority {whence}: {}\nThe certificate: {}\nIts key: {}\n\n{}",
        authority.display(),
        files.certificate.display(),
        files.key.display(),
        trust(&authority, &arguments.names[0]),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// What each kind of client is told. Their own options, where they have one: the host's list of
/// authorities opens every program of the host to whoever holds the authority's key.
fn trust(authority: &Path, name: &str) -> String {
    let ca = authority.display();
    // The certificate's host, where it is for a whole domain.
    let host = name.replace("*.", "bucket.");
    format!(
        "\
Tell each client to trust the authority, and let {host} resolve to the relay:

boto3        AWS_CA_BUNDLE={ca}
             or boto3.client('s3', verify='{ca}')
aws-cli      AWS_CA_BUNDLE={ca}, or aws --ca-bundle {ca}
             or ca_bundle = {ca} in ~/.aws/config
rclone       rclone --ca-cert {ca}, or RCLONE_CA_CERT={ca}
s5cmd, Go    SSL_CERT_FILE={ca}
curl         curl --cacert {ca}, or CURL_CA_BUNDLE={ca}
node         NODE_EXTRA_CA_CERTS={ca}
Java         keytool -importcert -noprompt -alias longhaul -file {ca} \\
               -keystore longhaul.p12 -storetype PKCS12 -storepass changeit
             java -Djavax.net.ssl.trustStore=longhaul.p12 -Djavax.net.ssl.trustStorePassword=changeit
             (in place of the JVM's own list; `keytool -cacerts` adds to that instead)
Firefox      Settings, Privacy & Security, Certificates, View Certificates, Authorities, Import
Chrome       on Linux: certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n longhaul -i {ca}
             elsewhere: add it to the system's list
Debian       cp {ca} /usr/local/share/ca-certificates/longhaul.crt && update-ca-certificates
Fedora       trust anchor {ca}
Windows      certutil -addstore Root ca.pem
macOS        security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {ca}

Clients that pin the service's own certificate or authority cannot be relayed like this: for them,
`longhaul relay tcp` passes their TLS through as it is.
Whoever holds ca.key can pose as any server to these clients: keep it where the relay does not run.
"
    )
}

/// For clients that start in another directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
