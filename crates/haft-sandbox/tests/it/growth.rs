//! The supervisor leaks neither file descriptors nor memory over many syscalls and callers, and
//! serves many concurrent threads.

use std::{collections::BTreeSet, fs, time::Duration};

use haft_sandbox::Command;

use crate::{kills::children, kit::*, twin::compiled};

/// Tolerated growth: the allocator caches some memory.
const MAX_GROWTH_KIB: u64 = 4 << 10;

fn is_long() -> bool {
    std::env::var_os("HAFT_LONG_TESTS").is_some()
}

/// Two for each of the 64 processes that the supervisor remembers, and some of its own. The number
/// goes up and down, because the list is emptied when it is full.
const MAX_DESCRIPTORS: usize = 2 * 64 + 24;

/// Returns the file descriptors and the resident memory, in KiB, of one process. The supervisor is
/// not dumpable, so only root may count its file descriptors.
fn size_of(pid: i32) -> (Option<usize>, u64) {
    let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => Some(entries.count()),
        Err(e) => {
            assert_eq!(e.kind(), std::io::ErrorKind::PermissionDenied);
            eprintln!("NOT TESTED: only root counts the descriptors of a supervisor");
            None
        }
    };
    let status = String::from_utf8(fs::read(format!("/proc/{pid}/status")).unwrap()).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (descriptors, line.split_ascii_whitespace().next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn supervisor_leaks_no_file_descriptors_and_no_memory() {
    // Files created by one process, and processes that create one file each.
    let (creates, processes): (u32, u32) =
        if is_long() { (1_000_000, 20_000) } else { (5_000, 150) };
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        // Two rounds: the first fills the caches.
        let script = format!(
            r#"perl -e '
            $| = 1;
            sub create {{ my ($n) = @_; open(my $f, ">", "sub/f$n") or die "f$n: $!"; close $f;
                          unlink "sub/f$n" or die "f$n: $!" }}
            sub many {{ my ($creates, $processes) = @_;
                create($_ % 1000) for 1..$creates;
                for my $n (1..$processes) {{ my $p = fork // die "fork: $!";
                    if (!$p) {{ create("p$n"); exit 0 }} waitpid $p, 0; die "child" if $? }} }}
            for my $round (["warm", 1000, 100], ["full", {creates}, {processes}]) {{
                many(@$round[1, 2]); print "$$round[0]\n";
                select undef, undef, undef, 0.01 until -e "go-$$round[0]" }}'"#
        );
        let command = Command::shell(script).deadline(Duration::from_secs(1_800));
        let mut running = sandbox.start(command, fixture.profile()).await.unwrap();
        let helper = i32::try_from(running.helper_id().unwrap()).unwrap();
        let mut sizes = Vec::new();
        for round in ["warm", "full"] {
            let piece = running.next().await.unwrap();
            assert_eq!(String::from_utf8_lossy(&piece.bytes), format!("{round}\n"));
            let [supervisor] = *children(helper) else { panic!("one process below the helper") };
            sizes.push(size_of(supervisor));
            put(&fixture.inside.join(format!("go-{round}")), "");
        }
        let ended = running.wait().await;
        let level = sandbox.tier().level;
        assert!(ended.is_success(), "{level}: {}", err(&ended));
        let [(few, before), (many, after)] = *sizes else { panic!("two sizes") };
        assert_eq!(few.is_some(), many.is_some(), "{level}");
        eprintln!("{level}: {few:?} descriptors, {before} KiB; then {many:?}, {after} KiB");
        let is_bounded = [few, many].into_iter().flatten().all(|open| open <= MAX_DESCRIPTORS);
        assert!(is_bounded, "{level}: {few:?} descriptors, then {many:?}");
        assert!(after <= before + MAX_GROWTH_KIB, "{level}: {before} KiB became {after}");
        assert_eq!(fs::read_dir(fixture.inside.join("sub")).unwrap().count(), 0, "{level}");
    }
}

/// Creates files in many threads that start at the same time.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_barrier_t all;
static int files;
static void *work(void *argument) {
    long thread = (long)argument;
    char name[64];
    pthread_barrier_wait(&all);
    for (int n = 0; n < files; n++) {
        snprintf(name, sizeof name, "sub/%ld-%d", thread, n);
        FILE *f = fopen(name, "wx");
        if (!f || fprintf(f, "%s", name) < 0 || fclose(f)) return (void *)1;
        snprintf(name, sizeof name, "sub/haft.toml");
        if (fopen(name, "w")) return (void *)2;
    }
    return NULL;
}
int main(int count, char **args) {
    int threads = atoi(args[1]), bad = 0;
    pthread_t *ids = calloc(threads, sizeof *ids);
    pthread_attr_t small;
    files = atoi(args[2]);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_barrier_init(&all, NULL, threads);
    for (long n = 0; n < threads; n++)
        if (pthread_create(ids + n, &small, work, (void *)n)) return 3;
    for (int n = 0; n < threads; n++) {
        void *result;
        pthread_join(ids[n], &result);
        bad += result != NULL;
    }
    printf("%d threads failed\n", bad);
    return count == 3 ? 0 : 4;
}
"#;

#[tokio::test]
async fn five_hundred_concurrent_threads_can_create_files() {
    const THREAD_COUNT: u32 = 500;
    let files: u32 = if is_long() { 200 } else { 4 };
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        if compiled(THREADS, &fixture.inside).is_none() {
            return;
        }
        let mut profile = fixture.profile();
        profile.limits.processes = 2_000;
        let command = Command::shell(format!("./worker {THREAD_COUNT} {files}"));
        let command = command.deadline(Duration::from_secs(300));
        let ended = sandbox.run(command, profile).await.unwrap();
        let level = sandbox.tier().level;
        assert_eq!(out(&ended), "0 threads failed\n", "{level}: {}", err(&ended));
        let made: BTreeSet<String> = fs::read_dir(fixture.inside.join("sub"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        let names = (0..THREAD_COUNT).flat_map(|t| (0..files).map(move |n| format!("{t}-{n}")));
        let names: BTreeSet<String> = names.collect();
        assert_eq!(made, names, "{level}");
        let is_right =
            |name: &String| get(&fixture.inside.join("sub").join(name)) == format!("sub/{name}");
        assert!(names.iter().all(is_right), "{level}: each thread wrote its own file");
    }
}
