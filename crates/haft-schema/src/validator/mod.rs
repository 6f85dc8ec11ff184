//! A compiled validator for JSON Schema: a list of nodes, made once, that refer to each other.
//!
//! In: a schema of draft 4, 6, 7, 2019-09 or 2020-12. Out: whether a value is valid, or what is
//! wrong with it and where. Nothing is fetched. The work is bounded: nesting has a limit, results
//! are memoized when a value takes many steps, and patterns match in bounded time.
//!
//! INVARIANT: a value is valid exactly if no violation is listed, unless a limit was reached; then
//! it is not valid.

mod number;
mod equal;
mod ecma;
mod pattern;
mod content;
mod types;
mod violation;
mod node;
mod cycles;
mod keyword;
mod build;
mod run;
mod evaluated;
mod list;

use serde_json::Value;

pub(crate) use self::violation::{Violation, ViolationKind};
use self::{build::Builder, list::Lister, node::Node, run::Run};
use crate::{draft::Draft, references::UnresolvedReference};

/// The node of the whole schema.
const ROOT: u32 = 0;

/// A compiled validator.
#[derive(Debug)]
pub(crate) struct Validator {
    nodes: Vec<Node>,
}

impl Validator {
    /// Compiles a schema that its metaschema accepts. `asserts_formats` makes `format` restrict
    /// values.
    pub(crate) fn new(
        schema: &Value,
        draft: Draft,
        asserts_formats: bool,
    ) -> Result<Self, UnresolvedReference> {
        Ok(Self { nodes: Builder::new(schema, draft, asserts_formats)?.build(schema)? })
    }

