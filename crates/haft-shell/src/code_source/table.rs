//! Programs that are not interpreters but run text as code: data only.
//!
//! An entry lists which options, operands and inputs of a program are code: a program text, a shell
//! command, or the name of a started program.

/// How a program receives code.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Names separated by spaces, with or without version numbers.
    pub(super) names: &'static str,
    /// Options whose value is code. Long options match in every abbreviation.
    pub(super) code: &'static str,
    /// Options with another value in the next word.
    pub(super) valued: &'static str,
    /// Options whose value names a file with code; `-` is stdin.
    pub(super) file: &'static str,
    /// The first operand that is code.
    pub(super) operand: Option<usize>,
    /// A word that starts with `+` is code.
    pub(super) plus: bool,
    /// Stdin is code.
    pub(super) input: bool,
}

const NONE: Entry =
    Entry { names: "", code: "", valued: "", file: "", operand: None, plus: false, input: false };

pub(super) const TABLE: [Entry; 51] = [
    Entry {
        names: "vim nvim vi view ex gvim rvim rview vimdiff nvi elvis",
        code: "-c --cmd -S -s -u -U -i -l",
        plus: true,
        input: true,
        ..NONE
    },
    Entry {
        names: "less more most",
        code: "--lesskey-content --lesskey-src --lesskey-file -k",
        plus: true,
        ..NONE
    },
    Entry {
        names: "emacs emacsclient",
        code: "-e -f -l --eval --execute --funcall --load --alternate-editor",
        ..NONE
    },
    Entry {
        names: "gdb lldb cgdb",
        code: "-ex -iex -x -ix -o -O -s -S -k -K --eval-command --init-eval-command --command \
               --init-command --one-line --one-line-before-file --source",
        input: true,
        ..NONE
    },
    Entry {
        names: "sqlite3 sqlite duckdb litecli",
        code: "-cmd -init -c -s --cmd --init",
        valued: "-separator -newline -nullvalue -maxsize -mmap -vfs -escape -lookaside -pagecache \
                 -heap --separator --newline --nullvalue --maxsize --mmap --vfs --escape",
        operand: Some(2),
        input: true,
        ..NONE
    },
    Entry {
        names: "psql pgcli",
        code: "-c --command -f --file -o --output",
        valued: "-d -h -p -U -F -R -P -T -L -v --dbname --host --port --username --set --variable",
        input: true,
        ..NONE
    },
    Entry {
        names: "mysql mariadb mycli",
        code: "-e --execute --pager --init-command --tee",
        valued: "-u -h -P -D -S --user --host --port --database --socket",
        input: true,
        ..NONE
    },
    Entry { names: "mongosh mongo", code: "--eval -f --file", input: true, ..NONE },
    // A target `NAME=$(shell …)` sets a variable, and make expands it.
    Entry {
        names: "make gmake bmake remake",
        code: "-E --eval",
        valued: "-C -I -j -l -o -W --directory --include-dir --jobs --load-average --old-file \
                 --assume-old --what-if --new-file --assume-new",
        file: "-f --file --makefile",
        operand: Some(1),
        ..NONE
    },
    Entry {
        names: "rake",
        code: "-e -E -p -r --execute --execute-print --execute-continue --require",
        valued: "-C -f -I -R",
        ..NONE
    },
    Entry { names: "rails", operand: Some(2), ..NONE },
    Entry {
        names: "tar gtar bsdtar star",
        code: "-I -F --use-compress-program --to-command --checkpoint-action --rsh-command \
               --rmt-command --info-script --new-volume-script",
        valued: "-f -C -X -b -g -H -K -L -N -V --file --directory --exclude-from",
        file: "-T --files-from",
        ..NONE
    },
    Entry { names: "cpio", code: "--rsh-command", valued: "-F -H -C -O -I -E -R -D", ..NONE },
    Entry {
        names: "rsync",
        code: "-e --rsh --rsync-path -M --remote-option --early-input",
        valued: "-f -B -T",
        ..NONE
    },
    Entry { names: "scp sftp ssh ssh-copy-id slogin", code: "-o -S -F -D -b", valued: SSH, ..NONE },
    Entry {
        names: "su runuser",
        code: "-c -s --command --session-command --shell",
        valued: "-g -G -u -w",
        input: true,
        ..NONE
    },
    Entry { names: "split", code: "--filter", valued: "-a -b -C -l -n -t", ..NONE },
    Entry { names: "sort gsort", code: "--compress-program", valued: "-k -o -S -t -T", ..NONE },
    Entry { names: "man", code: "-P -H --pager --html", valued: "-C -L -m -M -S -s -e -r", ..NONE },
    Entry { names: "zip", code: "-TT --unzip-command", ..NONE },
    Entry { names: "tcpdump", code: "-z", valued: "-i -w -r -c -C -G -s -W -Z -F", ..NONE },
    Entry { names: "nmap", code: "--script --script-args --datadir", ..NONE },
    Entry {
        names: "nc ncat netcat",
        code: "-e -c --exec --sh-exec --lua-exec",
        valued: "-p -s -w -i -o -q",
        ..NONE
    },
    Entry { names: "socat", operand: Some(1), ..NONE },
    Entry { names: "dc", code: "-e --expression -f --file", input: true, ..NONE },
    Entry { names: "ed red", operand: Some(1), input: true, ..NONE },
    Entry {
        names: "m4",
        code: "-D --define",
        valued: "-I -U -F -R -t -o --include --undefine",
        input: true,
        ..NONE
    },
    Entry { names: "gnuplot", code: "-e", input: true, ..NONE },
    Entry {
        names: "octave octave-cli matlab sage maxima gp",
        code: "--eval -c -r -batch --batch-string",
        input: true,
        ..NONE
    },
    Entry { names: "erl iex", code: "-eval -s -run -e --eval --rpc-eval", input: true, ..NONE },
    Entry { names: "jshell ghci irb pry psysh gore", code: "-R -e", input: true, ..NONE },
    Entry { names: "at batch crontab", operand: Some(1), input: true, ..NONE },
    Entry {
        names: "fd fdfind",
        code: "-x -X --exec --exec-batch",
        valued: "-d -t -e -E -g -j -S -o -C",
        ..NONE
    },
    Entry { names: "rg ripgrep", code: "--pre --hostname-bin", ..NONE },
    Entry { names: "ag ack bat batcat delta", code: "--pager", ..NONE },
    Entry { names: "fzf sk", code: "--preview --bind --become --execute", ..NONE },
    Entry {
        names: "hyperfine",
        code: "-p -s -c -C -S --prepare --setup --cleanup --conclude --shell",
        valued: "-w -r -m -M -N -u -i",
        operand: Some(1),
        ..NONE
    },
    Entry { names: "entr", operand: Some(1), ..NONE },
    Entry { names: "go", code: "-exec -toolexec -vettool -overlay", ..NONE },
    Entry {
        names: "gcc g++ cc c++ clang clang++",
        code: "-wrapper -specs --specs -fplugin",
        ..NONE
    },
    Entry { names: "cargo", code: "--config", ..NONE },
    Entry { names: "tmux screen zellij byobu", operand: Some(1), input: true, ..NONE },
    Entry {
        names: "ansible ansible-playbook",
        code: "-a -e --args --extra-vars",
        valued: "-i -m -u -l",
        ..NONE
    },
    Entry {
        names: "xterm konsole gnome-terminal alacritty kitty urxvt foot",
        code: "-e -x --command",
        ..NONE
    },
    Entry { names: "wget", code: "--use-askpass -e --execute", valued: "-O -o -P -i", ..NONE },
    Entry { names: "nix nix-shell", code: "--run --command -E --expr -c --argstr --arg", ..NONE },
    Entry { names: "vagrant gcloud fly flyctl", code: "-c -C --command", ..NONE },
    Entry { names: "cmake", code: "-P -D", valued: "-S -B -G", ..NONE },
    Entry { names: "ninja", code: "-t", file: "-f", valued: "-C -j -l -k", ..NONE },
    Entry { names: "ld", code: "-plugin --plugin -I --dynamic-linker", ..NONE },
    Entry { names: "openssl", code: "-engine -provider", ..NONE },
];

/// Options of ssh with a value.
const SSH: &str = "-B -c -E -e -I -i -J -L -l -m -O -p -Q -R -W -w -P -X";

/// Modules of Python whose arguments are program text.
pub(super) const MODULES: [&str; 6] = ["timeit", "pdb", "IPython", "ipython", "bpython", "code"];

/// Environment variables whose value is code, a command, or a library that is loaded.
pub(super) const VARIABLES: [&str; 28] = [
    "BASH_ENV",
    "ENV",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "MANPAGER",
    "LESSOPEN",
    "LESSCLOSE",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "PATH",
    "SHELL",
    "PS4",
    "PROMPT_COMMAND",
    "IFS",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PERL5DB",
    "RUBYOPT",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "JAVA_TOOL_OPTIONS",
    "RUSTC_WRAPPER",
    "RSYNC_RSH",
    "TAR_OPTIONS",
    "MAKEFLAGS",
];

/// Prefixes of such names.
pub(super) const VARIABLE_PREFIXES: [&str; 3] = ["GIT_", "BASH_FUNC_", "DYLD_"];

/// Programs that parse words after `--` as options.
pub(super) const IGNORES_DASHES: [&str; 5] = ["find", "gfind", "bfs", "test", "expr"];
