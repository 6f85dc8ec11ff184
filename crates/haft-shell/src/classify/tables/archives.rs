//! Archives and compressed files, without extracting to disk.

use crate::classify::{
    grammar::{Grammar, check, own, tame, wary},
    special,
};

pub(super) const TABLE: &[Grammar] = &[
    own("tar bsdtar gtar", special::tar),
    own("unzip", special::unzip),
    own("ar 7z 7za 7zr", special::archive_lister),
    tame("zipinfo", "12hlmsMtTvzC", ""),
    wary("zcat gzcat bzcat xzcat lzcat zstdcat", "fqv", ""),
    check(
        "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd",
        "cdkltqvf0123456789",
        "stdout to-stdout decompress uncompress list test quiet verbose keep force fast best",
        special::compressor,
    ),
];
