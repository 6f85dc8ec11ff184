//! Which words of read-only commands name files, as tables.

/// Commands whose operands are not files.
pub(super) const NO_FILES: &str = "echo printf : true false pwd sleep exit return break continue shift wait set \
    shopt read seq expr factor yes basename dirname tr nproc uname arch type which";

/// Commands whose operands are files.
pub(super) const FILES: &str = "cat tac rev head tail wc nl fold fmt comm expand unexpand pr tsort ul col colrm \
    cut paste join column numfmt sort shuf uniq base64 base32 basenc md5sum sha1sum sha224sum \
    sha256sum sha384sum sha512sum b2sum cksum sum od hexdump hd strings xxd iconv less more stat file \
    readlink realpath diff cmp diff3 nm objdump readelf size zcat gzcat bzcat xzcat lzcat zstdcat gzip \
    gunzip bzip2 bunzip2 xz unxz zstd unzstd tar unzip zipinfo ar test [ [[ date jq awk gawk mawk nawk \
    sed gsed grep egrep fgrep";

/// Commands that default to the current directory.
pub(super) const DEFAULT_TO_CURRENT_DIRECTORY: &str =
    "ls dir vdir eza exa lsd tree du rg fd fdfind";

/// Options that follow symlinks to unnamed directories, or read file names from a file: by command,
/// letters and long names.
pub(super) const UNNAMED_FILE_OPTIONS: [(&str, &str); 14] = [
    // `-d recurse` walks directories, named or not.
    ("grep egrep fgrep", "R dereference-recursive d directories"),
    ("rg", "L follow"),
    // Relative names start at `--base-directory`.
    ("fd fdfind", "L follow base-directory"),
    ("ls dir vdir", "L dereference"),
    ("du", "L dereference"),
    ("diff", "r recursive"),
    ("wc sort", "files0-from"),
    ("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum", "c check"),
    ("tail", "f F follow"),
    ("date", "f file"),
    // A program in a file may include others, or print the environment.
    ("jq", "L f from-file"),
    ("lsd", "L"),
    ("eza exa", "X"),
    // It shows the source files named in the debug information.
    ("objdump", "S source"),
];

/// Options whose values are not files, even if they look like paths.
pub(super) const NO_FILE_VALUES: [(&str, &str); 11] = [
    ("grep egrep fgrep", "e regexp include exclude exclude-dir label"),
    ("rg", "e regexp g glob iglob r replace"),
    ("fd fdfind", "E exclude"),
    ("sed gsed", "e expression"),
    ("cut", "d delimiter output-delimiter"),
    ("sort join", "t field-separator"),
    ("paste", "d delimiters"),
    ("column", "s o separator output-separator"),
    ("comm", "output-delimiter"),
    ("tac", "s separator"),
    ("stat", "c format printf"),
];

/// Options that replace the expression, which otherwise is the first operand.
pub(super) const EXPRESSIONS: [(&str, &str); 4] = [
    ("grep egrep fgrep", "e f regexp file"),
    ("rg", "e f regexp file files type-list"),
    ("sed gsed", "e expression"),
    ("fd fdfind", ""),
];

/// Commands that append a suffix if the file does not exist, and the suffixes. Versions differ, so
/// without a listed suffix the whole directory counts.
pub(super) const APPENDS_SUFFIX: &str = "unzip zipinfo zcat gzcat bzcat xzcat lzcat zstdcat gzip gunzip bzip2 bunzip2 xz \
    unxz zstd unzstd";
pub(super) const SUFFIXES: [&str; 9] =
    [".zip", ".gz", ".tgz", ".Z", ".bz2", ".xz", ".lzma", ".zst", ".jar"];
