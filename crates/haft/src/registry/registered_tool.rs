//! One tool in the registry: its spec, its compiled schema, its body.
//!
//! Made once, at registration. Everything that does not depend on a call is computed here, so that
//! validation only looks things up. A schema that does not compile is an error here and never at
//! call time.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use haft_core::{
    Body, CallProfile, DynTool, Error, ErrorKind, Isolation, Manifest, ToolName, ToolSpec,
    UnknownFields, Verdict,
};
use haft_policy::{DefaultPolicy, PolicyTool, ToolTraits};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::fill::Fill;
use crate::{
    layer_state::ToolLayers,
    schema::Schema,
    secrets::SecretUser,
    text::{estimate_tokens, json_size},
};

/// One registered tool, frozen.
pub struct RegisteredTool {
    name: ToolName,
    source: Arc<str>,
    /// The name it was registered by; views may rename it.
    registered: ToolName,
    /// The name of the source it comes from, if it is not our own.
    brought_by: Option<Arc<str>>,
    /// What rules need from its schema; computed when a rule first needs it.
    traits: ToolTraits,
    spec: ToolSpec,
    declared: CallProfile,
    input: Schema,
    output: Option<Schema>,
    fill: Arc<Fill>,
    known: Option<Vec<String>>,
    body: Arc<dyn Body>,
    slots: Option<Arc<Semaphore>>,
    /// The state of its layers. Views share it, and it survives a refresh that does not change the
    /// tool.
    layers: Arc<ToolLayers>,
    hash: [u8; 32],
    /// The root directories that its calls work in, if it declares them.
    roots: Arc<[PathBuf]>,
    /// The size of its definition in a request, in bytes.
    definition_bytes: usize,
    /// The verdict of the default policy on every call; computed for the first one.
    always_allowed: OnceLock<Option<Verdict>>,
    /// It is a step of a running body, and in no registry.
    is_step: bool,
    /// Whether arguments that are all scalars can be validated and decoded without a JSON tree.
    reads_scalars: bool,
}

impl RegisteredTool {
    /// Freezes a tool under the name it is registered by.
    pub(crate) fn freeze(name: ToolName, source: &Arc<str>, tool: &DynTool) -> Result<Self, Error> {
        let spec = tool.spec().clone();
        let refuse = |kind, message: String| {
            Error::new(kind, format!("tool `{name}` from {source}: {message}"))
        };
        if !ToolName::is_safe(name.as_str()) {
            return Err(refuse(ErrorKind::BadTool, "the name is invalid".to_owned()).hint(
                "a name is a letter or `_`, then letters, digits, `_` or `-`, at most 64 in all",
            ));
        }
        if let Some(problem) = spec.problems().into_iter().next() {
            return Err(refuse(ErrorKind::BadTool, problem));
        }
        if spec.isolation == Isolation::Required && !tool.body().is_isolated() {
            return Err(refuse(
                ErrorKind::BadTool,
                "`isolation = \"required\"`, but its body is Rust in this process and cannot be moved into a sandbox".to_owned(),
            )
            .hint("leave `isolation` out, or make the body a process"));
        }
        let bad_schema = |what: &str, e: &dyn fmt::Display| {
            refuse(ErrorKind::BadSchema, format!("its {what} schema does not compile: {e}"))
        };
        let closed = close(tool.input_schema().clone(), spec.unknown)
            .map_err(|e| bad_schema("input", &e))?;
        let input = Schema::compile(&closed).map_err(|e| bad_schema("input", &e))?;
        let output = match tool.output_schema() {
            Some(schema) => Some(Schema::compile(schema).map_err(|e| bad_schema("output", &e))?),
            None => None,
        };
        let known = known_properties(&closed);
        let fill = Fill::of(&closed);
        for (key, default) in fill.defaults() {
            let alone = json!({ key: default });
            let place = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            // Alone it may lack required properties; only errors of the default itself count.
            let wrong = input.problems(&alone).into_iter().find(|p| p.pointer.starts_with(&place));
            if let Some(problem) = wrong {
                return Err(bad_schema(
                    "input",
                    &format!("the default of `{key}` does not match its schema: {problem}"),
                ));
            }
        }
        for example in &spec.examples {
            let mut filled = example.clone();
            fill.apply(&mut filled);
            if let Some(problem) = input.first_problem(&filled) {
                return Err(refuse(
                    ErrorKind::BadTool,
                    format!("the example {example} does not match its own schema: {problem}"),
                ));
            }
        }
        let definition_bytes = spec.description.len() + json_size(&closed);
        let hash = hash(&Manifest::new(&spec, closed, tool.output_schema().cloned()));
        Ok(Self {
            reads_scalars: reads_scalars(&spec, tool.body().as_ref(), &input, &fill),
            always_allowed: OnceLock::new(),
            definition_bytes,
            is_step: false,
            declared: spec.profile().normalized(),
            source: Arc::clone(source),
            slots: spec.concurrency.map(slots),
            layers: Arc::new(ToolLayers::of(&spec)),
            body: Arc::clone(tool.body()),
            registered: name.clone(),
            brought_by: None,
            traits: ToolTraits::default(),
            name,
            spec,
            input,
            output,
            fill: Arc::new(fill),
            known,
            hash,
            roots: tool.roots().into(),
        })
    }

