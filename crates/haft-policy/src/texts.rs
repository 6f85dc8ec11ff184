//! A bounded buffer of texts, the newest last.
//!
//! Texts are stored contiguously in pages. A full page is shared and immutable, so searching needs
//! no lock; the oldest page is dropped as a whole. Adding a short text therefore allocates nothing,
//! and dropping thousands of them drops one page.

use std::{collections::VecDeque, sync::Arc};

/// Bytes of a page. A longer text has a page to itself.
const PAGE_BYTES: usize = 16 << 10;
/// Overhead of one text, so that many small ones are bounded too.
const TEXT_OVERHEAD: usize = 32;

/// Bounded texts.
#[derive(Debug, Clone)]
pub(super) struct Texts<T> {
    full: VecDeque<Arc<Page<T>>>,
    open: Page<T>,
    /// The bytes of all pages, overhead included.
    size: usize,
    most: usize,
}

/// Some texts, stored contiguously.
#[derive(Debug, Clone)]
pub(super) struct Page<T> {
    text: String,
    marks: Vec<Mark<T>>,
}

/// The end of a text, and its metadata.
#[derive(Debug, Clone)]
struct Mark<T> {
    name_end: usize,
    end: usize,
    with: T,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { text: String::new(), marks: Vec::new() }
    }
}

impl<T> Page<T> {
    /// Returns each text with its name and metadata.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str, &T)> {
        let mut start = 0;
        self.marks.iter().map(move |mark| {
            let name = &self.text[start..mark.name_end];
            let text = &self.text[mark.name_end..mark.end];
            start = mark.end;
            (name, text, &mark.with)
        })
    }

    fn size(&self) -> usize {
        self.text.len() + self.marks.len() * TEXT_OVERHEAD
    }
}

impl<T: Clone> Texts<T> {
    /// Keeps up to `most` bytes, temporarily one page more.
    pub(super) fn new(most: usize) -> Self {
        Self { full: VecDeque::new(), open: Page::default(), size: 0, most }
    }

    /// Adds a text under a name. Returns the page that was dropped, if any.
    pub(super) fn push(&mut self, name: &str, text: &str, with: T) -> Option<Arc<Page<T>>> {
        if self.open.size() + name.len() + text.len() > PAGE_BYTES && !self.open.marks.is_empty() {
            self.full.push_back(Arc::new(std::mem::take(&mut self.open)));
        }
        let Page { text: all, marks } = &mut self.open;
        all.push_str(name);
        let name_end = all.len();
        all.push_str(text);
        marks.push(Mark { name_end, end: all.len(), with });
        self.size += name.len() + text.len() + TEXT_OVERHEAD;
        let mut dropped = None;
        while self.size > self.most
            && let Some(page) = self.full.pop_front()
        {
            self.size -= page.size();
            dropped.get_or_insert(page);
        }
        dropped
    }

    /// Returns whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.marks.is_empty() && self.full.is_empty()
    }

    /// Returns all pages, as they are now.
    pub(super) fn all(&self) -> Vec<Arc<Page<T>>> {
        self.full.iter().cloned().chain([Arc::new(self.open.clone())]).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(texts: &Texts<usize>) -> Vec<(String, String, usize)> {
        let pages = texts.all();
        let all = pages.iter().flat_map(|page| page.texts());
        all.map(|(name, text, with)| (name.to_owned(), text.to_owned(), *with)).collect()
    }

    proptest! {
        #[test]
        fn newest_texts_are_kept_within_the_limit(
            sizes in prop::collection::vec(0_usize..40_000, 1..60),
        ) {
            let most = 64 << 10;
            let mut texts = Texts::new(most);
            let mut dropped = 0;
            for (n, size) in sizes.iter().enumerate() {
                let went = texts.push(&format!("c{n}"), &"é".repeat(size / 2), n);
                dropped += usize::from(went.is_some());
            }
            let kept = kept(&texts);
            let first = sizes.len() - kept.len();
            prop_assert_eq!(first > 0, dropped > 0);
            for (at, (name, text, with)) in kept.iter().enumerate() {
                prop_assert_eq!((name.as_str(), *with), (&*format!("c{}", first + at), first + at));
                prop_assert_eq!(text.len(), sizes[first + at] / 2 * 2);
            }
            prop_assert!(texts.size <= most + 40_100, "the newest page is always kept");
        }
    }

    #[test]
    fn many_empty_texts_are_bounded() {
        let mut texts = Texts::new(64 << 10);
        (0..100_000).for_each(|n| drop(texts.push("", "", n)));
        assert!(kept(&texts).len() <= (64 << 10) / TEXT_OVERHEAD + 1);
        assert_eq!(kept(&texts).last().map(|(_, _, n)| *n), Some(99_999));
    }
}
