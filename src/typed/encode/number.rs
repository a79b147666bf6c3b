//! Decimal numbers of any size: from text to the two's complement of Avro's decimals.

use crate::typed::fault::{Fault, Result};

/// A decimal number: digits without a leading zero, and an exponent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Number {
    /// Parses a number such as `-12.50` or `1E+3`. Returns `None` for NaN, infinity and other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let digits = whole.bytes().chain(fraction.bytes()).skip_while(|byte| *byte == b'0').map(|byte| byte - b'0');
        let exponent = exponent.checked_sub(fraction.len() as i64)?;
        Some(Self { is_negative, digits: digits.collect(), exponent })
    }

    /// Returns the number without its point, as two's complement, with `scale` digits after the point.
    pub fn unscaled(&self, precision: u32, scale: u32) -> Result<Vec<u8>> {
        let too_many = || Fault::new(format!("the decimal has more than {precision} digits"));
        let shift = self.exponent.saturating_add(i64::from(scale));
        let mut digits = self.digits.clone();
        if digits.is_empty() {
            return Ok(vec![0]);
        }
        if shift < 0 {
            let dropped = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX).min(digits.len());
            let kept = digits.len() - dropped;
            let is_exact = shift.unsigned_abs() == dropped as u64 && digits.iter().skip(kept).all(|digit| *digit == 0);
            if !is_exact {
                return Err(Fault::new(format!("the decimal has more than {scale} digits after the point")));
            }
            digits.truncate(kept);
        } else if shift > i64::from(precision) {
            return Err(too_many());
        } else {
            digits.resize(digits.len() + usize::try_from(shift).unwrap_or_default(), 0);
        }
        if digits.len() > precision as usize {
            return Err(too_many());
        }
        Ok(complement(&digits, self.is_negative))
    }

    /// Returns the digits as two's complement, and the number of digits after the point.
    pub fn parts(&self) -> Result<(Vec<u8>, i32)> {
        let scale = self.exponent.checked_neg().and_then(|scale| i32::try_from(scale).ok());
        match scale.filter(|scale| scale.unsigned_abs() <= LARGEST_SCALE && self.digits.len() <= LONGEST) {
            Some(scale) => Ok((complement(&self.digits, self.is_negative), scale)),
            None => Err(Fault::new("the decimal is too large")),
        }
    }
}

/// Returns decimal digits as a big-endian number in two's complement, in as few bytes as possible.
fn complement(digits: &[u8], is_negative: bool) -> Vec<u8> {
    // Little-endian limbs of 32 bits; nine digits at a time.
    let mut limbs: Vec<u32> = Vec::new();
    for part in digits.chunks(9) {
        let value = part.iter().fold(0u64, |value, digit| value * 10 + u64::from(*digit));
        let mut carry = value;
        for limb in &mut limbs {
            carry += u64::from(*limb) * 10u64.pow(part.len() as u32);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    limbs.push(0); // for the sign
    if is_negative {
        let mut carry = true;
        for limb in &mut limbs {
            (*limb, carry) = (!*limb).overflowing_add(u32::from(carry));
        }
    }
    let bytes: Vec<u8> = limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    let is_redundant = |pair: &[u8]| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]);
    let start = bytes.windows(2).take_while(|pair| is_redundant(pair)).count();
    bytes.get(start..).unwrap_or_default().to_vec()
}

/// Maximum number of digits of a number that brings its own scale, and of digits after or before its point.
const LONGEST: usize = 9_000;
const LARGEST_SCALE: u32 = 10_000;
