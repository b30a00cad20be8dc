//! The outcome of one stream: a process, and what was recorded of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use heapwright_host::names::Shown;
use heapwright_host::process::LONGEST_NAME;
use heapwright_os::FileError;
use heapwright_show::number;
use heapwright_stream::Refusal;
use heapwright_trace::Totals;
use heapwright_translation::{Figures, LONGEST_MAP, Sampled};

use super::python::Hidden;
use super::reasons;

/// The outcome of one stream.
pub struct Recorded {
    /// The process's number: in the namespace of this one, or else in its own.
    pub pid: u32,
    /// Whether that is its number in the namespace of this one.
    pub(super) is_seen: bool,
    /// Whether it has none there, and nothing could be read of it but its calls.
    pub(super) is_hidden: bool,
    /// Index of the program within the process, from 0: each `exec` starts the next.
    pub image: u32,
    /// The program's name.
    pub program: String,
    /// The names that the system may give the process while it runs the program.
    pub(super) names: Vec<OsString>,
    /// Whether this is the program that the command started.
    pub is_the_program: bool,
    /// Whether it ended as `exit` does, which excludes that another program took its place.
    pub(super) exited: bool,
    /// Whether its process was seen to run another program, without the recorder.
    pub(super) ran_another: bool,
    /// What its process ran afterwards, without the recorder.
    pub(super) successor: Option<Successor>,
    /// Whether the process began as a fork, with its parent's blocks.
    pub forked: bool,
    /// Path of its trace.
    pub path: PathBuf,
    /// The number of its file; `None` if none could be created.
    pub(super) file: Option<usize>,
    /// The length of the trace in bytes.
    pub length: u64,
    /// Counts of what was recorded.
    pub figures: Figures,
    /// What the process used.
    pub totals: Totals,
    /// The share of the calls in the processor time, if it is known well enough.
    pub(super) share_of_calls: Option<f64>,
    /// Number of requests with stacks, if stacks were requested.
    pub sampled: Option<Sampled>,
    /// The map in which a just-in-time compiler named its code, and its length in bytes, if it was too long.
    pub(super) cut_map: Option<(PathBuf, u64)>,
    /// Number of requests for which no stack could be recorded, if stacks were requested.
    pub stackless: u64,
    /// Whether it has operators `new` and `delete` whose blocks were not recorded.
    pub(super) misses_operators: bool,
    /// Whether requests outside of marked blocks were left out.
    pub marked: bool,
    /// The `errno` of the failure that ended the recording before the process ended.
    pub failure: Option<i32>,
    /// Number of calls after that failure.
    pub lost: u64,
    /// Why small objects do not come from malloc, of a Python interpreter whose do not.
    pub(super) hidden_objects: Option<Hidden>,
    /// The version of a Python interpreter whose frames were to be recorded, and cannot be read.
    pub(super) version_without_frames: Option<String>,
    /// Whether the process was still running when the program had ended.
    pub continued: bool,
    /// Whether it was still running when the recording ended.
    pub outlived: bool,
    /// The limit of the trace's length at which the recording ended, in bytes.
    pub limit: Option<u64>,
    /// Why the trace is incomplete, if the collector is the cause.
    pub error: Option<anyhow::Error>,
}

/// The likely reasons where nothing was recorded of a program that replaced a recorded one, and no error was reported.
const STARTED_OTHERWISE: &str = "it was probably started without LD_PRELOAD (env -i does this), is statically linked, \
                                 or runs as another user, who may not write to the recording";

impl Recorded {
    /// Returns the name and the number of the process, for messages.
    pub(super) fn who(&self) -> String {
        format!("{} [{}]", self.program.shown(), self.pid)
    }

    /// Returns a remark about Python's own allocator, if the process uses it.
    pub fn hidden_objects(&self) -> Option<String> {
        let what_to_do = match self.hidden_objects? {
            Hidden::NotAsked => "set PYTHONMALLOC=malloc to record them",
            Hidden::ReadsNoVariables => {
                "it was started with -E or -I and took no notice of PYTHONMALLOC: start it without these"
            }
        };
        Some(format!(
            "{} [{}] keeps objects of up to 512 bytes in Python's own allocator, which the trace does not show: \
             {what_to_do}",
            self.program, self.pid
        ))
    }

    /// Returns a remark about the operators of C++, if a library has them that has a malloc, too.
    pub fn missed_operators(&self) -> Option<String> {
        self.misses_operators.then(|| {
            format!(
                "{} [{}] has `operator new` and `delete` of the library that has its malloc (as tcmalloc, jemalloc and \
                 mimalloc do): their blocks are not recorded; run it without that library to record them",
                self.program.shown(),
                self.pid
            )
        })
    }

    /// Returns a remark about the frames of a Python program that are not recorded, if they were asked for.
    pub fn unread_frames(&self) -> Option<String> {
        let version = self.version_without_frames.as_ref()?;
        let who = self.program.shown();
        Some(format!(
            "{who} [{}] runs Python {version}, whose functions are not recorded (those of 3.11 to 3.14 are, but for \
             free-threaded ones): its sites are functions of the interpreter",
            self.pid
        ))
    }

    /// Returns a remark about the names of made code, if the map that has them was too long.
    pub fn lacks_names(&self) -> Option<String> {
        self.cut_map.as_ref().map(|(map, length)| {
            format!(
                "of {}, which has {}, only the last {} were read: older code of {} [{}] may lack its names; record a \
                 shorter run",
                map.shown(),
                number::bytes(*length),
                number::bytes(LONGEST_MAP),
                self.program.shown(),
                self.pid
            )
        })
    }

