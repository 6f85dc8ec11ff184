//! Notes for the model which protected names the sandbox refused to change.

use haft_core::protected_names::RefusedChange;

/// Further names are only counted.
const MAX_LISTED: usize = 4;

/// Returns a note about refused names, if there are any.
pub(super) fn note(refused: &[RefusedChange]) -> Option<String> {
    if refused.is_empty() {
        return None;
    }
    let line = |one: &RefusedChange| format!("`{}` ({})", one.path.display(), one.reason);
    let mut names: Vec<String> = refused.iter().take(MAX_LISTED).map(line).collect();
    if let Some(more @ 1..) = refused.len().checked_sub(MAX_LISTED) {
        names.push(format!("{more} more"));
    }
    Some(format!(
        "note: the sandbox refused to change protected names: {}. Do not try to get around this. \
         If the change is needed, call again with `may_change` and these paths; a person has to \
         approve it.",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_names_are_listed_with_their_reason() {
        assert_eq!(note(&[]), None);
        let refused =
            |n: usize| RefusedChange { path: format!("/w/{n}").into(), reason: "why".to_owned() };
        let one = note(&[refused(1)]).unwrap();
        assert!(one.contains("names: `/w/1` (why). Do"), "{one}");
        let six = note(&(1..=6).map(refused).collect::<Vec<_>>()).unwrap();
        assert!(six.contains("`/w/4` (why), 2 more."), "{six}");
    }
}
