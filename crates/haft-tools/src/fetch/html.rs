//! Converts HTML to readable text: the main part, with links, lists and tables. Hidden elements are
//! dropped (prompt injection).
//!
//! Makes one pass over the tokens of a standard HTML tokenizer, with a bounded stack of open
//! elements. Only the text is kept in memory. Regions (main, articles, navigation) are ranges of
//! the text and are selected at the end.
//!
//! Our own code, because HTML-to-text crates build a tree of a hostile page; this is one bounded
//! pass.
//!
//! INVARIANT: the writer only appends, so a range stays valid.

use std::ops::Range;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use url::Url;

use super::{text::Readable, writer::Writer};

/// Elements nested deeper are ignored; their text is still read.
const MAX_DEPTH: usize = 256;
/// Maximum length of a title or a link address.
const MAX_LINK_BYTES: usize = 1_000;
/// A main part with less text is not treated as the main part.
const MIN_MAIN_BYTES: usize = 140;
/// Maximum number of recorded regions.
const MAX_REGIONS: usize = 10_000;
/// Maximum number of open elements visited in total, against quadratic time. A 5 MB page with tags
/// at a usual depth needs half of it; one with nothing but tags at the maximum depth would need ten
/// times as much.
const MAX_VISITS: usize = 32 << 20;

/// Converts a page to text.
pub(super) fn readable(page: &str, url: &Url) -> Readable {
    let mut emitter = DefaultEmitter::default();
    // The content of scripts, styles and titles is text, not tags.
    emitter.naively_switch_states(true);
    let mut reader = Reader::new(url);
    for token in Tokenizer::new_with_emitter(page, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => reader.start(&tag),
            Token::EndTag(tag) => reader.end(&tag.name),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if reader.out.full {
            break;
        }
    }
    reader.finish()
}

struct Reader {
    base: Url,
    open: Vec<Open>,
    /// A skipped element and its nesting depth within itself.
    skipped: Option<(Vec<u8>, usize)>,
    /// The open lists; ordered lists have their next number.
    lists: Vec<Option<usize>>,
    /// Number of cells in the current table row.
    cells: usize,
    in_cell: usize,
    out: Writer,
    title: Option<String>,
    regions: Vec<(Region, Range<usize>)>,
    /// Number of open elements visited.
    visits: usize,
}

/// One open element.
struct Open {
    name: Vec<u8>,
    /// Start of the link text, and the link address.
    link: Option<(usize, String)>,
    /// Start of a region.
    region: Option<(Region, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Main,
    Article,
    /// Navigation, banners, footers: repeated on every page.
    Navigation,
}

impl Reader {
    fn new(url: &Url) -> Self {
        Self {
            base: url.clone(),
            open: Vec::new(),
            skipped: None,
            lists: Vec::new(),
            cells: 0,
            in_cell: 0,
            out: Writer::default(),
            title: None,
            regions: Vec::new(),
            visits: 0,
        }
    }

    /// Counts one pass over the open elements. Beyond the limit reading stops.
    fn count_visit(&mut self) {
        self.visits += self.open.len();
        self.out.full |= self.visits > MAX_VISITS;
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += usize::from(skipped == name && !tag.self_closing);
            return;
        }
        if is_hidden(tag) {
            let is_empty = is_void(name) || (tag.self_closing && name == b"svg");
            if !is_empty {
                self.skipped = Some((name.to_vec(), 1));
            }
            return;
        }
        self.close_implied(name);
        self.before(name, tag);
        if is_void(name) || self.open.len() >= MAX_DEPTH {
            return;
        }
        let link = (name == b"a").then(|| attribute(tag, b"href")).flatten();
        let region = self.region_of(name, tag).map(|region| (region, self.out.text.len()));
        let link = link.map(|href| (self.out.text.len(), href));
        self.open.push(Open { name: name.to_vec(), link, region });
        match name {
            b"ul" | b"menu" | b"dl" => self.lists.push(None),
            b"ol" => {
                let first = attribute(tag, b"start").and_then(|start| start.parse().ok());
                self.lists.push(Some(first.unwrap_or(1)));
            }
            b"blockquote" => self.out.quotes += 1,
            b"pre" => self.out.open_fence(),
            b"td" | b"th" => self.in_cell += 1,
            _ => {}
        }
    }

