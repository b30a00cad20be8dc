//! The process that comes after: it recovers what the dead left and says whether all is well.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::unistd::Pid;

use crate::child;
use crate::subject::{Subject, Survivor};

/// A survivor that says nothing for this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a witness is asked to do.
const GLANCE: u8 = 0;
const JUDGE: u8 = 1;

/// A process that judges states of a structure as they are put before it. Dropping it kills it.
pub struct Witness {
    pid: Pid,
    wire: UnixStream,
}

impl Witness {
    /// Starts one; it is attached before this returns, if it is to be.
    pub fn start<S: Subject>(subject: &S, survivor: Survivor) -> Result<Witness, String> {
        let (wire, mut theirs) = child::wires(PATIENCE);
        let pid = child::spawn(|| {
            let mut attached = match survivor {
                Survivor::Attached => Some(subject.attach()?),
                Survivor::Newcomer => None,
            };
            answer(&mut theirs, Ok(()))?;
            let mut question = [0];
            while theirs.read_exact(&mut question).is_ok() {
                let verdict = match (&mut attached, question) {
                    (Some(handle), [GLANCE]) => subject.recover(handle),
                    (Some(handle), _) => subject.recover(handle).and_then(|()| subject.judge(handle)),
                    (None, [GLANCE]) => Ok(()),
                    (None, _) => come_and_judge(subject),
                };
                answer(&mut theirs, verdict)?;
            }
            Ok(())
        });
        let witness = Witness { pid, wire };
        witness.hear()?;
        Ok(witness)
    }

    /// Has the present state judged.
    ///
    /// # Errors
    /// What is wrong with it; a witness that crashed or hangs says nothing any more, and that is wrong as well.
    pub fn judge(&self) -> Result<(), String> {
        self.ask(JUDGE)
    }

    /// Has it look at the present state, to which the test went back: what it remembers of another one is then
    /// forgotten.
    pub fn glance(&self) -> Result<(), String> {
        self.ask(GLANCE)
    }

    fn ask(&self, question: u8) -> Result<(), String> {
        (&self.wire).write_all(&[question]).map_err(|error| format!("the survivor is gone: {error}"))?;
        self.hear()
    }

    fn hear(&self) -> Result<(), String> {
        let mut length = [0; 4];
        (&self.wire).read_exact(&mut length).map_err(|error| format!("the survivor crashed or hangs: {error}"))?;
        let mut words = vec![0; u32::from_le_bytes(length) as usize];
        (&self.wire).read_exact(&mut words).map_err(|error| error.to_string())?;
        if words.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&words).into_owned()) }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        child::end(self.pid);
    }
}

fn come_and_judge<S: Subject>(subject: &S) -> Result<(), String> {
    let mut handle = subject.attach()?;
    subject.recover(&mut handle)?;
    subject.judge(&mut handle)
}

/// Says a verdict: its length and its words, none for a good one.
fn answer(wire: &mut UnixStream, verdict: Result<(), String>) -> Result<(), String> {
    let words = verdict.err().unwrap_or_default();
    let mut message = (words.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(words.as_bytes());
    wire.write_all(&message).map_err(|error| error.to_string())
}
