//! A compiled JSON Schema: offline, bounded, and without panics.
//!
//! It is compiled once, at registration. A schema that could make validation slow or endless is
//! rejected here, where a person reads the error.

use std::{
    collections::HashMap,
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, LazyLock},
};

use haft_core::{Error, ErrorKind};
use serde_json::{Map, Value};

use super::{
    draft::Draft,
    keywords::DATA_KEYWORDS,
    lookup::SchemaLookup,
    metaschemas, ranges,
    references::UnresolvedReference,
    stop::Stop,
    validator::{Validator, Violation},
    work,
};

/// A compiled JSON Schema. Clones share the compiled form.
///
/// ```
/// use serde_json::json;
/// use haft_schema::Schema;
///
/// let schema = Schema::compile(&json!({
///     "type": "object",
///     "properties": {"limit": {"type": "integer", "minimum": 1}},
/// }))?;
/// assert!(schema.is_valid(&json!({"limit": 3})));
/// let problems = schema.problems(&json!({"limit": "all"}));
/// assert_eq!(problems[0].pointer, "/limit");
/// assert_eq!(problems[0].message, r#"expected an integer of at least 1; got "all" (string)"#);
/// # Ok::<(), haft_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Schema(Arc<Inner>);

struct Inner {
    source: Value,
    validator: Validator,
    formats: Formats,
    has_secrets: bool,
}

/// Whether `format` is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Formats {
    /// A value must have the named format, if it is a known one. This is how calls are validated.
    /// An integer with a format such as `int32` or `uint64` must be in that range.
    #[default]
    Assertion,
    /// A format is only an annotation, as in the newer drafts.
    Annotation,
}

impl Schema {
    /// Compiles a schema as for calls: formats are asserted, and the draft is the one that
    /// `$schema` names (2020-12 by default).
    ///
    /// # Errors
    /// Fails with `ErrorKind::BadSchema` if it is not a valid schema, has an external or broken
    /// reference, or is too deep or too entangled to validate values in time.
    pub fn compile(schema: &Value) -> Result<Self, Error> {
        Self::compile_with(schema, Formats::Assertion)
    }

    /// Compiles a schema with a choice of whether `format` is enforced.
    ///
    /// # Errors
    /// Fails as [`Schema::compile`] does.
    pub fn compile_with(schema: &Value, formats: Formats) -> Result<Self, Error> {
        let refuse = |why: String| Error::new(ErrorKind::BadSchema, why);
        if depth(schema) > MAX_DEPTH {
            return Err(refuse(format!("it is nested more than {MAX_DEPTH} deep")));
        }
        if expanded_parts(schema) > MAX_EXPANDED_PARTS {
            return Err(refuse(format!(
                "its references unfold into more than {MAX_EXPANDED_PARTS} parts, which is too slow to validate calls against"
            )));
        }
        let bounded = match formats {
            Formats::Assertion => ranges::bounded(schema),
            Formats::Annotation => None,
        };
        let checked = bounded.as_ref().unwrap_or(schema);
        let validator = std::panic::catch_unwind(AssertUnwindSafe(|| build(checked, formats)))
            .map_err(|_| refuse("the validator panicked while it was compiled".to_owned()))?
            .map_err(refuse)?;
        let has_secrets = marks_secrets(schema);
        Ok(Self(Arc::new(Inner { source: schema.clone(), validator, formats, has_secrets })))
    }

    /// Returns whether a value is valid.
    #[must_use]
    pub fn is_valid(&self, value: &Value) -> bool {
        self.0.validator.is_valid(value)
    }

    /// Returns the validator.
    pub(crate) fn validator(&self) -> &Validator {
        &self.0.validator
    }

