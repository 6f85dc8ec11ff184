//! The compiled form of one subschema.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use haft_core::host::RandomState;
use serde_json::{Number, Value};

use super::{content::Content, number::Numeric, pattern::Pattern, types::Types};
use crate::formats::Check;

/// The position of a node in the list.
pub(super) type NodeId = u32;

/// Names of members.
pub(super) type Names = Box<[Box<str>]>;

/// One subschema.
#[derive(Debug)]
pub(super) struct Node {
    /// The allowed types.
    pub(super) types: Types,
    /// What it restricts besides the type.
    pub(super) restricts: Restricts,
    /// Whether it may apply to a value again before it is done with it.
    pub(super) is_cyclic: bool,
    /// In draft 4, `3.0` is not an integer.
    pub(super) floats_are_fractions: bool,
    /// The bounds of a number, if they are integers.
    pub(super) range: Range,
    /// The rules for members, checked in one pass over an object.
    pub(super) members: Option<Box<Members>>,
    /// All rules, in the order in which violations are listed.
    pub(super) rules: Box<[Rule]>,
    /// The rules that `types`, `range` and `members` do not cover.
    pub(super) rest: Box<[u16]>,
    /// Its location in the schema.
    pub(super) pointer: Box<str>,
}

/// What a node restricts besides the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restricts {
    Nothing,
    /// Only numbers, by `range`.
    Numbers,
    /// What its rules say.
    Values,
}

/// Inclusive bounds of a number: `minimum` and `maximum` of a schema, if both are integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: i128,
    pub(super) max: i128,
}

impl Range {
    pub(super) const ALL: Self = Self { min: i128::MIN, max: i128::MAX };

    /// Returns whether a number is in the range.
    #[inline(always)]
    pub(super) fn admits(self, number: &Number) -> bool {
        match number.as_i64() {
            Some(integer) => (self.min..=self.max).contains(&i128::from(integer)),
            None => self.admits_other(number),
        }
    }

    #[inline(never)]
    fn admits_other(self, number: &Number) -> bool {
        let number = Numeric::of(number);
        // A float can be beyond every integer, so a side without a bound is not compared.
        (self.min == i128::MIN || number.compare(Numeric::Integer(self.min)) != Ordering::Less)
            && (self.max == i128::MAX
                || number.compare(Numeric::Integer(self.max)) != Ordering::Greater)
    }
}

impl Node {
    /// Returns the types of values that certainly match.
    pub(super) fn plain_types(&self) -> Types {
        if self.restricts == Restricts::Nothing && !self.floats_are_fractions {
            self.types
        } else {
            Types::NONE
        }
    }
}

/// A keyword.
#[derive(Debug)]
pub(super) enum Rule {
    False,
    Type,
    Constant(Arc<Value>),
    Enum(Arc<Value>),
    Bound(Bound, Numeric, Value),
    MultipleOf(Numeric, f64),
    Length(Limit),
    Items(Limit),
    Properties(Limit),
    Required(Names),
    /// If a property is there, others are required.
    DependentRequired(&'static str, Box<[(Box<str>, Names)]>),
    Pattern(Pattern),
    Format(Box<str>, Check),
    Content(Content),
    UniqueItems,
    /// `properties`, `patternProperties` and `additionalProperties`.
    Members,
    PropertyNames(NodeId),
    /// The schemas of the first items.
    Prefix(Box<[NodeId]>),
    /// The schema of the items from this position.
    ItemsFrom(usize, NodeId),
    /// `additionalItems` is `false`.
    NoItemsFrom(usize),
    Contains {
        node: NodeId,
        min: u64,
        max: u64,
    },
    DependentSchemas(Box<[(Box<str>, NodeId)]>),
    AllOf(Box<[NodeId]>),
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    UnevaluatedProperties(NodeId),
    UnevaluatedItems(NodeId),
    Reference(NodeId),
}

/// A bound of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// A bound of a count.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    Min(u64),
    Max(u64),
}

