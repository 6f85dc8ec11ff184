//! The metaschemas of JSON Schema, one document for each draft: what a valid schema looks like.
//!
//! They are written without annotations, and the vocabularies of a draft are in one document.

use std::sync::LazyLock;

use serde_json::Value;

use super::draft::Draft;

/// Returns the metaschema of a draft.
pub(crate) fn of(draft: Draft) -> &'static Value {
    let [four, six, seven, nineteen, twenty] = &*METASCHEMAS;
    match draft {
        Draft::Draft4 => four,
        Draft::Draft6 => six,
        Draft::Draft7 => seven,
        Draft::Draft201909 => nineteen,
        Draft::Draft202012 => twenty,
    }
}

static METASCHEMAS: LazyLock<[Value; 5]> = LazyLock::new(|| {
    [
        include_str!("metaschemas/draft4.json"),
        include_str!("metaschemas/draft6.json"),
        include_str!("metaschemas/draft7.json"),
        include_str!("metaschemas/draft2019-09.json"),
        include_str!("metaschemas/draft2020-12.json"),
    ]
    // A test parses each of them.
    .map(|text| serde_json::from_str(text).unwrap_or_default())
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draft_has_a_metaschema_of_its_own_draft() {
        for draft in Draft::ALL {
            assert_eq!(Draft::of(of(draft)), Ok(draft));
            assert!(of(draft)["properties"]["type"].is_object(), "{draft:?}");
        }
    }
}
