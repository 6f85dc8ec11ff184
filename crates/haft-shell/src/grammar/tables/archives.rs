//! Archives and compressed files, without extracting to disk.

use crate::grammar::{Grammar, check, custom, lenient, special, strict};

pub(super) const TABLE: &[Grammar] = &[
    custom("tar bsdtar gtar", special::tar),
    custom("unzip", special::unzip),
    custom("ar 7z 7za 7zr", special::archive_lister),
    lenient("zipinfo", "12hlmsMtTvzC", ""),
    strict("zcat gzcat bzcat xzcat lzcat zstdcat", "fqv", ""),
    check(
        "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd",
        "cdkltqvf0123456789",
        "stdout to-stdout decompress uncompress list test quiet verbose keep force fast best",
        special::compressor,
    ),
];
