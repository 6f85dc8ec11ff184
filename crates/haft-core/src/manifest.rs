//! `Manifest`: everything a tool declares, as serializable data.
//!
//! It is made on request from a spec and its schemas. The pipeline never reads it.

use serde::Serialize;
use serde_json::Value;

use crate::{
    Cache, Capabilities, ConcurrencyClass, Effects, Exposure, Interrupt, Isolation, Label,
    Permission, Rate, ResourceKey, ResultLimit, RetryPolicy, ToolSpec, UnknownFields,
};

/// What a tool declares, with defaults filled in where a default has one meaning.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each field is the option of the same name, see `ToolSpec`")]
pub struct Manifest {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub aliases: Vec<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub class: ConcurrencyClass,
    pub read_only: bool,
    pub destructive: Option<bool>,
    pub idempotent: bool,
    pub open_world: bool,
    pub effects: Effects,
    pub keys: Vec<ResourceKey>,
    pub capabilities: Option<Capabilities>,
    pub permission: Permission,
    pub interrupt: Interrupt,
    pub requires_user_interaction: bool,
    pub exposure: Exposure,
    pub concurrency: Option<usize>,
    pub abort_siblings: bool,
    pub isolation: Isolation,
    pub timeout_ms: Option<u128>,
    pub deadline_ms: Option<u128>,
    pub approval_timeout_ms: Option<u128>,
    pub rate: Option<Rate>,
    pub cache: Option<Cache>,
    pub retry: Option<RetryPolicy>,
    pub max_result: ResultLimit,
    pub label: Label,
    pub unknown: UnknownFields,
    pub examples: Vec<Value>,
    /// The values the host must supply, by type.
    pub needs: Vec<&'static str>,
    /// The options that a function over the arguments decides per call.
    pub per_call: Vec<&'static str>,
    /// What identifies the program behind it, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Manifest {
    /// Combines a spec and its schemas.
    #[must_use]
    pub fn new(spec: &ToolSpec, input_schema: Value, output_schema: Option<Value>) -> Self {
        let profile = spec.profile();
        Self {
            name: spec.name.clone(),
            title: spec.title.clone(),
            description: spec.description.clone(),
            aliases: spec.aliases.clone(),
            input_schema,
            output_schema,
            class: profile.class,
            read_only: profile.read_only,
            destructive: profile.destructive,
            idempotent: spec.is_idempotent(),
            open_world: spec.is_open_world(),
            interrupt: spec.interrupt_of(profile.class),
            effects: profile.effects,
            keys: profile.keys,
            capabilities: spec.capabilities,
            permission: spec.permission,
            requires_user_interaction: spec.requires_user_interaction,
            exposure: spec.exposure,
            concurrency: spec.concurrency,
            abort_siblings: spec.abort_siblings,
            isolation: spec.isolation,
            timeout_ms: spec.timeout.map(|t| t.as_millis()),
            deadline_ms: spec.deadline.map(|t| t.as_millis()),
            approval_timeout_ms: spec.approval_timeout.map(|t| t.as_millis()),
            rate: spec.rate,
            cache: spec.cache.clone(),
            retry: spec.retry.clone(),
            max_result: spec.max_result,
            label: spec.label,
            unknown: spec.unknown,
            examples: spec.examples.clone(),
            needs: spec.needs.iter().map(|n| n.type_name).collect(),
            per_call: spec.per_call.clone(),
            origin: spec.origin.clone(),
        }
    }
}