    /// Writes the markup before an element's content.
    fn before(&mut self, name: &[u8], tag: &StartTag<()>) {
        match name {
            b"br" if self.in_cell > 0 => self.out.space = true,
            b"br" => self.out.line_break(),
            b"hr" => {
                self.out.gap(2);
                self.out.inline_text("---");
                self.out.gap(2);
            }
            b"img" => {
                if let Some(alt) = attribute(tag, b"alt").filter(|alt| !alt.trim().is_empty()) {
                    self.out.inline_text(&format!("[image: {}]", alt.trim()));
                }
            }
            b"base" => {
                let base = attribute(tag, b"href").and_then(|href| self.base.join(&href).ok());
                if let Some(base) = base.filter(|base| base.as_str().len() <= MAX_LINK_BYTES) {
                    self.base = base;
                }
            }
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.out.gap(2);
                self.out.marker = "#".repeat(usize::from(name[1] - b'0')) + " ";
            }
            b"li" => {
                self.out.gap(1);
                let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(8));
                self.out.marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{indent}{number}. ");
                        *number = number.saturating_add(1);
                        marker
                    }
                    _ => format!("{indent}- "),
                };
            }
            b"tr" => {
                self.out.gap(1);
                self.cells = 0;
            }
            b"td" | b"th" => {
                if self.cells > 0 {
                    self.out.raw(" | ");
                }
                self.cells += 1;
            }
            _ => self.gap_around(name),
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((skipped, depth)) = &mut self.skipped {
            if skipped == name {
                *depth -= 1;
                if *depth == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        self.count_visit();
        if let Some(at) = self.open.iter().rposition(|open| open.name == name) {
            self.close_from(at);
        } else if name == b"p" {
            self.gap_around(name);
        }
    }

    /// Closes an element and all elements inside it.
    fn close_from(&mut self, at: usize) {
        for open in self.open.split_off(at).into_iter().rev() {
            self.after(open);
        }
    }

    /// Writes the markup after an element's content.
    fn after(&mut self, open: Open) {
        if let Some((from, href)) = open.link {
            self.finish_link(from, &href);
        }
        match open.name.as_slice() {
            b"ul" | b"menu" | b"dl" | b"ol" => {
                self.lists.pop();
                self.out.marker.clear();
                self.out.gap(if self.lists.is_empty() { 2 } else { 1 });
            }
            b"li" => self.out.gap(1),
            b"blockquote" => {
                self.out.gap(2);
                self.out.quotes = self.out.quotes.saturating_sub(1);
            }
            b"pre" => self.out.close_fence(),
            b"td" | b"th" => self.in_cell = self.in_cell.saturating_sub(1),
            b"tr" => self.out.gap(1),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.out.marker.clear();
                self.out.gap(2);
            }
            name => self.gap_around(name),
        }
        if let Some((region, from)) = open.region
            && self.regions.len() < MAX_REGIONS
        {
            self.regions.push((region, from..self.out.text.len()));
        }
    }

    fn finish_link(&mut self, from: usize, href: &str) {
        let text = self.out.text.get(from..).unwrap_or_default().trim();
        if text.is_empty() || href.starts_with('#') || href.len() > MAX_LINK_BYTES {
            return;
        }
        let Ok(to) = self.base.join(href) else { return };
        let shown = to.as_str();
        let is_web_link = matches!(to.scheme(), "http" | "https" | "mailto");
        if is_web_link && text != shown && text != shown.trim_end_matches('/') {
            // Directly after the text, also if a line ended with it.
            let link = format!(" ({shown})");
            self.out.add(&link);
        }
    }

    fn gap_around(&mut self, name: &[u8]) {
        match name {
            b"p" | b"div" if self.in_cell > 0 => self.out.space = true,
            b"p" if !self.lists.is_empty() => self.out.gap(1),
            b"p" | b"table" | b"figure" | b"article" | b"section" | b"main" | b"header"
            | b"footer" | b"nav" | b"aside" | b"details" | b"form" | b"fieldset" | b"address"
            | b"pre" | b"blockquote" => self.out.gap(2),
            b"ul" | b"ol" | b"dl" | b"menu" => {
                self.out.gap(if self.lists.is_empty() { 2 } else { 1 });
            }
            b"div" | b"dt" | b"dd" | b"caption" | b"figcaption" | b"summary" | b"option"
            | b"legend" | b"thead" | b"tbody" | b"tfoot" | b"center" | b"body" | b"title" => {
                self.out.gap(1);
            }
            _ => {}
        }
    }

    /// Closes elements that this element ends implicitly: a new paragraph ends the previous one.
    fn close_implied(&mut self, name: &[u8]) {
        let (closes, within): (&[&[u8]], &[&[u8]]) = match name {
            b"li" => (&[b"li"], &[b"ul", b"ol", b"menu"]),
            b"dt" | b"dd" => (&[b"dt", b"dd"], &[b"dl"]),
            b"td" | b"th" => (&[b"td", b"th"], &[b"tr", b"table"]),
            b"tr" => (&[b"tr"], &[b"table"]),
            b"thead" | b"tbody" | b"tfoot" => (&[b"thead", b"tbody", b"tfoot"], &[b"table"]),
            b"option" => (&[b"option"], &[b"select"]),
            b"a" => (&[b"a"], &[b"td", b"th", b"table"]),
            b"p" | b"div" | b"ul" | b"ol" | b"table" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5"
            | b"h6" | b"pre" | b"section" | b"article" | b"blockquote" => {
                (&[b"p"], &[b"td", b"th", b"li", b"div", b"section", b"article", b"blockquote"])
            }
            _ => return,
        };
        self.count_visit();
        let found = self.open.iter().enumerate().rev().find_map(|(at, open)| {
            let own = open.name.as_slice();
            match (closes.contains(&own), within.contains(&own)) {
                (true, _) => Some(Some(at)),
                (false, true) => Some(None),
                (false, false) => None,
            }
        });
        if let Some(Some(at)) = found {
            self.close_from(at);
        }
    }

    fn region_of(&self, name: &[u8], tag: &StartTag<()>) -> Option<Region> {
        let role = attribute(tag, b"role").unwrap_or_default();
        let region = match (name, role.as_str()) {
            (b"main", _) | (_, "main") => Region::Main,
            (b"article", _) | (_, "article") => Region::Article,
            (b"nav" | b"aside" | b"footer", _) => Region::Navigation,
            (_, "navigation" | "banner" | "contentinfo" | "search" | "complementary") => {
                Region::Navigation
            }
            // The header of an article is its heading; that of a page is its banner.
            (b"header", _) if !self.is_in(Region::Main) && !self.is_in(Region::Article) => {
                Region::Navigation
            }
            _ => return None,
        };
        (!self.is_in(region)).then_some(region)
    }

    fn is_in(&self, region: Region) -> bool {
        self.open.iter().any(|open| open.region.is_some_and(|(own, _)| own == region))
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.open.last().is_some_and(|open| open.name == b"title") {
            let title = self.title.get_or_insert_default();
            let space = MAX_LINK_BYTES.saturating_sub(title.len());
            title.push_str(&text[..text.floor_char_boundary(space)]);
            return;
        }
        match self.out.fences {
            0 => self.out.inline_text(text),
            _ => self.out.lines(text),
        }
    }

    fn finish(mut self) -> Readable {
        self.close_from(0);
        let title = self.title.take().map(|title| {
            let words: Vec<_> = title.split_whitespace().collect();
            words.join(" ")
        });
        let truncated = self.out.full;
        let text = select_main(&self.out.text, &self.regions);
        Readable { title: title.filter(|title| !title.is_empty()), text, truncated }
    }
}

