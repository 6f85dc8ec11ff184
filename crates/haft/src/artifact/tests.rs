//! Tests for both stores, and for the checks of the directory.

use std::{
    path::{Path, PathBuf},
    sync::Barrier,
};

use super::*;
use crate::clock::ManualClock;

const HOUR: Duration = Duration::from_secs(3_600);

fn scope(run: &str, session: Option<&str>, user: Option<&str>) -> Scope {
    Scope::from(haft_core::RunScope {
        run: run.into(),
        session: session.map(Into::into),
        user: user.map(Into::into),
        ..haft_core::RunScope::default()
    })
}

fn owner() -> Owner {
    Owner::of(&scope("run-1", None, None), "mark", "run-1")
}

fn draft(text: &str) -> Draft {
    Draft {
        tool: "t".into(),
        run: "run-1".into(),
        owner: owner(),
        label: Label::default(),
        media: TEXT.to_owned(),
        items: None,
        body: text.as_bytes().into(),
        is_text: true,
    }
}

fn text_of(artifact: &Artifact) -> String {
    let mut text = String::new();
    io::Read::read_to_string(&mut artifact.reader(), &mut text).unwrap();
    text
}

/// The path of a directory for one test, which does not exist yet.
fn fresh(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("haft-artifacts-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A directory that is removed at the end of the test.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        Self(fresh(name))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn limits(quota: u64) -> ArtifactLimits {
    ArtifactLimits { quota, expiry: HOUR }
}

fn each(name: &str, quota: u64, test: impl Fn(Artifacts, ManualClock)) {
    let directory = TempDir::new(name);
    let stores = [
        Artifacts::memory_with(limits(quota)),
        #[cfg(unix)]
        Artifacts::directory(&directory.0, limits(quota)).unwrap(),
    ];
    for store in stores {
        let clock = ManualClock::new();
        clock.advance(HOUR * 24 * 365 * 50);
        test(store.with_clock(Arc::new(clock.clone())), clock);
    }
    drop(directory);
}

#[test]
fn stored_artifact_is_read_with_its_metadata() {
    each("kept", 1 << 20, |store, _| {
        let facts = store.put(draft("one\ntwo é\n")).unwrap();
        assert_eq!((facts.bytes, facts.chars, facts.lines), (11, Some(10), Some(2)));
        let found = store.open(facts.id).unwrap();
        assert_eq!((found.facts(), text_of(&found).as_str()), (&facts, "one\ntwo é\n"));
        assert_eq!(store.list().unwrap(), [facts]);
        let other = ArtifactId::random().unwrap();
        assert!(store.open(other).unwrap_err().to_string().contains("there is no result"));
    });
}

#[test]
fn full_store_rejects_new_artifacts_and_evicts_none() {
    each("full", 10_000, |store, clock| {
        let first = store.put(draft(&"x".repeat(5_000))).unwrap();
        assert_eq!(store.put(draft(&"y".repeat(5_000))), Err(NotKept::Full));
        assert!(store.open(first.id).is_ok(), "what is there stays");
        clock.advance(HOUR);
        let second = store.put(draft(&"y".repeat(5_000))).unwrap();
        assert_eq!(store.list().unwrap(), [second], "an expired artifact frees its bytes");
    });
}

#[test]
fn expired_artifact_never_comes_back() {
    each("expired", 1 << 20, |store, clock| {
        let facts = store.put(draft("x")).unwrap();
        let date = clock.wall();
        clock.set_wall(date + HOUR - Duration::from_millis(1));
        assert!(store.open(facts.id).is_ok());
        clock.set_wall(date + HOUR);
        assert!(store.open(facts.id).is_err());
        clock.set_wall(date);
        assert!(store.open(facts.id).is_err(), "not even when the clock is set back");
    });
}

#[test]
fn clock_jumps_do_not_break_expiry() {
    each("jumps", 10_000, |store, clock| {
        let date = clock.wall();
        let far = date + HOUR * 24 * 365 * 100;
        clock.set_wall(far);
        store.put(draft(&"x".repeat(8_000))).unwrap();
        clock.set_wall(date);
        let late = store.put(draft(&"y".repeat(8_000))).unwrap();
        assert_eq!(
            store.list().unwrap(),
            [late],
            "an artifact dated a century ahead uses no quota"
        );
        clock.set_wall(SystemTime::UNIX_EPOCH - HOUR);
        let _ = store.put(draft("z"));
        assert!(store.list().unwrap().len() <= 1);
    });
}

#[test]
fn owner_is_a_session_or_a_run_with_its_sub_runs() {
    let of = |run: &str, session, user| Owner::of(&scope(run, session, user), "mark", run);
    let run = of("run-1", None, None);
    assert!(run.allows(&of("run-1", None, None)));
    assert!(run.allows(&of("run-1.2", None, None)), "a run that it started");
    assert!(of("run-1.2", None, None).allows(&run), "and the other way round");
    assert!(!of("run-1.2", None, None).allows(&of("run-1.3", None, None)), "sisters do not share");
    assert!(!run.allows(&of("run-11", None, None)));
    assert!(!run.allows(&of("run-1", None, Some("eve"))));
    assert!(!run.allows(&Owner::of(&scope("run-1", None, None), "another process", "run-1")));
    let session = of("run-1", Some("s"), Some("ada"));
    assert!(session.allows(&of("run-7", Some("s"), Some("ada"))), "runs of one session share");
    assert!(!session.allows(&of("run-1", Some("s"), Some("eve"))));
    assert!(!session.allows(&of("run-1", Some("s.2"), Some("ada"))));
    let posing = of("run-1", Some("mark/run-1"), None);
    assert!(!run.allows(&posing), "a session that is called like a run is none");
}

#[test]
fn other_owners_find_nothing() {
    each("strangers", 1 << 20, |store, _| {
        let facts = store.put(draft("x")).unwrap();
        let eve = Owner::of(&scope("run-1", None, Some("eve")), "mark", "run-1");
        assert!(store.open_for(facts.id, &owner()).unwrap().is_some());
        assert!(store.open_for(facts.id, &eve).unwrap().is_none());
    });
}

#[test]
fn artifact_id_cannot_be_a_path() {
    for bad in ["", "..", "../../../../../../etc/passw", "0123456789bcdfghjklmnpqrs/", "a"] {
        assert!(bad.parse::<ArtifactId>().is_err(), "{bad}");
    }
    let long = "0".repeat(1_000_000);
    assert!(long.parse::<ArtifactId>().is_err());
    let id = ArtifactId::random().unwrap();
    assert_eq!(id.to_string().parse::<ArtifactId>().unwrap(), id);
    assert_eq!(id.to_string().len(), 26);
    assert!(id.to_string().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
    assert_ne!(id, ArtifactId::random().unwrap());
}

#[test]
fn quota_is_exact_after_any_order_of_puts_and_expiries() {
    // Compares the listed artifacts with the quota that the store has left, found by filling it.
    each("count", 40_000, |store, clock| {
        let mut seed = 7u64;
        for _ in 0..200 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = usize::try_from(seed >> 52).unwrap();
            let _ = store.put(draft(&"x".repeat(size)));
            clock.advance(HOUR / 16);
            let there: u64 = store.list().unwrap().iter().map(|f| f.bytes + OVERHEAD).sum();
            assert!(there <= 40_000, "{there}");
        }
        clock.advance(HOUR);
        assert!(store.list().unwrap().is_empty());
        // Space for all of it again, and for no more.
        assert!(store.put(draft(&"x".repeat(38_000))).is_ok());
        assert_eq!(store.put(draft("x")), Err(NotKept::Full));
    });
}

#[cfg(unix)]
#[test]
fn each_process_sees_changes_of_others_in_the_directory() {
    let directory = TempDir::new("others");
    let clock = ManualClock::new();
    clock.advance(HOUR * 24 * 365 * 50);
    let open = || {
        let store = Artifacts::directory(&directory.0, limits(10_000)).unwrap();
        store.with_clock(Arc::new(clock.clone()))
    };
    // Two independent handles, like two processes.
    let (one, two) = (open(), open());
    let large = draft(&"x".repeat(3_000));
    let again = || Draft { body: Arc::clone(&large.body), ..draft("") };
    let first = one.put(again()).unwrap();
    assert!(two.put(again()).is_ok());
    assert_eq!(one.put(again()), Err(NotKept::Full), "what the other put in counts");
    assert_eq!(two.put(again()), Err(NotKept::Full));
    std::fs::remove_file(directory.0.join(first.id.to_string())).unwrap();
    assert!(two.put(again()).is_ok(), "space freed by hand is seen");
    assert_eq!(one.put(again()), Err(NotKept::Full));
    clock.advance(HOUR);
    assert!(one.put(again()).is_ok());
    assert_eq!(one.list().unwrap().len(), 1, "what has expired is gone");
    assert!(two.put(again()).is_ok());
    assert_eq!(one.put(again()), Err(NotKept::Full));
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 3, "two results and the lock");
}

