//! Decodes the frozen arguments into the tool's type, and computes what the call would do.
//!
//! In: arguments that the schema accepts. Out: decoded arguments and the profile, or the failure
//! for the model.

use std::sync::Arc;

use haft_core::{Args, CallProfile, Failure, FailureCode, ToolContext};
use haft_schema::{ScalarObject, Schema};
use serde_json::Value;

use crate::{host_code::caught, registry::RegisteredTool};

/// Decodes the arguments and computes the profile; `None` if it is the declared one. Both are code
/// of the author, so panics are caught.
#[inline(always)]
pub(super) fn decoded(
    entry: &RegisteredTool,
    json: &Arc<Value>,
    cx: &ToolContext,
) -> Result<(Args, Option<Box<CallProfile>>), Failure> {
    let body = entry.body();
    let mut args = None;
    let returned = caught(|| {
        let args = args.insert(body.decode(json)?);
        Ok(body.profiles().then(|| body.profile(entry.declared().clone(), args, cx)))
    });
    match (returned, args) {
        (Ok(Ok(profile)), Some(args)) => {
            Ok((args, profile.map(|profile| Box::new(profile.normalized()))))
        }
        (Ok(Err(failure)), _) => Err(without_secret(entry.input(), failure)),
        // FAIL CLOSED: if the profile function panics, the profile is the strictest one.
        (Err(_), Some(args)) => Ok((args, Some(Box::new(CallProfile::strictest())))),
        (_, None) => Err(undecodable()),
    }
}

/// Does the same for arguments that are all scalars, from the text and without a JSON tree. `None`
/// if they are something else or invalid, or if the author's code panics: then they are parsed.
#[inline(always)]
pub(super) fn decoded_scalars(
    entry: &RegisteredTool,
    text: &str,
    cx: &ToolContext,
) -> Option<(Args, Option<Box<CallProfile>>)> {
    let mut object = ScalarObject::default();
    if !object.read(text) || !entry.input().is_valid_object(&object) {
        return None;
    }
    let body = entry.body();
    let decoded = caught(|| {
        let args = body.decode_scalars(&mut object.into_members())?;
        let profile = body.profiles().then(|| body.profile(entry.declared().clone(), &args, cx));
        Some((args, profile))
    });
    let (args, profile) = decoded.ok()??;
    Some((args, profile.map(|profile| Box::new(profile.normalized()))))
}

#[cold]
fn undecodable() -> Failure {
    Failure::new(FailureCode::BadArguments, "the arguments could not be decoded")
        .with_next("try other values")
}

/// A type that refuses a value shows it; what the schema marks as a secret is not shown back.
fn without_secret(schema: &Schema, failure: Failure) -> Failure {
    let place = failure.message().split(": ").next().unwrap_or_default().trim_end_matches('/');
    if failure.code() != FailureCode::BadArguments || !schema.is_secret(place) {
        return failure;
    }
    let place = if place.is_empty() { "/" } else { place };
    Failure::new(
        FailureCode::BadArguments,
        format!("{place}: the tool does not accept this hidden value"),
    )
    .with_next("call it again with another value")
}
