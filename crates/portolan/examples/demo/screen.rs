//! What the viewer sees: headings, commands, bars. Colour and pauses are for terminals only.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

const BAR_WIDTH: usize = 40;

pub(crate) struct Screen {
    colour: bool,
    paced: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let is_set = |name| std::env::var_os(name).is_some();
        Self { colour: is_terminal && !is_set("NO_COLOR"), paced: is_terminal && !is_set("DEMO_FAST") }
    }

    pub(crate) fn heading(&self, text: &str) {
        self.pause(1.0);
        println!(
            "\n{}\n",
            self.paint("1;36", &format!("── {text} {}", "─".repeat(96_usize.saturating_sub(text.len()))))
        );
        self.pause(0.6);
    }

    pub(crate) fn print(&self, text: &str) {
        println!("{text}");
    }

    /// A line about a success.
    pub(crate) fn success(&self, text: &str) {
        println!("{} {text}", self.paint("32", "✓"));
        self.pause(0.5);
    }

    /// A command that is about to be run.
    pub(crate) fn command(&self, line: &str) {
        println!("{} {}", self.paint("2", "$"), self.paint("1", line));
        self.pause(0.6);
    }

    /// How often each host answered.
    pub(crate) fn bars(&self, title: &str, answers: &BTreeMap<String, usize>) {
        let total: usize = answers.values().sum();
        println!("{title}");
        for (name, count) in answers {
            let share = *count as f64 / total.max(1) as f64;
            let bar = "█".repeat((share * BAR_WIDTH as f64).round() as usize);
            let padding = " ".repeat(BAR_WIDTH.saturating_sub(bar.chars().count()));
            println!("  {name:<8} {}{padding} {count:>4}  {:>3.0}%", self.paint("32", &bar), share * 100.0);
        }
        self.pause(1.3);
    }

    /// Gives the viewer time to read.
    pub(crate) fn pause(&self, seconds: f32) {
        _ = std::io::stdout().flush();
        if self.paced {
            std::thread::sleep(Duration::from_secs_f32(seconds));
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