#[test]
fn racing_threads_do_not_exceed_the_quota() {
    each("race", 20_000, |store, _| {
        let start = Barrier::new(8);
        let kept = std::thread::scope(|threads| {
            let work = || {
                start.wait();
                (0..4).filter(|_| store.put(draft(&"x".repeat(3_000))).is_ok()).count()
            };
            let all: Vec<_> = (0..8).map(|_| threads.spawn(work)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        let used: u64 = store.list().unwrap().iter().map(|facts| facts.bytes + OVERHEAD).sum();
        assert!(used <= 20_000, "{used}");
        assert_eq!(store.list().unwrap().len(), kept);
        assert!(kept >= 3, "{kept}");
    });
}

#[cfg(unix)]
mod directory {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn open(path: &Path) -> Result<Artifacts, Error> {
        Artifacts::directory(path, limits(1 << 20))
    }

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn directory_is_created_with_private_mode() {
        let directory = TempDir::new("made");
        let store = open(&directory.0.join("deep/er")).unwrap();
        let facts = store.put(draft("x")).unwrap();
        let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(directory.0.join("deep/er")), 0o700);
        assert_eq!(mode(directory.0.join("deep/er").join(facts.id.to_string())), 0o600);
    }

    #[test]
    fn directory_accessible_to_others_is_refused() {
        let directory = TempDir::new("open");
        std::fs::create_dir(&directory.0).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            allow(&directory.0, mode);
            let refused = open(&directory.0).unwrap_err();
            assert!(refused.to_string().contains("other users can access it"), "{refused}");
        }
        allow(&directory.0, 0o700);
        let store = open(&directory.0).unwrap();
        allow(&directory.0, 0o777);
        assert!(matches!(store.put(draft("x")), Err(NotKept::Trouble(_))), "not later either");
        allow(&directory.0, 0o700);
    }

    #[test]
    fn symlink_as_directory_is_refused() {
        let (real, link) = (TempDir::new("real"), TempDir::new("link"));
        open(&real.0).unwrap();
        symlink(&real.0, &link.0).unwrap();
        assert!(open(&link.0).unwrap_err().to_string().contains("a symlink"));
        std::fs::remove_file(&link.0).unwrap();
        std::fs::File::create(&link.0).unwrap();
        assert!(open(&link.0).is_err(), "a file is not a directory");
        std::fs::remove_file(&link.0).unwrap();
    }

    #[test]
    fn symlinks_inside_the_directory_are_not_followed() {
        let directory = TempDir::new("inside");
        let store = open(&directory.0).unwrap();
        let facts = store.put(draft("a secret of its own")).unwrap();
        let outside = directory.0.join("outside");
        std::fs::rename(directory.0.join(facts.id.to_string()), &outside).unwrap();
        symlink(&outside, directory.0.join(facts.id.to_string())).unwrap();
        assert!(store.open(facts.id).is_err());
        assert!(store.list().unwrap().is_empty());
        let lock = directory.0.join("lock");
        std::fs::remove_file(&lock).unwrap();
        symlink("/dev/null", &lock).unwrap();
        assert!(matches!(store.put(draft("x")), Err(NotKept::Trouble(_))));
    }

    #[test]
    fn partial_files_of_a_crash_are_never_read_and_are_removed() {
        let directory = TempDir::new("crash");
        let store = open(&directory.0).unwrap();
        let facts = store.put(draft(&"x".repeat(1_000))).unwrap();
        let path = directory.0.join(facts.id.to_string());
        let part = directory.0.join(format!("{}.part", ArtifactId::random().unwrap()));
        std::fs::copy(&path, &part).unwrap();
        // Half of it, as after a crash.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(500).unwrap();
        assert!(store.list().unwrap().is_empty());
        assert!(store.open(facts.id).is_err());
        assert!(!path.exists(), "the reader has removed it");
        store.put(draft("y")).unwrap();
        assert!(!part.exists(), "the next write removes the rest");
    }

    #[test]
    fn renamed_artifact_file_is_not_read() {
        let directory = TempDir::new("renamed");
        let store = open(&directory.0).unwrap();
        let facts = store.put(draft("x")).unwrap();
        let other = ArtifactId::random().unwrap();
        std::fs::rename(
            directory.0.join(facts.id.to_string()),
            directory.0.join(other.to_string()),
        )
        .unwrap();
        assert!(store.open(other).is_err());
    }

    #[test]
    fn two_handles_share_artifacts_and_quota() {
        let directory = TempDir::new("shared");
        let one = Artifacts::directory(&directory.0, limits(10_000)).unwrap();
        let two = Artifacts::directory_when_needed(&directory.0, limits(10_000));
        let facts = one.put(draft(&"x".repeat(8_000))).unwrap();
        assert_eq!(text_of(&two.open(facts.id).unwrap()).len(), 8_000);
        assert_eq!(two.put(draft(&"x".repeat(8_000))), Err(NotKept::Full));
    }

    #[test]
    fn lazy_directory_is_created_on_first_use() {
        let directory = TempDir::new("later");
        let store = Artifacts::directory_when_needed(&directory.0, limits(1 << 20));
        assert!(store.list().unwrap().is_empty());
        assert!(store.open(ArtifactId::random().unwrap()).is_err());
        assert!(!directory.0.exists());
        store.put(draft("x")).unwrap();
        assert_eq!(store.list().unwrap().len(), 1);
    }
}

mod reading {
    use proptest::prelude::*;

    use super::*;

    fn kept(text: &str, media: &str) -> Artifact {
        let store = Artifacts::memory(64 << 20);
        let draft = Draft { media: media.to_owned(), ..draft(text) };
        let facts = store.put(draft).unwrap();
        store.open(facts.id).unwrap()
    }

    fn lines(line: u64, column: u64, limit: u64) -> ResultQuery {
        ResultQuery::Lines { from: ResultPosition { line, column }, limit }
    }

    fn find(pattern: &str, context: usize, offset: u64, limit: u64) -> ResultQuery {
        ResultQuery::Pattern { pattern: pattern.to_owned(), context, offset, limit }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let artifact = kept("a\nb\nc\nd\n", TEXT);
        let page = artifact.read(&lines(2, 1, 2), 100).unwrap();
        assert_eq!((page.text.as_str(), page.summary.as_str()), ("b\nc\n", "lines 2 to 3 of 4"));
        assert_eq!(page.next, Some(ResultPosition { line: 4, column: 1 }));
        let page = artifact.read(&lines(4, 1, 9), 100).unwrap();
        assert_eq!((page.text.as_str(), page.next), ("d\n", None));
        let page = artifact.read(&lines(9, 1, 9), 100).unwrap();
        assert_eq!(
            (page.text.as_str(), page.summary.as_str()),
            ("", "no such line: it has 4 lines")
        );
    }

    #[test]
    fn matches_have_line_numbers_and_context() {
        let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let artifact = kept(&text, TEXT);
        let page = artifact.read(&find("5$", 1, 1, 2), 1_000).unwrap();
        assert_eq!(
            page.text,
            "4- line 4\n5: line 5\n6- line 6\n--\n14- line 14\n15: line 15\n16- line 16\n"
        );
        assert_eq!(page.summary, "2 of 10 matching lines");
        assert_eq!(page.next, Some(ResultPosition { line: 25, column: 1 }));
        let page = artifact.read(&find("(?i)LINE 9\\d", 0, 96, 50), 1_000).unwrap();
        assert_eq!(page.summary, "4 of 4 matching lines from line 96 on");
        assert_eq!(page.text.lines().count(), 4);
        let page = artifact.read(&find("nothing", 0, 1, 50), 1_000).unwrap();
        assert_eq!((page.text.as_str(), page.summary.as_str()), ("", "no line matches"));
        let bad = artifact.read(&find("(", 0, 1, 1), 100).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "the pattern is not a valid regular expression: unclosed group"
        );
    }

    #[test]
    fn match_in_a_long_line_is_shown_with_its_surroundings() {
        let text = format!("{}needle{}", "é".repeat(500_000), "x".repeat(3_000_000));
        let page = kept(&text, TEXT).read(&find("needle", 0, 1, 9), 5_000).unwrap();
        assert!(page.text.starts_with("1: …é") && page.text.contains("éneedlex"), "{}", page.text);
        assert!(page.text.chars().count() < 600);
    }

    #[test]
    fn json_pointer_shows_a_part_truncated_to_the_limit() {
        let list: serde_json::Value = (0..10_000).collect();
        let artifact = kept(&list.to_string(), JSON);
        let page = artifact.read(&ResultQuery::Pointer("/77".to_owned()), 100).unwrap();
        assert_eq!((page.text.as_str(), page.summary.as_str()), ("77", "`/77`: all of it"));
        let page = artifact.read(&ResultQuery::Pointer(String::new()), 200).unwrap();
        assert!(page.text.chars().count() <= 200 && page.text.contains("more items"));
        assert!(serde_json::from_str::<serde_json::Value>(&page.text).is_ok());
    }

    #[test]
    fn json_pointer_into_a_large_artifact_is_refused_and_lines_are_read() {
        let pointer = ResultQuery::Pointer("/0".to_owned());
        let list = |bytes: usize| format!("[\"{}\"\n,1]", "7".repeat(bytes - 7));
        let at_limit = kept(&list(4 << 20), JSON).read(&pointer, 100).unwrap();
        assert!(at_limit.text.starts_with("\"777"), "{}", at_limit.text);
        let over = kept(&format!("{} ", list(4 << 20)), JSON);
        let refused = over.read(&pointer, 9).unwrap_err();
        assert_eq!(refused.to_string(), "a pointer works up to 4 MiB");
        assert_eq!(over.read(&lines(2, 1, 1), 9).unwrap().text, ",1] ");
        let broken = kept("{nope", JSON).read(&pointer, 9).unwrap_err();
        assert!(matches!(broken, ReadArtifactError::NotJson(_)), "{broken}");
    }

    #[test]
    fn binary_artifact_is_not_read_as_text() {
        let store = Artifacts::memory(1 << 20);
        let draft = Draft { is_text: false, media: "image/png".to_owned(), ..draft("\u{1}") };
        let artifact = store.open(store.put(draft).unwrap().id).unwrap();
        assert!(matches!(artifact.read(&lines(1, 1, 1), 10), Err(ReadArtifactError::NotText)));
    }

    #[test]
    fn reading_stops_on_cancellation() {
        let artifact = kept(&"x\n".repeat(1_000_000), TEXT);
        let read = artifact.read_until(&find("y", 0, 1, 1), 100, &|| true);
        assert!(matches!(read, Err(ReadArtifactError::Cancelled | ReadArtifactError::Io(_))));
    }

    proptest! {
        #[test]
        fn concatenated_pages_are_the_whole_text(
            text in "(é|a|漢|🦀|\n|bbbbbbbb){0,80}", max_chars in 1usize..30, limit in 1u64..6,
        ) {
            let artifact = kept(&text, TEXT);
            let mut all = String::new();
            let mut from = ResultPosition::START;
            for _ in 0..2_000 {
                let page = artifact.read(&ResultQuery::Lines { from, limit }, max_chars).unwrap();
                prop_assert!(page.text.chars().count() <= max_chars);
                all.push_str(&page.text);
                match page.next {
                    Some(next) => {
                        prop_assert!((next.line, next.column) > (from.line, from.column));
                        from = next;
                    }
                    None => break,
                }
            }
            prop_assert_eq!(all, text);
        }

        #[test]
        fn every_search_page_is_within_the_limit(
            text in "(é|a|漢|\n|b){0,200}", max_chars in 1usize..60, context in 0usize..3,
        ) {
            let page = kept(&text, TEXT).read(&find("a", context, 1, 10), max_chars).unwrap();
            prop_assert!(page.text.chars().count() <= max_chars, "{}", page.text);
        }
    }
}
