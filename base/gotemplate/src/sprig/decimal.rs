//! Decimal fractions of any length, as shopspring/decimal 1.4 computes them for Sprig: sums and products are exact,
//! quotients have sixteen places.

use std::cmp::Ordering;

use base_yaml::go::shortest_digits;

use super::args::{Answer, at, non_finite};
use super::numbers::to_float;
use crate::environment::error::{Fault, PrintError};
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};

/// Digits of a number. A sum of the greatest and the smallest float has about 650; only long products have more.
const DIGITS_MAX: usize = 10_000;
/// Places of a quotient: `DivisionPrecision`
const PLACES: i64 = 16;

pub(super) fn functions() -> Vec<Function> {
    use Type::Any;
    let folded = |name: &str, operate: Operation| {
        Function::variadic(
            name,
            [Any],
            Any,
            move |scope: &mut Scope<'_>, args: &[Value]| -> Answer {
                let first = Decimal::of(to_float(at(args, 0)))?;
                fold(first, args.get(1..).unwrap_or_default(), operate, scope)
            },
        )
    };
    vec![
        Function::variadic("addf", [], Any, |scope, args| {
            fold(Decimal::default(), args, Decimal::add, scope)
        }),
        Function::new("add1f", [Any], |scope, args| {
            let first = Decimal::of(to_float(at(args, 0)))?;
            fold(first, &[Value::int(1)], Decimal::add, scope)
        }),
        folded("subf", |left, right| left.add(&right.negated())),
        folded("mulf", Decimal::multiply),
        folded("divf", Decimal::divide),
    ]
}

type Operation = fn(&Decimal, &Decimal) -> Result<Decimal, Fault>;

fn fold(first: Decimal, values: &[Value], operate: Operation, scope: &Scope<'_>) -> Answer {
    let mut result = first;
    for value in values {
        result = operate(&result, &Decimal::of(to_float(value))?)?;
        // A long quotient or product stays long from one operand to the next.
        scope.spend(result.digits.len())?;
    }
    Ok(Value::Float(result.float()))
}

/// Digits from the last to the first, without zeros in front, times ten to the power of the exponent.
#[derive(Clone, Debug, Default)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn of(number: f64) -> Result<Self, Fault> {
        if !number.is_finite() {
            let shown = non_finite(number);
            return Err(Fault::Message(format!("Cannot create a Decimal from {shown}")));
        }
        if number == 0.0 {
            return Ok(Self::default());
        }
        let (digits, point) = shortest_digits(number);
        let exponent = i64::from(point) + 1 - i64::try_from(digits.len()).unwrap_or(0);
        Ok(Self {
            is_negative: number < 0.0,
            digits: digits.bytes().rev().map(|digit| digit - b'0').collect(),
            exponent,
        })
    }

    fn float(&self) -> f64 {
        if self.digits.is_empty() {
            return 0.0;
        }
        let sign = if self.is_negative { "-" } else { "" };
        let digits: String = self.digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        let text = format!("{sign}{digits}e{}", self.exponent);
        // What is too large reads as infinity.
        text.parse().unwrap_or(f64::NAN)
    }

    fn negated(&self) -> Self {
        Self {
            is_negative: !self.is_negative,
            ..self.clone()
        }
    }

    /// The digits with so many zeros behind them.
    fn shifted(digits: &[u8], zeros: i64) -> Result<Vec<u8>, Fault> {
        let zeros = usize::try_from(zeros).unwrap_or(0);
        if digits.len() + zeros > DIGITS_MAX {
            return Err(PrintError::TooLong { bytes_max: DIGITS_MAX }.into());
        }
        if digits.is_empty() {
            return Ok(Vec::new());
        }
        let mut out = vec![0; zeros];
        out.extend_from_slice(digits);
        Ok(out)
    }

    fn add(&self, other: &Self) -> Result<Self, Fault> {
        let exponent = self.exponent.min(other.exponent);
        let left = Self::shifted(&self.digits, self.exponent - exponent)?;
        let right = Self::shifted(&other.digits, other.exponent - exponent)?;
        let (is_negative, digits) = if self.is_negative == other.is_negative {
            (self.is_negative, sum(&left, &right))
        } else if compare(&left, &right).is_ge() {
            (self.is_negative, difference(&left, &right))
        } else {
            (other.is_negative, difference(&right, &left))
        };
        Ok(Self {
            is_negative,
            digits,
            exponent,
        })
    }

    fn multiply(&self, other: &Self) -> Result<Self, Fault> {
        let length = self.digits.len() + other.digits.len();
        if length > DIGITS_MAX {
            return Err(PrintError::TooLong { bytes_max: DIGITS_MAX }.into());
        }
        let mut sums = vec![0_u32; length];
        for (place, left) in self.digits.iter().enumerate() {
            for (sum, right) in sums.iter_mut().skip(place).zip(&other.digits) {
                *sum += u32::from(*left) * u32::from(*right);
            }
        }
        let mut carry = 0;
        let digits = sums.into_iter().map(|sum| {
            carry += sum;
            let digit = u8::try_from(carry % 10).unwrap_or(0);
            carry /= 10;
            digit
        });
        Ok(Self {
            is_negative: self.is_negative != other.is_negative,
            digits: trimmed(digits.collect()),
            exponent: self.exponent + other.exponent,
        })
    }

    /// `DivRound`: a half is rounded away from zero.
    fn divide(&self, other: &Self) -> Result<Self, Fault> {
        if other.digits.is_empty() {
            return Err(Fault::from("decimal division by 0"));
        }
        let shift = self.exponent - other.exponent + PLACES;
        let numerator = Self::shifted(&self.digits, shift)?;
        let denominator = Self::shifted(&other.digits, -shift)?;
        let mut quotient = Vec::new();
        let mut left = Vec::new();
        for digit in numerator.iter().rev() {
            left.insert(0, *digit);
            left = trimmed(left);
            let mut times = 0;
            while compare(&left, &denominator).is_ge() {
                left = difference(&left, &denominator);
                times += 1;
            }
            quotient.push(times);
        }
        quotient.reverse();
        let mut quotient = trimmed(quotient);
        if compare(&sum(&left, &left), &denominator).is_ge() {
            quotient = sum(&quotient, &[1]);
        }
        Ok(Self {
            is_negative: self.is_negative != other.is_negative,
            digits: quotient,
            exponent: -PLACES,
        })
    }
}

fn trimmed(mut digits: Vec<u8>) -> Vec<u8> {
    while digits.last() == Some(&0) {
        digits.pop();
    }
    digits
}

fn compare(left: &[u8], right: &[u8]) -> Ordering {
    left.len()
        .cmp(&right.len())
        .then_with(|| left.iter().rev().cmp(right.iter().rev()))
}

fn sum(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let digits = (0..=left.len().max(right.len())).map(|place| {
        let digit = |digits: &[u8]| digits.get(place).copied().unwrap_or(0);
        carry += digit(left) + digit(right);
        let digit = carry % 10;
        carry /= 10;
        digit
    });
    trimmed(digits.collect())
}

/// Subtracts `right` from `left`, which is not smaller.
fn difference(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut borrowed = 0;
    let digits = left.iter().enumerate().map(|(place, digit)| {
        let taken = right.get(place).copied().unwrap_or(0) + borrowed;
        borrowed = u8::from(*digit < taken);
        digit + 10 * borrowed - taken
    });
    trimmed(digits.collect())
}
