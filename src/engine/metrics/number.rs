//! The value of a metric: a count, or a measurement.

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Int(u64),
    /// A measurement.
    Float(f64),
}

impl From<u64> for Number {
    fn from(n: u64) -> Self {
        Self::Int(n)
    }
}

impl From<usize> for Number {
    fn from(n: usize) -> Self {
        Self::Int(n as u64)
    }
}

impl From<f64> for Number {
    fn from(n: f64) -> Self {
        Self::Float(n)
    }
}

impl Number {
    /// Returns the value as a floating-point number.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(n) => n,
        }
    }
}
