//! A process that goes through an operation one instruction at a time, until it is killed.

use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::child;
use crate::route::Route;

/// `int3`: the instruction that stops its process.
const BREAKPOINT: i64 = 0xcc;

/// What a step led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One more instruction is done.
    Done,
    /// The operation is over.
    Over,
}

/// A stopped process at some instruction of an operation. Dropping it kills it.
pub struct Victim {
    pid: Pid,
}

impl Victim {
    /// Starts a process that runs `prepare` freely and then stands before the first instruction of `operate`.
    pub fn start<H>(
        prepare: impl FnOnce() -> Result<H, String>,
        operate: impl FnOnce(&mut H) -> Result<(), String>,
    ) -> Result<Victim, String> {
        let pid = child::spawn(|| {
            ptrace::traceme().map_err(|error| format!("PTRACE_TRACEME: {error}"))?;
            let mut handle = prepare()?;
            raise(Signal::SIGSTOP).map_err(|error| error.to_string())?;
            operate(&mut handle)?;
            raise(Signal::SIGSTOP).map_err(|error| error.to_string())?;
            // The stepped part is over; closing tidily would be another operation.
            std::mem::forget(handle);
            Ok(())
        });
        let victim = Victim { pid };
        match waitpid(pid, None) {
            Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => {}
            other => return Err(format!("the victim did not get as far as the operation: {other:?}")),
        }
        ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL).map_err(|error| error.to_string())?;
        Ok(victim)
    }

    /// Lets it do one instruction.
    pub fn step(&self) -> Result<Step, String> {
        ptrace::step(self.pid, None).map_err(|error| format!("PTRACE_SINGLESTEP: {error}"))?;
        match waitpid(self.pid, None) {
            Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => Ok(Step::Done),
            Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => Ok(Step::Over),
            other => Err(format!("the operation itself failed: {other:?}")),
        }
    }

    /// Lets it go where `route` leads, or to the operation's end.
    pub fn follow(&self, route: Route) -> Result<(), String> {
        if let Some((address, passes)) = route.anchor
            && self.run_to(address, passes)? == Step::Over
        {
            return Ok(());
        }
        for _ in 0..route.steps {
            if self.step()? == Step::Over {
                break;
            }
        }
        Ok(())
    }

    /// Lets it run until it stands before the instruction at `address` after having passed it `passes` times.
    fn run_to(&self, address: u64, passes: usize) -> Result<Step, String> {
        let place = address as ptrace::AddressType;
        let code = ptrace::read(self.pid, place).map_err(|error| format!("PTRACE_PEEKTEXT: {error}"))?;
        let broken = (code & !0xff) | BREAKPOINT;
        let write = |word| ptrace::write(self.pid, place, word).map_err(|error| format!("PTRACE_POKETEXT: {error}"));
        for pass in 0..=passes {
            write(broken)?;
            ptrace::cont(self.pid, None).map_err(|error| format!("PTRACE_CONT: {error}"))?;
            match waitpid(self.pid, None) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => {}
                Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => return write(code).map(|()| Step::Over),
                other => return Err(format!("the operation itself failed: {other:?}")),
            }
            write(code)?;
            self.go_back_to(address)?;
            if pass < passes && self.step()? == Step::Over {
                return Ok(Step::Over);
            }
        }
        Ok(Step::Done)
    }

    fn go_back_to(&self, address: u64) -> Result<(), String> {
        let mut registers = ptrace::getregs(self.pid).map_err(|error| format!("PTRACE_GETREGS: {error}"))?;
        *next_instruction(&mut registers) = address;
        ptrace::setregs(self.pid, registers).map_err(|error| format!("PTRACE_SETREGS: {error}"))
    }

    /// The address of the next instruction. It means the same in this process, whose copy the victim is.
    pub fn program_counter(&self) -> u64 {
        ptrace::getregs(self.pid).map_or(0, |mut registers| *next_instruction(&mut registers))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        child::end(self.pid);
    }
}

#[cfg(target_arch = "x86_64")]
fn next_instruction(registers: &mut user_regs_struct) -> &mut u64 {
    &mut registers.rip
}

#[cfg(target_arch = "aarch64")]
fn next_instruction(registers: &mut user_regs_struct) -> &mut u64 {
    &mut registers.pc
}

/// The function and line of an instruction, as far as the debug information knows them.
pub fn describe(address: u64) -> String {
    let mut found = None;
    backtrace::resolve(address as *mut _, |symbol| {
        // The innermost of inlined functions comes first.
        if found.is_none() {
            let name = symbol.name().map_or_else(|| "?".into(), |name| format!("{name:#}"));
            let file =
                symbol.filename().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
            found = Some(match (file, symbol.lineno()) {
                (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
                _ => name,
            });
        }
    });
    found.unwrap_or_else(|| format!("{address:#x}"))
}
