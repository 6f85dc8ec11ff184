//! What a shell does itself. Each call has a shell of its own, so what changes only the shell is gone
//! with it; what changes the meaning of a later command is not here.

use crate::classify::{
    grammar::{Grammar, check, own, tame},
    special,
};

pub(super) const TABLE: &[Grammar] = &[
    own("[[ ((", special::condition),
    own("test [", special::test),
    own("printf", special::printf),
    own("echo : true false", special::condition),
    tame("pwd", "LP", "logical physical"),
    tame("cd pushd popd dirs", "LPen", ""),
    tame("type", "aftpP", ""),
    tame("which", "as", "all"),
    tame("help", "dms", ""),
    tame("sleep", "", ""),
    own("exit return break continue shift", special::number),
    own("wait jobs times umask history", special::nothing),
    own("set", special::set),
    own("shopt", special::shopt),
    own("export declare typeset readonly", special::shown),
    own("kill", special::kill),
    check("read", "rsn:d:t:N:p:u:", "", special::read),
    check("ulimit", "aHScdflmnpqstuvx", "", special::bare),
];
