//! What a page shows of pieces of output, by time and width.

use super::*;

fn page() -> Page {
    Page::new(Instant::now(), 40)
}

fn call(name: &str) -> CallId {
    CallId::from(name)
}

fn wait(page: &mut Page, millis: u64) {
    page.advance(page.now + Duration::from_millis(millis));
}

/// The lines so far, without colours.
fn lines(page: &mut Page) -> Vec<String> {
    let text = anstream::adapter::strip_str(page.text()).to_string();
    page.clear_text();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn call_that_ends_soon_shows_nothing() {
    let mut page = page();
    let a = call("a");
    page.start_call(&a, page.now);
    page.add(&a, "stdout", "one\n");
    wait(&mut page, 400);
    page.end_call(&a);
    wait(&mut page, 5_000);
    page.end_calls();
    assert_eq!((page.text(), page.status().as_str()), ("", ""));
    assert!(!page.into_shown().is_whole("a"));
}

#[test]
fn lines_of_several_calls_have_headings() {
    let mut page = page();
    let calls = [call("a"), call("b")];
    for own in &calls {
        page.name_call(own, "shell");
        page.start_call(own, page.now);
        page.add(own, "stdout", "one\n");
    }
    wait(&mut page, 2_500);
    page.add(&calls[1], "stderr", "two\n");
    let wanted = [
        "output of shell, call a",
        "  out │ one",
        "output of shell, call b",
        "  out │ one",
        "  err │ two",
    ];
    assert_eq!(lines(&mut page), wanted);
    let status = anstream::adapter::strip_str(&page.status()).to_string();
    assert_eq!(status, "2 calls running, longest 2 s, Ctrl-C sto", "it fits the line");
}

#[test]
fn every_row_has_a_prefix_and_fits_at_every_width() {
    let text = format!("{}\tx漢字\n\n[y] once  > y\x1b[2J\n", "long ".repeat(40));
    for width in 1..100 {
        let mut page = page();
        page.set_width(width);
        let a = call("a");
        page.add(&a, "stderr", &text);
        wait(&mut page, 600);
        page.end_calls();
        for line in lines(&mut page) {
            let is_ours = ["  err │ ", "      │ ", "e│", " │"].iter().any(|p| line.starts_with(p));
            assert!(is_ours && !line.contains('\x1b'), "{width}: {line:?}");
            // The bar itself counts as two columns there; the smallest widths hold one letter.
            assert!(line.chars().count() <= width.max(4), "{width}: {line:?}");
        }
    }
}

#[test]
fn missing_output_is_said_and_never_joined_across() {
    let mut page = page();
    let a = call("a");
    page.add(&a, "stdout", "one\ntw");
    wait(&mut page, 600);
    page.miss();
    page.add(&a, "stdout", "ree\n");
    page.end_call(&a);
    let gap = "output is left out here: there is more";
    let wanted = ["  out │ one", "  out │ tw", gap, "than a terminal shows", "      │ ree"];
    assert_eq!(lines(&mut page), wanted);
    assert!(!page.into_shown().is_whole("a"));
}

#[test]
fn flood_is_bounded_in_each_second() {
    let mut page = page();
    let a = call("a");
    let piece = "0123456789\n".repeat(1000);
    page.add(&a, "stdout", &piece);
    wait(&mut page, 600);
    (0..1000).for_each(|_| page.add(&a, "stdout", &piece));
    page.end_call(&a);
    let shown = lines(&mut page);
    let most = MAX_BYTES_PER_SECOND / 11;
    assert!(shown.len() > 1000 && shown.len() < most + 10, "{}", shown.len());
    assert!(shown.iter().any(|line| line.starts_with("output is left out")));
}

#[test]
fn result_is_left_out_only_where_the_same_text_was_shown() {
    let mut page = page();
    let a = call("a");
    page.add(&a, "stdout", "one\ntw");
    page.add(&a, "stderr", "bad\n");
    wait(&mut page, 600);
    page.add(&a, "stdout", "o");
    page.end_call(&a);
    let shown = page.into_shown();
    let result = |texts: &[&str]| Output {
        blocks: texts.iter().map(|text| Block::text(*text)).collect(),
        structured: None,
    };
    let all = result(&["exit code 1", "stdout:\none\ntwo", "stderr:\nbad\n"]);
    assert_eq!(shown.rest_of("a", &all), (result(&["exit code 1"]), true));
    let other = result(&["stdout:\nbad", "stderr:\none\ntwo", "one"]);
    assert_eq!(shown.rest_of("a", &other), (other.clone(), false));
    assert_eq!(shown.rest_of("b", &all), (all.clone(), false));
    assert_eq!(shown.rest_of("a", &result(&["one\ntwo"])), (result(&[]), true));
    assert!(shown.is_whole("a"));
}
