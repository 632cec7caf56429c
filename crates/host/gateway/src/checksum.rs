//! Checksums: what clients say about their bytes, and what the origin is told about ours.

use std::hash::Hasher as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::HeaderName;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders};
use sha2::{Digest as _, Sha512};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use crate::upload::is_sum;

/// What S3 can check an object with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
    Sha512,
    Md5,
    XxHash64,
    XxHash3,
    XxHash128,
}

const ALL: [Algorithm; 10] = [
    Algorithm::Crc32,
    Algorithm::Crc32c,
    Algorithm::Crc64Nvme,
    Algorithm::Sha1,
    Algorithm::Sha256,
    Algorithm::Sha512,
    Algorithm::Md5,
    Algorithm::XxHash64,
    Algorithm::XxHash3,
    Algorithm::XxHash128,
];

/// A checksum over the pieces so far.
pub(crate) enum Running {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Md5(Md5),
    XxHash64(XxHash64),
    XxHash3(Box<XxHash3_64>),
    XxHash128(Box<XxHash3_128>),
}

/// What a client says about a body, checked while the body passes.
pub(crate) struct Claims {
    md5: Option<(Md5, String)>,
    /// Algorithm, sum so far, and what it must be where that is known already.
    sums: Vec<(Algorithm, Running, Option<String>)>,
    /// Where the rest of what it must be arrives.
    trailers: Option<TrailingHeaders>,
}

// === impl Algorithm ===

impl Algorithm {
    /// The header that carries it.
    pub(crate) const fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha512 => "x-amz-checksum-sha512",
            Self::Md5 => "x-amz-checksum-md5",
            Self::XxHash64 => "x-amz-checksum-xxhash64",
            Self::XxHash3 => "x-amz-checksum-xxhash3",
            Self::XxHash128 => "x-amz-checksum-xxhash128",
        }
    }

    /// As `x-amz-checksum-algorithm` spells it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
            Self::Md5 => "MD5",
            Self::XxHash64 => "XXHASH64",
            Self::XxHash3 => "XXHASH3",
            Self::XxHash128 => "XXHASH128",
        }
    }

    /// Characters of the sum in base64.
    pub(crate) const fn text_length(self) -> u64 {
        match self {
            Self::Crc32 | Self::Crc32c => 8,
            Self::Crc64Nvme | Self::XxHash64 | Self::XxHash3 => 12,
            Self::Md5 | Self::XxHash128 => 24,
            Self::Sha1 => 28,
            Self::Sha256 => 44,
            Self::Sha512 => 88,
        }
    }

    fn of_header(name: &str) -> Option<Self> {
        ALL.into_iter()
            .find(|algorithm| algorithm.header().eq_ignore_ascii_case(name))
    }
}

// === impl Running ===

impl Running {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc32 => Self::Crc32(Crc32::new()),
            Algorithm::Crc32c => Self::Crc32c(Crc32c::new()),
            Algorithm::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
            Algorithm::Sha1 => Self::Sha1(Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Box::default()),
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::XxHash64 => Self::XxHash64(XxHash64::with_seed(0)),
            Algorithm::XxHash3 => Self::XxHash3(Box::new(XxHash3_64::with_seed(0))),
            Algorithm::XxHash128 => Self::XxHash128(Box::new(XxHash3_128::with_seed(0))),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(sum) => sum.update(bytes),
            Self::Crc32c(sum) => sum.update(bytes),
            Self::Crc64Nvme(sum) => sum.update(bytes),
            Self::Sha1(sum) => sum.update(bytes),
            Self::Sha256(sum) => sum.update(bytes),
            Self::Sha512(sum) => sum.update(bytes),
            Self::Md5(sum) => sum.update(bytes),
            Self::XxHash64(sum) => sum.write(bytes),
            Self::XxHash3(sum) => sum.write(bytes),
            Self::XxHash128(sum) => sum.write(bytes),
        }
    }

    /// In base64, as it travels.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Crc32(sum) => STANDARD.encode(sum.finalize()),
            Self::Crc32c(sum) => STANDARD.encode(sum.finalize()),
            Self::Crc64Nvme(sum) => STANDARD.encode(sum.finalize()),
            Self::Sha1(sum) => STANDARD.encode(sum.finalize()),
            Self::Sha256(sum) => STANDARD.encode(sum.finalize()),
            Self::Sha512(sum) => STANDARD.encode(sum.finalize()),
            Self::Md5(sum) => STANDARD.encode(sum.finalize()),
            Self::XxHash64(sum) => STANDARD.encode(sum.finish().to_be_bytes()),
            Self::XxHash3(sum) => STANDARD.encode(sum.finish().to_be_bytes()),
            Self::XxHash128(sum) => STANDARD.encode(sum.finish_128().to_be_bytes()),
        }
    }
}

// === impl Claims ===

