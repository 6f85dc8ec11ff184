//! What is wrong with a value: the location, the keyword and what it expects.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use super::types::Types;

/// One violated keyword.
#[derive(Debug, Clone)]
pub(crate) struct Violation<'v> {
    /// The location of the value, as a JSON pointer.
    at: String,
    /// The location of the keyword in the schema, as a JSON pointer; an address if it is in another
    /// document.
    schema_path: String,
    value: Cow<'v, Value>,
    kind: ViolationKind,
}

/// The violated keyword and what it expects.
#[derive(Debug, Clone)]
pub(crate) enum ViolationKind {
    Type {
        types: Types,
    },
    Enum {
        options: Arc<Value>,
    },
    Constant {
        expected_value: Arc<Value>,
    },
    Minimum {
        limit: Value,
    },
    Maximum {
        limit: Value,
    },
    ExclusiveMinimum {
        limit: Value,
    },
    ExclusiveMaximum {
        limit: Value,
    },
    MultipleOf {
        multiple_of: f64,
    },
    MinLength {
        limit: u64,
    },
    MaxLength {
        limit: u64,
    },
    Pattern {
        pattern: String,
    },
    Format {
        format: String,
    },
    MinItems {
        limit: u64,
    },
    MaxItems {
        limit: u64,
    },
    UniqueItems,
    Required {
        property: String,
    },
    AdditionalProperties {
        unexpected: Vec<String>,
    },
    UnevaluatedProperties {
        unexpected: Vec<String>,
    },
    PropertyNames {
        error: Box<Violation<'static>>,
    },
    /// No branch matches; the violations of each branch.
    AnyOf {
        context: Vec<Vec<Violation<'static>>>,
    },
    OneOfNotValid {
        context: Vec<Vec<Violation<'static>>>,
    },
    OneOfMultipleValid,
    /// The schema is `false`.
    FalseSchema,
    /// A keyword that is only named.
    Other {
        keyword: &'static str,
    },
}

impl ViolationKind {
    /// Returns the keyword that is violated.
    pub(crate) fn keyword(&self) -> &'static str {
        match self {
            Self::Type { .. } => "type",
            Self::Enum { .. } => "enum",
            Self::Constant { .. } => "const",
            Self::Minimum { .. } => "minimum",
            Self::Maximum { .. } => "maximum",
            Self::ExclusiveMinimum { .. } => "exclusiveMinimum",
            Self::ExclusiveMaximum { .. } => "exclusiveMaximum",
            Self::MultipleOf { .. } => "multipleOf",
            Self::MinLength { .. } => "minLength",
            Self::MaxLength { .. } => "maxLength",
            Self::Pattern { .. } => "pattern",
            Self::Format { .. } => "format",
            Self::MinItems { .. } => "minItems",
            Self::MaxItems { .. } => "maxItems",
            Self::UniqueItems => "uniqueItems",
            Self::Required { .. } => "required",
            Self::AdditionalProperties { .. } => "additionalProperties",
            Self::UnevaluatedProperties { .. } => "unevaluatedProperties",
            Self::PropertyNames { .. } => "propertyNames",
            Self::AnyOf { .. } => "anyOf",
            Self::OneOfNotValid { .. } | Self::OneOfMultipleValid => "oneOf",
            Self::FalseSchema => "falseSchema",
            Self::Other { keyword } => keyword,
        }
    }
}

impl<'v> Violation<'v> {
    pub(super) fn new(
        at: String,
        schema_path: String,
        value: &'v Value,
        kind: ViolationKind,
    ) -> Self {
        Self { at, schema_path, value: Cow::Borrowed(value), kind }
    }

    /// Returns the location of the value, as a JSON pointer.
    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    /// Returns the location of the keyword in the schema.
    pub(crate) fn schema_path(&self) -> &str {
        &self.schema_path
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the keyword and what it expects.
    pub(crate) fn kind(&self) -> &ViolationKind {
        &self.kind
    }

    /// Copies the value.
    pub(crate) fn into_owned(self) -> Violation<'static> {
        let Self { at, schema_path, value, kind } = self;
        Violation { at, schema_path, value: Cow::Owned(value.into_owned()), kind }
    }
}
