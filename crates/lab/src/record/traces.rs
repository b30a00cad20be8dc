//! The files that the traces of a recording go to: one for the program, one beside it for every other process.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::collector::Recorded;

/// Where traces go.
#[derive(Clone)]
pub struct Traces {
    output: PathBuf,
}

impl Traces {
    /// The program's trace is to be at `output`. The file is made at once, so that no program runs for hours to find that its trace
    /// cannot be written.
    pub fn at(output: &Path) -> Result<Traces> {
        let refused = || format!("cannot write a trace to {}", output.display());
        if let Ok(found) = fs::metadata(output) {
            ensure!(found.is_file(), "{}: it is not a regular file", refused());
        }
        File::create(output).with_context(refused)?;
        Ok(Traces { output: output.to_owned() })
    }

    /// Where the trace of a process is while it is written: `T.PID.hwt`, or `T.PID-2.hwt` for the second program that it runs.
    pub fn path_of(&self, pid: u32, image: u32) -> PathBuf {
        let process = if image == 0 { pid.to_string() } else { format!("{pid}-{}", image + 1) };
        let mut name = self.output.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{process}"));
        if let Some(extension) = self.output.extension() {
            name.push(".");
            name.push(extension);
        }
        self.output.with_file_name(name)
    }

    /// Gives the trace of the program, which is what process `pid` ran last, the name that was asked for. Puts it
    /// first, and the others by the number of their events; of these, such as have fewer than `least` and nothing to
    /// complain of are removed. Returns the traces, and how many were removed.
    pub fn settle(&self, pid: u32, mut recorded: Vec<Recorded>, least: u64) -> Result<(Vec<Recorded>, usize)> {
        match recorded.iter_mut().filter(|one| one.pid == pid).max_by_key(|one| one.image) {
            Some(last) => {
                fs::rename(&last.path, &self.output)
                    .with_context(|| format!("{} cannot be renamed", last.path.display()))?;
                last.path.clone_from(&self.output);
                last.is_the_program = true;
            }
            None => self.discard(),
        }
        recorded.sort_by_key(|one| (Reverse(one.is_the_program), Reverse(one.figures.events()), one.pid, one.image));
        let before = recorded.len();
        recorded.retain(|one| {
            let kept = one.is_the_program || one.figures.events() >= least || !one.is_whole();
            // One that cannot be removed is in nobody's way.
            kept || fs::remove_file(&one.path).is_err()
        });
        let left_out = before - recorded.len();
        Ok((recorded, left_out))
    }

    /// Removes the file that was made beforehand.
    pub fn discard(&self) {
        // Nothing was written to it; that it stays, empty, is not worth a word.
        let _ = fs::remove_file(&self.output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_names_beside_the_programs() {
        let traces = Traces { output: PathBuf::from("/a/b.c/t.hwt") };
        assert_eq!(traces.path_of(7, 0), Path::new("/a/b.c/t.7.hwt"));
        assert_eq!(traces.path_of(7, 1), Path::new("/a/b.c/t.7-2.hwt"));
        assert_eq!(Traces { output: PathBuf::from("t") }.path_of(7, 0), Path::new("t.7"));
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        assert!(Traces::at(Path::new("/dev/null")).is_err_and(|error| error.to_string().contains("regular")));
        assert!(Traces::at(Path::new("/nowhere/at/all")).is_err());
    }
}