    /// Returns a remark about the program that its process ran afterwards, without the recorder.
    pub fn unrecorded_successor(&self) -> Option<String> {
        self.successor.as_ref().map(|Successor { name, why }| {
            let why = match why {
                WhyUnrecorded::Refused(error) => no_stream(*error),
                WhyUnrecorded::WithoutCalls => format!("it {}", without_calls(self.marked)),
                WhyUnrecorded::Unknown => STARTED_OTHERWISE.to_owned(),
            };
            let (program, name) = (self.program.shown(), name.shown());
            format!("{program} [{}] went on as {name}, of which nothing was recorded: {why}", self.pid)
        })
    }

    /// Returns a remark about the calls that the process made after the recording had ended.
    pub fn calls_after_the_end(&self) -> Option<String> {
        self.outlived.then(|| {
            let who = self.program.shown();
            format!(
                "{who} [{}] was still running when the program ended; its trace ends soon after: keep it in the \
                 foreground to record all of it",
                self.pid
            )
        })
    }

    /// Takes note of the name that its process, which has ended, had last: if it is none of the program's own, or if
    /// another program was seen, that took its place, unless it is one of the `namesakes`, which may be recorded
    /// programs of this process. The recorder last made a stream for the program with the number `last_image`;
    /// `refused` are the processes for which it could not make one.
    pub(super) fn ended_as(
        &mut self,
        name: Option<OsString>,
        namesakes: &[OsString],
        last_image: Option<u32>,
        refused: &[Refused],
    ) {
        let ended = self.is_whole() && !self.outlived && self.limit.is_none();
        let own: &[OsString] = if self.ran_another { &[] } else { &self.names };
        let is_recorded = |name: &OsString| own.iter().chain(namesakes).any(|known| cut(known) == cut(name));
        let name = name.filter(|name| ended && !self.exited && !name.is_empty() && !is_recorded(name));
        self.successor = name.map(|name| {
            let is_it = |refused: &&Refused| refused.pid == self.pid && cut(&refused.name) == cut(&name);
            let why = match refused.iter().find(is_it) {
                Some(refused) => WhyUnrecorded::Refused(refused.error),
                None if last_image > Some(self.image) => WhyUnrecorded::WithoutCalls,
                None => WhyUnrecorded::Unknown,
            };
            Successor { name, why }
        });
    }

    /// Returns whether every call of the process was recorded, or those up to an end that was requested.
    pub fn is_whole(&self) -> bool {
        self.failure.is_none() && self.error.is_none()
    }

    /// Records a failure of the collector; the first counts.
    pub(super) fn fail(&mut self, error: anyhow::Error) {
        self.error.get_or_insert(error);
    }
}

/// A program that took the place of a recorded one, and of which nothing was recorded.
#[derive(Debug)]
pub(super) struct Successor {
    /// Its name, as the system keeps it.
    name: OsString,
    /// The reason.
    why: WhyUnrecorded,
}

/// Why nothing was recorded of a program.
#[derive(Debug)]
enum WhyUnrecorded {
    /// The recorder could not make a stream.
    Refused(FileError),
    /// The recorder was loaded, and the program made no call.
    WithoutCalls,
    /// Nothing is known of it.
    Unknown,
}

/// A process that could not create a stream, and said so.
#[derive(Debug)]
pub(super) struct Refused {
    /// Its number, in its own namespace.
    pub(super) pid: u32,
    /// The reason.
    pub(super) error: FileError,
    /// The name that it had when it began its program, as the system keeps it.
    name: OsString,
}

impl Refused {
    /// Reads the name of a file beside the streams; `None` if it says nothing of this.
    pub(super) fn of(file_name: &OsStr) -> Option<Refused> {
        let Refusal { pid, error, name } = Refusal::of(file_name.as_bytes())?;
        Some(Refused { pid, error, name: OsStr::from_bytes(name).to_owned() })
    }
}

/// Describes why nothing was recorded of a process without a stream.
pub(super) fn no_stream(error: FileError) -> String {
    format!("no stream could be made for its calls: {error}")
}

/// Returns why nothing is recorded of a program into which the recorder was loaded; the program's name comes before.
pub(super) fn without_calls(marked: bool) -> &'static str {
    match marked {
        true => "made no malloc-family call in a block that it marked, or has its own malloc",
        false => "made no malloc-family call, or has its own malloc",
    }
}

/// Processes that made calls of which none was recorded.
#[derive(Debug)]
pub struct Unread {
    /// Their number.
    pub processes: u64,
    /// The reason, of the first of them.
    pub error: anyhow::Error,
}

impl Unread {
    /// Returns what was counted `before`, and these processes.
    pub(super) fn of(before: Option<Unread>, processes: u64, error: anyhow::Error) -> Unread {
        let before = before.unwrap_or(Unread { processes: 0, error });
        Unread { processes: before.processes + processes, ..before }
    }

    /// Returns the reason in words.
    pub(super) fn reason(&self) -> String {
        reasons::in_words(&self.error)
    }

    /// Describes them in a line.
    pub fn describe(&self) -> String {
        let processes = match self.processes {
            1 => "1 process is".to_owned(),
            more => format!("{} processes are", number::grouped(more)),
        };
        format!("{processes} not recorded: the calls cannot be read: {}", self.reason())
    }
}

/// Returns as much of a name as the system keeps.
fn cut(name: &OsStr) -> &[u8] {
    let name = name.as_bytes();
    &name[..name.len().min(LONGEST_NAME)]
}
