//! Invalid arguments whose explanation takes too long for the thread that accepts calls.
//!
//! In: a schema and arguments that it rejected. Out: a failure. A cheap explanation is part of it
//! at once. An expensive one is deferred to the runtime, which computes it on a blocking thread
//! until the deadline of the call.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use haft_core::Failure;
use serde_json::Value;

use super::{DOES_NOT_FIT, ENDED_EARLY, describe, describe_at_once, refused};
use crate::{compiled::Schema, stop::Stop};

/// A deferred explanation. It is the source of a failure whose message only says that the arguments
/// do not match the schema.
#[derive(Debug, Clone)]
pub struct Unexplained {
    schema: Schema,
    tool: String,
    arguments: Arc<Value>,
    /// The timeout of one attempt, if the call or its tool has one.
    pub timeout: Option<Duration>,
    /// The deadline, if the call or its tool has one.
    pub deadline: Option<Duration>,
}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the explanation was not made")
    }
}

impl Error for Unexplained {}

impl Unexplained {
    /// Explains why arguments are invalid, or defers the explanation.
    pub fn describe(
        schema: &Schema,
        tool: &str,
        arguments: Value,
        timeout: Option<Duration>,
        deadline: Option<Duration>,
    ) -> Failure {
        describe_at_once(schema, tool, &arguments).unwrap_or_else(|| {
            let (schema, tool) = (schema.clone(), tool.to_owned());
            let arguments = Arc::new(arguments);
            let failure = refused(&[], &tool);
            failure.with_source(Self { schema, tool, arguments, timeout, deadline })
        })
    }

    /// Returns the deferred explanation of a failure.
    pub fn of(failure: &Failure) -> Option<&Self> {
        failure.source().and_then(|source| source.downcast_ref())
    }

    /// Computes the explanation, until it is stopped.
    pub fn explain(&self, stop: &Stop<'_>) -> Failure {
        describe(&self.schema, &self.tool, &self.arguments, stop)
    }

    /// Inserts an explanation into the failure that waited for it. Without one, the failure says
    /// that the time ran out.
    pub fn complete(failure: &Failure, explained: Option<&Failure>) -> Failure {
        let early = || format!("{DOES_NOT_FIT}\n{ENDED_EARLY}");
        let explained = explained.map_or_else(early, |explained| explained.message().to_owned());
        let message = failure.message().replacen(DOES_NOT_FIT, &explained, 1);
        let complete = Failure::new(failure.code(), message)
            .with_retry(failure.retry())
            .with_execution(failure.execution());
        match failure.next() {
            Some(next) => complete.with_next(next),
            None => complete,
        }
    }

    /// Computes the explanation of a failure at once, if there is no call with a deadline.
    pub fn complete_now(failure: Failure) -> Failure {
        let explained = Self::of(&failure).map(|own| own.explain(&Stop::never()));
        match explained {
            Some(explained) => Self::complete(&failure, Some(&explained)),
            None => failure,
        }
    }
}
