//! Amounts of which the least and the most are known (google/cel-go v0.26 `checker/cost.go`). What is too large to be counted
//! stays as large as it can be.

/// The least and the most that something can cost, or how large it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cel) struct Range {
    pub(in crate::cel) min: u64,
    pub(in crate::cel) max: u64,
}

impl Range {
    pub(in crate::cel) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    pub(in crate::cel) const NOTHING: Self = Self::fixed(0);
    /// What every range widens.
    pub(in crate::cel) const EMPTY: Self = Self { min: u64::MAX, max: 0 };

    pub(in crate::cel) const fn fixed(amount: u64) -> Self {
        Self {
            min: amount,
            max: amount,
        }
    }

    pub(in crate::cel) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(in crate::cel) fn by(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// So often, rounded up.
    pub(in crate::cel) fn times(self, factor: f64) -> Self {
        // A number beyond the largest one becomes the largest one.
        let part = |amount: u64| (amount as f64 * factor).ceil() as u64;
        Self {
            min: part(self.min),
            max: part(self.max),
        }
    }

    pub(in crate::cel) fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}
