//! Repairs invalid values if the schema leaves no doubt about what was intended.
//!
//! In: a schema and a value it rejected. Out: a valid value and the list of repairs, or no change.
//! Only values with an error are changed, and only in these ways: a number, a boolean or JSON that
//! was written as text where text is not allowed; an `enum` value in another case; null for an
//! optional property; a property name of a closed object in another spelling. For destructive
//! tools, only the first of these.
//!
//! Our own code, because libraries that coerce values guess.
//!
//! INVARIANT: text is never changed where the schema allows text; no required property is filled
//! in, no unknown property is dropped, no number is truncated. In a union all candidate branches
//! must agree; in doubt nothing is repaired. A value whose schema says `"x-strict": true`, and
//! everything inside it, is never changed.

mod kind;
mod step;

use serde_json::{Number, Value};

pub use self::kind::{Repair, RepairKind, RepairPolicy};
use self::step::{Change, Step, agreed, apply};
use crate::{
    compiled::{Schema, depth},
    lookup::{SchemaLookup, node_of},
    near::fold,
    parse,
    pointer::{below, split, unescaped},
    stop::Stop,
    union::Union,
    validator::{Violation, ViolationKind as Kind},
    work::MAX_LISTED_PAIRS,
};

/// One repair can uncover the next (JSON in text that contains a number in text); this bounds the
/// rounds.
const MAX_ROUNDS: usize = 8;
/// How often a value is validated again in total; each union takes some.
const MAX_CHECKS: usize = 32;
/// How much work all these validations may be together, in pairs of a schema node and a value. A
/// larger value is listed twice at most.
const MAX_WORK: u64 = 4 * MAX_LISTED_PAIRS;
/// A value that needs more repairs than this was not a small mistake.
const MAX_STEPS: usize = 1_000;
/// Maximum nesting of unions whose branches are tried.
const MAX_UNION_DEPTH: usize = 3;
/// Maximum nesting depth of repaired data.
const MAX_DEPTH: usize = 128;

impl Schema {
    /// Changes a value so that it becomes valid, if that is possible without losing or inventing
    /// anything, and returns the repairs. Otherwise the value stays unchanged and the list is
    /// empty.
    ///
    /// `careful` is for destructive tools: only numbers, booleans and JSON that were written as
    /// text are parsed.
    ///
    /// ```
    /// use serde_json::json;
    /// use haft_schema::{RepairKind, Schema};
    ///
    /// let schema = Schema::compile(&json!({"properties": {"n": {"type": "integer"}}}))?;
    /// let mut value = json!({"n": "12"});
    /// let repairs = schema.repair(&mut value, false);
    /// assert_eq!(value, json!({"n": 12}));
    /// assert_eq!((repairs[0].pointer.as_str(), repairs[0].kind), ("/n", RepairKind::Number));
    ///
    /// let mut cut = json!({"n": "12.50"});
    /// assert!(schema.repair(&mut cut, false).is_empty());
    /// assert_eq!(cut, json!({"n": "12.50"}));
    /// # Ok::<(), haft_core::Error>(())
    /// ```
    pub fn repair(&self, value: &mut Value, careful: bool) -> Vec<Repair> {
        self.repair_until(value, careful, &Stop::never())
    }

    /// Does the same, and gives up when it is stopped.
    pub fn repair_until(&self, value: &mut Value, careful: bool, stop: &Stop<'_>) -> Vec<Repair> {
        repair(self, value, careful, stop)
    }
}

/// Changes a value so that it is valid, and returns the repairs; or leaves it unchanged.
pub(crate) fn repair(
    schema: &Schema,
    value: &mut Value,
    careful: bool,
    stop: &Stop<'_>,
) -> Vec<Repair> {
    if schema.is_valid(value) {
        return Vec::new();
    }
    let Some(first) = schema.listing_work(value, stop) else { return Vec::new() };
    let work = MAX_WORK.max(first.saturating_mul(2));
    let mut repairer =
        Repairer { schema, lookup: schema.lookup(), careful, checks: MAX_CHECKS, work, stop };
    let mut work = value.clone();
    let Some(steps) = repairer.repair_all(&mut work) else { return Vec::new() };
    if steps.is_empty() || !schema.is_valid(&work) {
        return Vec::new();
    }
    *value = work;
    steps.into_iter().map(|step| step.into_repair(repairer.lookup)).collect()
}

