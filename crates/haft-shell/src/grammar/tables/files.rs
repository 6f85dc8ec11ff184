//! File listings and metadata.

use crate::grammar::{Grammar, check, custom, lenient, special, strict};

pub(super) const TABLE: &[Grammar] = &[
    lenient(
        "ls dir vdir",
        "aAbBcCdDfFgGhHiI:klLmnNopqQrRsStT:uUvw:xXZ1@Oe",
        "all almost-all author escape block-size= ignore-backups color? directory dired classify? \
         file-type format= full-time group-directories-first no-group human-readable si dereference \
         dereference-command-line hide= hyperlink? indicator-style= inode ignore= kibibytes \
         numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style= reverse \
         recursive size sort= time= time-style= tabsize= width= context zero",
    ),
    // Newer programs whose options still change.
    strict(
        "eza exa lsd",
        "1aAbBdDfFgGhHiImlLnrRsStTuUxX",
        "all long tree level= git-ignore icons? color? header group-directories-first reverse sort= oneline recurse only-dirs only-files no-permissions no-user no-time",
    ),
    custom("tree", special::tree),
    lenient("stat", "c:fLtx", "dereference file-system format= printf= terse cached="),
    strict(
        "file",
        "bEhiklLNnrv0F:",
        "brief mime mime-type mime-encoding extension keep-going no-dereference dereference no-pad raw print0 separator=",
    ),
    lenient(
        "du",
        "0aAbB:cd:DhHklLmPsSt:xX:g",
        "null all apparent-size block-size= bytes total dereference-args max-depth= human-readable \
         inodes count-links dereference no-dereference separate-dirs si summarize threshold= time? \
         time-style= exclude-from= exclude= one-file-system",
    ),
    strict(
        "df",
        "aB:hHiklmPt:Tx:g",
        "all block-size= human-readable si inodes local no-sync output? portability total type= \
         print-type exclude-type=",
    ),
    lenient(
        "readlink",
        "femnqsvz",
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero",
    ),
    lenient(
        "realpath grealpath",
        "eEmLPqsz",
        "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero relative-to= relative-base=",
    ),
    lenient("pathchk", "pP", "portability"),
    lenient("whereis", "bmsulf", ""),
    strict(
        "locate plocate mlocate",
        "Abcd:eil:0rwqS",
        "all basename count existing ignore-case limit= null regexp regex wholename statistics",
    ),
    lenient("namei", "lmnovxZ", "long modes owners vertical mountpoints nosymlinks"),
    lenient(
        "getfacl lsattr",
        "acdeERLPtpnlDv",
        "access default all-effective no-effective recursive absolute-names numeric tabular omit-header",
    ),
    // One option starts another program, and an unknown word may be it.
    strict(
        "diff",
        "abBcdeEF:hiI:nNpqrsS:tTuU:wW:X:x:yC:0123456789",
        "normal brief report-identical-files context? unified? ed rcs side-by-side width= \
         left-column suppress-common-lines show-c-function show-function-line= label= expand-tabs \
         initial-tab tabsize= suppress-blank-empty recursive no-dereference new-file \
         unidirectional-new-file ignore-file-name-case starting-file= exclude= exclude-from= from-file= \
         to-file= ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change \
         ignore-all-space ignore-blank-lines ignore-matching-lines= strip-trailing-cr text minimal \
         horizon-lines= speed-large-files color?",
    ),
    lenient("cmp", "bi:ln:sx", "print-bytes ignore-initial= verbose bytes= quiet silent"),
    strict("diff3", "AeEx3Xiam", "show-all ed show-overlap merge text easy-only"),
    // Words that start with `@` are files with options, and one option loads code.
    check(
        "nm",
        "aACDefglnopPrSsuvx",
        "debug-syms demangle? dynamic defined-only extern-only numeric-sort no-sort print-size print-file-name reverse-sort size-sort undefined-only",
        special::no_options_file,
    ),
    check(
        "objdump",
        "adDfhprRsStTxCwlj:",
        "archive-headers disassemble disassemble-all file-headers section-headers headers private-headers reloc dynamic-reloc full-contents source syms dynamic-syms all-headers demangle? wide section= no-show-raw-insn",
        special::no_options_file,
    ),
    check(
        "readelf",
        "aehlSgtsnrudVADIWcx:p:",
        "all file-header program-headers segments section-headers sections headers symbols syms dyn-syms notes relocs unwind dynamic version-info wide archive-index hex-dump= string-dump=",
        special::no_options_file,
    ),
    check("size", "ABdoxt", "format= radix= totals", special::no_options_file),
    lenient(
        "lsblk",
        "abdDe:fhI:iJlLmMno:OpPrsStTVx:z",
        "all bytes nodeps discard exclude= fs include= ascii json list perms noheadings output= output-all paths pairs raw inverse scsi topology sort= tree?",
    ),
    lenient(
        "findmnt",
        "abDeiJlno:PrRt:T:uS:",
        "all ascii json list noheadings output= pairs raw types= target= source= real pseudo df tree",
    ),
    lenient("mountpoint", "dqx", "fs-devno quiet devno nofollow"),
    check("mount", "lvt:", "", special::no_operands),
];
