//! Names of hosts that a test changes: a program sees a file of the test's where the system's is. It needs a mount namespace of
//! its own for that, which not everybody may make.

use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Runs a program that knows the names of the hosts' file, and no others.
const INSIDE: &str = r#"
mount --bind "$1/hosts" /etc/hosts || exit
[ ! -e /etc/nsswitch.conf ] || mount --bind "$1/switch" /etc/nsswitch.conf || exit
shift
exec "$@"
"#;

/// By whom a namespace may be made: by root, or by everybody.
const NAMESPACES: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];

/// One name, and where it leads.
#[derive(Debug)]
pub(crate) struct Hosts {
    folder: PathBuf,
    name: &'static str,
    namespace: &'static [&'static str],
}

impl Hosts {
    /// In this folder, with which its files go. None where nobody may change what a program sees.
    pub(crate) fn within(folder: &Path, name: &'static str) -> Option<Self> {
        let folder = folder.join("names");
        fs::create_dir(&folder).expect("a folder is made");
        fs::write(folder.join("switch"), "hosts: files\n").expect("a file is written");
        fs::write(folder.join("hosts"), line("#", Ipv4Addr::UNSPECIFIED, name)).expect("a file is written");
        let mut hosts = Self { folder, name, namespace: NAMESPACES[0] };
        let may = |namespace| {
            hosts.namespace = namespace;
            let mut nothing = hosts.command(Path::new("true"));
            nothing.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        if NAMESPACES.into_iter().any(may) {
            return Some(hosts);
        }
        println!("left out: only on Linux, and with the right to mount, may a program see other names of hosts");
        None
    }

    /// The name leads there from now on, for whoever asks.
    pub(crate) fn lead_to(&self, address: Ipv4Addr) {
        self.write(&line("", address, self.name));
    }

    /// Nobody knows the name any more.
    pub(crate) fn forget(&self) {
        self.write(&line("#", Ipv4Addr::UNSPECIFIED, self.name));
    }

    /// What runs this program where the names are known.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command.args(self.namespace).args(["sh", "-c", INSIDE, "sh"]).arg(&self.folder).arg(program);
        command
    }

    /// In place, since another file is seen by nobody, and at once: one line is always as long as another.
    fn write(&self, line: &str) {
        let file = File::options().write(true).open(self.folder.join("hosts")).expect("the file is there");
        file.write_all_at(line.as_bytes(), 0).expect("the file is written");
    }
}

fn line(comment: &str, address: Ipv4Addr, name: &str) -> String {
    format!("{comment:1}{address:<15} {name}\n")
}