struct Repairer<'a> {
    schema: &'a Schema,
    lookup: SchemaLookup<'a>,
    careful: bool,
    checks: usize,
    work: u64,
    stop: &'a Stop<'a>,
}

impl<'a> Repairer<'a> {
    /// Lists the errors of a value, as far as the remaining work allows.
    fn errors<'v>(&mut self, value: &'v Value) -> Option<Vec<Violation<'v>>>
    where
        'a: 'v,
    {
        self.checks = self.checks.checked_sub(1)?;
        self.work = self.work.checked_sub(self.schema.listing_work(value, self.stop)?)?;
        self.schema.errors(value, MAX_STEPS + 1, self.stop)
    }

    /// Repairs until the value is valid; `None` if that does not end within the limits.
    fn repair_all(&mut self, work: &mut Value) -> Option<Vec<Step>> {
        let mut done = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let steps = {
                let errors = self.errors(work)?;
                if errors.is_empty() {
                    return Some(done);
                }
                let mut steps = Vec::new();
                for error in &errors {
                    steps.extend(self.steps(work, error, MAX_UNION_DEPTH));
                }
                agreed(steps)
            };
            if steps.is_empty() || done.len() + steps.len() > MAX_STEPS {
                return None;
            }
            apply(work, &steps)?;
            done.extend(steps);
        }
        None
    }

    /// The possible repairs for one error.
    fn steps(&mut self, work: &Value, error: &Violation<'_>, unions: usize) -> Vec<Step> {
        let at = error.at();
        let Some(value) = work.pointer(at) else { return Vec::new() };
        let step = |kind, change| Step { at: at.to_owned(), kind, before: value.clone(), change };
        let steps: Vec<Step> = match error.kind() {
            Kind::Type { types } => match value {
                Value::String(text) => from_text(text, at, |name| types.admits(name))
                    .map(|(kind, value)| step(kind, Change::Set(value)))
                    .into_iter()
                    .collect(),
                Value::Null if self.may_be_left_out(work, at) => {
                    vec![step(RepairKind::Null, Change::Drop)]
                }
                // Older drafts do not accept `3.0` as an integer.
                Value::Number(number) if types.admits("integer") => whole(number)
                    .map(|number| step(RepairKind::Number, Change::Set(Value::Number(number))))
                    .into_iter()
                    .collect(),
                _ => Vec::new(),
            },
            Kind::Enum { options } => {
                let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
                self.listed(work, at, value, options).into_iter().collect()
            }
            Kind::Constant { expected_value } => {
                let only = std::slice::from_ref(&**expected_value);
                self.listed(work, at, value, only).into_iter().collect()
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => self.names(error, value, unexpected),
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                let schema_path = error.schema_path();
                return self.union(work, FailedUnion { at, schema_path, against: context }, unions);
            }
            _ => Vec::new(),
        };
        steps
            .into_iter()
            .filter(|step| !self.careful || step.kind.is_careful())
            .filter(|step| !self.lookup.is_strict(&step.location_after()))
            .collect()
    }

    /// A value that is not in an `enum`.
    fn listed(&self, work: &Value, at: &str, value: &Value, options: &[Value]) -> Option<Step> {
        let step = |kind, change| Step { at: at.to_owned(), kind, before: value.clone(), change };
        match value {
            Value::Null if self.may_be_left_out(work, at) => {
                Some(step(RepairKind::Null, Change::Drop))
            }
            Value::String(text) => {
                let lower = text.to_lowercase();
                let mut same = options.iter().filter_map(Value::as_str);
                let mut same = same.by_ref().filter(|o| o.to_lowercase() == lower);
                match (same.next(), same.next()) {
                    (Some(only), None) => {
                        Some(step(RepairKind::EnumCase, Change::Set(Value::from(only))))
                    }
                    (Some(_), Some(_)) => None,
                    // An `enum` with any text allows text.
                    (None, _) if options.iter().any(Value::is_string) => None,
                    (None, _) => {
                        let (kind, value) = from_text(text, at, |_| true)?;
                        options.contains(&value).then(|| step(kind, Change::Set(value)))
                    }
                }
            }
            _ => None,
        }
    }

    /// Property names of a closed object that are spelled differently.
    fn names(&self, error: &Violation<'_>, value: &Value, unexpected: &[String]) -> Vec<Step> {
        let (Some(map), Some(node)) = (value.as_object(), node_of(self.lookup.root(), error))
        else {
            return Vec::new();
        };
        let known = self.lookup.names(node);
        // With more unknown names than declared ones, not all can be misspelled.
        if unexpected.len() > known.len() {
            return Vec::new();
        }
        let renamed_to = |sent: &str| {
            let folded = fold(sent);
            let mut same = known.iter().filter(|name| fold(name) == folded);
            match (same.next(), same.next()) {
                (Some(only), None) if !map.contains_key(*only) => Some(*only),
                _ => None,
            }
        };
        let renamed: Vec<(&String, &str)> =
            unexpected.iter().filter_map(|sent| Some((sent, renamed_to(sent)?))).collect();
        renamed
            .iter()
            // Two names map to the same property: ambiguous.
            .filter(|(_, to)| renamed.iter().filter(|(_, other)| other == to).count() == 1)
            .map(|(from, to)| Step {
                at: below(error.at(), from),
                kind: RepairKind::Name,
                before: Value::from(from.as_str()),
                change: Change::Rename((*to).to_owned()),
            })
            .collect()
    }

    /// Whether a null is a declared, optional property of an object.
    fn may_be_left_out(&self, work: &Value, at: &str) -> bool {
        let Some((parent, key)) = split(at) else { return false };
        if !work.pointer(parent).is_some_and(Value::is_object) {
            return false;
        }
        let about = self.lookup.at(parent);
        let declares =
            |node: &&Value| node.get("properties").is_some_and(|p| p.get(&key).is_some());
        let requires = |node: &&Value| {
            let required = node.get("required").and_then(Value::as_array);
            required.is_some_and(|names| names.iter().any(|name| *name == key))
        };
        about.iter().any(declares) && !about.iter().any(requires)
    }

    /// Tries the candidate branches of a union; all results must be equal.
    fn union(&mut self, work: &Value, union: FailedUnion<'_>, unions: usize) -> Vec<Step> {
        let Some(unions) = unions.checked_sub(1) else { return Vec::new() };
        let Some(candidates) = self.candidates(work, union) else { return Vec::new() };
        if work.pointer(union.at).is_some_and(Value::is_null) {
            let refused =
                union.against.iter().all(|branch| rejects(branch, union.at, RepairKind::Null));
            let may = refused
                && !self.careful
                && self.may_be_left_out(work, union.at)
                && !self.lookup.is_strict(union.at);
            let at = union.at.to_owned();
            let (kind, before) = (RepairKind::Null, Value::Null);
            let drop = Step { at, kind, before, change: Change::Drop };
            return may.then_some(drop).into_iter().collect();
        }
        let mut results: Vec<(Value, Vec<Step>)> = Vec::new();
        for branch in &candidates {
            let mut trial = work.clone();
            let Some(steps) = self.branch(&mut trial, union, *branch, &candidates, unions) else {
                continue;
            };
            let Some(end) = trial.pointer(union.at) else { continue };
            if !results.iter().any(|(other, _)| other == end) {
                results.push((end.clone(), steps));
            }
        }
        match results.pop() {
            Some((_, steps)) if results.is_empty() => steps,
            _ => Vec::new(),
        }
    }

    /// The branches that the value may be intended for.
    fn candidates(&self, work: &Value, union: FailedUnion<'_>) -> Option<Vec<usize>> {
        let branches = self.lookup.root().pointer(union.schema_path)?.as_array()?;
        let value = work.pointer(union.at)?;
        let (lookup, against, at) = (self.lookup, union.against, union.at);
        Some(Union { lookup, branches, against, at, value }.candidates())
    }

    /// Repairs the errors of one branch until the union is satisfied.
    fn branch(
        &mut self,
        trial: &mut Value,
        union: FailedUnion<'_>,
        branch: usize,
        candidates: &[usize],
        unions: usize,
    ) -> Option<Vec<Step>> {
        let mut done = self.round(trial, union.against, branch, candidates, unions)?;
        apply(trial, &done)?;
        for _ in 1..MAX_ROUNDS {
            let steps = {
                let errors = self.errors(trial)?;
                let Some(still) = remaining_errors(&errors, union) else { return Some(done) };
                let now = FailedUnion { against: still?, ..union };
                let candidates = self.candidates(trial, now)?;
                if !candidates.contains(&branch) {
                    return None;
                }
                self.round(trial, now.against, branch, &candidates, unions)?
            };
            apply(trial, &steps)?;
            done.extend(steps);
        }
        None
    }

    /// The possible repairs for all errors of one branch, without changing what another branch
    /// accepts as it is.
    fn round(
        &mut self,
        trial: &Value,
        against: &[Vec<Violation<'static>>],
        branch: usize,
        candidates: &[usize],
        unions: usize,
    ) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        for error in against.get(branch)?.iter().take(MAX_STEPS) {
            steps.extend(self.steps(trial, error, unions));
        }
        let mut steps = agreed(steps);
        let others: Vec<_> =
            candidates.iter().filter(|n| **n != branch).filter_map(|n| against.get(*n)).collect();
        steps.retain(|step| others.iter().all(|errors| rejects(errors, &step.at, step.kind)));
        (!steps.is_empty()).then_some(steps)
    }
}