    /// Returns the schema as it was written.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.0.source
    }

    /// Lists at most `limit` errors of a value; `None` if that is too much work or is stopped.
    pub(super) fn errors<'a>(
        &'a self,
        value: &'a Value,
        limit: usize,
        stop: &Stop<'_>,
    ) -> Option<Vec<Violation<'a>>> {
        let pairs = work::affordable(self.lookup(), value, stop)?;
        if stop.ends_before(pairs) {
            return None;
        }
        let errors = self.0.validator.violations(value, limit).into_iter();
        Some(errors.take_while(|_| !stop.ends_before(1)).collect())
    }

    /// Returns the work of listing all errors; `None` if it is too much.
    pub(super) fn listing_work(&self, value: &Value, stop: &Stop<'_>) -> Option<u64> {
        work::affordable(self.lookup(), value, stop)
    }

    /// Returns whether `format` is enforced.
    pub(super) fn formats(&self) -> Formats {
        self.0.formats
    }

    /// Returns whether the value at a location is, is part of, or contains something marked as
    /// secret.
    pub fn is_secret(&self, pointer: &str) -> bool {
        self.lookup().is_secret(pointer)
    }

    /// Returns whether the schema marks anything as secret.
    pub fn marks_secrets(&self) -> bool {
        self.0.has_secrets
    }

    /// Returns a value with everything masked that the schema marks as secret; `None` if nothing
    /// changes.
    pub fn masked(&self, value: &Value, mask: &dyn Fn(&Value) -> Value) -> Option<Value> {
        if !self.0.has_secrets {
            return None;
        }
        let mut changed = value.clone();
        self.lookup().mask(&mut changed, &mut String::new(), mask);
        (changed != *value).then_some(changed)
    }

    /// Returns the lookup of schema nodes by location.
    pub(super) fn lookup(&self) -> SchemaLookup<'_> {
        SchemaLookup::new(&self.0.source, self.0.has_secrets)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.0.source).finish()
    }
}

/// Compiles a schema that its metaschema accepts.
fn build(schema: &Value, formats: Formats) -> Result<Validator, String> {
    let draft = Draft::of(schema)?;
    check(schema, draft)?;
    build_unchecked(schema, formats).map_err(|UnresolvedReference { pointer, why, .. }| {
        match &*pointer {
            "" => why,
            place => format!("at `{place}`: {why}"),
        }
    })
}

/// Compiles a schema, or a part of one, that was checked before.
pub(super) fn build_unchecked(
    schema: &Value,
    formats: Formats,
) -> Result<Validator, UnresolvedReference> {
    let draft = Draft::of(schema).unwrap_or(Draft::Draft202012);
    Validator::new(schema, draft, formats == Formats::Assertion)
}

/// Checks a schema against the metaschema of its draft, and embedded ones against theirs.
fn check(schema: &Value, draft: Draft) -> Result<(), String> {
    /// The metaschemas, compiled, in the order of the drafts.
    static METASCHEMAS: LazyLock<[Option<Schema>; 5]> = LazyLock::new(|| {
        Draft::ALL.map(|draft| {
            let source = metaschemas::of(draft);
            let validator = build_unchecked(source, Formats::Annotation).ok()?;
            let (source, formats) = (source.clone(), Formats::Annotation);
            Some(Schema(Arc::new(Inner { source, validator, formats, has_secrets: false })))
        })
    });
    let position = Draft::ALL.iter().position(|known| *known == draft);
    let metaschema = position.and_then(|at| METASCHEMAS.get(at)?.as_ref());
    let metaschema = metaschema.ok_or("the draft has no metaschema")?;
    let mut embedded = Vec::new();
    let own = without_other_drafts(schema, draft, &mut embedded);
    let schema = own.as_ref().unwrap_or(schema);
    for (draft, schema) in embedded {
        check(schema, draft)?;
    }
    if metaschema.is_valid(schema) {
        return Ok(());
    }
    Err(match metaschema.first_problem_without_note(schema) {
        Some(problem) if problem.pointer.is_empty() => problem.message,
        Some(problem) => format!("at `{}`: {}", problem.pointer, problem.message),
        None => "it is not a valid schema".to_owned(),
    })
}

/// Returns a schema without the embedded resources of other drafts, and lists those; `None` if
/// there are none.
fn without_other_drafts<'a>(
    node: &'a Value,
    draft: Draft,
    embedded: &mut Vec<(Draft, &'a Value)>,
) -> Option<Value> {
    let mut replaced = |child: &'a Value| {
        let has_id = child.get("$id").or_else(|| child.get("id")).is_some();
        match Draft::of(child) {
            Ok(other) if has_id && child.get("$schema").is_some() && other != draft => {
                embedded.push((other, child));
                Some(Value::Object(Map::new()))
            }
            _ => without_other_drafts(child, draft, embedded),
        }
    };
    match node {
        Value::Object(map) => {
            let mut changed: Option<Map<String, Value>> = None;
            for (key, child) in map.iter().filter(|(key, _)| !DATA_KEYWORDS.contains(&key.as_str()))
            {
                if let Some(child) = replaced(child) {
                    changed.get_or_insert_with(|| map.clone()).insert(key.clone(), child);
                }
            }
            changed.map(Value::Object)
        }
        Value::Array(list) => {
            let mut changed: Option<Vec<Value>> = None;
            for (n, item) in list.iter().enumerate() {
                if let Some(item) = replaced(item)
                    && let Some(slot) = changed.get_or_insert_with(|| list.clone()).get_mut(n)
                {
                    *slot = item;
                }
            }
            changed.map(Value::Array)
        }
        _ => None,
    }
}