impl Claims {
    /// What `headers` say, and what `trailers` will say.
    pub(crate) fn of(headers: &HeaderMap, trailers: Option<TrailingHeaders>) -> S3Result<Self> {
        let text = |name: &str| -> Option<String> {
            let value = headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let md5 = match text("content-md5") {
            None => None,
            Some(expected) if STANDARD.decode(&expected).is_ok_and(|sum| sum.len() == 16) => {
                Some((Md5::new(), expected))
            }
            Some(_) => {
                return Err(S3Error::with_message(
                    S3ErrorCode::InvalidDigest,
                    "The Content-MD5 you specified is not valid.",
                ));
            }
        };
        let mut sums = Vec::new();
        let announced = text("x-amz-trailer").unwrap_or_default();
        let announced = announced
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase());
        let announced: Vec<String> = announced.filter(|name| is_sum(name)).collect();
        let named = headers
            .keys()
            .map(HeaderName::as_str)
            .filter(|name| is_sum(name));
        // Passed over, a wrong one would be stored.
        let mut named = named.chain(announced.iter().map(String::as_str));
        if named.any(|name| Algorithm::of_header(name).is_none()) {
            let text = "The algorithm type you specified in x-amz-checksum- header is invalid.";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, text));
        }
        for algorithm in ALL {
            if let Some(expected) = text(algorithm.header()) {
                let length = STANDARD
                    .decode(&expected)
                    .map_or(0, |_| expected.len() as u64);
                if length != algorithm.text_length() {
                    let text = format!("Value for {} header is invalid.", algorithm.header());
                    return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, text));
                }
                sums.push((algorithm, Running::new(algorithm), Some(expected)));
            }
        }
        if trailers.is_some() {
            for algorithm in announced
                .iter()
                .filter_map(|name| Algorithm::of_header(name))
            {
                sums.push((algorithm, Running::new(algorithm), None));
            }
        }
        if sums.len() > 1 {
            let text = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, text));
        }
        if let Some(named) = text("x-amz-sdk-checksum-algorithm")
            && let Some((algorithm, _, _)) = sums.first()
            && !algorithm.name().eq_ignore_ascii_case(&named)
        {
            let text = "Value for x-amz-sdk-checksum-algorithm header is invalid.";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, text));
        }
        Ok(Self {
            md5,
            sums,
            trailers,
        })
    }

    /// The client's own algorithm, if it has one.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.sums.first().map(|(algorithm, _, _)| *algorithm)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some((sum, _)) = &mut self.md5 {
            sum.update(bytes);
        }
        for (_, sum, _) in &mut self.sums {
            sum.update(bytes);
        }
    }

    /// Compares, after the last byte and its trailers; the sums that hold.
    pub(crate) fn finish(self) -> S3Result<Vec<(Algorithm, String)>> {
        if let Some((sum, expected)) = self.md5
            && STANDARD.encode(sum.finalize()) != expected
        {
            return Err(S3Error::with_message(
                S3ErrorCode::BadDigest,
                "The Content-MD5 you specified did not match what we received.",
            ));
        }
        let trailers = self.trailers.and_then(|trailers| trailers.take());
        let mut held = Vec::new();
        for (algorithm, sum, expected) in self.sums {
            let trailed = || {
                let value = trailers.as_ref()?.get(algorithm.header())?;
                value.to_str().ok().map(str::to_owned)
            };
            let Some(expected) = expected.or_else(trailed) else {
                let text = format!("The trailer {} is missing.", algorithm.header());
                return Err(S3Error::with_message(
                    S3ErrorCode::Custom("MalformedTrailerError".into()),
                    text,
                ));
            };
            let actual = sum.text();
            if actual != expected {
                let text = format!(
                    "The {} you specified did not match the calculated checksum.",
                    algorithm.name()
                );
                return Err(S3Error::with_message(S3ErrorCode::BadDigest, text));
            }
            held.push((algorithm, actual));
        }
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_nothing_are_those_of_their_specifications_in_big_endian() {
        for (algorithm, expected) in [
            (Algorithm::Md5, "1B2M2Y8AsgTpgAmY7PhCfg=="),
            (Algorithm::XxHash64, "70bbN1HY6Zk="),
            (Algorithm::XxHash3, "LQaABTjTlMI="),
            (Algorithm::XxHash128, "maoG0wFHmNhgAcMkRo1Jfw=="),
        ] {
            assert_eq!(Running::new(algorithm).text(), expected, "{algorithm:?}");
        }
    }

    #[test]
    fn every_algorithm_has_its_header_and_the_length_of_its_text() {
        for algorithm in ALL {
            assert_eq!(Algorithm::of_header(algorithm.header()), Some(algorithm));
            let mut sum = Running::new(algorithm);
            sum.update(b"pieces");
            assert_eq!(
                sum.text().len() as u64,
                algorithm.text_length(),
                "{algorithm:?}"
            );
        }
    }
}
