//! What a process uses of the machine, as the kernel of a Linux counts it. It says what there is, and judges nothing.

use std::fs;

/// How many bytes of memory this process has in use that are its own.
pub(crate) fn memory() -> usize {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel counts");
    let kib = |name: &str| -> usize {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel counts this");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    1024 * (kib("Private_Dirty:") + kib("Swap:"))
}

/// The open descriptors of a process, and what each of them is.
pub(crate) fn descriptors(pid: u32) -> Vec<(u32, String)> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there and ours");
    let known = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        // The one by which they are listed is gone again.
        let is = fs::read_link(entry.path()).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, is.display().to_string()))
    };
    let listing = format!("/proc/{pid}/fd");
    all.filter_map(known).filter(|(_, is)| *is != listing).collect()
}

/// Whether a descriptor of this process ends with the next program.
pub(crate) fn closes_on_exec(descriptor: u32) -> bool {
    const O_CLOEXEC: u32 = 0o2_000_000;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).expect("the descriptor is open");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("it has flags");
    u32::from_str_radix(flags.trim(), 8).expect("an octal number") & O_CLOEXEC != 0
}

/// How many threads this process has.
pub(crate) fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("the kernel counts").count()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, process, sync::mpsc, thread};

    use super::*;

    #[test]
    fn memory_that_was_written_to_is_in_use() {
        let before = memory();
        let written = vec![1_u8; 32 << 20];
        assert!(memory() > before + (16 << 20));
        drop(written);
    }

    #[test]
    fn an_open_file_is_a_descriptor_that_ends_with_the_program() {
        let file = File::open("/dev/zero").expect("it opens");
        let all = descriptors(process::id());
        let (number, _) = all.iter().find(|(_, is)| is == "/dev/zero").expect("it is listed");
        assert!(closes_on_exec(*number));
        assert!(!closes_on_exec(2), "what a program is given it may give on");
        drop(file);
    }

    #[test]
    fn a_thread_is_counted_while_it_lives() {
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || ended.recv());
        assert!(threads() >= 2);
        drop(end);
        assert!(thread.join().expect("no panic").is_err());
    }
}
