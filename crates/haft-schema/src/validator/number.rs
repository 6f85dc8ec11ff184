//! Numbers of JSON, compared exactly: an integer is not rounded to a float.

use std::{cmp::Ordering, fmt, fmt::Write};

use serde_json::Number;

/// A number, ready to be compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numeric {
    Integer(i128),
    Float(f64),
}

impl Numeric {
    /// Reads a number of JSON.
    pub(super) fn of(number: &Number) -> Self {
        if let Some(integer) = number.as_i64() {
            return Self::Integer(i128::from(integer));
        }
        match number.as_u64() {
            Some(integer) => Self::Integer(i128::from(integer)),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// Compares two numbers by value.
    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(two)) => one.cmp(&two),
            (Self::Integer(integer), Self::Float(float)) => compare_mixed(integer, float),
            (Self::Float(float), Self::Integer(integer)) => compare_mixed(integer, float).reverse(),
            // A number of JSON is never NaN.
            (Self::Float(one), Self::Float(two)) => one.partial_cmp(&two).unwrap_or(Ordering::Less),
        }
    }

    /// Returns whether it is a multiple of a divisor, both as written in decimal: 0.3 is a multiple
    /// of 0.1.
    pub(super) fn is_multiple_of(self, divisor: Self) -> bool {
        if let (Self::Integer(own), Self::Integer(divisor)) = (self, divisor) {
            return divisor != 0 && own % divisor == 0;
        }
        let (Some(own), Some(divisor)) = (Decimal::of(self), Decimal::of(divisor)) else {
            return false;
        };
        own.is_multiple_of(divisor)
    }
}

/// Compares an integer with a float without rounding the integer.
fn compare_mixed(integer: i128, float: f64) -> Ordering {
    // Every integer of JSON has fewer than 65 bits, so a float outside of this is beyond it.
    const LIMIT: f64 = 1e30;
    if float >= LIMIT {
        return Ordering::Less;
    }
    if float <= -LIMIT {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is in range, and truncated on purpose")]
    let whole = float.trunc() as i128;
    integer.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

/// The magnitude of a number: digits times a power of ten. The last digit is not zero.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn of(number: Numeric) -> Option<Self> {
        let (mut digits, mut exponent) = match number {
            Numeric::Integer(integer) => (integer.unsigned_abs(), 0),
            Numeric::Float(float) => {
                let mut text = Buffer::default();
                write!(text, "{:e}", float.abs()).ok()?;
                let (mantissa, power) = text.as_str().split_once('e')?;
                let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
                let mut digits = 0_u128;
                for digit in whole.bytes().chain(fraction.bytes()) {
                    digits = digits * 10 + u128::from(digit.checked_sub(b'0')?);
                }
                (digits, power.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?)
            }
        };
        while digits != 0 && digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Some(Self { digits, exponent })
    }

    fn is_multiple_of(self, divisor: Self) -> bool {
        if self.digits == 0 || divisor.digits == 0 {
            return divisor.digits != 0;
        }
        let power = self.exponent - divisor.exponent;
        let ten_to = |power: u32| 10_u128.checked_pow(power);
        if power < 0 {
            // Few enough digits: if this overflows, the divisor is larger than the number.
            let scaled =
                ten_to(power.unsigned_abs()).and_then(|ten| ten.checked_mul(divisor.digits));
            return scaled.is_some_and(|scaled| self.digits.is_multiple_of(scaled));
        }
        // Digits of JSON numbers fit 64 bits, so that a product of two remainders fits 128.
        let mut rest = self.digits % divisor.digits;
        for _ in 0..power {
            if rest == 0 {
                return true;
            }
            rest = rest * 10 % divisor.digits;
        }
        rest == 0
    }
}

/// Text on the stack: a float in scientific notation has at most 24 bytes.
#[derive(Default)]
struct Buffer {
    bytes: [u8; 32],
    len: usize,
}

impl Buffer {
    fn as_str(&self) -> &str {
        let written = self.bytes.get(..self.len).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default()
    }
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn number(value: &Value) -> Numeric {
        Numeric::of(value.as_number().unwrap())
    }

    #[test]
    fn integers_beyond_2_to_the_53_are_compared_exactly() {
        let compare = |a: Value, b: Value| number(&a).compare(number(&b));
        assert_eq!(
            compare(json!(9007199254740993_u64), json!(9007199254740992_u64)),
            Ordering::Greater
        );
        assert_eq!(
            compare(json!(9007199254740993_u64), json!(9007199254740992.0)),
            Ordering::Greater
        );
        assert_eq!(compare(json!(u64::MAX), json!(18446744073709551616.0)), Ordering::Less);
        assert_eq!(compare(json!(i64::MIN), json!(-9223372036854775808.0)), Ordering::Equal);
        assert_eq!(compare(json!(3), json!(3.5)), Ordering::Less);
        assert_eq!(compare(json!(-3), json!(-3.5)), Ordering::Greater);
        assert_eq!(compare(json!(1), json!(1e300)), Ordering::Less);
        assert_eq!(compare(json!(1), json!(-1e300)), Ordering::Greater);
    }

    #[test]
    fn multiples_are_decided_in_decimal() {
        for (own, divisor, expected) in [
            (json!(0.3), json!(0.1), true),
            (json!(4.5), json!(1.5), true),
            (json!(35), json!(1.5), false),
            (json!(0.0075), json!(0.0001), true),
            (json!(0.00751), json!(0.0001), false),
            (json!(1e308), json!(0.5), true),
            (json!(1e308), json!(0.123456789), false),
            (json!(1e30), json!(3), false),
            (json!(1e30), json!(1e10), true),
            (json!(12391239123.0), json!(1e-8), true),
            (json!(0.0), json!(0.7), true),
            (json!(5e-324), json!(1), false),
            (json!(u64::MAX), json!(5), true),
            (json!(19.99), json!(0.01), true),
            (json!(7), json!(0), false),
        ] {
            assert_eq!(
                number(&own).is_multiple_of(number(&divisor)),
                expected,
                "{own} of {divisor}"
            );
        }
    }
}
