//! Callers of the supervisor in unusual states: killed, stopped, at the limit of file descriptors,
//! with many threads, waiting at a FIFO, with unusual names.

use std::{fs, time::Duration};

use haft_sandbox::{Command, Sandbox};

use crate::kit::*;

async fn run(sandbox: &Sandbox, fixture: &Fixture, script: &str) -> String {
    let command = Command::shell(script).deadline(Duration::from_secs(60));
    let ended = sandbox.run(command, fixture.profile()).await.unwrap();
    format!("{}{}", out(&ended), err(&ended))
}

#[tokio::test]
async fn new_program_can_be_executed_at_once_without_etxtbsy() {
    const SCRIPT: &str = r#"
        perl -e 'for my $n (1..500) {
            open($f, "+<", "prog") or die "prog: $!"; close $f;
            $pid = fork; if (!$pid) { exec("./prog") or exit 8; } waitpid $pid, 0; $bad++ if $?;
        } print "bad ", $bad + 0, "\n"'
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        fs::copy("/bin/true", fixture.inside.join("prog")).unwrap();
        assert_eq!(run(&sandbox, &fixture, SCRIPT).await, "bad 0\n", "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn new_file_can_be_executed_after_chmod_without_etxtbsy() {
    const SCRIPT: &str = r#"
        perl -e 'open($t, "<", "prog"); binmode $t; local $/; my $text = <$t>; close $t;
        for my $n (1..300) {
            unlink "new"; open($f, ">", "new") or die "new: $!"; print $f $text; close $f;
            chmod 0755, "new" or die "chmod: $!";
            $pid = fork; if (!$pid) { exec("./new") or exit 8; } waitpid $pid, 0; $bad++ if $?;
        } print "bad ", $bad + 0, "\n"'
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        fs::copy("/bin/true", fixture.inside.join("prog")).unwrap();
        assert_eq!(run(&sandbox, &fixture, SCRIPT).await, "bad 0\n", "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn writer_killed_at_a_fifo_no_longer_counts_as_writer() {
    const SCRIPT: &str = r#"
        mkfifo pipe
        for n in $(seq 40); do (echo gone > pipe) & pids="$pids $!"; done
        sleep 0.4; kill -9 $pids 2>/dev/null; wait 2>/dev/null; sleep 0.1
        timeout 1 cat pipe; echo "cat ended with $?"
        (sleep 0.2; echo through > pipe) & cat pipe
        echo after > file && cat file
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let text = run(&sandbox, &fixture, SCRIPT).await;
        let text = text.lines().filter(|line| !line.is_empty() && !line.contains("Killed"));
        let text: Vec<_> = text.filter(|line| !line.contains("unavailable")).collect();
        let wanted = ["cat ended with 124", "through", "after"];
        assert_eq!(text, wanted, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn protected_names_give_the_errno_of_the_kernel() {
    const SCRIPT: &str = r#"
        perl -MErrno -e '
            sub say_it { printf "%s %d\n", $_[0], $_[1] ? 0 : $!+0 }
            say_it("mkdir", mkdir ".git/hooks");
            say_it("unlink", unlink "haft.toml");
            say_it("rename", rename "haft.toml", "x");
            say_it("link", link "notes.txt", ".git/config");
            say_it("symlink", symlink "x", ".git/config");
            say_it("read", sysopen(F, ".git/config", 0100));
            say_it("write", sysopen(F, ".git/config", 0101));
            say_it("create", sysopen(F, "haft.toml", 0101));'
        rm -f haft.toml; mkdir -p .git/hooks
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.inside.join(".git/hooks")).unwrap();
        put(&fixture.inside.join(".git/config"), "good");
        let command = Command::shell(SCRIPT);
        let ended = sandbox.run(command, fixture.profile()).await.unwrap();
        let wanted = "mkdir 17\nunlink 2\nrename 2\nlink 17\nsymlink 17\nread 0\n";
        let text = out(&ended);
        assert!(text.starts_with(wanted), "{}: {text}", sandbox.tier().level);
        assert!(text.ends_with("create 13\n"), "{text}");
        assert!(!text.contains("write 0"), "{text}");
        assert_eq!(err(&ended), "");
        let refused: Vec<_> = ended.refused.iter().map(|refused| &refused.path).collect();
        assert!(refused.contains(&&fixture.inside.join("haft.toml")), "{refused:?}");
    }
}

#[tokio::test]
async fn callers_in_unusual_states_get_their_result() {
    const SCRIPT: &str = r#"
        perl -e 'my @all; while (open(my $f, ">", "full")) { push @all, $f } print "full: ", $!+0, "\n"; pop @all;
                 open(my $f, ">", "full2") or die; print "one more\n"'
        perl -e '$0 = "Tgid:\t1234567\xc3\xa4\xc3\xa4";
                 open(F, ">", "named") or die "named: $!"; print "named\n"'
        perl -e 'for my $n (1..50) { my $p = fork; if (!$p) { open(F, ">", "s$_") for 1..200; exit } push @p, $p }
                 for (1..20) { kill STOP => @p[0..9]; select undef, undef, undef, 0.002; kill CONT => @p }
                 kill KILL => @p[0..4]; 1 while wait > 0; print "all ended\n"'
        i=0; p=x; while [ $i -lt 20 ]; do ln -s $p l$i; p=l$i; i=$((i+1)); done; echo text > $p && cat x
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let text = run(&sandbox, &fixture, SCRIPT).await;
        let wanted = "full: 24\none more\nnamed\nall ended\ntext\n";
        assert_eq!(text, wanted, "{}", sandbox.tier().level);
    }
}