    /// Returns whether a value is valid.
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        let mut run = Run::new(&self.nodes);
        run.is_valid(ROOT, value) && !run.is_undecided()
    }

    /// Returns whether the root is an object whose members are checked one by one, and whose named
    /// members are scalars.
    pub(crate) fn describes_scalars(&self) -> bool {
        let Some(root) = self.nodes.first() else { return false };
        let is_scalar = |node: u32| {
            let node = usize::try_from(node).ok().and_then(|at| self.nodes.get(at));
            node.is_some_and(|node| node.types.are_scalars() && !node.is_cyclic)
        };
        let is_object = root.types.include(&Value::Object(serde_json::Map::new()), false);
        is_object
            && !root.is_cyclic
            && root.rest.is_empty()
            && root.members.as_ref().is_some_and(|members| members.are_scalars(is_scalar))
    }

    /// Returns whether an object with these members is valid; `false` if the root does not describe
    /// scalars.
    #[inline]
    pub(crate) fn is_valid_object<'v>(
        &self,
        object: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> bool {
        let Some(members) = self.nodes.first().and_then(|root| root.members.as_ref()) else {
            return false;
        };
        let mut run = Run::new(&self.nodes);
        run.has_valid_members(members, object) && !run.is_undecided()
    }

    /// Lists at most `limit` violations of a value, and as many for each branch of a union.
    pub(crate) fn violations<'v>(&self, value: &'v Value, limit: usize) -> Vec<Violation<'v>> {
        Lister::new(&self.nodes, limit).list(ROOT, value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: &Value) -> Validator {
        let draft = Draft::of(schema).unwrap();
        Validator::new(schema, draft, true).unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn nested(depth: usize) -> Value {
        // Built by hand: the macro would copy it each time.
        (0..depth).fold(json!("leaf"), |inner, _| {
            Value::Object([("child".to_owned(), inner)].into_iter().collect())
        })
    }

    #[test]
    fn recursive_union_is_not_exponential_in_the_depth_of_a_value() {
        let form = |name: &str| json!({"properties": {"child": {"$ref": "#"}}, "required": [name]});
        let validator = compiled(&json!({"anyOf": [form("a"), form("b"), {"type": "integer"}]}));
        // Without a memo this would take 2^120 steps.
        assert!(!validator.is_valid(&nested(120)));
        let all = json!({"properties": {"child": {"$ref": "#"}}});
        let twice = compiled(&json!({"allOf": [all, all]}));
        assert!(twice.is_valid(&nested(120)));
    }

    #[test]
    fn value_beyond_the_depth_limit_is_invalid_and_does_not_overflow_the_stack() {
        for schema in [
            json!({"properties": {"child": {"$ref": "#"}}}),
            json!({"not": {"not": {"properties": {"child": {"$ref": "#"}}}}}),
            json!({"allOf": [{"anyOf": [{"if": {"additionalProperties": {"$ref": "#"}}, "then": true}]}]}),
            json!({"unevaluatedProperties": {"$ref": "#"}}),
        ] {
            let validator = compiled(&schema);
            assert!(validator.is_valid(&nested(120)), "{schema}");
            let deep = nested(3_000);
            assert!(!validator.is_valid(&deep), "{schema}");
            let _ = validator.violations(&deep, 10);
        }
    }

    #[test]
    fn pattern_beyond_its_limit_makes_the_value_invalid_even_under_not() {
        let evil = json!({"pattern": r"^(?:(a|aa)\1?)+b$"});
        let text = json!(format!("{}!", "a".repeat(60)));
        for schema in [evil.clone(), json!({"not": evil}), json!({"anyOf": [evil, true]})] {
            let valid = compiled(&schema).is_valid(&text);
            // The union does not try its second branch before the first is undecided.
            assert!(!valid, "{schema}");
        }
    }

    #[test]
    fn schema_that_only_refers_to_itself_accepts_everything() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ] {
            let validator = compiled(&schema);
            assert!(validator.is_valid(&json!({"a": 1})), "{schema}");
            assert!(validator.violations(&json!([1]), 10).is_empty(), "{schema}");
        }
        let strict =
            compiled(&json!({"anyOf": [{"$ref": "#"}, {"type": "null"}], "type": "array"}));
        assert!(strict.is_valid(&json!([])) && !strict.is_valid(&json!(1)));
    }

    #[test]
    fn many_properties_and_many_required_names_are_found() {
        let names: Vec<String> = (0..100).map(|n| format!("name_{n}")).collect();
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!({"type": "integer"}))).collect();
        let value = |without: usize| -> Value {
            let names = names.iter().enumerate().filter(|(n, _)| *n != without);
            names
                .map(|(n, name)| (name.clone(), json!(n)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        for required in [&names[..], &names[..64], &names[..2]] {
            let schema = json!({"properties": properties, "required": required, "additionalProperties": false});
            let validator = compiled(&schema);
            assert!(validator.is_valid(&value(1_000)));
            for without in [0, 1, 63, 64, 99] {
                let valid = without >= required.len();
                let value = value(without);
                assert_eq!(validator.is_valid(&value), valid, "{without}");
                let found = validator.violations(&value, 10);
                assert_eq!(found.is_empty(), valid, "{found:?}");
            }
        }
        let unnamed = compiled(&json!({"required": ["a", "b"], "additionalProperties": false}));
        assert!(!unnamed.is_valid(&json!({"a": 1, "b": 2})), "required is not declared");
    }

    #[test]
    fn float_beyond_every_integer_is_compared_only_with_the_bounds_that_exist() {
        for (schema, value, valid) in [
            (json!({"minimum": 1}), json!(1e300), true),
            (json!({"minimum": 1}), json!(-1e300), false),
            (json!({"maximum": 1}), json!(-1e300), true),
            (json!({"maximum": 1, "enum": [1e300]}), json!(1e300), false),
            (json!({"multipleOf": 2}), json!(1e300), true),
            (json!({"minimum": 0, "maximum": u64::MAX}), json!(u64::MAX), true),
            (json!({"minimum": 0.5, "maximum": 3}), json!(0), false),
        ] {
            assert_eq!(compiled(&schema).is_valid(&value), valid, "{value} under {schema}");
        }
    }

    #[test]
    fn older_drafts_keep_their_own_rules() {
        let draft = |name: &str, mut schema: Value| {
            schema["$schema"] = json!(format!("http://json-schema.org/{name}/schema#"));
            compiled(&schema)
        };
        let four =
            draft("draft-04", json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}));
        assert!(
            four.is_valid(&json!(2)) && !four.is_valid(&json!(2.0)) && !four.is_valid(&json!(1))
        );
        let tuple =
            draft("draft-07", json!({"items": [{"type": "string"}], "additionalItems": false}));
        assert!(tuple.is_valid(&json!(["a"])) && !tuple.is_valid(&json!(["a", 1])));
        let hidden = draft(
            "draft-07",
            json!({"properties": {"a": {"$ref": "#/definitions/x", "type": "null"}}, "definitions": {"x": {"type": "integer"}}}),
        );
        assert!(hidden.is_valid(&json!({"a": 1})) && !hidden.is_valid(&json!({"a": null})));
        let content = draft(
            "draft-07",
            json!({"contentEncoding": "base64", "contentMediaType": "application/json"}),
        );
        assert!(content.is_valid(&json!("e30=")) && content.is_valid(&json!(1)));
        assert!(!content.is_valid(&json!("e30")) && !content.is_valid(&json!("ey0=")));
        let depends =
            draft("draft-06", json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}));
        assert!(depends.is_valid(&json!({"a": 1, "b": 1})) && !depends.is_valid(&json!({"a": 1})));
        assert!(!depends.is_valid(&json!({"c": 1})));
        let recursive = compiled(&json!({
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$id": "https://example.com/strict", "$recursiveAnchor": true,
            "$ref": "tree", "unevaluatedProperties": false,
            "$defs": {"tree": {
                "$id": "tree", "$recursiveAnchor": true,
                "properties": {"nodes": {"items": {"$recursiveRef": "#"}}, "data": true},
            }},
        }));
        assert!(recursive.is_valid(&json!({"nodes": [{"data": 1}]})));
        assert!(!recursive.is_valid(&json!({"nodes": [{"daat": 1}]})));
    }
}
