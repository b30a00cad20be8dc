//! Jobs done in a child process of this same command, so that each measurement starts from a fresh heap and can be
//! made under any allocator: the command itself never links one.

use std::env;
use std::ffi::CStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::programs::{Layer, Program, Touch};

/// The hidden subcommand under which a child is started.
pub const COMMAND: &str = "child";

/// A job longer than this has hung.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// What a child can be asked to do; each kind of job says what it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// A published program. Answers the seconds of each of its parts.
    Program {
        /// Which.
        program: Program,
        /// What it allocates from.
        layer: Layer,
        /// Whether it writes to what it allocates.
        touch: Touch,
    },
}

impl Job {
    fn perform(self) -> Result<serde_json::Value> {
        Ok(match self {
            Job::Program { program, layer, touch } => serde_json::to_value(program.time_on(layer, touch)?)?,
        })
    }
}

/// What a child prints.
#[derive(Serialize, Deserialize)]
struct Answer<T> {
    /// The library that the child's malloc came from.
    malloc: PathBuf,
    result: T,
}

/// Does `job` in a child process under `allocator` and returns its result.
///
/// The result is refused when the child's malloc did not come from the allocator's library: the dynamic linker goes on
/// without a library that it cannot load.
pub fn perform<T: DeserializeOwned>(allocator: &Allocator, job: &Job) -> Result<T> {
    let name = allocator.name();
    let mut command = Command::new(env::current_exe().context("cannot find this command's own file")?);
    command.arg(COMMAND).arg(serde_json::to_string(job)?);
    allocator.apply(&mut command)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start a child under {name}"))?;
    parse(&finished(child).with_context(|| format!("under {name}"))?, allocator)
}

/// The result that a child under `allocator` printed.
///
/// # Errors
/// As [`perform`].
fn parse<T: DeserializeOwned>(printed: &[u8], allocator: &Allocator) -> Result<T> {
    let answer: Answer<T> = serde_json::from_slice(printed)
        .with_context(|| format!("a child under {} answered out of turn", allocator.name()))?;
    if let Some(library) = allocator.library()? {
        ensure!(
            is_same_file(&answer.malloc, &library),
            "{} was not loaded: malloc came from {}",
            library.display(),
            answer.malloc.display()
        );
    }
    Ok(answer.result)
}

/// Waits for the child and returns what it printed; a child that hangs is ended.
fn finished(mut child: Child) -> Result<Vec<u8>> {
    let started = Instant::now();
    let mut stdout = child.stdout.take().context("no standard output")?;
    let mut stderr = child.stderr.take().context("no standard error")?;
    let printed = thread::spawn(move || read_all(&mut stdout));
    let complained = thread::spawn(move || read_all(&mut stderr));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > TIME_LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("the child was still at its job after {} s and was ended", TIME_LIMIT.as_secs());
        }
        thread::sleep(Duration::from_millis(1));
    };
    let printed = printed.join().unwrap_or_default();
    let complained = complained.join().unwrap_or_default();
    ensure!(status.success(), "the child failed ({status}): {}", String::from_utf8_lossy(&complained).trim());
    Ok(printed)
}

fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A stream that breaks off gives an answer that does not parse, which is reported.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// Whether both paths lead to one file that exists.
pub fn is_same_file(left: &Path, right: &Path) -> bool {
    matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}

/// The child's side: does the job and prints the answer.
pub fn serve(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job).context("not a job")?;
    let result = job.perform()?;
    println!("{}", serde_json::to_string(&Answer { malloc: origin_of_malloc(), result })?);
    Ok(())
}

/// The library that this process' malloc comes from, as the dynamic linker sees it.
pub fn origin_of_malloc() -> PathBuf {
    // SAFETY: all zeroes is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero byte and `info` is written only.
    let found = unsafe { libc::dladdr(libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()), &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return PathBuf::new();
    }
    // SAFETY: dladdr gave a string that lives as long as the library is loaded, which is for ever.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    PathBuf::from(name.to_string_lossy().into_owned())
}
