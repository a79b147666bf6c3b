//! IDs of topics and directories, and their text form: 22 characters of URL-safe base64 without padding, as Kafka's
//! tools print them.

use std::fmt::{self, Write};
use std::str::FromStr;

/// A 16-byte ID of a topic or a directory. If all bytes are zero, there is no ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The value for no ID, in which all bytes are zero.
    pub const ZERO: Self = Self([0; 16]);

    /// Returns whether all bytes are zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 128 bits are 21 digits of 6 bits and 2 more bits, which are the upper bits of the last digit.
        let bits = u128::from_be_bytes(self.0);
        for i in 0..TEXT_LENGTH {
            let digit = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
            let digit = ALPHABET.get((digit & 63) as usize).copied().unwrap_or_default();
            f.write_char(digit.into())?;
        }
        Ok(())
    }
}

/// The error for text that is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUuid;

impl FromStr for Uuid {
    type Err = NotUuid;

    fn from_str(text: &str) -> Result<Self, NotUuid> {
        if text.len() != TEXT_LENGTH {
            return Err(NotUuid);
        }
        let mut bits = 0u128;
        for (i, c) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|a| *a == c).ok_or(NotUuid)? as u128;
            if i < 21 {
                bits |= digit << (122 - 6 * i);
            } else if digit & 15 == 0 {
                bits |= digit >> 4;
            } else {
                return Err(NotUuid);
            }
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

const TEXT_LENGTH: usize = 22;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_the_same_id() {
        let mut bytes = [0u8; 16];
        for (i, b) in (0u8..).zip(&mut bytes) {
            *b = i * 17;
        }
        for id in [Uuid::ZERO, Uuid(bytes), Uuid([255; 16])] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(Uuid(bytes).to_string(), "ABEiM0RVZneImaq7zN3u_w");
        assert_eq!(Uuid::ZERO.to_string(), "A".repeat(22));
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB", "+AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA"]
        {
            assert_eq!(text.parse::<Uuid>(), Err(NotUuid), "{text}");
        }
    }
}
