//! Whether the subcommands and options that a command line names exist, by what `--help` lists.

use std::collections::HashMap;
use std::process::Command;

/// The help of every subcommand that was asked for; empty where there is none of that name.
pub struct Helps<'c> {
    heapwright: &'c dyn Fn() -> Command,
    known: HashMap<Vec<String>, String>,
}

impl<'c> Helps<'c> {
    /// The help of the command that `heapwright` makes.
    pub fn of(heapwright: &'c dyn Fn() -> Command) -> Helps<'c> {
        Helps { heapwright, known: HashMap::new() }
    }

    /// What is wrong with this line: subcommands and options of `heapwright` that do not exist.
    pub fn unknown(&mut self, line: &str) -> Vec<String> {
        let words = words(line);
        let mut wrong = Vec::new();
        for start in (0..words.len()).filter(|at| is_command(&words[..=*at])) {
            let rest: Vec<&str> = words[start + 1..]
                .iter()
                .map(String::as_str)
                .take_while(|word| !["--", "|", ">", "2>", "<", "&&", ";", "#"].contains(word))
                .collect();
            self.check(&rest, &mut wrong);
        }
        wrong
    }

    fn check(&mut self, words: &[&str], wrong: &mut Vec<String>) {
        let mut path: Vec<String> = Vec::new();
        for word in words {
            if *word == "help" && path.is_empty() {
                continue;
            }
            if word.starts_with(['-', '[']) {
                self.check_option(&path, word, wrong);
            } else if !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase()) {
                let mut longer = path.clone();
                longer.push((*word).to_owned());
                if self.lists(&path, word) {
                    path = longer;
                } else if path.is_empty() {
                    wrong.push(format!("there is no `heapwright {word}`"));
                    return;
                }
            }
        }
    }

    fn check_option(&mut self, path: &[String], word: &str, wrong: &mut Vec<String>) {
        let option = word.trim_matches(['[', ']', '…', '.', ',', '(', ')']).split('=').next().unwrap_or_default();
        if option.starts_with('-') && !["--help", "--version"].contains(&option) && !self.has_option(path, option) {
            wrong.push(format!("`heapwright {}` has no option `{option}`", path.join(" ")));
        }
    }

    fn has_option(&mut self, path: &[String], option: &str) -> bool {
        self.help(path).lines().any(|line| {
            let listed = line.trim_start();
            listed.starts_with('-')
                && listed
                    .split([' ', ',', '=', '['])
                    .take_while(|word| !word.starts_with('<'))
                    .any(|word| word == option)
        })
    }

    /// Whether a subcommand or the command itself has an option of this name.
    pub fn somewhere(&mut self, option: &str) -> bool {
        let mut paths = vec![Vec::new()];
        while let Some(path) = paths.pop() {
            if self.has_option(&path, option) {
                return true;
            }
            for name in self.subcommands(&path) {
                paths.push([path.clone(), vec![name]].concat());
            }
        }
        false
    }

    fn lists(&mut self, path: &[String], name: &str) -> bool {
        self.subcommands(path).iter().any(|known| known == name)
    }

    fn subcommands(&mut self, path: &[String]) -> Vec<String> {
        let help = self.help(path);
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // Names are indented by two columns, further lines of their descriptions by more.
        let names =
            listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    }

    fn help(&mut self, path: &[String]) -> &str {
        let heapwright = self.heapwright;
        self.known.entry(path.to_vec()).or_insert_with(|| {
            let output = heapwright().args(path).arg("--help").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        })
    }
}

/// Whether the last of these words is the command: `heapwright`, or the last of `cargo run --release --`.
fn is_command(words: &[String]) -> bool {
    let [before @ .., word] = words else { return false };
    let is_package = before.last().is_some_and(|before| before == "-p" || before == "--package");
    word == "heapwright" && !is_package || words.ends_with(&["cargo", "run", "--release", "--"].map(str::to_owned))
}

/// The words of a line, with those in quotation marks left out: they are for others to read.
fn words(line: &str) -> Vec<String> {
    let outside: String =
        line.split('\'').step_by(2).collect::<Vec<_>>().join("Q").split('"').step_by(2).collect::<Vec<_>>().join("Q");
    let outside = outside.replace('|', " | ").replace(';', " ; ");
    outside.split_whitespace().map(str::to_owned).collect()
}
