//! The machine: processes, users, memory, devices, services, time, packages.

use crate::grammar::{Grammar, check, custom, lenient, special, strict};

pub(super) const TABLE: &[Grammar] = &[
    lenient(
        "ps",
        "AaCcdefFg:G:HjklLmMnNo:O:p:q:rs:St:Tu:U:vVwxyZ0123456789",
        "forest sort= no-headers headers ppid= pid= user= User= group= Group= format= cols= columns= rows= width= deselect tty= sid= quick-pid= cumulative",
    ),
    lenient(
        "pgrep pidof",
        "acd:fg:G:iLln:os:t:u:U:vwxF:P:r:S",
        "list-name list-full delimiter= full newest oldest parent= exact count euid= uid= group= session= terminal= invert-match ignore-case",
    ),
    lenient(
        "pstree",
        "aAcCghH:lnNpsStTuUZ",
        "arguments ascii compact-not highlight-all long numeric-sort show-pids show-parents uid-changes unicode",
    ),
    lenient(
        "free",
        "bkmghtlvs:c:wL",
        "bytes kibi mebi gibi tebi kilo mega giga tera human lohi line total seconds= count= wide si",
    ),
    lenient(
        "vmstat iostat mpstat",
        "afmntdsDp:S:wcxkhyzNIuPA",
        "active forks slabs one-header stats disk disk-sum partition= unit= wide timestamp",
    ),
    lenient("uptime", "ps", "pretty since"),
    strict(
        "w who",
        "abdHlmpqrsTtuhfio",
        "all boot count heading login message process runlevel short time users mesg no-header from",
    ),
    strict("last", "n:xFwRat:s:p:0123456789", "limit= fullnames fulltimes"),
    // `-R` uses another root, with that root's libraries.
    strict("lastlog", "t:u:b:", ""),
    lenient("id groups", "agGnruzZ", "context group groups name real user zero"),
    lenient(
        "uname",
        "asnrvmpio",
        "all kernel-name nodename kernel-release kernel-version machine processor hardware-platform operating-system",
    ),
    lenient(
        "lscpu lsmem lsns lslocks lsipc lslogins",
        "abBceEgGhiJlmnNo:Op:PqrsStuwxyz",
        "all bytes json extended? parse? online offline hex physical output= output-all noheadings raw summary? type=",
    ),
    strict("lspci lsusb lsmod", "vntkDs:d:m", "tree verbose"),
    // Without `-n` these make DNS lookups.
    check("lsof", "abi::lnPp:tu:c:d:U", "", special::numeric_addresses),
    strict(
        "ss",
        "haltunpeomisw46xO0H",
        "no-header numeric all listening options extended memory processes info summary tcp udp unix raw ipv4 ipv6 oneline",
    ),
    check(
        "netstat",
        "aetunlprsigWvoN46x",
        "all extend tcp udp numeric listening programs route statistics interfaces groups wide verbose timers",
        special::numeric_addresses,
    ),
    custom("ip", special::ip),
    check("ifconfig", "as", "", special::no_operands),
    check("arp route", "aenv", "", special::numeric_addresses),
    check("hostname", "Is", "all-ip-addresses short", special::no_operands),
    check("domainname arch clear sw_vers", "", "", special::no_operands),
    check("hostnamectl timedatectl localectl", "", "no-pager", special::manager),
    check(
        "systemctl",
        "alqrt:n:o:p:",
        "all full quiet recursive type= state= lines= output= property= no-pager no-legend failed user system plain value reverse after before",
        special::manager,
    ),
    strict(
        "journalctl",
        "aeb::fkn::o:p:qrt:u:xS:U:g:D:",
        "all pager-end boot? follow dmesg lines? output= priority= quiet reverse identifier= unit= user-unit= catalog since= until= grep= no-pager no-hostname no-tail list-boots disk-usage utc system user case-sensitive? facility= output-fields=",
    ),
    strict(
        "dmesg",
        "dekl:f:HhLPrStTuxw",
        "ctime reltime human kernel level= facility= nopager raw time-format= userspace decode follow color? notime show-delta",
    ),
    check(
        "date",
        "d:f:I::r:Ru",
        "date= file= iso-8601? reference= rfc-email rfc-2822 rfc-3339= utc universal debug resolution",
        special::date,
    ),
    lenient("cal ncal", "136:hjmyn:sA:B:bCd:eMNpw0", "one three monday sunday julian year months="),
    lenient("locale", "akmcvn", "all-locales category-name charmaps keyword-name verbose"),
    lenient("printenv", "0", "null"),
    lenient("getconf", "av:", ""),
    // `-s` loads a module by name.
    check("getent", "i", "", special::getent),
    check("sysctl", "aAbenNqX", "all names values ignore", special::sysctl),
    custom("stty", special::stty),
    custom("tput", special::tput),
    custom("crontab swapon", special::one_list),
    custom("dpkg", special::dpkg),
    strict("dpkg-query", "LlWSsf:pc", "list show search status listfiles showformat="),
    lenient("lsb_release", "vidrcas", "version id description release codename all short"),
    check("man", "afkwWiI12345678s:S:", "all whatis apropos where path sections=", special::man),
    check("apropos whatis", "adewrs:l", "exact and wildcard regex sections= long", special::man),
];
