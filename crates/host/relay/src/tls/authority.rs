//! A certificate authority of one's own: a few files in a directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use time::OffsetDateTime;

const DAY: Duration = Duration::from_hours(24);

/// Clients are told to trust the authority by hand, so it should last.
const AUTHORITY_DAYS: u32 = 3_650;

/// What browsers accept at most of public authorities; those of one's own get no more everywhere.
const LEAF_DAYS: u32 = 397;

/// The files of an authority and of a certificate that it signed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Authority {
    /// What clients are told to trust, in PEM.
    pub authority: PathBuf,
    /// Whether it was there already.
    pub kept: bool,
    /// The certificate for the names, and the authority's after it, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM, for the owner alone.
    pub key: PathBuf,
}

/// No certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// There is no name to make a certificate for.
    #[error("a certificate is for at least one name")]
    NoName,
    /// A name is none that a certificate can carry.
    #[error(
        "`{name}` is no name of a server, such as `store.example`, `*.store.example` or 10.0.0.1"
    )]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: InvalidDnsNameError,
    },
    /// The directory cannot be made.
    #[error("cannot make the directory `{}`", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A file of the authority cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The library refused.
    #[error("cannot make a certificate")]
    Library(#[source] rcgen::Error),
}

// === impl Authority ===

impl Authority {
    /// Makes an authority in `directory`, or takes the one that is there, and a certificate for `names`,
    /// which replaces an earlier one for the same first name.
    pub fn make(directory: &Path, names: &[String]) -> Result<Self, AuthorityError> {
        for name in names {
            let plain = name.strip_prefix("*.").unwrap_or(name);
            ServerName::try_from(plain).map_err(|source| AuthorityError::Name {
                name: name.clone(),
                source,
            })?;
        }
        let first = names.first().ok_or(AuthorityError::NoName)?;
        fs::create_dir_all(directory).map_err(|source| AuthorityError::Directory {
            path: directory.to_owned(),
            source,
        })?;
        let stem = first.replace('*', "_").replace(':', "-");
        let files = Self {
            authority: directory.join("ca.pem"),
            kept: directory.join("ca.key").exists(),
            certificate: directory.join(format!("{stem}.pem")),
            key: directory.join(format!("{stem}.key")),
        };
        let (issuer, authority) = if files.kept {
            files.read(directory)?
        } else {
            files.found(directory)?
        };
        let key = KeyPair::generate().map_err(AuthorityError::Library)?;
        let leaf = leaf(names)
            .and_then(|params| params.signed_by(&key, &issuer))
            .map_err(AuthorityError::Library)?;
        write(&files.key, &key.serialize_pem(), 0o600)?;
        write(&files.certificate, &(leaf.pem() + &authority), 0o644)?;
        Ok(files)
    }

    /// The authority that is there, and its certificate.
    fn read(&self, directory: &Path) -> Result<(Issuer<'static, KeyPair>, String), AuthorityError> {
        let text = |path: &Path| {
            fs::read_to_string(path).map_err(|source| AuthorityError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let certificate = text(&self.authority)?;
        let issuer = KeyPair::from_pem(&text(&directory.join("ca.key"))?)
            .and_then(|key| Issuer::from_ca_cert_pem(&certificate, key))
            .map_err(AuthorityError::Library)?;
        Ok((issuer, certificate))
    }

    /// A new authority, and its certificate.
    fn found(
        &self,
        directory: &Path,
    ) -> Result<(Issuer<'static, KeyPair>, String), AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Library)?;
        let mut params = CertificateParams::default();
        // It signs servers' certificates, and no further authority.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "Longhaul relay CA");
        (params.not_before, params.not_after) = validity(AUTHORITY_DAYS);
        let certificate = params.self_signed(&key).map_err(AuthorityError::Library)?;
        write(&directory.join("ca.key"), &key.serialize_pem(), 0o600)?;
        write(&self.authority, &certificate.pem(), 0o644)?;
        Ok((Issuer::new(params, key), certificate.pem()))
    }
}

fn leaf(names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        // So that the same command makes what a client shows.
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(name) = names.first() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    (params.not_before, params.not_after) = validity(LEAF_DAYS);
    Ok(params)
}

/// From yesterday, since clients' clocks are not all right.
fn validity(days: u32) -> (OffsetDateTime, OffsetDateTime) {
    let now = SystemTime::now();
    ((now - DAY).into(), (now + DAY * (days - 1)).into())
}

/// Writes beside the file and puts it into its place at once: a key is never readable by others, and a
/// reader never sees half of it.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    let new = path.with_extension("new");
    let written = || {
        let mut options = OpenOptions::new();
        // What a run that was cut off left behind could have another mode.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = options.write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().map_err(|source| AuthorityError::Write {
        path: path.to_owned(),
        source,
    })
}