/// A union that a value does not match.
#[derive(Clone, Copy)]
struct FailedUnion<'a> {
    at: &'a str,
    schema_path: &'a str,
    against: &'a [Vec<Violation<'static>>],
}

/// The errors that a union still has: `None` if it is satisfied, `Some(None)` if too many branches
/// match, which cannot be repaired.
fn remaining_errors<'e>(
    errors: &'e [Violation<'_>],
    union: FailedUnion<'_>,
) -> Option<Option<&'e [Vec<Violation<'static>>]>> {
    errors.iter().find_map(|error| {
        let is_it = error.at() == union.at && error.schema_path() == union.schema_path;
        match error.kind() {
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } if is_it => {
                Some(Some(context.as_slice()))
            }
            Kind::OneOfMultipleValid if is_it => Some(None),
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                context.iter().find_map(|branch| remaining_errors(branch, union))
            }
            _ => None,
        }
    })
}

/// Whether a branch rejects the value at a location: by its type, by its `enum`, or because the
/// branch does not declare the name.
fn rejects(errors: &[Violation<'static>], at: &str, kind: RepairKind) -> bool {
    let listed = |options: &[Value]| match kind {
        RepairKind::EnumCase | RepairKind::Null => true,
        RepairKind::Name => false,
        // An `enum` with any text allows text.
        _ => !options.iter().any(Value::is_string),
    };
    errors.iter().any(|error| {
        let Some(rest) = at.strip_prefix(error.at()) else { return false };
        let is_here = rest.is_empty();
        if !is_here && !rest.starts_with('/') {
            return false;
        }
        match error.kind() {
            // A branch that requires another type for a name does declare the name.
            Kind::Type { .. } | Kind::FalseSchema => !is_here || kind != RepairKind::Name,
            Kind::Enum { options } => {
                is_here && listed(options.as_array().map(Vec::as_slice).unwrap_or_default())
            }
            Kind::Constant { expected_value } => {
                is_here && listed(std::slice::from_ref(&**expected_value))
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                let name = rest.split('/').nth(1).map(unescaped);
                name.is_some_and(|name| unexpected.contains(&name))
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                context.iter().all(|branch| rejects(branch, at, kind))
            }
            _ => false,
        }
    })
}

/// Parses text as a number, a boolean, an array or an object, whichever is allowed, and only if the
/// text is exactly the serialized form of the value.
fn from_text(text: &str, at: &str, admits: impl Fn(&str) -> bool) -> Option<(RepairKind, Value)> {
    let value = parse::strict(text).ok()?;
    let (kind, fits) = match &value {
        Value::Number(number) => {
            let admitted = admits("number") || admits("integer") && is_whole(number);
            // `1.50`, `1e3` and a number with too many digits would not round-trip.
            (RepairKind::Number, admitted && number.to_string() == text)
        }
        Value::Bool(_) => {
            (RepairKind::Boolean, admits("boolean") && matches!(text, "true" | "false"))
        }
        // If a number would lose digits, the whole text stays text.
        Value::Array(_) => (RepairKind::Json, admits("array") && parse::is_lossless(text, &value)),
        Value::Object(_) => {
            (RepairKind::Json, admits("object") && parse::is_lossless(text, &value))
        }
        Value::Null | Value::String(_) => return None,
    };
    // Nested text must not exceed the depth limit of parsed text.
    let fits = fits && at.matches('/').count() + depth(&value) < MAX_DEPTH;
    fits.then_some((kind, value))
}

fn is_whole(number: &Number) -> bool {
    number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

/// Converts `3.0` to `3`, if it is exact.
pub(crate) fn whole(number: &Number) -> Option<Number> {
    if !number.is_f64() {
        return None;
    }
    let float = number.as_f64()?;
    // Below 2^53 every whole float is exact. Above, digits would be invented: `9007199254740993.0`
    // is parsed as 2^53.
    const INEXACT_FROM: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() < INEXACT_FROM).then(|| (float as i64).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn repaired(schema: &Value, mut value: Value, careful: bool) -> (Value, Vec<RepairKind>) {
        let steps = Schema::compile(schema).unwrap().repair(&mut value, careful);
        (value, steps.into_iter().map(|step| step.kind).collect())
    }

    /// A closed object with one optional property of each kind.
    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "maxLength": 3},
                "count": {"type": "integer", "minimum": 0},
                "size": {"type": "number"},
                "flag": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "map": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
                "mode": {"enum": ["fast", "slow"]},
                "case": {"enum": ["a", "A", "b"]},
                "only": {"const": "This"},
                "grade": {"enum": [1, 2]},
                "both": {"type": ["string", "integer"], "maxLength": 3},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]},
                "amount": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "auto": {"anyOf": [{"const": "auto"}, {"type": "integer"}]},
                "file_name": {"type": "string"},
                "entries": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "additionalProperties": false,
        })
    }

    #[test]
    fn each_kind_of_mistake_is_repaired_and_named() {
        use RepairKind::{Boolean, EnumCase, Json, Name, Null};
        for (sent, renamed_to, kind) in [
            (json!({"count": "12"}), json!({"count": 12}), RepairKind::Number),
            (json!({"count": "3.0"}), json!({"count": 3.0}), RepairKind::Number),
            (json!({"size": "0.5"}), json!({"size": 0.5}), RepairKind::Number),
            (json!({"size": "-7"}), json!({"size": -7}), RepairKind::Number),
            (json!({"grade": "2"}), json!({"grade": 2}), RepairKind::Number),
            (json!({"amount": "4"}), json!({"amount": 4}), RepairKind::Number),
            (json!({"flag": "true"}), json!({"flag": true}), Boolean),
            (json!({"list": "[1, 2]"}), json!({"list": [1, 2]}), Json),
            (json!({"map": "{\"deep\":true}"}), json!({"map": {"deep": true}}), Json),
            (json!({"mode": "FAST"}), json!({"mode": "fast"}), EnumCase),
            (json!({"only": "this"}), json!({"only": "This"}), EnumCase),
            (json!({"count": null}), json!({}), Null),
            (json!({"mode": null}), json!({}), Null),
            (json!({"either": null}), json!({}), Null),
            (json!({"map": {"deep": null}}), json!({"map": {}}), Null),
            (json!({"fileName": "x"}), json!({"file_name": "x"}), Name),
            (json!({"File-Name": "x"}), json!({"file_name": "x"}), Name),
        ] {
            assert_eq!(
                repaired(&schema(), sent.clone(), false),
                (renamed_to, vec![kind]),
                "{sent}"
            );
        }
        // One repair may uncover the next.
        assert_eq!(
            repaired(&schema(), json!({"Map": "{\"deep\":\"false\"}", "list": ["1", 2]}), false),
            (
                json!({"map": {"deep": false}, "list": [1, 2]}),
                vec![RepairKind::Number, Name, Json, Boolean]
            )
        );
    }

    #[test]
    fn destructive_tools_get_only_text_to_value_repairs() {
        for sent in [
            json!({"mode": "FAST"}),
            json!({"count": null}),
            json!({"either": null}),
            json!({"fileName": "x"}),
            json!({"only": "this"}),
        ] {
            assert_eq!(repaired(&schema(), sent.clone(), true), (sent, vec![]));
        }
        for sent in [json!({"count": "1"}), json!({"flag": "false"}), json!({"list": "[]"})] {
            assert_eq!(repaired(&schema(), sent, true).1.len(), 1);
        }
    }

    #[test]
    fn lossy_repair_is_not_made() {
        for sent in [
            // Numbers that would not round-trip.
            json!({"size": "1.50"}),
            json!({"size": "1e3"}),
            json!({"size": "+1"}),
            json!({"size": "01"}),
            json!({"size": "-0"}),
            json!({"size": " 1"}),
            json!({"size": "1_000"}),
            json!({"size": "0x10"}),
            json!({"size": "NaN"}),
            json!({"size": "Infinity"}),
            json!({"count": "123456789012345678901234567890"}),
            json!({"size": "0.1000000000000000055511151231257827"}),
            json!({"size": ""}),
            // Values of another type.
            json!({"count": "1.5"}),
            json!({"count": 1.5}),
            json!({"count": "-1"}),
            json!({"count": true}),
            json!({"count": "true"}),
            json!({"flag": 1}),
            json!({"flag": "True"}),
            json!({"flag": "yes"}),
            json!({"flag": "1"}),
            json!({"flag": "true "}),
            // Never converted to text, wrapped into a list, or taken out of one.
            json!({"text": 12}),
            json!({"text": true}),
            json!({"text": {"a": 1}}),
            json!({"list": 1}),
            json!({"list": "1"}),
            json!({"count": [1]}),
            // JSON that is not strict, or of the wrong type.
            json!({"list": "[1,]"}),
            json!({"list": "[1"}),
            json!({"list": "{}"}),
            json!({"map": "{\"deep\":true,\"deep\":true}"}),
            json!({"map": "null"}),
            json!({"map": "text"}),
            json!({"list": "[1.5]"}),
            // Text is allowed here, even if not this text.
            json!({"text": "12345"}),
            json!({"both": "12345"}),
            json!({"either": "12345"}),
            json!({"auto": "12"}),
            // Ambiguous, or no match.
            json!({"case": "B ", "mode": "fast"}),
            json!({"mode": "fastest"}),
            json!({"mode": "fa-st"}),
            json!({"fileName": "x", "FileName": "y"}),
            json!({"fileName": "x", "file_name": "y"}),
            json!({"filename2": "x"}),
            // Neither unknown names nor entries of a map are dropped.
            json!({"other": 1}),
            json!({"other": null}),
            json!({"entries": {"a": null}}),
            json!({"list": [null]}),
            json!("text"),
            json!(null),
        ] {
            assert_eq!(repaired(&schema(), sent.clone(), false), (sent, vec![]));
        }
    }

    #[test]
    fn ambiguous_enum_case_is_not_repaired() {
        let schema = json!({"enum": ["ab", "AB", "c"]});
        assert_eq!(repaired(&schema, json!("aB"), false), (json!("aB"), vec![]));
        assert_eq!(repaired(&schema, json!("C"), false), (json!("c"), vec![RepairKind::EnumCase]));
        let mixed = json!({"enum": ["auto", 1]});
        assert_eq!(repaired(&mixed, json!("1"), false).1, vec![], "it admits text");
    }

    #[test]
    fn nothing_required_is_dropped_or_filled_in() {
        let schema = json!({
            "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}},
            "required": ["a", "b"],
        });
        for sent in [json!({"a": null, "b": "x"}), json!({"a": "x"}), json!({"A": "x", "b": "y"})] {
            assert_eq!(repaired(&schema, sent.clone(), false), (sent, vec![]), "open, required");
        }
    }

    #[test]
    fn one_unrepairable_error_leaves_the_value_unchanged() {
        let sent = json!({"count": "12", "flag": "perhaps"});
        assert_eq!(repaired(&schema(), sent.clone(), false), (sent, vec![]));
    }

    #[test]
    fn union_is_repaired_only_if_all_branches_agree() {
        let shapes = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
             "required": ["kind", "radius"]},
            {"type": "object", "properties": {"kind": {"const": "line"}, "radius": {"type": "string", "minLength": 9},
             "length": {"type": "number"}}, "required": ["kind", "length"]},
        ]});
        for (sent, renamed_to) in [
            (json!({"kind": "circle", "radius": "2"}), json!({"kind": "circle", "radius": 2})),
            (json!({"kind": "CIRCLE", "radius": 2}), json!({"kind": "circle", "radius": 2})),
            (json!({"kind": "Circle", "radius": "2"}), json!({"kind": "circle", "radius": 2})),
            (
                json!("{\"kind\":\"circle\",\"radius\":\"2\"}"),
                json!({"kind": "circle", "radius": 2}),
            ),
        ] {
            let (got, kinds) = repaired(&shapes, sent.clone(), false);
            assert_eq!(got, renamed_to, "{sent}");
            assert!(!kinds.is_empty());
        }
        // Without a discriminator, text that some branch accepts stays text.
        let unnamed = json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ]});
        assert_eq!(repaired(&unnamed, json!({"a": "1"}), false).1, vec![]);
        // A property that only one branch restricts is not a discriminator.
        let half = json!({"anyOf": [
            {"type": "object", "properties": {"mode": {"enum": ["x"]}, "n": {"type": "integer"}}},
            {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["z"]},
        ]});
        assert_eq!(repaired(&half, json!({"mode": "x", "n": "1"}), false).1, vec![]);
        // Two branches with different results.
        let apart = json!({"anyOf": [{"enum": ["AA"]}, {"enum": ["Aa"]}]});
        assert_eq!(repaired(&apart, json!("aa"), false).1, vec![]);
        // Two branches with the same result.
        let together = json!({"anyOf": [
            {"type": "array", "items": {"type": "integer"}},
            {"type": "array", "maxItems": 2},
        ]});
        assert_eq!(
            repaired(&together, json!("[1,2]"), false),
            (json!([1, 2]), vec![RepairKind::Json])
        );
        // A repair that makes two branches match is not made.
        let twice = json!({"oneOf": [{"type": "integer"}, {"type": "number"}]});
        assert_eq!(repaired(&twice, json!("1"), false).1, vec![]);
        // A null that one branch accepts, or another requires, stays.
        let nulls = json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]},
        ]});
        assert_eq!(repaired(&nulls, json!({"a": null}), false).1, vec![]);
        let closed = json!({"anyOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false},
            {"properties": {"b": {"type": "string"}}, "additionalProperties": false},
        ]});
        assert_eq!(repaired(&closed, json!({"a": null}), false).1, vec![]);
    }

    #[test]
    fn property_names_are_found_through_references_and_all_of() {
        let schema = json!({
            "properties": {"inner": {"$ref": "#/$defs/inner"}},
            "$defs": {
                "inner": {"allOf": [{"$ref": "#/$defs/base"}], "properties": {"two_b": true},
                          "unevaluatedProperties": false},
                "base": {"properties": {"one_a": {"type": "integer"}}},
            },
        });
        assert_eq!(
            repaired(&schema, json!({"inner": {"oneA": "1", "x": 0, "twoB": 2}}), false).1,
            vec![],
            "x is unknown"
        );
        let (value, kinds) = repaired(&schema, json!({"inner": {"oneA": "1", "twoB": 2}}), false);
        assert_eq!(value.to_string(), r#"{"inner":{"one_a":1,"two_b":2}}"#, "the order is kept");
        assert_eq!(kinds, [RepairKind::Name, RepairKind::Name, RepairKind::Number]);
    }

    #[test]
    fn repair_record_is_short_and_hides_secrets() {
        let schema = json!({"properties": {
            "pin": {"type": "integer", "x-secret": true},
            "form": {"properties": {"key": {"type": "string", "writeOnly": true}}, "type": "object"},
            "list": {"type": "array"},
            "count": {"type": "integer"},
        }});
        let mut value = json!({
            "pin": "4711", "form": "{\"key\":\"hunter2\"}", "count": "5",
            "list": format!("[\"{}\"]", "é".repeat(500)),
        });
        let steps = Schema::compile(&schema).unwrap().repair(&mut value, false);
        assert_eq!((steps.len(), &value["pin"]), (4, &json!(4711)));
        let text = serde_json::to_string(&steps).unwrap();
        assert!(!text.contains("4711") && !text.contains("hunter2"), "{text}");
        assert!(text.len() < 1_000, "{text}");
        assert!(
            text.contains(r#"{"pointer":"/count","kind":"number","before":"\"5\"","after":"5"}"#)
        );
    }

    #[test]
    fn strict_values_are_never_repaired() {
        let schema = |strict: bool| {
            json!({
                "properties": {
                    "pin": {"type": "integer", "x-strict": strict},
                    "user_id": {"type": "string", "x-strict": strict},
                    "form": {"type": "object", "x-strict": strict, "properties": {
                        "count": {"type": "integer"},
                        "unit": {"enum": ["m", "kg"]},
                        "note": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    }},
                    "free": {"type": "integer"},
                },
                "additionalProperties": false,
            })
        };
        for value in [
            json!({"pin": "4711"}),
            json!({"pin": null}),
            json!({"userId": "u"}),
            json!({"form": "{}"}),
            json!({"form": {"count": "1"}}),
            json!({"form": {"unit": "KG"}}),
            json!({"form": {"note": null}}),
            // One value that must not be repaired: then the others are not repaired either.
            json!({"pin": "4711", "free": "1"}),
        ] {
            let (same, kinds) = repaired(&schema(true), value.clone(), false);
            assert_eq!((&same, kinds), (&value, vec![]));
            assert!(!repaired(&schema(false), value.clone(), false).1.is_empty(), "{value}");
        }
        assert_eq!(repaired(&schema(true), json!({"free": "1"}), false).1, [RepairKind::Number]);
    }

    #[test]
    fn older_drafts_get_whole_floats_as_integers() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"n": {"type": "integer"}},
        });
        let (value, kinds) = repaired(&schema, json!({"n": 3.0}), false);
        assert_eq!((value.to_string().as_str(), kinds), (r#"{"n":3}"#, vec![RepairKind::Number]));
    }

    #[test]
    fn repair_work_and_depth_are_bounded() {
        let numbers = json!({"items": {"type": "integer"}});
        let many = |n: usize| Value::from(vec!["1"; n]);
        assert_eq!(repaired(&numbers, many(MAX_STEPS), false).1.len(), MAX_STEPS);
        assert_eq!(repaired(&numbers, many(MAX_STEPS + 1), false).1.len(), 0);
        // Nested text: each layer is parsed, up to a limit.
        let mut text = "[]".to_owned();
        for _ in 0..9 {
            text = json!([text]).to_string();
        }
        let nested = json!({"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"});
        assert_eq!(repaired(&nested, json!(text), false).1, vec![]);
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(repaired(&nested, json!([[[deep]]]), false).1, vec![]);
        // Many unions, each to be tried: the limit on checks is reached first.
        let unions = json!({"items": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}});
        let (value, kinds) = repaired(&unions, many(100), false);
        assert_eq!((value == many(100), kinds.len()), (true, 0));
    }
}
