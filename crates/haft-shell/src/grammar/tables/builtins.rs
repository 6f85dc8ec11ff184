//! Shell builtins. Each call has its own shell, so a change of the shell itself ends with it.
//! Builtins that change the meaning of a later command are not listed.

use crate::grammar::{Grammar, check, custom, lenient, special};

pub(super) const TABLE: &[Grammar] = &[
    custom("[[ ((", special::condition),
    custom("test [", special::test),
    custom("printf", special::printf),
    custom("echo : true false", special::condition),
    lenient("pwd", "LP", "logical physical"),
    lenient("cd pushd popd dirs", "LPen", ""),
    lenient("type", "aftpP", ""),
    lenient("which", "as", "all"),
    lenient("help", "dms", ""),
    lenient("sleep", "", ""),
    custom("exit return break continue shift", special::number),
    custom("wait jobs times umask history", special::no_arguments_or_number),
    custom("set", special::set),
    custom("shopt", special::shopt),
    custom("export declare typeset readonly", special::shown),
    custom("kill", special::kill),
    check("read", "rsn:d:t:N:p:u:", "", special::read),
    check("ulimit", "aHScdflmnpqstuvx", "", special::no_operands),
];
