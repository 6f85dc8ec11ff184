//! Results that were too large for the model, as resources: `result://ID`, in whole or in lines.
//!
//! INVARIANT: only the caller whose call produced a result can read it; for any other caller it
//! does not exist.

use std::{
    collections::{HashMap, VecDeque},
    io::Read as _,
    sync::{Mutex, PoisonError},
};

use haft::artifacts::{Artifact, ArtifactId, Artifacts, ResultPosition, ResultQuery};
use rmcp::{
    ErrorData,
    model::{MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};
use serde_json::{Map, Value, json};

use super::conversation::Principal;

/// The scheme of the URIs.
const SCHEME: &str = "result://";
/// How many results are remembered with their owner. The oldest are forgotten first.
const MAX_RESULTS: usize = 10_000;
/// How much one read returns, in characters. A reader continues with the position in `_meta`.
const MAX_PAGE_CHARS: usize = 200_000;
/// The largest image or audio that one read returns, in bytes.
const MAX_BLOB_BYTES: u64 = 8 << 20;
/// Where a reader continues, in `_meta`.
const META_NEXT: &str = "dev.haft/next";

/// The owners of the offloaded results.
#[derive(Default)]
pub(super) struct OffloadedResults(Mutex<Owners>);

#[derive(Default)]
struct Owners {
    by_id: HashMap<ArtifactId, Principal>,
    order: VecDeque<ArtifactId>,
}

impl OffloadedResults {
    /// Remembers a result, and returns the link to it.
    pub(super) fn link(
        &self,
        artifacts: &Artifacts,
        id: ArtifactId,
        owner: &Principal,
    ) -> Option<Resource> {
        let artifact = artifacts.open(id).ok()?;
        let facts = artifact.facts();
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.by_id.insert(id, owner.clone()).is_none() {
            owners.order.push_back(id);
        }
        if owners.order.len() > MAX_RESULTS
            && let Some(oldest) = owners.order.pop_front()
        {
            owners.by_id.remove(&oldest);
        }
        let description = match facts.lines {
            Some(lines) => format!(
                "The whole result: {lines} lines. Add `?line=N&limit=M` to read only some of them."
            ),
            None => "The whole result.".to_owned(),
        };
        let link = Resource::new(format!("{SCHEME}{id}"), "whole result")
            .with_description(description)
            .with_mime_type(facts.media.clone())
            .with_size(facts.bytes);
        Some(link)
    }

    /// Reads a result; `None` if the URI is not that of a result.
    pub(super) fn read(
        &self,
        artifacts: &Artifacts,
        uri: &str,
        reader: &Principal,
    ) -> Option<Result<ReadResourceResult, ErrorData>> {
        let rest = uri.strip_prefix(SCHEME)?;
        Some(self.read_range(artifacts, uri, rest, reader))
    }

    fn read_range(
        &self,
        artifacts: &Artifacts,
        uri: &str,
        rest: &str,
        reader: &Principal,
    ) -> Result<ReadResourceResult, ErrorData> {
        let missing = || {
            let message = format!("there is no resource `{uri}`");
            ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
        };
        let (id, query) = rest.split_once('?').unwrap_or((rest, ""));
        let range = Range::parse(query).map_err(|why| ErrorData::invalid_params(why, None))?;
        let id: ArtifactId = id.parse().map_err(|_| missing())?;
        let owner = {
            let owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            owners.by_id.get(&id).cloned()
        };
        if owner.as_ref() != Some(reader) {
            return Err(missing());
        }
        let artifact = artifacts.open(id).map_err(|_| missing())?;
        let contents = if artifact.facts().chars.is_some() {
            text(&artifact, uri, range)
        } else {
            blob(&artifact, uri)
        };
        Ok(ReadResourceResult::new(vec![contents?]))
    }

    /// The template of the URIs.
    pub(super) fn template() -> ResourceTemplate {
        ResourceTemplate::new("result://{id}{?line,column,limit}", "whole result").with_description(
            "A result that was too large to show in full. The id is in the link of the \
                 truncated result. `line` and `limit` select lines.",
        )
    }
}

/// The lines that a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: ResultPosition,
    limit: u64,
}

impl Range {
    fn parse(query: &str) -> Result<Self, String> {
        let mut range = Self { from: ResultPosition::START, limit: u64::MAX };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = value.parse().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| format!("`{name}` must be a number above zero"))?;
            match name {
                "line" => range.from.line = number,
                "column" => range.from.column = number,
                "limit" => range.limit = number,
                _ => return Err(format!("`{name}` is unknown; use `line`, `column`, `limit`")),
            }
        }
        Ok(range)
    }
}

fn text(artifact: &Artifact, uri: &str, range: Range) -> Result<ResourceContents, ErrorData> {
    let query = ResultQuery::Lines { from: range.from, limit: range.limit };
    let page = artifact
        .read(&query, MAX_PAGE_CHARS)
        .map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
    let contents =
        ResourceContents::text(page.text, uri).with_mime_type(artifact.facts().media.clone());
    Ok(match page.next {
        Some(next) => {
            let next: Value = json!({"line": next.line, "column": next.column});
            contents.with_meta(MetaObject(Map::from_iter([(META_NEXT.to_owned(), next)])))
        }
        None => contents,
    })
}

fn blob(artifact: &Artifact, uri: &str) -> Result<ResourceContents, ErrorData> {
    let facts = artifact.facts();
    if facts.bytes > MAX_BLOB_BYTES {
        return Err(ErrorData::invalid_params("the result is too large to read at once", None));
    }
    let mut bytes = Vec::new();
    artifact
        .reader()
        .read_to_end(&mut bytes)
        .map_err(|e| ErrorData::internal_error(format!("it cannot be read: {e}"), None))?;
    let data = data_encoding::BASE64.encode(&bytes);
    Ok(ResourceContents::blob(data, uri).with_mime_type(facts.media.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_read_from_the_query() {
        let range = |line, column, limit| Range { from: ResultPosition { line, column }, limit };
        assert_eq!(Range::parse(""), Ok(range(1, 1, u64::MAX)));
        assert_eq!(Range::parse("line=5&limit=2"), Ok(range(5, 1, 2)));
        assert_eq!(Range::parse("column=7"), Ok(range(1, 7, u64::MAX)));
        for wrong in ["line=0", "line=x", "line", "page=1", "limit=-1"] {
            assert!(Range::parse(wrong).is_err(), "{wrong}");
        }
    }
}