    /// Freezes a tool again, keeping the compiled schemas and the slots if its definition is the
    /// same. The body is the new one: a call runs the tool that was advertised.
    pub(crate) fn refreeze(
        previous: &Arc<RegisteredTool>,
        tool: &DynTool,
    ) -> Result<Arc<Self>, Error> {
        if Arc::ptr_eq(&previous.body, tool.body()) && *previous.roots == *tool.roots() {
            return Ok(Arc::clone(previous));
        }
        let input = close(tool.input_schema().clone(), tool.spec().unknown).unwrap_or_default();
        let manifest = Manifest::new(tool.spec(), input, tool.output_schema().cloned());
        if hash(&manifest) == previous.hash {
            let mut same = previous.shared();
            same.spec = tool.spec().clone();
            same.body = Arc::clone(tool.body());
            same.roots = tool.roots().into();
            return Ok(Arc::new(same));
        }
        let mut entry = Self::freeze(previous.name.clone(), &previous.source, tool)?;
        entry.brought_by.clone_from(&previous.brought_by);
        Ok(Arc::new(entry))
    }

    /// Freezes a tool that is a step of a running body, and in no registry.
    pub(crate) fn freeze_step(name: ToolName, tool: &DynTool) -> Result<Self, Error> {
        let mut entry = Self::freeze(name, &"a running tool".into(), tool)?;
        entry.is_step = true;
        Ok(entry)
    }

    /// Returns whether arguments that are all scalars need no JSON tree.
    pub(crate) fn reads_scalars(&self) -> bool {
        self.reads_scalars
    }

    /// Returns whether it is a step of a running body.
    pub(crate) fn is_step(&self) -> bool {
        self.is_step
    }

    /// Sets the source it comes from.
    pub(crate) fn brought_by(mut self, source: &str) -> Self {
        self.brought_by = Some(source.into());
        self
    }

    /// Returns the same tool under another name, for a view.
    pub(crate) fn renamed(&self, name: ToolName) -> Self {
        let mut entry = self.shared();
        entry.name = name;
        entry.spec.aliases.clear();
        entry
    }

    /// A copy that shares the compiled schemas and the slots.
    fn shared(&self) -> Self {
        Self {
            name: self.name.clone(),
            source: Arc::clone(&self.source),
            registered: self.registered.clone(),
            brought_by: self.brought_by.clone(),
            traits: self.traits.clone(),
            spec: self.spec.clone(),
            declared: self.declared.clone(),
            input: self.input.clone(),
            output: self.output.clone(),
            fill: Arc::clone(&self.fill),
            known: self.known.clone(),
            body: Arc::clone(&self.body),
            slots: self.slots.clone(),
            layers: Arc::clone(&self.layers),
            hash: self.hash,
            roots: Arc::clone(&self.roots),
            definition_bytes: self.definition_bytes,
            always_allowed: OnceLock::new(),
            is_step: self.is_step,
            reads_scalars: self.reads_scalars,
        }
    }

