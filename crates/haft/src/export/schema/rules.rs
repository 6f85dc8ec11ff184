//! What a dialect takes, as data.

/// The rules of one dialect in one mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// How much of JSON Schema is understood.
    pub(crate) words: Words,
    /// What becomes of references.
    pub(crate) references: References,
    /// Words that must not stand at the root.
    pub(crate) banned_at_root: &'static [&'static str],
    /// Whether `oneOf` is taken; if not it becomes `anyOf`.
    pub(crate) one_of: bool,
    /// Whether an array must say what its items are.
    pub(crate) items: bool,
    /// Whether an object must have `properties`, if only an empty list of them.
    pub(crate) properties: bool,
    /// Whether words nobody knows are passed on.
    pub(crate) strangers: bool,
    /// Which names a property of the root may have.
    pub(crate) key: fn(&str) -> bool,
    /// How large a schema may be.
    pub(crate) limits: Limits,
}

/// How much of JSON Schema a dialect understands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Words {
    /// All of it.
    All,
    /// A part of it.
    Some(Subset),
}

/// The part of JSON Schema that a dialect understands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subset {
    /// The words that are taken.
    pub(crate) taken: &'static [&'static str],
    /// The formats that are taken, if not all are.
    pub(crate) formats: Option<&'static [&'static str]>,
    /// The formats of numbers that are taken.
    pub(crate) number_formats: &'static [&'static str],
    /// The greatest `minItems`.
    pub(crate) min_items: Option<u64>,
    /// Whether a pattern is taken.
    pub(crate) pattern: fn(&str) -> bool,
    /// Whether every object is closed.
    pub(crate) closed: bool,
    /// Whether every property is required, so that optional ones become nullable.
    pub(crate) all_required: bool,
    /// What a schema must say about its type.
    pub(crate) typing: Typing,
    /// Which values may be listed.
    pub(crate) values: Values,
    /// Whether a union stands alone, so that what stands beside it moves into its branches.
    pub(crate) lone_unions: bool,
}

/// What a schema must say about its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    /// Nothing.
    Free,
    /// Something; "anything" cannot be said.
    Needed,
    /// Exactly one type, and `nullable`.
    Single,
}

/// Which values may be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Texts, numbers, booleans and null.
    Scalars,
    /// Texts and numbers.
    TextsAndNumbers,
    /// Texts that are not empty.
    Texts,
}

/// What becomes of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum References {
    /// They stay, with whatever stands beside them.
    Stay,
    /// They stay, and stand alone.
    Alone,
    /// They stay and stand alone, and may not lead back to themselves.
    NoCircle,
    /// They stay and stand alone, and lead back to themselves only through optional properties.
    OptionalCircle,
    /// They are replaced by what they mean, as far as that ends and stays small.
    Unfold,
    /// They are always replaced; what does not end is cut.
    Replace,
}

/// How large a schema may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Parts in all.
    pub(crate) parts: usize,
    /// Levels of objects and arrays.
    pub(crate) depth: usize,
    /// Properties in all.
    pub(crate) properties: usize,
    /// Listed values in all.
    pub(crate) values: usize,
    /// Characters of names and listed values in all.
    pub(crate) characters: usize,
    /// Characters of one list of more than 250 values.
    pub(crate) list: usize,
}

/// The parts of a schema after inlining. A definition that is used in many places is repeated in each.
const MAX_INLINED_PARTS: usize = 4_000;

impl Limits {
    /// Large, and still bounded.
    pub(crate) const NONE: Limits = Limits {
        parts: 20_000,
        depth: usize::MAX,
        properties: usize::MAX,
        values: usize::MAX,
        characters: usize::MAX,
        list: usize::MAX,
    };
}

impl Rules {
    /// Everything goes, as JSON Schema has it.
    pub(crate) const PLAIN: Rules = Rules {
        words: Words::All,
        references: References::Stay,
        banned_at_root: &[],
        one_of: true,
        items: false,
        properties: false,
        strangers: false,
        key: |_| true,
        limits: Limits::NONE,
    };

    /// The same rules for a schema without references and without `allOf`. A reference that leads back
    /// to itself is unfolded a few times and then cut.
    pub(crate) fn inlined(self) -> Rules {
        let parts = self.limits.parts.min(MAX_INLINED_PARTS);
        let limits = Limits { parts, ..self.limits };
        Rules { references: References::Replace, limits, ..self }
    }

    /// Whether `allOf` is put together in a dialect that would understand it.
    pub(crate) fn inlines_plainly(&self) -> bool {
        self.references == References::Replace && self.subset().is_none()
    }

    pub(crate) fn subset(&self) -> Option<&Subset> {
        match &self.words {
            Words::All => None,
            Words::Some(subset) => Some(subset),
        }
    }
}
