//! A terminal, as a person sits before it.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    io::ioctl_fionbio,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::{
    harness::eventually,
    program::{SOON, as_usual},
};

/// Ctrl-C and Ctrl-Z, as they are typed.
pub(crate) const INTERRUPT: &str = "\x03";
pub(crate) const STOP: &str = "\x1a";

/// A terminal with a program in front of it. Dropped, the terminal is gone, and the program with it.
pub(crate) struct Terminal {
    keyboard: Option<File>,
    screen: Arc<Mutex<String>>,
    program: Child,
    reader: Option<JoinHandle<()>>,
    is_gone: Arc<AtomicBool>,
}

impl Terminal {
    /// A shell that runs this text.
    pub(crate) fn with(text: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there is one");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let end = || Stdio::from(File::options().read(true).write(true).open(path).expect("it opens"));
        // The first of a session, whose terminal this is.
        let mut command = as_usual("setsid");
        command.args(["--ctty", "--wait", "sh", "-c", text]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let program = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
        ioctl_fionbio(&master, true).expect("it is a file");
        let keyboard = File::from(master);
        let is_gone = Arc::new(AtomicBool::new(false));
        let mut output = keyboard.try_clone().expect("it is a file");
        let screen = Arc::new(Mutex::new(String::new()));
        let (shown, gone) = (Arc::clone(&screen), Arc::clone(&is_gone));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 1024];
            while !gone.load(Ordering::Relaxed) {
                match output.read(&mut bytes) {
                    Ok(count @ 1..) => {
                        let text = String::from_utf8_lossy(&bytes[..count]).replace('\r', "");
                        shown.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
                    }
                    // At the end of the last program nothing more is there to read, until there is another one.
                    Ok(_) | Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self { keyboard: Some(keyboard), screen, program, reader: Some(reader), is_gone }
    }

    /// It is unplugged.
    pub(crate) fn goes(&mut self) {
        self.is_gone.store(true, Ordering::Relaxed);
        drop(self.keyboard.take());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic");
        }
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[track_caller]
    pub(crate) fn shows(&self, line: &str) {
        let shown = || self.screen().lines().any(|shown| shown.trim_start_matches(['^', 'C', 'Z']) == line);
        let started = Instant::now();
        while !shown() {
            assert!(started.elapsed() < SOON, "no {line:?} on the screen: {:?}", self.screen());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn types(&mut self, text: &str) {
        let keyboard = self.keyboard.as_mut().expect("it is there");
        keyboard.write_all(text.as_bytes()).expect("it is typed");
    }

    #[track_caller]
    pub(crate) fn is_over(&mut self) {
        eventually(SOON, || self.program.try_wait().expect("it can be asked").is_some());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.goes();
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
