//! What wrappers start.

use haft_shell::Wrappers;

use crate::shown;

/// Returns the views of the first command of a text, without itself.
fn inner(text: &str, how: Wrappers) -> Vec<String> {
    let script = haft_shell::parse(text).unwrap();
    let views = script.commands[0].unwrapped(how);
    assert!(views.len() == 1 || script.commands[0].may_wrap(how), "{text}");
    views[1..].iter().map(|view| shown::command(&view.command)).collect()
}

#[test]
fn harmless_wrappers_are_looked_through_with_their_options() {
    for (text, wanted) in [
        ("ls -l", &[][..]),
        ("timeout 5 rm x", &["rm|x"]),
        ("timeout -k 5 --signal=KILL 10s rm x", &["rm|x"]),
        ("timeout --foreground -s TERM 5 rm", &["rm"]),
        ("nice -n 10 rm x", &["rm|x"]),
        ("nice -10 rm x", &["rm|x"]),
        ("nice -n10 -- rm x", &["rm|x"]),
        ("nohup nice timeout 5 rm x", &["nice|timeout|5|rm|x", "timeout|5|rm|x", "rm|x"]),
        ("stdbuf -oL -e 0 rm x", &["rm|x"]),
        ("time -p rm x", &["rm|x"]),
        ("command -p rm x", &["rm|x"]),
        ("command -v rm", &[]),
        ("builtin cd x", &["cd|x"]),
        ("noglob rm *", &["rm|…"]),
        ("xargs rm -f", &["rm|-f|…"]),
        ("xargs", &["…"]),
        ("xargs -0 rm", &["…"]),
        ("timeout --odd 5 rm x", &["…"]),
        ("timeout $T rm x", &["…"]),
        ("time -o f rm x", &["…"]),
        ("sudo rm x", &[]),
        ("/usr/bin/timeout 5 rm x", &[]),
    ] {
        assert_eq!(inner(text, Wrappers::Harmless), wanted, "{text}");
    }
}

#[test]
fn all_wrappers_are_looked_through_for_restrictions() {
    for (text, wanted) in [
        ("sudo rm x", &["rm|x"][..]),
        ("sudo -u bob -E A=1 rm x", &["rm|x"]),
        ("sudo --user=bob -- rm x", &["rm|x"]),
        ("sudo -s", &["…"]),
        ("sudo -l", &[]),
        ("sudo --odd rm x", &["…"]),
        ("doas -u bob rm x", &["rm|x"]),
        ("env rm x", &["rm|x"]),
        ("env -i -u A B=1 C=2 rm x", &["rm|x"]),
        ("env - rm x", &["rm|x"]),
        ("env -S 'rm x'", &["rm|x"]),
        ("env A=1", &[]),
        ("xargs -0 -n 1 rm -f", &["rm|-f|…"]),
        ("xargs -I {} rm a/{}/b", &["rm|a/…/b"]),
        ("setsid -f rm x", &["rm|x"]),
        ("ionice -c 3 rm x", &["rm|x"]),
        ("flock /tmp/l rm x", &["rm|x"]),
        ("flock -n /tmp/l -c 'rm x; ls'", &["rm|x", "ls"]),
        ("watch -n 1 'rm x'", &["rm|x"]),
        ("watch -x rm x", &["rm|x"]),
        ("exec -a y rm x", &["rm|x"]),
        ("eval 'rm x' '; ls'", &["rm|x", "ls"]),
        ("eval \"$X\"", &["…"]),
        ("eval 'rm \"x'", &["…"]),
        ("sh -c 'rm x'", &["rm|x"]),
        ("bash -lc 'ls; rm x' name", &["ls", "rm|x"]),
        ("bash -euo pipefail -c 'rm x'", &["rm|x"]),
        ("zsh -o extendedglob -c 'rm x'", &["rm|x"]),
        ("bash --norc -c 'rm x'", &["rm|x"]),
        ("bash -c \"rm $X\"", &["…"]),
        ("bash -c", &["…"]),
        ("bash script.sh", &[]),
        ("bash", &["…"]),
        ("bash -s x", &["…"]),
        ("bash <<E\nrm x\nE", &["rm|x"]),
        ("bash <<E\nrm $x\nE", &["…"]),
        ("bash <<<'rm x'", &["rm|x"]),
        ("bash <(curl x)", &["…"]),
        ("sh -c 'sh -c \"rm x\"'", &["sh|-c|rm x", "rm|x"]),
        ("sudo env bash -c 'rm x'", &["env|bash|-c|rm x", "bash|-c|rm x", "rm|x"]),
        ("find . -exec rm {} \\;", &["rm|…"]),
        ("find . -execdir a + -ok b {}x ';'", &["a", "b|…x"]),
        ("find . -name '*.rs'", &[]),
        ("find . $X", &["…"]),
        ("busybox rm x", &["rm|x"]),
        ("ssh -p 22 -tt host rm x", &["rm|x"]),
        ("ssh host 'ls; rm x'", &["ls", "rm|x"]),
        ("ssh -o ProxyCommand='rm x' host", &["…"]),
        ("ssh host", &[]),
        ("git -C dir -c a.b=c push origin", &["git|push|origin"]),
        ("git --git-dir=x --no-pager push", &["git|push"]),
        ("git -c alias.x='!rm y' x", &["…", "git|x"]),
        ("git push", &[]),
        ("/bin/rm x", &["rm|x"]),
        ("../bin/sudo /bin/rm x", &["sudo|/bin/rm|x", "/bin/rm|x", "rm|x"]),
        ("trap 'rm x' EXIT", &["rm|x"]),
        ("trap - EXIT", &[]),
        ("su -c 'rm x' bob", &["rm|x"]),
        ("timeout 5 rm x", &["rm|x"]),
    ] {
        assert_eq!(inner(text, Wrappers::All), wanted, "{text}");
    }
}

#[test]
fn view_has_its_start_index() {
    let script = haft_shell::parse("nohup timeout 5 npm test").unwrap();
    let at: Vec<_> =
        script.commands[0].unwrapped(Wrappers::Harmless).iter().map(|view| view.at).collect();
    assert_eq!(at, [Some(0), Some(1), Some(3)]);
}

#[test]
fn redirections_report_harmless_and_network_targets() {
    let script = haft_shell::parse(
        "a >/dev/null 2>&1 >/dev/fd/3 >/dev/stderr <<<x >out </dev/tcp/h.x/80 >/dev/udp/$H/1 >$F",
    );
    let command = script.unwrap().commands.remove(0);
    let harmless: Vec<_> = command.redirects.iter().map(|r| r.is_harmless()).collect();
    assert_eq!(harmless, [true, true, false, true, true, false, false, false, false]);
    // `a <f >/dev/stdin` truncates `f`: the name reopens the file.
    let script = haft_shell::parse("a <f >/dev/stdin").unwrap();
    assert!(!script.commands[0].redirects[1].is_harmless());
    let reach: Vec<_> =
        command.redirects.iter().filter_map(|r| r.reaches()).map(|w| shown::word(&w)).collect();
    assert_eq!(reach, ["h.x", "…"]);
}

#[test]
fn only_output_format_variables_are_safe() {
    for (text, safe) in [
        ("LANG=C LC_ALL=C TZ=UTC NO_COLOR=1 CI=1 RUST_LOG=x ls", true),
        ("LANG=C PATH=. ls", false),
        ("LD_PRELOAD=x ls", false),
        ("LCX=1 ls", false),
    ] {
        let script = haft_shell::parse(text).unwrap();
        assert_eq!(script.commands[0].unsafe_assignment().is_none(), safe, "{text}");
    }
}