/// Selects the main part, else the articles, else everything, and removes navigation.
fn select_main(text: &str, regions: &[(Region, Range<usize>)]) -> String {
    let of = |wanted: Region| {
        let mut found: Vec<_> = regions
            .iter()
            .filter(|(own, _)| *own == wanted)
            .map(|(_, range)| range.clone())
            .collect();
        found.sort_unstable_by_key(|range| range.start);
        found
    };
    let size = |ranges: &[Range<usize>]| -> usize {
        ranges.iter().map(|range| text[range.clone()].trim().len()).sum()
    };
    let enough = |ranges: &Vec<Range<usize>>| size(ranges) >= MIN_MAIN_BYTES;
    let everything = 0..text.len();
    let parts = Some(of(Region::Main))
        .filter(enough)
        .or_else(|| Some(of(Region::Article)).filter(enough))
        .unwrap_or_else(|| vec![everything]);
    let inner = subtract(&parts, &of(Region::Navigation));
    // Keeps a page that consists of navigation only.
    let parts = if enough(&inner) || size(&inner) * 2 > size(&parts) { inner } else { parts };
    let mut out = String::new();
    for part in parts {
        let part = text[part].trim_matches('\n').trim_end();
        if part.trim().is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(part);
    }
    out
}

/// Subtracts ranges from ranges; both lists are sorted and do not overlap.
fn subtract(parts: &[Range<usize>], holes: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut left = Vec::new();
    let mut holes = holes.iter().peekable();
    for part in parts {
        let mut from = part.start;
        while let Some(hole) = holes.peek() {
            if hole.start >= part.end {
                break;
            }
            if hole.start > from {
                left.push(from..hole.start);
            }
            from = from.max(hole.end);
            if hole.end > part.end {
                break;
            }
            holes.next();
        }
        if from < part.end {
            left.push(from..part.end);
        }
    }
    left
}

fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Returns whether a browser would not display the element. Text that a person cannot see must not
/// reach the model: prompt injection hides there.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let name: &[u8] = &tag.name;
    let never_rendered = matches!(
        name,
        b"script"
            | b"style"
            | b"template"
            | b"svg"
            | b"noscript"
            | b"iframe"
            | b"noframes"
            | b"noembed"
            | b"object"
            | b"canvas"
            | b"audio"
            | b"video"
            | b"select"
            | b"datalist"
            | b"textarea"
    );
    if never_rendered || tag.attributes.contains_key(&b"hidden"[..]) {
        return true;
    }
    if name == b"dialog" && !tag.attributes.contains_key(&b"open"[..]) {
        return true;
    }
    if attribute(tag, b"aria-hidden").is_some_and(|value| value == "true") {
        return true;
    }
    let style: String = attribute(tag, b"style")
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    style.contains("display:none") || style.contains("visibility:hidden")
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::writer::MAX_TEXT_BYTES, *};

    fn read(page: &str) -> String {
        readable(page, &Url::parse("https://example.com/dir/page").unwrap()).text
    }

    #[test]
    fn paragraphs_headings_lists_and_tables_can_be_read() {
        let text = read(
            "<title> A  page </title><h1>Head <b>line</b></h1><p>One\n two<br>three<p>four\
             <ul><li>a<li><p>b</p><ol start=3><li>x</li><li>y</ol><li></li></ul>\
             <table><tr><th>Name<th>Size</tr><tr><td><p>f</p><p>g</p></td><td>2</td></tr></table>\
             <blockquote>said</blockquote><pre>  keep\n   this </pre>end",
        );
        assert_eq!(
            text,
            "# Head line\n\nOne two\nthree\n\nfour\n\n- a\n- b\n  3. x\n  4. y\n\n\
             Name | Size\nf g | 2\n\n> said\n\n```\n  keep\n   this \n```\n\nend"
        );
    }

    #[test]
    fn deeply_nested_unclosed_tags_stop_at_the_visit_limit() {
        let url = Url::parse("https://example.com/").unwrap();
        for piece in ["<p>", "</i>", "<pre>", "<li>"] {
            let page = "<b>".repeat(300) + &piece.repeat(200_000) + "the end";
            let read = readable(&page, &url);
            assert!(read.truncated && !read.text.contains("the end"), "{piece}");
            let page = "<b>".repeat(30) + &piece.repeat(20_000) + "the end";
            assert!(readable(&page, &url).text.contains("the end"), "{piece}");
        }
    }

    #[test]
    fn links_are_absolute_and_only_http_or_mailto() {
        assert_eq!(
            read(
                "<a href='/x?a=1&amp;b'>text</a>, <a href=rel>rel</a>, <a href='#top'>top</a>, \
                 <a href='javascript:x()'>js</a>, <a href=/y><img alt=''></a>\
                 <a href='https://other.org/'>https://other.org</a> <a href=//h/p><b>n</b></a>"
            ),
            "text (https://example.com/x?a=1&b), rel (https://example.com/dir/rel), top, js, \
             https://other.org n (https://h/p)"
        );
        assert_eq!(read("<base href=/b/><a href=x>t</a>"), "t (https://example.com/b/x)");
    }

    #[test]
    fn hidden_html_is_skipped() {
        for hidden in [
            "<script>if (a < b) { document.write('<p>x</p>') }</script>",
            "<style>p { x: y }</style>",
            "<p hidden>x</p>",
            "<div style='Display : none'>x<div>x</div>x</div>",
            "<span style='visibility:hidden'>x</span>",
            "<p aria-hidden=true>x</p>",
            "<template><p>x</p></template>",
            "<noscript>x</noscript>",
            "<svg><title>x</title><text>x</text></svg>",
            "<svg/>",
            "<!-- x -->",
            "<iframe>x</iframe>",
            "<dialog>x</dialog>",
            "<input hidden>",
            "<textarea>x</textarea>",
        ] {
            assert_eq!(read(&format!("<p>a</p>{hidden}<p>b</p>")), "a\n\nb", "{hidden}");
        }
    }

    #[test]
    fn the_main_part_is_selected_if_there_is_one() {
        let long = "word ".repeat(60);
        let long = long.trim();
        let menu = "<nav><a href=/a>menu</a></nav>";
        let page = |inner: &str| format!("<header>top</header>{menu}{inner}<footer>foot</footer>");
        assert_eq!(read(&page(&format!("<main>{long}{menu}<p>x</main>"))), format!("{long}\n\nx"));
        assert_eq!(read(&page(&format!("<div role=main>{long}</div>"))), long);
        let articles = format!("<article>{long}</article>between<article>two</article>");
        assert_eq!(read(&page(&articles)), format!("{long}\n\ntwo"));
        assert_eq!(read(&page(&format!("<p>{long}"))), long);
        assert_eq!(read(&page("<main></main>")), "top\n\nmenu (https://example.com/a)\n\nfoot");
        assert_eq!(read(&format!("<nav>{long}")), long, "a page that is all menu");
    }

    #[test]
    fn ranges_are_subtracted_from_ranges() {
        assert_eq!(subtract(&[0..10, 20..30], &[2..4, 8..22, 30..40]), [0..2, 4..8, 22..30]);
        assert!(subtract(&[5..10, 12..13], &[0..3, 0..20]).is_empty());
        assert_eq!(subtract(&[0..4, 6..8], &[]), [0..4, 6..8]);
    }

    #[test]
    fn hostile_pages_stay_within_size_and_time() {
        // Large enough that quadratic time would be noticed.
        const N: usize = 25_000;
        for page in [
            "<div>".repeat(N),
            "<b><i>".repeat(N) + "x" + &"</b>".repeat(N),
            "<ul><li>".repeat(N),
            "<blockquote>".repeat(N) + "x",
            "<a href=x>y".repeat(N),
            "<table><tr><td>".repeat(N),
            "<template>".repeat(N) + "x",
            "<nav>x</nav>".repeat(N),
            "<main><article><nav>".repeat(N) + "x",
            "</p>".repeat(N),
            "<p ".repeat(N),
            format!("<p {}>x", "a=b ".repeat(N)),
            "&".repeat(10 * N),
            "<".repeat(10 * N),
            "<pre>".repeat(N),
            "<h1>".repeat(N) + "x",
            format!("<base href='/{}'>", "b".repeat(5_000)) + &"<a href=x>y</a>".repeat(N),
        ] {
            let page = readable(&page, &Url::parse("https://example.com/").unwrap());
            assert!(page.text.len() <= MAX_TEXT_BYTES);
        }
    }

    #[test]
    fn truncated_page_text_is_reported() {
        let base = format!("<base href='https://example.com/{}/'>", "b".repeat(900));
        let page = base + &"<a href=x>y</a> ".repeat(20_000);
        let read = readable(&page, &Url::parse("https://example.com/").unwrap());
        assert!(read.truncated && read.text.len() <= MAX_TEXT_BYTES);
    }
}