    /// Returns the name it is registered by.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Returns its source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn shared_source(&self) -> &Arc<str> {
        &self.source
    }

    /// Returns its spec.
    #[must_use]
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns the schema that calls are validated against.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        self.input.source()
    }

    /// Returns the schema that structured results are validated against.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Value> {
        self.output.as_ref().map(Schema::source)
    }

    /// Returns the hash of its definition, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns everything it declares, as data.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        let mut manifest =
            Manifest::new(&self.spec, self.input_schema().clone(), self.output_schema().cloned());
        manifest.name = self.name.to_string();
        manifest
    }

    /// Returns the name it was registered by, independent of a view. Rules, limits and hooks use
    /// this name.
    #[must_use]
    pub fn registered(&self) -> &ToolName {
        &self.registered
    }

    /// Returns the source it comes from and its name there; `None` for our own.
    pub(crate) fn remote(&self) -> Option<(&str, &str)> {
        Some((self.brought_by.as_deref()?, &self.spec.name))
    }

    /// Returns the root directories that its calls work in; empty if it declares none.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns the names of equivalent tools in other programs, such as `Bash`; rules for those
    /// names apply to it.
    #[must_use]
    pub fn known_as(&self) -> &[&'static str] {
        self.policy_tool().known_as()
    }

    /// Returns it as policies see it.
    #[must_use]
    pub fn policy_tool(&self) -> PolicyTool<'_> {
        let mut tool =
            PolicyTool::new(&self.registered, &self.spec, self.input.source(), &self.traits);
        tool.name = &self.name;
        tool.remote = self.remote();
        tool.roots = &self.roots;
        tool.is_isolated = self.body.is_isolated();
        tool
    }

    /// Returns the verdict of the default policy on every call that does what the tool declares, if
    /// it does not depend on the arguments.
    #[inline]
    pub(crate) fn always_allowed(&self) -> Option<&Verdict> {
        let verdict = || DefaultPolicy::always_allows(self.policy_tool(), &self.declared);
        self.always_allowed.get_or_init(verdict).as_ref()
    }

    /// Returns it as a user of secrets.
    pub(crate) fn secret_user(&self) -> SecretUser<'_> {
        SecretUser {
            name: &self.name,
            registered: &self.registered,
            spec: &self.spec,
            body: &*self.body,
        }
    }

    /// Returns how many tokens its definition takes in a request, approximately: its name, its
    /// description and its schema.
    #[must_use]
    pub fn definition_tokens(&self) -> u64 {
        estimate_tokens(self.definition_bytes + self.name.as_str().len() + DEFINITION_KEYS_BYTES)
    }

    pub(crate) fn raw_hash(&self) -> &[u8; 32] {
        &self.hash
    }

    pub(crate) fn declared(&self) -> &CallProfile {
        &self.declared
    }

    pub(crate) fn body(&self) -> &Arc<dyn Body> {
        &self.body
    }

    pub(crate) fn input(&self) -> &Schema {
        &self.input
    }

    pub(crate) fn output(&self) -> Option<&Schema> {
        self.output.as_ref()
    }

    pub(crate) fn fill(&self) -> &Fill {
        &self.fill
    }

    pub(crate) fn layers(&self) -> &ToolLayers {
        &self.layers
    }

    pub(crate) fn slots(&self) -> Option<&Arc<Semaphore>> {
        self.slots.as_ref()
    }

    /// Drops unknown arguments, for `unknown = "ignore"`.
    pub(crate) fn drop_unknown(&self, arguments: &mut Map<String, Value>) -> bool {
        if self.spec.unknown == UnknownFields::Ignore
            && let Some(known) = &self.known
        {
            let before = arguments.len();
            arguments.retain(|key, _| known.iter().any(|k| k == key));
            return arguments.len() < before;
        }
        false
    }
}

/// Makes the slots of a tool of which so many calls may run at the same time.
fn slots(calls: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS)))
}

