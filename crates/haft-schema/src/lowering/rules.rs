//! The schema rules of a dialect, as data: supported keywords, references, limits.

/// The rules of one dialect in one mode.
#[derive(Debug, Clone, Copy)]
pub struct LoweringRules {
    /// Which keywords are supported.
    pub keywords: KeywordSupport,
    /// How references are exported.
    pub references: References,
    /// Keywords that are not allowed at the root.
    pub banned_at_root: &'static [&'static str],
    /// Whether `oneOf` is supported; if not, it becomes `anyOf`.
    pub one_of: bool,
    /// Whether an array must have `items`.
    pub items: bool,
    /// Whether an object must have `properties`, even if empty.
    pub properties: bool,
    /// Whether unknown keywords are passed on.
    pub unknown_keywords: bool,
    /// Whether a property of the root may have this name.
    pub key: fn(&str) -> bool,
    /// How large a schema may be.
    pub limits: Limits,
}

/// Which keywords of JSON Schema a dialect supports.
#[derive(Debug, Clone, Copy)]
pub enum KeywordSupport {
    /// All of them.
    All,
    /// A subset of them.
    Some(Subset),
}

/// The subset of JSON Schema that a dialect supports.
#[derive(Debug, Clone, Copy)]
pub struct Subset {
    /// The supported keywords.
    pub keywords: &'static [&'static str],
    /// The supported formats; `None` means all.
    pub formats: Option<&'static [&'static str]>,
    /// The supported formats of numbers.
    pub number_formats: &'static [&'static str],
    /// The greatest `minItems`.
    pub min_items: Option<u64>,
    /// Whether a pattern is supported.
    pub pattern: fn(&str) -> bool,
    /// Whether every object must be closed (`additionalProperties: false`).
    pub closed: bool,
    /// Whether every property is required, so that optional ones become nullable.
    pub all_required: bool,
    /// What a schema must declare about its type.
    pub typing: Typing,
    /// Which values `enum` may list.
    pub values: Values,
    /// Whether a union allows no sibling keywords, so that these move into its branches.
    pub lone_unions: bool,
}

/// What a schema must declare about its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// Nothing.
    Free,
    /// A type; a schema for any value is not supported.
    Needed,
    /// Exactly one type, and `nullable`.
    Single,
}

/// Which values `enum` may list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Strings, numbers, booleans and null.
    Scalars,
    /// Strings and numbers.
    StringsAndNumbers,
    /// Strings that are not empty.
    Strings,
}

/// How references are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    /// Kept, with their sibling keywords.
    Keep,
    /// Kept, without sibling keywords.
    KeepAlone,
    /// Kept without sibling keywords; recursion is not supported.
    KeepAcyclic,
    /// Kept without sibling keywords; recursion only through optional properties.
    KeepOptionalCycles,
    /// Inlined where the definition is not recursive and the result stays small.
    InlineAcyclic,
    /// Always inlined; recursion is truncated.
    Inline,
}

/// How large a schema may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Subschemas in total.
    pub parts: usize,
    /// Levels of objects and arrays.
    pub depth: usize,
    /// Properties in total.
    pub properties: usize,
    /// Listed values in total.
    pub values: usize,
    /// Characters of names and listed values in total.
    pub characters: usize,
    /// Characters of one list of more than 250 values.
    pub list: usize,
}

/// The subschemas after inlining. A definition that is used in several places is repeated in each.
const MAX_INLINED_PARTS: usize = 4_000;

impl Limits {
    /// Large, and still bounded.
    pub const NONE: Limits = Limits {
        parts: 20_000,
        depth: usize::MAX,
        properties: usize::MAX,
        values: usize::MAX,
        characters: usize::MAX,
        list: usize::MAX,
    };
}

impl LoweringRules {
    /// All of JSON Schema, unchanged.
    pub const PLAIN: LoweringRules = LoweringRules {
        keywords: KeywordSupport::All,
        references: References::Keep,
        banned_at_root: &[],
        one_of: true,
        items: false,
        properties: false,
        unknown_keywords: false,
        key: |_| true,
        limits: Limits::NONE,
    };

    /// The same rules for a schema without references and without `allOf`. A recursive reference is
    /// inlined a few times and then truncated.
    #[must_use]
    pub fn inlined(self) -> LoweringRules {
        let parts = self.limits.parts.min(MAX_INLINED_PARTS);
        let limits = Limits { parts, ..self.limits };
        LoweringRules { references: References::Inline, limits, ..self }
    }

    /// Whether `allOf` is merged in a dialect that would support it.
    pub(super) fn inlines_plainly(&self) -> bool {
        self.references == References::Inline && self.subset().is_none()
    }

    /// Returns the supported subset of JSON Schema; `None` if all of it is supported.
    #[must_use]
    pub fn subset(&self) -> Option<&Subset> {
        match &self.keywords {
            KeywordSupport::All => None,
            KeywordSupport::Some(subset) => Some(subset),
        }
    }
}
