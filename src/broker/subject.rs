//! The subject of a client certificate, in the form that Kafka uses: the distinguished name as in RFC 2253,
//! `CN=alice,O=Acme`.
//!
//! rustls has validated the certificate, so the parser reads the certificate only up to the subject. The parser uses
//! the attribute names that Java uses. An attribute for which Java has no name appears with its OID, for example
//! `1.2.840.113549.1.9.1`.

/// DER tags.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// Text with 16 bits per character. The parser reads other text types as UTF-8.
const BMP_STRING: u8 = 0x1e;

/// Attribute names by the bytes of their object identifiers.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// Returns the subject of a certificate, or `None` if the certificate is malformed.
pub(super) fn of(certificate: &[u8]) -> Option<String> {
    let mut outer = Der(certificate).value(SEQUENCE)?;
    let mut fields = outer.value(SEQUENCE)?;
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    // Serial number, signature, issuer, validity.
    for _ in 0..4 {
        fields.next()?;
    }
    let mut names = Vec::new();
    let mut subject = fields.value(SEQUENCE)?;
    while !subject.0.is_empty() {
        let (mut set, mut attributes) = (subject.value(SET)?, Vec::new());
        while !set.0.is_empty() {
            let mut attribute = set.value(SEQUENCE)?;
            let oid = attribute.value(OID)?.0;
            let (tag, value) = attribute.next()?;
            let known_attribute = ATTRIBUTES.iter().find(|(number, _)| *number == oid);
            let name = known_attribute.map_or_else(|| number(oid), |(_, name)| (*name).to_owned());
            attributes.push(format!("{name}={}", escaped(&text(tag, value))));
        }
        names.push(attributes.join("+"));
    }
    names.reverse();
    Some(names.join(","))
}

struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match first {
            ..0x80 => (usize::from(first), rest),
            _ => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let bytes = (bytes.len() <= 4).then_some(bytes)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// Returns the content of the next value, which must have this tag.
    fn value(&mut self, tag: u8) -> Option<Self> {
        self.next().filter(|(next_tag, _)| *next_tag == tag).map(|(_, value)| Self(value))
    }
}

fn text(tag: u8, value: &[u8]) -> String {
    if tag == BMP_STRING {
        let units = value.chunks_exact(2).map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u16::from(*byte)));
        return String::from_utf16_lossy(&units.collect::<Vec<_>>());
    }
    String::from_utf8_lossy(value).into_owned()
}

/// Formats an object identifier with dots: 1.2.840.113549.1.9.1.
fn number(oid: &[u8]) -> String {
    let (mut parts, mut part) = (Vec::new(), 0u64);
    for byte in oid {
        part = part << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            match parts.is_empty() {
                true => parts.extend([(part / 40).min(2), part - 40 * (part / 40).min(2)]),
                false => parts.push(part),
            }
            part = 0;
        }
    }
    parts.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(value.len());
    for (n, letter) in value.chars().enumerate() {
        let is_special = match letter {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            '#' => n == 0,
            ' ' => n == 0 || n == last,
            _ => false,
        };
        out.extend(is_special.then_some('\\'));
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    #[test]
    fn a_name_is_written_from_its_end_and_what_is_special_in_it_is_marked() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        for (kind, value) in [
            (DnType::CountryName, "AT"),
            (DnType::OrganizationName, "Acme, Inc."),
            (DnType::CommonName, " müller #1 "),
            (DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]), "a@b"),
        ] {
            params.distinguished_name.remove(kind.clone());
            params.distinguished_name.push(kind, value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let name = "1.2.840.113549.1.9.1=a@b,CN=\\ müller #1\\ ,O=Acme\\, Inc.,C=AT";
        assert_eq!(super::of(certificate.der()).as_deref(), Some(name));
        for end in 0..certificate.der().len().min(120) {
            assert_eq!(super::of(&certificate.der()[..end]), None);
        }
    }
}
