//! Who is there beside the command: whether any of its group still works, and who waits to be collected by a first process.

use std::{fs, process};

use rustix::process::{Pid, WaitOptions, getpid, test_kill_process_group, waitpid};

/// A process as the system's list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    is_over: bool,
    parent: i32,
    group: i32,
}

/// Whether anybody of the group still works. One that is over and was collected by nobody does not, but only the list can tell.
pub(super) fn any_works(group: Pid) -> bool {
    let works = |(_, seen): (Pid, Seen)| seen.group == group.as_raw_pid() && !seen.is_over;
    test_kill_process_group(group).is_ok() && all().is_none_or(|mut all| all.any(works))
}

/// Collects what was left to us as the first process of a container, but for our own command.
pub(super) fn collect(command: Pid) {
    if process::id() != 1 {
        return;
    }
    let left = |seen: Seen| seen.is_over && seen.parent == getpid().as_raw_pid();
    for (pid, _) in all().into_iter().flatten().filter(|(pid, seen)| *pid != command && left(*seen)) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// All that the system shows us; `None` where it shows nobody, not even us.
fn all() -> Option<impl Iterator<Item = (Pid, Seen)>> {
    fs::metadata("/proc/self/stat").ok()?;
    let pid = |entry: &fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    let seen =
        move |entry: fs::DirEntry| Some((pid(&entry)?, seen(&fs::read_to_string(entry.path().join("stat")).ok()?)?));
    Some(fs::read_dir("/proc").ok()?.filter_map(Result::ok).filter_map(seen))
}

fn seen(stat: &str) -> Option<Seen> {
    // Its name may have any letter in it.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?;
    let mut number = || words.next()?.parse().ok();
    Some(Seen { is_over: matches!(state, "Z" | "X"), parent: number()?, group: number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_from_the_systems_list_whatever_it_is_called() {
        let shown = |stat| seen(stat).map(|seen| (seen.is_over, seen.parent, seen.group));
        assert_eq!(shown("12 (a) R 5 (x) Z 1 10 10 0 -1"), Some((true, 1, 10)));
        assert_eq!(shown("12 (sh) S 7 12 12 0 -1"), Some((false, 7, 12)));
        assert_eq!(shown("12 (sh"), None);
    }
}
