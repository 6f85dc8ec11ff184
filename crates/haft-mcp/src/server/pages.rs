//! Lists in pages. A cursor names the list it belongs to, so that a sequence of pages is
//! consistent: after a change the cursor is refused, and the client starts again.

use rmcp::ErrorData;

/// How many items a page has. Most servers have fewer; a client need not ask twice.
const PAGE_ITEMS: usize = 1_000;

/// One page, and the cursor of the next.
#[derive(Debug, PartialEq)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

/// Cuts the page of a cursor out of a list with this version.
pub(super) fn page<T: Clone>(
    all: &[T],
    version: &str,
    cursor: Option<&str>,
) -> Result<Page<T>, ErrorData> {
    let start = match cursor {
        None => 0,
        Some(cursor) => offset(cursor, version).filter(|at| *at < all.len()).ok_or_else(|| {
            ErrorData::invalid_params(
                "the cursor is not valid, or the list has changed; list from the beginning",
                None,
            )
        })?,
    };
    let items: Vec<T> = all.iter().skip(start).take(PAGE_ITEMS).cloned().collect();
    let end = start + items.len();
    let next = (end < all.len()).then(|| format!("{version}:{end}"));
    Ok(Page { items, next })
}

fn offset(cursor: &str, version: &str) -> Option<usize> {
    cursor.strip_prefix(version)?.strip_prefix(':')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_the_list_once_and_a_cursor_of_another_list_is_refused() {
        let all: Vec<u32> = (0..2_500).collect();
        let (mut seen, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = page(&all, "v1", cursor.as_deref()).unwrap();
            seen.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, all);
        for wrong in ["v2:1000", "v1:2500", "v1:x", "v1", ""] {
            assert!(page(&all, "v1", Some(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(page::<u32>(&[], "v1", None).unwrap(), Page { items: vec![], next: None });
    }
}
