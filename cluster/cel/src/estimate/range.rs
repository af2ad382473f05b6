//! Amounts of which the least and the most are known (google/cel-go v0.26 `checker/cost.go`). What is too large to be counted
//! stays as large as it can be.

/// The least and the most that something can cost, or how large it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Range {
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    pub(crate) const NOTHING: Self = Self::fixed(0);
    /// The neutral element of [`Range::or`].
    pub(crate) const EMPTY: Self = Self { min: u64::MAX, max: 0 };

    pub(crate) const fn fixed(amount: u64) -> Self {
        Self {
            min: amount,
            max: amount,
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) fn by(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Multiplied by a factor, rounded up.
    pub(crate) fn times(self, factor: f64) -> Self {
        // A number beyond the largest one becomes the largest one.
        let part = |amount: u64| (amount as f64 * factor).ceil() as u64;
        Self {
            min: part(self.min),
            max: part(self.max),
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}
