//! The comment above a block that says how its commands are run.

/// What happens to a block of commands.
#[derive(Debug, PartialEq)]
pub enum Marker {
    /// Nothing, for this reason. Its options are still checked.
    NotRun(String),
    /// It is run.
    Run(Run),
}

/// How a block is run, and what is expected.
#[derive(Debug, Default, PartialEq)]
pub struct Run {
    /// What must be as the page shows it.
    pub check: Check,
    /// The exit code of the last command.
    pub code: i32,
    /// What is run in place of what the page shows.
    pub exchanged: Vec<(String, String)>,
    /// Programs without which the block is passed over.
    pub needs: Vec<String>,
    /// Whether the folder is that of the page's block before.
    pub folder: Folder,
}

/// How much of what is printed must agree with the page.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum Check {
    #[default]
    /// Nothing but the exit code.
    ExitCode,
    /// The lines above rules (`────`), which are the headings of tables.
    Headings,
    /// Everything but figures, their units and marks.
    Shape,
    /// All of it.
    Exact,
}

/// Where a block is run.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum Folder {
    #[default]
    /// In a folder of its own.
    Fresh,
    /// In that of the block before.
    Same,
}

impl Marker {
    /// Reads `run`, `run: ITEM; ITEM` or `not run: REASON`; `None` for a comment that is none of these.
    pub fn parsed(text: &str) -> Option<Result<Marker, String>> {
        if let Some(reason) = text.strip_prefix("not run") {
            let reason = reason.strip_prefix(": ").unwrap_or_default().trim();
            return Some(match reason {
                "" => Err("`not run` needs a reason".to_owned()),
                reason => Ok(Marker::NotRun(reason.to_owned())),
            });
        }
        let items = text.strip_prefix("run")?;
        let Some(items) = items.strip_prefix(": ") else {
            return Some(match items {
                "" => Ok(Marker::Run(Run::default())),
                _ => Err(format!("`{text}` is not `run`, `run: ITEM; ...` or `not run: REASON`")),
            });
        };
        let mut run = Run::default();
        Some(split(items).iter().try_for_each(|item| run.take(item)).map(|()| Marker::Run(run)))
    }
}

impl Run {
    fn take(&mut self, item: &str) -> Result<(), String> {
        match item {
            "output is the same everywhere" => self.check = Check::Exact,
            "figures vary" => self.check = Check::Shape,
            "headings are the same" => self.check = Check::Headings,
            "in the same folder" => self.folder = Folder::Same,
            _ => {
                if let Some(code) = item.strip_prefix("exit code ") {
                    self.code = code.parse().map_err(|_| format!("`{item}`: no number"))?;
                } else if let Some(programs) = item.strip_prefix("needs ") {
                    self.needs = programs.split(", ").map(str::to_owned).collect();
                } else if let [before, shown, " is ", run, ""] = item.split('`').collect::<Vec<_>>()[..]
                    && before.is_empty()
                {
                    self.exchanged.push((shown.to_owned(), run.to_owned()));
                } else {
                    return Err(format!("`{item}` is not an item of a marker"));
                }
            }
        }
        Ok(())
    }
}

/// The items between semicolons that stand outside backticks.
fn split(items: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for (number, part) in items.split('`').enumerate() {
        if number > 0 {
            found.last_mut().unwrap().push('`');
        }
        let pieces: Vec<&str> = if number % 2 == 0 { part.split(';').collect() } else { vec![part] };
        for (number, piece) in pieces.into_iter().enumerate() {
            if number > 0 {
                found.push(String::new());
            }
            found.last_mut().unwrap().push_str(piece);
        }
    }
    found.iter().map(|item| item.trim().to_owned()).collect()
}
