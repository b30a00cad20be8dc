//! What was measured of a program, as it is kept in a file: raw, so that the page can be written again from it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of this form.
const SCHEMA: u32 = 1;

/// One program: its real runs, and what `heapwright compare` said of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// `SCHEMA`.
    pub schema: u32,
    /// The program's name in the list.
    pub program: String,
    /// Real runs, the system's malloc first, and last the system's malloc again.
    pub real: Vec<RealRow>,
    /// The comparison as its `--json` writes it.
    pub compared: Value,
    /// The same with `--confirm`.
    pub confirmed: Option<Value>,
    /// How long all of it took, in seconds.
    pub seconds: f64,
}

/// A program under one allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RealRow {
    /// The allocator's name, as `compare` calls it.
    pub name: String,
    /// The version of its library, where there is one.
    pub version: Option<String>,
    /// Why it could not be run to the end.
    pub note: Option<String>,
    /// One per round.
    pub runs: Vec<RealRun>,
}

/// One run of a program, with the processes that it started and waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealRun {
    /// Elapsed time.
    pub seconds: f64,
    /// Processor time.
    pub cpu_seconds: f64,
    /// Peak resident bytes of the largest of its processes.
    pub peak_rss: u64,
}

impl Evidence {
    /// Returns the evidence of a program that was measured before.
    pub fn new(program: &str, real: Vec<RealRow>, compared: Value, confirmed: Option<Value>, seconds: f64) -> Evidence {
        Evidence { schema: SCHEMA, program: program.to_owned(), real, compared, confirmed, seconds }
    }

    /// Reads what is known of a program; `None` if nothing is.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn of(program: &str, folder: &Path) -> Result<Option<Evidence>> {
        let found: Option<Evidence> = read(&folder.join(format!("{program}.json")))?;
        if let Some(found) = &found {
            ensure!(found.schema == SCHEMA, "the figures of {program} are of another version: remove them");
        }
        Ok(found)
    }

    /// Writes the evidence to `folder`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        write(&folder.join(format!("{}.json", self.program)), self)
    }
}

/// Reads a file; `None` if there is none.
///
/// # Errors
/// When it has another form.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("cannot understand {}", path.display())).map(Some)
}

/// Writes a file; a reader never finds a part of it.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, content: &impl Serialize) -> Result<()> {
    let draft = path.with_extension("part");
    fs::write(&draft, serde_json::to_vec(content)?).with_context(|| format!("cannot write {}", draft.display()))?;
    fs::rename(&draft, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_another_version_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let run = RealRun { seconds: 1.0, cpu_seconds: 0.5, peak_rss: 4096 };
        let row = RealRow { name: "system".to_owned(), version: None, note: None, runs: vec![run] };
        let mut evidence = Evidence::new("jq", vec![row], Value::Null, None, 2.0);
        evidence.keep(folder.path()).unwrap();
        let again = Evidence::of("jq", folder.path()).unwrap().unwrap();
        assert_eq!(again.real[0].runs, [run]);
        assert!(Evidence::of("perl", folder.path()).unwrap().is_none());
        evidence.schema += 1;
        evidence.keep(folder.path()).unwrap();
        assert!(Evidence::of("jq", folder.path()).unwrap_err().to_string().contains("another version"));
    }
}
