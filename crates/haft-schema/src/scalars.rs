//! Arguments whose values are all scalars, read without a JSON tree.
//!
//! Most calls have a few numbers, texts and flags. A tree costs them an allocation for every name
//! and a hash table. In: text. Out: the members in order, each a scalar.
//!
//! Text that is anything else (a nested value, a duplicate key, a whole float, many members) is
//! not read here, and the caller parses it as a tree. That is where mistakes are explained.
//!
//! INVARIANT: text that is read here is accepted by `strict_json`, with the same members.

use std::{borrow::Cow, fmt};

use arrayvec::ArrayVec;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::{compiled::Schema, integers::is_whole_float};

/// An object with more members is parsed as a tree: here names are compared one by one.
const MAX_MEMBERS: usize = 8;

/// The members of an object, all of them scalars. A name without escapes is borrowed.
#[derive(Debug, Default)]
pub struct ScalarObject<'t> {
    members: ArrayVec<(Cow<'t, str>, Value), MAX_MEMBERS>,
}

impl<'t> ScalarObject<'t> {
    /// Reads the text into this object, which must be empty; `false` if the text must be parsed as
    /// a tree.
    #[inline]
    pub fn read(&mut self, text: &'t str) -> bool {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = Members(self).deserialize(&mut reader);
        read.is_ok() && reader.end().is_ok()
    }

    /// Returns the members in order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// Gives out the members in order.
    pub fn into_members(self) -> impl Iterator<Item = (Cow<'t, str>, Value)> {
        self.members.into_iter()
    }
}

impl Schema {
    /// Returns whether it describes an object whose members can be checked one by one, and whose
    /// named members are scalars.
    #[must_use]
    pub fn describes_scalars(&self) -> bool {
        self.validator().describes_scalars()
    }

    /// Returns whether an object is valid. Only for a schema that
    /// [describes scalars](Self::describes_scalars); any other schema accepts none.
    #[must_use]
    pub fn is_valid_object(&self, object: &ScalarObject<'_>) -> bool {
        self.validator().is_valid_object(object.members())
    }
}

/// Reads the members of an object.
struct Members<'a, 't>(&'a mut ScalarObject<'t>);

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let members = &mut self.0.members;
        while let Some(name) = access.next_key_seed(Name)? {
            if members.is_full() || members.iter().any(|(other, _)| *other == name) {
                return Err(unread());
            }
            let value = access.next_value_seed(Scalar)?;
            members.push((name, value));
        }
        Ok(())
    }
}

/// What is not read here. The error is not shown.
#[cold]
fn unread<E: Error>() -> E {
    E::custom("not an object of scalars")
}

/// Reads the name of a member.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cow<'de, str>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Reads a value that has no parts.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    /// The schema decides whether a whole float is an integer.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match Value::from(value) {
            Value::Number(number) if !is_whole_float(&number) => Ok(Value::Number(number)),
            _ => Err(unread()),
        }
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;
    use crate::strict_json;

    fn read(text: &str) -> Option<Value> {
        let mut object = ScalarObject::default();
        object.read(text).then(|| {
            let members = object.into_members().map(|(name, value)| (name.into_owned(), value));
            Value::Object(members.collect::<Map<String, Value>>())
        })
    }

    #[test]
    fn object_of_scalars_is_read_in_order_and_unescaped() {
        let text = r#" {"b": 1, "a\u0041": "x\ny", "c": -2, "d": 0.5, "e": null, "f": true} "#;
        assert_eq!(read(text), strict_json(text).ok());
        assert_eq!(read("{}"), Some(json!({})));
    }

    #[test]
    fn everything_else_is_left_to_the_tree() {
        let many: Vec<String> = (0..9).map(|n| format!("\"{n}\":1")).collect();
        for text in [
            "",
            "[]",
            "1",
            "{\"a\":[]}",
            "{\"a\":{}}",
            "{\"a\":1,\"a\":1}",
            "{\"a\":2.0}",
            "{\"a\":1} x",
            "{\"a\":1",
            "{\"a\":NaN}",
            "{\"a\":1,}",
            "{\"a\":1,\"\\u0061\":2}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&format!("{{{}}}", many.join(","))), None);
    }

    #[test]
    fn schema_with_nested_members_or_other_rules_does_not_describe_scalars() {
        let scalars = |schema: Value| Schema::compile(&schema).unwrap().describes_scalars();
        let closed = |properties: Value| {
            let mut schema = json!({"type": "object", "additionalProperties": false});
            schema["properties"] = properties;
            schema
        };
        assert!(scalars(closed(json!({"a": {"type": "integer", "minimum": 0}}))));
        assert!(scalars(closed(json!({"a": {"type": ["string", "null"]}, "b": {"type": "null"}}))));
        assert!(!scalars(closed(json!({"a": {"enum": [1]}}))));
        assert!(!scalars(closed(json!({"a": {"type": "array"}}))));
        assert!(!scalars(closed(json!({"a": {}}))));
        assert!(!scalars(json!({"type": "object", "properties": {"a": {"type": "null"}}})));
        let mut limited = closed(json!({"a": {"type": "null"}}));
        limited["minProperties"] = json!(1);
        assert!(!scalars(limited));
        assert!(!scalars(json!({"type": "array"})) && !scalars(json!(true)));
    }

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-4_i32..4).prop_map(|n| json!(f64::from(n) / 2.0)),
            "[a-c\"\\\\\n\u{e9}]{0,4}".prop_map(Value::from),
            Just(json!([1])),
            Just(json!({"x": 1})),
        ]
    }

    proptest! {
        /// Text that is read has the members of the tree, and the same verdict.
        #[test]
        fn scalars_and_tree_agree(
            members in proptest::collection::vec(("[a-c]", scalar()), 0..5),
            minimum in -3_i64..3,
            kinds in proptest::collection::vec(0_usize..6, 3),
            required in proptest::collection::vec(any::<bool>(), 3),
        ) {
            let body: Vec<String> =
                members.iter().map(|(name, value)| format!("{}: {value}", json!(name))).collect();
            let text = format!("{{{}}}", body.join(" , "));
            let kind = |n: usize| match n {
                0 => json!({"type": "integer", "minimum": minimum}),
                1 => json!({"type": "string", "maxLength": 2}),
                2 => json!({"type": ["number", "null"]}),
                3 => json!({"type": ["null", "string", "integer"], "enum": [null, "a", 1]}),
                4 => json!({"type": "boolean"}),
                _ => json!({"type": "string", "pattern": "^a"}),
            };
            let names = ["a", "b", "c"];
            let wanted = names.iter().zip(&required).filter(|(_, wanted)| **wanted);
            let schema = json!({
                "type": "object",
                "properties": {"a": kind(kinds[0]), "b": kind(kinds[1]), "c": kind(kinds[2])},
                "required": wanted.map(|(name, _)| *name).collect::<Vec<_>>(),
                "additionalProperties": false,
            });
            let schema = Schema::compile(&schema).unwrap();
            prop_assert!(schema.describes_scalars());
            let tree = strict_json(&text);
            let mut object = ScalarObject::default();
            if object.read(&text) {
                let tree = tree.expect("text that is read is valid");
                prop_assert_eq!(schema.is_valid_object(&object), schema.is_valid(&tree));
                prop_assert_eq!(read(&text), Some(tree));
            } else {
                let is_special = tree.is_err()
                    || members.iter().any(|(_, value)| {
                        value.is_array() || value.is_object()
                            || value.as_f64().is_some_and(|f| value.is_f64() && f.fract() == 0.0)
                    });
                prop_assert!(is_special, "{text} could be read");
            }
        }
    }
}