/// Deeper than any reasonable schema; recursive functions over schemas rely on it.
const MAX_DEPTH: usize = 200;
/// A reasonable schema expands to a few thousand parts.
const MAX_EXPANDED_PARTS: u64 = 1_000_000;

/// Nesting depth of a value, computed without recursion.
pub(super) fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 0)];
    while let Some((value, at)) = open.pop() {
        deepest = deepest.max(at);
        match value {
            Value::Array(list) => open.extend(list.iter().map(|item| (item, at + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, at + 1))),
            _ => {}
        }
    }
    deepest
}

/// Whether anything in the schema is marked as secret; if not, masking is skipped.
fn marks_secrets(schema: &Value) -> bool {
    match schema {
        Value::Array(list) => list.iter().any(marks_secrets),
        Value::Object(map) => super::lookup::is_marked(schema) || map.values().any(marks_secrets),
        _ => false,
    }
}

/// Counts the parts of a schema with every local reference expanded, as a validator may have to for
/// a single value. Each definition is counted once and memoized.
fn expanded_parts(schema: &Value) -> u64 {
    fn count(root: &Value, node: &Value, seen: &mut HashMap<String, u64>, depth: usize) -> u64 {
        // The schema's depth was checked before; this bounds chains of references.
        if depth > MAX_DEPTH {
            return u64::MAX;
        }
        let below =
            |value: &Value, seen: &mut HashMap<String, u64>| count(root, value, seen, depth + 1);
        match node {
            Value::Array(list) => {
                list.iter().fold(1, |sum: u64, item| sum.saturating_add(below(item, seen)))
            }
            Value::Object(map) => {
                let mut sum: u64 = 1;
                for (key, value) in map {
                    // Definitions count where they are referenced.
                    if key != "$defs" && key != "definitions" {
                        sum = sum.saturating_add(below(value, seen));
                    }
                }
                if let Some(target) = map.get("$ref").and_then(Value::as_str)
                    && let Some(found) = target.strip_prefix('#').and_then(|p| root.pointer(p))
                {
                    let known = seen.get(target).copied();
                    let expanded_parts = known.unwrap_or_else(|| {
                        // A recursive reference counts once: the depth of the value bounds it.
                        seen.insert(target.to_owned(), 1);
                        let expanded_parts = count(root, found, seen, depth + 1);
                        seen.insert(target.to_owned(), expanded_parts);
                        expanded_parts
                    });
                    sum = sum.saturating_add(expanded_parts);
                }
                sum
            }
            _ => 0,
        }
    }
    count(schema, schema, &mut HashMap::new(), 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn compile_error_says_what_and_where() {
        for (bad, says) in [
            (json!({"type": "objekt"}), "/type"),
            (json!({"properties": {"a": {"minimum": "1"}}}), "/properties/a/minimum"),
            (json!({"$ref": "#/$defs/none"}), "/$defs/none"),
            (json!({"$ref": "https://example.com/schema"}), "https://example.com/schema"),
            (json!({"$ref": "file:///etc/passwd"}), "file:///etc/passwd"),
            (json!({"pattern": "("}), "pattern"),
            (json!([1]), "expected an object or boolean; got an array"),
            (
                json!({"$schema": "https://example.com/own"}),
                "`https://example.com/own` is not a known draft",
            ),
        ] {
            let error = Schema::compile(&bad).expect_err(&bad.to_string());
            assert_eq!(error.kind(), ErrorKind::BadSchema, "{bad}");
            assert!(error.to_string().contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn too_deep_schema_is_refused_before_recursion() {
        let mut deep = json!({"type": "string"});
        for _ in 0..50_000 {
            // Built by hand: the macro would copy it each time.
            deep = Value::Object([("not".to_owned(), deep)].into_iter().collect());
        }
        let error = Schema::compile(&deep).unwrap_err();
        assert!(error.to_string().contains("deep"), "{error}");
        // Leaked: dropping it recursively would overflow the stack.
        std::mem::forget(deep);
    }

    #[test]
    fn formats_are_asserted_by_default() {
        let schema = json!({"format": "date"});
        assert!(!Schema::compile(&schema).unwrap().is_valid(&json!("soon")));
        assert!(
            Schema::compile_with(&schema, Formats::Annotation).unwrap().is_valid(&json!("soon"))
        );
    }

    #[test]
    fn look_around_falls_back_to_a_bounded_engine() {
        let schema = Schema::compile(&json!({"pattern": "^(?!x)"})).unwrap();
        assert!(schema.is_valid(&json!("y")) && !schema.is_valid(&json!("x")));
    }
}
