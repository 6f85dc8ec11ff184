//! Shell builtins. Each call has its own shell, so a change of the shell itself ends with it.
//! Builtins that change the meaning of a later command are not listed.

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
    check("ulimit", "aHScdflmnpqstuvx", "", special::no_operands),
];
