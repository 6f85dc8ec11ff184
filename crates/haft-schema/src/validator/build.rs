//! Compiles a schema to nodes: each subschema once for each dynamic scope it is reached in.

use std::{collections::HashMap, rc::Rc};

use serde_json::Value;

use super::{
    content::Content,
    cycles, ecma,
    keyword::{Keywords, Subschema, hides_siblings, texts_of, values},
    node::{
        Additional, Bound, Limit, MAX_MASKED_NAMES, Members, Node, NodeId, Range, Restricts, Rule,
    },
    number::Numeric,
    pattern::Pattern,
    types::Types,
};
use crate::{
    draft::Draft,
    formats,
    keywords::escape,
    references::{DEFAULT_BASE_URI, Index, UnresolvedReference, has_no_references},
};

/// More nodes are refused.
const MAX_NODES: usize = 1_000_000;

/// A subschema by identity and by its dynamic scope.
type Key = (*const Value, Vec<*const Value>);

/// Compiles one schema.
pub(super) struct Builder<'a> {
    index: Index<'a>,
    /// Whether a subschema can be reached by a reference.
    has_references: bool,
    asserts_formats: bool,
    nodes: Vec<Node>,
    known: HashMap<Key, NodeId>,
    /// The targets of references that are not compiled yet.
    waiting: Vec<(NodeId, Subschema<'a>)>,
    patterns: HashMap<String, Pattern>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        schema: &'a Value,
        draft: Draft,
        asserts_formats: bool,
    ) -> Result<Self, UnresolvedReference> {
        let has_references = !has_no_references(schema, draft.is_old());
        let index = if has_references { Index::new(schema, draft)? } else { Index::empty(draft) };
        Ok(Self {
            index,
            has_references,
            asserts_formats,
            nodes: Vec::new(),
            known: HashMap::new(),
            waiting: Vec::new(),
            patterns: HashMap::new(),
        })
    }

    /// Compiles the schema; its own node is the first.
    pub(super) fn build(mut self, schema: &'a Value) -> Result<Vec<Node>, UnresolvedReference> {
        let base: Rc<str> = Rc::from(DEFAULT_BASE_URI);
        let base = self.index.base_of(schema, &base);
        let scope = self.index.enter(&base, &Rc::default());
        self.node(Subschema { node: schema, base, scope, pointer: String::new() })?;
        // References are compiled from here, so that a long chain does not nest.
        while let Some((id, target)) = self.waiting.pop() {
            self.fill(id, &target)?;
        }
        cycles::mark(&mut self.nodes);
        let plain: Vec<Types> = self.nodes.iter().map(Node::plain_types).collect();
        for members in self.nodes.iter_mut().filter_map(|node| node.members.as_mut()) {
            members.keep_plain_types(|id| {
                let types = usize::try_from(id).ok().and_then(|id| plain.get(id));
                types.copied().unwrap_or(Types::NONE)
            });
        }
        Ok(self.nodes)
    }

    /// Compiles a subschema, or finds it.
    fn node(&mut self, schema: Subschema<'a>) -> Result<NodeId, UnresolvedReference> {
        let (id, is_new) = self.reserve(&schema)?;
        if is_new {
            self.fill(id, &schema)?;
        }
        Ok(id)
    }

    /// Returns the node of a subschema, and whether it has yet to be filled.
    fn reserve(&mut self, schema: &Subschema<'a>) -> Result<(NodeId, bool), UnresolvedReference> {
        let id = NodeId::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < MAX_NODES);
        let id = id.ok_or_else(|| UnresolvedReference {
            pointer: schema.pointer.clone(),
            keyword: "",
            why: format!("it has more than {MAX_NODES} parts"),
        })?;
        if self.has_references {
            let scope = schema.scope.values().map(|(node, _)| std::ptr::from_ref(*node)).collect();
            let key = (std::ptr::from_ref(schema.node), scope);
            if let Some(known) = self.known.get(&key) {
                return Ok((*known, false));
            }
            self.known.insert(key, id);
        }
        self.nodes.push(Node {
            types: Types::ALL,
            restricts: Restricts::Nothing,
            is_cyclic: false,
            floats_are_fractions: false,
            range: Range::ALL,
            members: None,
            rules: Box::default(),
            rest: Box::default(),
            pointer: schema.pointer.as_str().into(),
        });
        Ok((id, true))
    }

    fn fill(&mut self, id: NodeId, schema: &Subschema<'a>) -> Result<(), UnresolvedReference> {
        let (mut rules, mut members, mut types) = (Vec::new(), None, Types::ALL);
        let base = self.index.base_of(schema.node, &schema.base);
        let draft = self.index.draft_of(&base);
        match schema.node {
            Value::Bool(true) => {}
            Value::Bool(false) => {
                types = Types::NONE;
                rules.push((0, Rule::False));
            }
            Value::Object(own) => {
                let scope = if base == schema.base {
                    Rc::clone(&schema.scope)
                } else {
                    self.index.enter(&base, &schema.scope)
                };
                let pointer = schema.pointer.clone();
                let mut keywords = Keywords {
                    own,
                    base,
                    scope,
                    pointer,
                    draft,
                    rules: Vec::with_capacity(own.len()),
                };
                members = self.keywords(&mut keywords)?;
                if let Some(written) =
                    keywords.own.get("type").filter(|_| !hides_siblings(&keywords))
                {
                    types = Types::read(written);
                    keywords.add(1, Rule::Type);
                }
                rules = keywords.rules;
            }
            other => {
                return Err(UnresolvedReference {
                    pointer: schema.pointer.clone(),
                    keyword: "",
                    why: format!("a schema is an object or a boolean, not {other}"),
                });
            }
        }
        rules.sort_by_key(|(order, _)| *order);
        let rules: Box<[Rule]> = rules.into_iter().map(|(_, rule)| rule).collect();
        let mut range = Range::ALL;
        for rule in &rules {
            match rule {
                Rule::Bound(Bound::Minimum, Numeric::Integer(min), _) => range.min = *min,
                Rule::Bound(Bound::Maximum, Numeric::Integer(max), _) => range.max = *max,
                _ => {}
            }
        }
        let rest: Box<[u16]> = rules
            .iter()
            .zip(0_u16..)
            .filter(|(rule, _)| !is_covered(rule))
            .map(|(_, at)| at)
            .collect();
        if let Some(node) = usize::try_from(id).ok().and_then(|id| self.nodes.get_mut(id)) {
            node.types = types;
            node.floats_are_fractions = draft == Draft::Draft4;
            node.restricts = match (rest.is_empty() && members.is_none(), range == Range::ALL) {
                (true, true) => Restricts::Nothing,
                (true, false) => Restricts::Numbers,
                (false, _) => Restricts::Values,
            };
            node.range = range;
            node.members = members.map(Box::new);
            node.rules = rules;
            node.rest = rest;
        }
        Ok(())
    }

    fn keywords(
        &mut self,
        keywords: &mut Keywords<'a>,
    ) -> Result<Option<Members>, UnresolvedReference> {
        for (keyword, order) in [("$ref", 70), ("$recursiveRef", 71), ("$dynamicRef", 72)] {
            if let Some(reference) = keywords.get(keyword).and_then(Value::as_str) {
                let target = self.reference(reference, keyword, keywords)?;
                keywords.add(order, Rule::Reference(target));
            }
        }
        if hides_siblings(keywords) {
            return Ok(None);
        }
        values(keywords);
        self.texts(keywords)?;
        self.arrays(keywords)?;
        self.combinations(keywords)?;
        self.objects(keywords)
    }

    fn reference(
        &mut self,
        reference: &str,
        keyword: &'static str,
        keywords: &Keywords<'a>,
    ) -> Result<NodeId, UnresolvedReference> {
        let Keywords { base, scope, pointer, .. } = keywords;
        let target = self.index.target(reference, keyword, base, scope, pointer)?;
        let scope = self.index.enter(&target.base, scope);
        let (node, base) = (target.node, target.base);
        let schema = Subschema { node, base, scope, pointer: target.pointer };
        let (id, is_new) = self.reserve(&schema)?;
        if is_new {
            self.waiting.push((id, schema));
        }
        Ok(id)
    }

    fn texts(&mut self, keywords: &mut Keywords<'a>) -> Result<(), UnresolvedReference> {
        if let Some(source) = keywords.get("pattern").and_then(Value::as_str) {
            let pattern = self.pattern(source, keywords, "pattern")?;
            keywords.add(30, Rule::Pattern(pattern));
        }
        if let Some(name) = keywords.get("format").and_then(Value::as_str)
            && self.asserts_formats
        {
            let check = match name {
                "regex" => Some(ecma::is_valid as formats::Check),
                name => formats::check(name, keywords.draft),
            };
            if let Some(check) = check {
                keywords.add(31, Rule::Format(name.into(), check));
            }
        }
        if matches!(keywords.draft, Draft::Draft6 | Draft::Draft7)
            && let Some(content) = Content::read(keywords.own)
        {
            keywords.add(32, Rule::Content(content));
        }
        Ok(())
    }

    fn pattern(
        &mut self,
        source: &str,
        keywords: &Keywords<'_>,
        keyword: &'static str,
    ) -> Result<Pattern, UnresolvedReference> {
        if let Some(known) = self.patterns.get(source) {
            return Ok(known.clone());
        }
        let pattern = Pattern::new(source).map_err(|why| UnresolvedReference {
            pointer: format!("{}/{keyword}", keywords.pointer),
            keyword,
            why: format!("`{source}` is not a valid pattern: {why}"),
        })?;
        self.patterns.insert(source.to_owned(), pattern.clone());
        Ok(pattern)
    }

    fn one(
        &mut self,
        keywords: &Keywords<'a>,
        keyword: &str,
    ) -> Result<Option<NodeId>, UnresolvedReference> {
        let found = keywords.get(keyword);
        found.map(|node| self.node(keywords.below(node, keyword))).transpose()
    }

    fn list(
        &mut self,
        keywords: &Keywords<'a>,
        keyword: &str,
    ) -> Result<Option<Box<[NodeId]>>, UnresolvedReference> {
        let Some(Value::Array(list)) = keywords.get(keyword) else { return Ok(None) };
        let nodes = list.iter().enumerate();
        nodes
            .map(|(n, node)| self.node(keywords.below(node, &format!("{keyword}/{n}"))))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn named(
        &mut self,
        keywords: &Keywords<'a>,
        keyword: &str,
    ) -> Result<Vec<(Box<str>, NodeId)>, UnresolvedReference> {
        let Some(Value::Object(map)) = keywords.get(keyword) else { return Ok(Vec::new()) };
        map.iter()
            // `dependencies` also has lists of names.
            .filter(|(_, node)| !node.is_array())
            .map(|(name, node)| {
                let path = format!("{keyword}/{}", escape(name));
                Ok((name.as_str().into(), self.node(keywords.below(node, &path))?))
            })
            .collect()
    }

    fn arrays(&mut self, keywords: &mut Keywords<'a>) -> Result<(), UnresolvedReference> {
        for (keyword, order, limit) in
            [("minItems", 22, Limit::Min as fn(u64) -> Limit), ("maxItems", 23, Limit::Max)]
        {
            if let Some(count) = keywords.count(keyword) {
                keywords.add(order, Rule::Items(limit(count)));
            }
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            keywords.add(35, Rule::UniqueItems);
        }
        let has_tuple = keywords.get("items").is_some_and(Value::is_array);
        let prefix = self.list(keywords, if has_tuple { "items" } else { "prefixItems" })?;
        let first = prefix.as_ref().map_or(0, |prefix| prefix.len());
        if let Some(prefix) = prefix {
            keywords.add(if has_tuple { 44 } else { 45 }, Rule::Prefix(prefix));
        }
        if !has_tuple && let Some(node) = self.one(keywords, "items")? {
            keywords.add(44, Rule::ItemsFrom(first, node));
        } else if has_tuple {
            match keywords.get("additionalItems") {
                Some(Value::Bool(false)) => keywords.add(46, Rule::NoItemsFrom(first)),
                Some(_) => {
                    if let Some(node) = self.one(keywords, "additionalItems")? {
                        keywords.add(46, Rule::ItemsFrom(first, node));
                    }
                }
                None => {}
            }
        }
        if let Some(node) = self.one(keywords, "contains")? {
            let min = keywords.count("minContains").unwrap_or(1);
            let max = keywords.count("maxContains").unwrap_or(u64::MAX);
            keywords.add(47, Rule::Contains { node, min, max });
        }
        if let Some(node) = self.one(keywords, "unevaluatedItems")? {
            keywords.add(61, Rule::UnevaluatedItems(node));
        }
        Ok(())
    }

    fn combinations(&mut self, keywords: &mut Keywords<'a>) -> Result<(), UnresolvedReference> {
        for (keyword, order, rule) in [
            ("allOf", 50, Rule::AllOf as fn(Box<[NodeId]>) -> Rule),
            ("anyOf", 51, Rule::AnyOf),
            ("oneOf", 52, Rule::OneOf),
        ] {
            if let Some(nodes) = self.list(keywords, keyword)? {
                keywords.add(order, rule(nodes));
            }
        }
        if let Some(node) = self.one(keywords, "not")? {
            keywords.add(53, Rule::Not(node));
        }
        if let Some(condition) = self.one(keywords, "if")? {
            let (then, otherwise) = (self.one(keywords, "then")?, self.one(keywords, "else")?);
            keywords.add(54, Rule::If { condition, then, otherwise });
        }
        Ok(())
    }

    fn objects(
        &mut self,
        keywords: &mut Keywords<'a>,
    ) -> Result<Option<Members>, UnresolvedReference> {
        for (keyword, order, limit) in [
            ("minProperties", 24, Limit::Min as fn(u64) -> Limit),
            ("maxProperties", 25, Limit::Max),
        ] {
            if let Some(count) = keywords.count(keyword) {
                keywords.add(order, Rule::Properties(limit(count)));
            }
        }
        for (keyword, order) in [("dependentRequired", 27), ("dependencies", 48)] {
            let map = keywords.get(keyword).and_then(Value::as_object);
            let lists = map.into_iter().flatten().filter(|(_, names)| names.is_array());
            let lists: Box<[_]> =
                lists.map(|(name, names)| (name.as_str().into(), texts_of(names))).collect();
            if !lists.is_empty() {
                keywords.add(order, Rule::DependentRequired(keyword, lists));
            }
        }
        for (keyword, order) in [("dependencies", 48), ("dependentSchemas", 49)] {
            let nodes = self.named(keywords, keyword)?;
            if !nodes.is_empty() {
                keywords.add(order, Rule::DependentSchemas(nodes.into()));
            }
        }
        if let Some(node) = self.one(keywords, "propertyNames")? {
            keywords.add(43, Rule::PropertyNames(node));
        }
        if let Some(node) = self.one(keywords, "unevaluatedProperties")? {
            keywords.add(60, Rule::UnevaluatedProperties(node));
        }
        let required = keywords.get("required").map(texts_of).unwrap_or_default();
        let properties = self.named(keywords, "properties")?;
        let mut patterns = Vec::new();
        for (source, node) in self.named(keywords, "patternProperties")? {
            patterns.push((self.pattern(&source, keywords, "patternProperties")?, node));
        }
        let additional = match keywords.get("additionalProperties") {
            None => None,
            Some(Value::Bool(true)) => Some(Additional::Allowed),
            Some(Value::Bool(false)) => Some(Additional::Forbidden),
            Some(_) => self.one(keywords, "additionalProperties")?.map(Additional::Node),
        };
        let has_members = !properties.is_empty() || !patterns.is_empty() || additional.is_some();
        if !has_members && required.is_empty() {
            return Ok(None);
        }
        let masked = if required.len() > MAX_MASKED_NAMES { &[] } else { &*required };
        let mut members = Members::new(properties, masked);
        members.patterns = patterns.into();
        members.additional = additional;
        if has_members {
            keywords.add(40, Rule::Members);
        }
        if !required.is_empty() {
            keywords.add(26, Rule::Required(required));
        }
        Ok(Some(members))
    }
}

/// Whether the types, the range and the members of a node already check a rule.
fn is_covered(rule: &Rule) -> bool {
    match rule {
        Rule::False | Rule::Type | Rule::Members => true,
        Rule::Bound(Bound::Minimum | Bound::Maximum, Numeric::Integer(_), _) => true,
        Rule::Required(names) => names.len() <= MAX_MASKED_NAMES,
        _ => false,
    }
}