/// The supervisor caches the umask of a process. It must notice each change, also by another thread
/// and by a child.
#[tokio::test]
async fn new_files_use_the_current_umask_after_every_change() {
    const SCRIPT: &str = r#"
        perl -e '
            sub mode { my $n = shift; sysopen(my $f, $n, 0101, 0777) or die "$n: $!";
                       my $m = (stat $n)[2] & 0777; unlink $n; $m }
            my $bad = 0;
            for (1..200) { for my $u (022, 077, 002) { umask $u; $bad++ if mode("a") != (0777 & ~$u) } }
            for (1..50) { for my $u (077, 000) {
                my $p = fork;
                if (!$p) { mode("b"); umask $u; exit(mode("b") != (0777 & ~$u)) }
                waitpid $p, 0; $bad++ if $?;
            } }
            print "bad $bad\n"'
        perl -Mthreads -e 'print ""' 2>/dev/null || { echo threads 0; exit; }
        perl -Mthreads -e '
            sub mode { my $n = shift; sysopen(my $f, $n, 0101, 0777) or die "$n: $!";
                       my $m = (stat $n)[2] & 0777; unlink $n; $m }
            my $bad = 0; umask 022; mode("c");
            for my $u ((077, 007, 027) x 20) {
                threads->create(sub { umask $u })->join;
                $bad++ if mode("c") != (0777 & ~$u);
            }
            print "threads $bad\n"'
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let text = run(&sandbox, &fixture, SCRIPT).await;
        assert_eq!(text, "bad 0\nthreads 0\n", "{}", sandbox.tier().level);
    }
}

/// While a caller gets a file descriptor it is pinned to one CPU. It never observes that.
#[tokio::test]
async fn caller_keeps_its_cpu_affinity() {
    const SCRIPT: &str = r#"
        before=$(taskset -cp $$ | cut -d: -f2)
        perl -e 'for my $n (1..300) {
            open(my $f, ">", "file") or die; close $f;
            my $now = `taskset -cp $$ | cut -d: -f2`; $seen{$now}++;
        } print keys %seen' > seen
        [ "$(cat seen)" = "$before" ] && echo same
        taskset -c "$(echo $before | sed "s/[-,].*//")" sh -c 'for n in 1 2 3 4 5; do : > file; done
            taskset -cp $$ | cut -d: -f2' > one
        [ "$(cat one)" = " $(echo $before | sed "s/[-,].*//")" ] && echo one
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let text = run(&sandbox, &fixture, SCRIPT).await;
        assert_eq!(text, "same\none\n", "{}", sandbox.tier().level);
    }
}