impl Limit {
    pub(super) fn admits(self, count: usize) -> bool {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        match self {
            Self::Min(min) => count >= min,
            Self::Max(max) => count <= max,
        }
    }
}

/// Up to this many names are compared one by one; more are hashed.
const MAX_SCANNED_NAMES: usize = 12;
/// At most this many required names fit the mask.
pub(super) const MAX_MASKED_NAMES: usize = 64;

/// The rules for the members of an object.
#[derive(Debug, Default)]
pub(super) struct Members {
    names: Box<[Member]>,
    by_name: HashMap<Box<str>, usize, RandomState>,
    /// The bits of all required names.
    pub(super) required: u64,
    pub(super) patterns: Box<[(Pattern, NodeId)]>,
    /// The schema of other members; `None` if there is none.
    pub(super) additional: Option<Additional>,
}

/// The schema of the members that no other keyword names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Additional {
    Allowed,
    Forbidden,
    Node(NodeId),
}

/// A named member.
#[derive(Debug)]
pub(super) struct Member {
    name: Box<str>,
    /// Its schema, if it is among `properties`.
    pub(super) node: Option<NodeId>,
    /// The types of values that certainly match its schema.
    pub(super) plain: Types,
    /// Its bit in the mask of required names; zero if it is not required.
    pub(super) bit: u64,
}

impl Members {
    /// Collects the names of `properties` and, if they fit the mask, of `required`.
    pub(super) fn new(properties: Vec<(Box<str>, NodeId)>, required: &[Box<str>]) -> Self {
        let mut names: Vec<Member> = properties
            .into_iter()
            .map(|(name, node)| Member { name, node: Some(node), plain: Types::NONE, bit: 0 })
            .collect();
        let mut at_name: HashMap<Box<str>, usize, _> = names
            .iter()
            .enumerate()
            .map(|(at, member)| (member.name.clone(), at))
            .collect::<HashMap<_, _, RandomState>>();
        let mut mask = 0;
        for (n, name) in required.iter().enumerate().take(MAX_MASKED_NAMES) {
            let bit = 1 << n;
            mask |= bit;
            let at = *at_name.entry(name.clone()).or_insert(names.len());
            match names.get_mut(at) {
                Some(member) => member.bit |= bit,
                None => {
                    names.push(Member { name: name.clone(), node: None, plain: Types::NONE, bit })
                }
            }
        }
        let by_name = if names.len() > MAX_SCANNED_NAMES { at_name } else { HashMap::default() };
        Self { names: names.into(), by_name, required: mask, ..Self::default() }
    }

    /// Returns whether only named members are allowed, and each of them is a scalar.
    pub(super) fn are_scalars(&self, is_scalar: impl Fn(NodeId) -> bool) -> bool {
        let are_closed = self.patterns.is_empty() && self.additional == Some(Additional::Forbidden);
        are_closed && self.names.iter().all(|member| member.node.is_some_and(&is_scalar))
    }

    /// Keeps the types of the schemas that restrict nothing else.
    pub(super) fn keep_plain_types(&mut self, plain: impl Fn(NodeId) -> Types) {
        for member in &mut self.names {
            member.plain = member.node.map_or(Types::NONE, &plain);
        }
    }

    /// Finds a name, first at the position where it is expected: models keep the order.
    #[inline(always)]
    pub(super) fn find(&self, name: &str, expected: &mut usize) -> Option<&Member> {
        if let Some(member) = self.names.get(*expected)
            && *member.name == *name
        {
            *expected += 1;
            return Some(member);
        }
        let at = self.search(name)?;
        *expected = at + 1;
        self.names.get(at)
    }

    #[inline(never)]
    fn search(&self, name: &str) -> Option<usize> {
        if self.by_name.is_empty() {
            self.names.iter().position(|member| *member.name == *name)
        } else {
            self.by_name.get(name).copied()
        }
    }
}
