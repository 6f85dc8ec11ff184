//! Search in files. `find` has its own file.

use crate::grammar::{Grammar, lenient, strict};

pub(super) const TABLE: &[Grammar] = &[
    lenient(
        "grep egrep fgrep",
        "EFGPe:f:iyvwxcLlm:oqsbHhnTzA:B:C:aID:d:rRUZuV0123456789",
        "extended-regexp fixed-strings basic-regexp perl-regexp regexp= file= ignore-case \
         no-ignore-case invert-match word-regexp line-regexp count color? colour? files-without-match \
         files-with-matches max-count= only-matching quiet silent no-messages byte-offset with-filename \
         no-filename label= line-number initial-tab null after-context= before-context= context= \
         group-separator= no-group-separator text binary-files= devices= directories= exclude= \
         exclude-from= exclude-dir= include= recursive dereference-recursive line-buffered binary \
         null-data",
    ),
    // A script around `gzip`, which has had file name injection bugs.
    strict("zgrep zegrep zfgrep", "EFiclnvwhHoqse:A:B:C:m:", ""),
    // `--pre`, `--hostname-bin` and `-z` start programs.
    strict(
        "rg",
        "A:aB:C:cE:e:Ff:g:HhIiLlM:m:NnopPqr:Sst:T:Uuvwx.0j:d:",
        "after-context= text before-context= context= count count-matches encoding= regexp= \
         fixed-strings file= glob= iglob= with-filename no-filename ignore-case case-sensitive \
         smart-case follow files-with-matches files-without-match files max-columns= \
         max-columns-preview max-count= max-depth= maxdepth= max-filesize= no-line-number line-number \
         only-matching passthru pcre2 quiet replace= type= type-not= type-list multiline \
         multiline-dotall unrestricted invert-match word-regexp line-regexp hidden no-hidden null \
         null-data no-ignore no-ignore-vcs no-ignore-parent no-ignore-global no-ignore-dot no-config \
         no-messages no-heading heading column no-column color= colors= json pretty sort= sortr= stats \
         threads= trim vimgrep one-file-system binary crlf byte-offset context-separator= line-buffered \
         block-buffered ignore-file= ignore-file-case-insensitive glob-case-insensitive \
         include-zero mmap no-mmap engine= field-match-separator= path-separator= stop-on-nonmatch",
    ),
    // `-x`, `-X` and `-l` start programs.
    strict(
        "fd fdfind",
        "HIusigFaLp0d:t:e:E:S:c:1qo:j:",
        "hidden no-ignore unrestricted case-sensitive ignore-case glob regex fixed-strings \
         absolute-path follow full-path print0 max-depth= min-depth= exact-depth= type= extension= \
         exclude= size= color= max-results= quiet changed-within= changed-before= newer= older= owner= \
         prune no-ignore-vcs strip-cwd-prefix one-file-system threads= base-directory=",
    ),
];
