//! A program in a real pseudo-terminal, and the screen that it draws.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::poll::until;

pub(crate) struct Terminal {
    /// What a person, or ssh, holds.
    master: File,
    /// The program's side stays open, so that its settings can be read after the program has ended.
    slave: File,
    before: Termios,
    program: Child,
    screen: Arc<Mutex<Screen>>,
}

impl Terminal {
    /// As the leader of a session with this terminal, like the command of an ssh connection.
    pub(crate) fn start(line: &[String], size: (u16, u16), variables: &[(&str, &str)]) -> Self {
        let (master, slave) = open();
        set_size(&master, size);
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).args(line).env("TERM", "xterm").env_remove("NO_COLOR");
        command.envs(variables.iter().copied());
        let end = || slave.try_clone().unwrap();
        let before = tcgetattr(&slave).unwrap();
        let program = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(Screen::new(size)));
        let (mut output, reader) = (master.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                reader.lock().unwrap().write(&bytes[..count]);
            }
        });
        Self { master, slave, before, program, screen }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, size: (u16, u16)) {
        self.screen().resize(size);
        set_size(&self.master, size);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.program), signal).unwrap();
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap()
    }

    pub(crate) fn text(&self) -> String {
        self.screen().text()
    }

    /// All bytes that the program has written.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.screen().written).into_owned()
    }

    pub(crate) fn until_shows(&self, what: &str) {
        self.until(what, |text| text.contains(what));
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let mut last = String::new();
        let shown = crate::poll::comes_true(|| {
            last = self.text();
            is_so(&last)
        });
        assert!(shown, "the screen does not show {what}:\n{last}");
    }

    /// Waits for the end of the program, and checks that the terminal is as it was.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("the program ends", || {
            status = self.program.try_wait().unwrap();
            status.is_some()
        });
        let after = tcgetattr(&self.slave).unwrap();
        let modes = |it: &Termios| (it.input_modes, it.output_modes, it.control_modes, it.local_modes);
        assert_eq!(modes(&after), modes(&self.before), "the modes of the terminal");
        until("the cursor and the main screen are back", || {
            let screen = self.screen();
            !screen.is_alternate && !screen.is_cursor_hidden
        });
        status.unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        _ = self.program.kill();
        _ = self.program.wait();
    }
}

fn open() -> (File, File) {
    let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    // A test process has no terminal of its own, and must not get this one.
    let flags = rustix::fs::OFlags::NOCTTY.bits() as i32;
    let mut options = File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true), flags);
    (File::from(master), options.open(path).unwrap())
}

fn set_size(terminal: &File, (width, height): (u16, u16)) {
    tcsetwinsize(terminal, Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// As much of a terminal as full-screen programs use.
struct Screen {
    size: (usize, usize),
    cells: Vec<Vec<char>>,
    cursor: (usize, usize),
    /// An escape sequence that has begun.
    sequence: Option<String>,
    is_alternate: bool,
    is_cursor_hidden: bool,
    written: Vec<u8>,
}

impl Screen {
    fn new(size: (u16, u16)) -> Self {
        let mut screen = Self {
            size: (0, 0),
            cells: Vec::new(),
            cursor: (0, 0),
            sequence: None,
            is_alternate: false,
            is_cursor_hidden: false,
            written: Vec::new(),
        };
        screen.resize(size);
        screen
    }

    fn resize(&mut self, (width, height): (u16, u16)) {
        self.size = (width.into(), height.into());
        self.clear();
    }

    fn clear(&mut self) {
        self.cells = vec![vec![' '; self.size.0]; self.size.1];
    }

    fn text(&self) -> String {
        let lines = self.cells.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned() + "\n");
        lines.collect()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.written.extend(bytes);
        String::from_utf8_lossy(bytes).chars().for_each(|letter| self.put(letter));
    }

    fn put(&mut self, letter: char) {
        match (self.sequence.take(), letter) {
            (Some(mut sequence), letter) => {
                sequence.push(letter);
                let is_complete =
                    if sequence.starts_with('[') { sequence.len() > 1 && letter.is_ascii_alphabetic() } else { true };
                if is_complete { self.control(&sequence) } else { self.sequence = Some(sequence) }
            }
            (None, '\u{1b}') => self.sequence = Some(String::new()),
            (None, '\r') => self.cursor.0 = 0,
            (None, '\n') => self.cursor.1 += 1,
            (None, letter) if letter.is_control() => {}
            (None, letter) => self.print(letter),
        }
    }

    fn print(&mut self, letter: char) {
        let (x, y) = self.cursor;
        if let Some(cell) = self.cells.get_mut(y).and_then(|line| line.get_mut(x)) {
            *cell = letter;
        }
        self.cursor.0 += 1;
    }

    fn control(&mut self, sequence: &str) {
        match sequence {
            "[2J" => self.clear(),
            "[?1049h" => self.is_alternate = true,
            "[?1049l" => self.is_alternate = false,
            "[?25l" => self.is_cursor_hidden = true,
            "[?25h" => self.is_cursor_hidden = false,
            other if other.ends_with('H') => self.move_to(&other[1..other.len() - 1]),
            _ => {}
        }
    }

    /// `line;column`, counted from 1.
    fn move_to(&mut self, place: &str) {
        let mut numbers = place.split(';').map(|number| number.parse::<usize>().unwrap_or(1).max(1) - 1);
        let (y, x) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        self.cursor = (x, y);
    }
}
