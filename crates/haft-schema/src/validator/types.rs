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

    /// Returns whether a value has one of the types. In draft 4, `3.0` is not an integer.
    #[inline(always)]
    pub(super) fn include(self, value: &Value, floats_are_fractions: bool) -> bool {
        // The most frequent types first, without a jump table.
        if let Value::String(_) = value {
            return self.overlaps(Self::STRING);
        }
        if let Value::Object(_) = value {
            return self.overlaps(Self::OBJECT);
        }
        if let Value::Number(number) = value
            && !number.is_f64()
        {
            return self.overlaps(Self::INTEGER);
        }
        self.include_other(value, floats_are_fractions)
    }

    #[inline(never)]
    fn include_other(self, value: &Value, floats_are_fractions: bool) -> bool {
        self.overlaps(match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => {
                let has_fraction = number.as_f64().is_some_and(|float| float.fract() != 0.0);
                if floats_are_fractions || has_fraction { Self::FRACTION } else { Self::INTEGER }
            }
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        })
    }

    #[inline(always)]
    fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether no value with parts has one of the types.
    pub(super) fn are_scalars(self) -> bool {
        !self.overlaps(Self(Self::ARRAY.0 | Self::OBJECT.0))
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
