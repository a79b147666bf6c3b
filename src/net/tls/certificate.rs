//! Reads the parts of a certificate that an error message shows: version, names, key size, purpose.
//!
//! rustls checks certificates, but its errors have few details. This file only describes certificates, except that
//! `is_for_servers` checks the purpose of a certificate. The check is necessary because rustls rejects some
//! certificates before it looks at their purpose.

/// The parts of a certificate that an error message may show.
pub(super) struct Facts<'a> {
    /// The X.509 version: 1, 2 or 3.
    pub version: u8,
    /// The algorithm of the authority's signature.
    pub signature: &'a [u8],
    /// The name of the authority.
    pub issuer: &'a [u8],
    /// The common name of the subject.
    pub common_name: Option<String>,
    /// The size of the key, if it is an RSA key.
    pub rsa_bits: Option<usize>,
    /// The extended key usage, if the certificate restricts it.
    purposes: Option<&'a [u8]>,
}

impl<'a> Facts<'a> {
    /// Reads these parts of a certificate. Returns `None` if the certificate is damaged.
    pub fn of(der: &'a [u8]) -> Option<Self> {
        let mut certificate = Elements(Elements(der).tagged(SEQUENCE)?);
        let mut fields = Elements(certificate.tagged(SEQUENCE)?);
        let signature = Elements(certificate.tagged(SEQUENCE)?).tagged(OID)?;
        let version = fields.optional(VERSION).map(|v| Elements(v).tagged(INTEGER));
        let version = version.map_or(Some(0), |number| number?.last().copied())?.saturating_add(1);
        let (_serial, _algorithm) = (fields.tagged(INTEGER)?, fields.tagged(SEQUENCE)?);
        let issuer = fields.tagged(SEQUENCE)?;
        let (_validity, subject) = (fields.tagged(SEQUENCE)?, fields.tagged(SEQUENCE)?);
        let rsa_bits = rsa_bits(fields.tagged(SEQUENCE)?);
        let extensions = fields.find(|(tag, _)| *tag == EXTENSIONS).and_then(|(_, e)| Elements(e).tagged(SEQUENCE));
        let purposes = extension(extensions.unwrap_or_default(), EXTENDED_KEY_USAGE);
        Some(Self { version, signature, issuer, common_name: common_name(subject), rsa_bits, purposes })
    }

    /// Returns whether the certificate's extended key usage allows servers.
    pub fn is_for_servers(&self) -> bool {
        let Some(purposes) = self.purposes else { return true };
        let mut purposes = Elements(Elements(purposes).tagged(SEQUENCE).unwrap_or_default());
        purposes.any(|(tag, purpose)| tag == OID && [SERVER_AUTH, ANY_PURPOSE].contains(&purpose))
    }
}

/// Returns the size of an RSA key in the content of a SubjectPublicKeyInfo, or `None` for other keys.
pub(super) fn rsa_bits(key: &[u8]) -> Option<usize> {
    let mut parts = Elements(key);
    if Elements(parts.tagged(SEQUENCE)?).tagged(OID)? != RSA {
        return None;
    }
    let key = parts.tagged(BIT_STRING)?.split_first()?.1;
    let modulus = Elements(Elements(key).tagged(SEQUENCE)?).tagged(INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let digits = modulus.get(zeros..)?;
    Some(digits.len() * 8 - digits.first()?.leading_zeros() as usize)
}

/// Returns the name of a signature algorithm that is no longer secure.
pub(super) fn broken_algorithm(signature: &[u8]) -> Option<&'static str> {
    match signature {
        SHA1_RSA | SHA1_ECDSA | SHA1_DSA => Some("SHA-1"),
        MD5_RSA => Some("MD5"),
        _ => None,
    }
}

/// Splits a block `TRUSTED CERTIFICATE` into the certificate and the settings that OpenSSL appends to it. Returns
/// `None` if the block is damaged.
pub(super) fn split_trusted(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = Elements(der);
    rest.tagged(SEQUENCE)?;
    Some((der.get(..der.len() - rest.0.len())?, rest.0))
}

/// Returns whether the settings of a `TRUSTED CERTIFICATE` allow the certificate to vouch for servers.
pub(super) fn vouches_for_servers(settings: &[u8]) -> bool {
    let names_servers = |purposes| Elements(purposes).any(|(_, p)| [SERVER_AUTH, ANY_PURPOSE].contains(&p));
    let Some(settings) = Elements(settings).tagged(SEQUENCE) else { return settings.is_empty() };
    let mut parts = Elements(settings);
    parts.optional(SEQUENCE).is_none_or(names_servers) && !parts.optional(REJECTED).is_some_and(names_servers)
}

fn common_name(subject: &[u8]) -> Option<String> {
    let mut attributes = Elements(subject).filter_map(|(_, set)| {
        let mut attribute = Elements(Elements(set).tagged(SEQUENCE)?);
        (attribute.tagged(OID)? == COMMON_NAME).then(|| attribute.next()).flatten()
    });
    let (_, name) = attributes.next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

fn extension<'a>(extensions: &'a [u8], id: &[u8]) -> Option<&'a [u8]> {
    Elements(extensions).find_map(|(_, extension)| {
        let mut parts = Elements(extension);
        (parts.tagged(OID)? == id).then_some(())?;
        parts.find(|(tag, _)| *tag == OCTET_STRING).map(|(_, value)| value)
    })
}

/// Iterates over the elements of DER data, each with a tag and a content.
#[derive(Clone, Copy)]
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Returns the content of the next element, which must have this tag.
    fn tagged(&mut self, expected: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == expected).map(|(_, content)| content)
    }

    /// Returns the content of the next element if it has this tag.
    fn optional(&mut self, expected: u8) -> Option<&'a [u8]> {
        (self.0.first() == Some(&expected)).then(|| self.tagged(expected)).flatten()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if length & 0x80 != 0 {
            let count = length & 0x7f;
            let digits = rest.get(..count).filter(|digits| (1..=4).contains(&digits.len()))?;
            length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            rest = rest.get(count..)?;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const REJECTED: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const MD5_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04];
const SHA1_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05];
const SHA1_ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
const SHA1_DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x03];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

#[cfg(all(test, feature = "broker"))]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_certificate_has_no_facts_or_other_ones() {
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert;
        let der = certificate.der();
        let facts = Facts::of(der).unwrap();
        assert_eq!((facts.version, facts.rsa_bits, facts.is_for_servers()), (3, None, true));
        for end in 0..der.len() {
            assert!(Facts::of(&der[..end]).is_none());
            assert_eq!(split_trusted(&der[..end]), None);
        }
        for at in 0..der.len() {
            let mut damaged = der.to_vec();
            for bit in 0..8 {
                damaged[at] ^= 1 << bit;
                Facts::of(&damaged).map(|facts| facts.is_for_servers());
                split_trusted(&damaged).map(|(_, settings)| vouches_for_servers(settings));
            }
        }
    }
}
