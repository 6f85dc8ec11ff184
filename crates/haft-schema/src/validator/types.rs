//! The types of JSON Schema as a set.

use serde_json::Value;

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u8);

const NAMES: [(&str, Types); 7] = [
    ("array", Types::ARRAY),
    ("boolean", Types::BOOLEAN),
    ("integer", Types::INTEGER),
    ("null", Types::NULL),
    ("number", Types::NUMBER),
    ("object", Types::OBJECT),
    ("string", Types::STRING),
];

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(1 << 1);
    /// A number without a fraction.
    pub(super) const INTEGER: Self = Self(1 << 2);
    const FRACTION: Self = Self(1 << 3);
    pub(super) const NUMBER: Self = Self(Self::INTEGER.0 | Self::FRACTION.0);
    pub(super) const STRING: Self = Self(1 << 4);
    pub(super) const ARRAY: Self = Self(1 << 5);
    pub(super) const OBJECT: Self = Self(1 << 6);
    pub(super) const ALL: Self = Self((1 << 7) - 1);

    /// Reads the value of the keyword `type`.
    pub(super) fn read(written: &Value) -> Self {
        match written {
            Value::String(name) => Self::named(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Self::NONE, |types, name| Self(types.0 | Self::named(name).0)),
            _ => Self::NONE,
        }
    }

    fn named(name: &str) -> Self {
        NAMES.iter().find(|(own, _)| *own == name).map_or(Self::NONE, |(_, types)| *types)
    }

    /// Returns the type of a value. In draft 4, `3.0` is not an integer.
    #[inline]
    pub(super) fn of(value: &Value, floats_are_fractions: bool) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => {
                let is_fraction = number.is_f64()
                    && (floats_are_fractions || number.as_f64().is_some_and(|f| f.fract() != 0.0));
                if is_fraction { Self::FRACTION } else { Self::INTEGER }
            }
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Returns whether the two sets have a type in common.
    #[inline]
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether a named type is in the set.
    pub(crate) fn admits(self, name: &str) -> bool {
        let named = Self::named(name);
        named != Self::NONE && self.0 & named.0 == named.0
    }

    /// Returns the names of its types. A number includes an integer.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let has_numbers = self.admits("number");
        NAMES
            .iter()
            .filter(move |(name, _)| self.admits(name) && !(has_numbers && *name == "integer"))
            .map(|(name, _)| *name)
    }
}
