//! Names the limit behind an error number, for the operator and for the model.
//!
//! In: what the system said. Out: which limit was reached and how it is called, or nothing if the
//! error is about something else. Such an error says nothing about what a machine can do.

use rustix::{io::Errno, process::Resource};

/// Returns which limit was reached.
pub(crate) fn limit(errno: Errno) -> Option<String> {
    let of = |resource| match rustix::process::getrlimit(resource).current {
        Some(number) => format!("the limit is {number}"),
        None => "it has no limit of its own".to_owned(),
    };
    Some(match errno {
        Errno::MFILE => format!("too many open files: {} (`ulimit -n`)", of(Resource::Nofile)),
        Errno::NFILE => "too many open files on this machine (`fs.file-max`)".to_owned(),
        Errno::AGAIN => {
            format!("no more processes can be started: {} (`ulimit -u`)", of(Resource::Nproc))
        }
        Errno::NOMEM | Errno::NOBUFS => "out of memory".to_owned(),
        Errno::NOSPC => "no space left on device".to_owned(),
        Errno::DQUOT => "disk quota exceeded".to_owned(),
        _ => return None,
    })
}

/// The same for an error of the standard library.
pub(crate) fn limit_of(error: &std::io::Error) -> Option<String> {
    limit(Errno::from_io_error(error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_name_a_limit_are_told_from_the_others() {
        let text = limit(Errno::MFILE).unwrap();
        assert!(text.contains("open files") && text.contains("ulimit -n"), "{text}");
        assert!(limit(Errno::AGAIN).unwrap().contains("ulimit -u"));
        assert_eq!(limit(Errno::PERM), None);
        assert_eq!(limit(Errno::NOSYS), None);
    }
}