/// Whether arguments that are all scalars can be validated and decoded without a JSON tree. A tree
/// is needed to fill in defaults, to drop unknown members, and as the key of a cache.
fn reads_scalars(spec: &ToolSpec, body: &dyn Body, input: &Schema, fill: &Fill) -> bool {
    body.decodes_scalars()
        && input.describes_scalars()
        && fill.is_empty()
        && spec.unknown == UnknownFields::Refuse
        && spec.cache.is_none()
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredTool")
            .field("name", &self.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The keys and punctuation around a name, a description and a schema, in bytes.
const DEFINITION_KEYS_BYTES: usize = 50;

/// Makes the root an object schema, and closes it if unknown arguments are refused and the schema
/// itself does not decide.
fn close(mut schema: Value, unknown: UnknownFields) -> Result<Value, String> {
    let Some(root) = schema.as_object_mut() else {
        return Err(format!("a tool's schema must be a JSON object, got {schema}"));
    };
    match root.get("type") {
        None => {
            root.insert("type".into(), json!("object"));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => {
            return Err(format!("arguments are always an object, but its type is {other}"));
        }
    }
    let says = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
    if unknown == UnknownFields::Refuse && !says.iter().any(|k| root.contains_key(*k)) {
        let put_together =
            ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$dynamicRef"];
        // Closing one part of a combined schema would reject the properties of the other parts.
        let word = if put_together.iter().any(|k| root.contains_key(*k)) {
            "unevaluatedProperties"
        } else {
            "additionalProperties"
        };
        root.insert(word.into(), Value::Bool(false));
    }
    Ok(schema)
}

/// The root's property names, if the root alone defines them.
fn known_properties(schema: &Value) -> Option<Vec<String>> {
    let combined = [
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "patternProperties",
        "if",
        "dependentSchemas",
    ];
    let open = ["additionalProperties", "unevaluatedProperties"];
    if combined.iter().any(|k| schema.get(*k).is_some())
        || open.iter().any(|k| schema.get(*k).is_some_and(|s| *s != Value::Bool(false)))
    {
        return None;
    }
    Some(
        schema
            .get("properties")
            .and_then(Value::as_object)
            .map(|p| p.keys().cloned().collect())
            .unwrap_or_default(),
    )
}

fn hash(manifest: &Manifest) -> [u8; 32] {
    let mut hasher = Sha256::new();
    // A model sees the order of properties, so it is part of the hash.
    match serde_json::to_vec(manifest) {
        Ok(bytes) => hasher.update(&bytes),
        Err(e) => hasher.update(e.to_string()),
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freeze(spec: ToolSpec, schema: Value) -> Result<RegisteredTool, Error> {
        let tool = DynTool::new(spec, schema, |_, _| async { "ok" });
        let name = ToolName::from(tool.spec().name.as_str());
        RegisteredTool::freeze(name, &"this program".into(), &tool)
    }

    fn spec() -> ToolSpec {
        ToolSpec::new("t", "Does something.")
    }

    #[test]
    fn schema_that_does_not_compile_is_a_build_error() {
        for bad in [
            json!({"type": "objekt"}),
            json!({"$ref": "#/$defs/none"}),
            json!([1]),
            json!({"type": "string"}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"$ref": "https://example.com/schema"}),
        ] {
            let error = freeze(spec(), bad.clone()).expect_err(&bad.to_string());
            assert_eq!(error.kind(), ErrorKind::BadSchema, "{bad}");
            assert!(error.to_string().contains("tool `t` from this program"), "{error}");
        }
    }

    #[test]
    fn unknown_arguments_are_refused_unless_the_schema_or_the_tool_says_otherwise() {
        let closed = freeze(spec(), json!({"properties": {"a": true}})).unwrap();
        assert!(!closed.input().is_valid(&json!({"b": 1})));
        let open = freeze(spec(), json!({"additionalProperties": true})).unwrap();
        assert!(open.input().is_valid(&json!({"b": 1})));
        let parts = json!({"allOf": [{"properties": {"a": true}}], "properties": {"b": true}});
        let combined = freeze(spec(), parts).unwrap();
        assert!(combined.input().is_valid(&json!({"a": 1, "b": 2})));
        assert!(!combined.input().is_valid(&json!({"c": 1})));
    }

    #[test]
    fn layer_state_is_shared_by_views_and_survives_an_unchanged_refresh() {
        let tool = || DynTool::new(spec(), json!({}), |_, _| async { "ok" });
        let first = Arc::new(freeze(spec(), json!({})).unwrap());
        let view = first.renamed(ToolName::from("other"));
        assert!(Arc::ptr_eq(&first.layers, &view.layers));
        let again = RegisteredTool::refreeze(&first, &tool()).unwrap();
        assert!(Arc::ptr_eq(&first.layers, &again.layers));
        let changed = DynTool::new(spec().read_only(), json!({}), |_, _| async { "ok" });
        let changed = RegisteredTool::refreeze(&first, &changed).unwrap();
        assert!(!Arc::ptr_eq(&first.layers, &changed.layers));
    }

    #[test]
    fn zero_rate_or_duration_is_a_build_error() {
        let none = haft_core::Rate { count: 0, per: haft_core::Window::Second };
        assert!(freeze(spec().rate(none), json!({})).unwrap_err().to_string().contains("`rate`"));
        let cache = haft_core::Cache::new(std::time::Duration::ZERO);
        let cached = freeze(spec().read_only().cache(cache), json!({})).unwrap_err();
        assert!(cached.to_string().contains("`cache`"));
        let never = spec().approval_timeout(std::time::Duration::ZERO);
        assert!(freeze(never, json!({})).is_err());
    }

    #[test]
    fn isolation_of_a_rust_body_and_a_wrong_example_are_build_errors() {
        let moved = freeze(spec().isolation(Isolation::Required), json!({})).unwrap_err();
        assert!(moved.to_string().contains("sandbox"));
        let confined =
            DynTool::new(spec().isolation(Isolation::Required), json!({}), |_, _| async {
                "done in a process of its own"
            });
        let (name, source) = (ToolName::from("t"), "this program".into());
        let entry = RegisteredTool::freeze(name, &source, &confined.in_sandbox());
        assert_eq!(entry.unwrap().manifest().isolation, Isolation::Required);
        let wrong = spec().example(json!({"a": "text"}));
        let schema = json!({"properties": {"a": {"type": "integer"}}});
        assert!(freeze(wrong, schema).unwrap_err().to_string().contains("example"));
    }

    #[test]
    fn hash_identifies_the_definition() {
        let one = freeze(spec(), json!({})).unwrap();
        assert_eq!(one.hash(), freeze(spec(), json!({})).unwrap().hash());
        assert_ne!(one.hash(), freeze(spec().read_only(), json!({})).unwrap().hash());
        assert_eq!(one.hash().len(), 64);
    }
}
