//! Text filters.

use crate::grammar::{
    Grammar, awk, check, custom, lenient, limited_operands, sed, special, strict,
};

pub(super) const TABLE: &[Grammar] = &[
    lenient(
        "cat",
        "AbeEnstTuv",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
    ),
    lenient("tac", "brs:", "before regex separator="),
    lenient("rev", "0", "zero"),
    lenient("head", "c:n:qvz0123456789", "bytes= lines= quiet silent verbose zero-terminated"),
    lenient(
        "tail",
        "c:fFn:qrs:vz0123456789",
        "bytes= follow? lines= max-unchanged-stats= pid= quiet silent retry sleep-interval= verbose \
         zero-terminated",
    ),
    lenient("wc", "clLmw", "bytes chars lines files0-from= max-line-length words total="),
    lenient(
        "nl",
        "b:d:f:h:i:l:n:ps:v:w:",
        "body-numbering= section-delimiter= footer-numbering= header-numbering= line-increment= \
         join-blank-lines= number-format= no-renumber number-separator= starting-line-number= \
         number-width=",
    ),
    lenient(
        "cut",
        "b:c:d:f:nsz",
        "bytes= characters= delimiter= fields= only-delimited output-delimiter= complement \
         zero-terminated",
    ),
    lenient("tr", "cCdst", "complement delete squeeze-repeats truncate-set1"),
    lenient("fold", "bsw:", "bytes spaces width="),
    lenient(
        "fmt",
        "cstup:w:g:",
        "crown-margin prefix= split-only tagged-paragraph uniform-spacing width= goal=",
    ),
    lenient("paste", "d:sz", "delimiters= serial zero-terminated"),
    lenient(
        "join",
        "a:e:ij:o:t:v:1:2:z",
        "ignore-case check-order nocheck-order header zero-terminated",
    ),
    lenient("comm", "123iz", "check-order nocheck-order output-delimiter= total zero-terminated"),
    lenient("expand unexpand", "ait:", "all initial first-only tabs="),
    lenient(
        "column",
        "c:dehH:JlLnN:o:O:p:r:R:s:tT:W:x",
        "columns= table separator= output-separator= table-columns= table-right= json table-name= \
         fillrows keep-empty-lines",
    ),
    lenient(
        "pr",
        "acdDe:fFhi:l:mn::N:o:rs::tTvw:W:J0123456789",
        "columns= header= length= merge omit-header omit-pagination width=",
    ),
    lenient("tsort look colrm ul col", "bfxdap", ""),
    lenient(
        "numfmt",
        "d:z",
        "from= to= from-unit= to-unit= field= format= delimiter= grouping header? padding= round= suffix= invalid= zero-terminated",
    ),
    lenient("seq", "f:s:w", "format= separator= equal-width"),
    lenient("factor nproc yes expr logname users tty hostid whoami", "", "all ignore="),
    lenient("basename", "as:z", "multiple suffix= zero"),
    lenient("dirname", "z", "zero"),
    strict(
        "base64 base32 basenc",
        "diw:Dn:b:",
        "decode ignore-garbage wrap= base64 base64url base32 base32hex base16 base2msbf base2lsbf z85",
    ),
    lenient(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 crc32",
        "bctwzl:a:rs",
        "binary check tag text zero ignore-missing quiet status strict warn length= algorithm= raw base64 \
         sysv untagged debug",
    ),
    strict("shasum", "a:bctsw", "algorithm= binary check tag text"),
    lenient(
        "od",
        "A:j:N:S::t:vw::abcdefhiloOsxX",
        "address-radix= skip-bytes= read-bytes= endian= strings? format= output-duplicates width?",
    ),
    lenient("hexdump hd", "bcCde:f:n:os:vxXL::", "canonical length= skip= no-squeezing"),
    lenient(
        "strings",
        "adfn:ot:we:s:0123456789",
        "all bytes= radix= encoding= print-file-name include-all-whitespace",
    ),
    lenient("bc", "hilqsw", "mathlib quiet standard warn"),
    lenient(
        "jq",
        "nrjasScCMeRf:L:0",
        "null-input raw-output raw-output0 join-output ascii-output slurp sort-keys compact-output \
         color-output monochrome-output exit-status raw-input from-file tab indent arg argjson slurpfile \
         rawfile args jsonargs stream seq unbuffered",
    ),
    strict("yq", "rePj", ""),
    check("xmllint", "", "noout format nonet xpath=", special::no_url),
    strict("iconv", "f:t:cls", "from-code= to-code= list silent"),
    strict(
        "sort",
        "bdfghiMnRrVcCmsuzk:t:S:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort \
         ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort sort= check? merge \
         stable unique zero-terminated key= field-separator= buffer-size= parallel= files0-from= debug \
         random-source= batch-size=",
    ),
    strict(
        "shuf",
        "ei:n:rz",
        "echo input-range= head-count= repeat zero-terminated random-source=",
    ),
    limited_operands(
        "uniq",
        1,
        "cdDiuzf:s:w:",
        "count repeated all-repeated? group? ignore-case skip-fields= skip-chars= check-chars= unique \
         zero-terminated",
    ),
    custom("xxd", special::xxd),
    check("tee", "aip", "append ignore-interrupts", special::tee),
    check(
        "sed gsed",
        "ne:Ersuz",
        "quiet silent expression= regexp-extended separate unbuffered null-data zero-terminated posix \
         debug sandbox",
        sed::check,
    ),
    custom("awk gawk mawk nawk", awk::check),
    check("less more", "FNRSXiIeEmMnsgrfcdlu0123456789", "", special::pager),
    strict(
        "bat batcat",
        "pnAl:r:f",
        "plain number show-all language= line-range= color= style= paging= theme= decorations= wrap= tabs=",
    ),
];
