//! Maps an errno to the resource limit behind it (open files, processes, memory, disk space).
//!
//! In: an errno. Out: which limit was reached and its name, or `None` for other errors. Such an
//! error says nothing about what the machine supports.

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

/// Like [`limit`], for an [`std::io::Error`].
pub(crate) fn limit_of(error: &std::io::Error) -> Option<String> {
    limit(Errno::from_io_error(error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exhaustion_errors_name_a_limit() {
        let text = limit(Errno::MFILE).unwrap();
        assert!(text.contains("open files") && text.contains("ulimit -n"), "{text}");
        assert!(limit(Errno::AGAIN).unwrap().contains("ulimit -u"));
        assert_eq!(limit(Errno::PERM), None);
        assert_eq!(limit(Errno::NOSYS), None);
    }
}
