//! Processes that cannot be read, or not be stopped, and what is said of them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, id};
use std::ptr::null_mut;
use std::sync::mpsc::channel;
use std::thread;

use heapwright_host::target::Target;

/// A child that is ended when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn own_name() -> String {
    fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned()
}

fn refusal(pid: u32) -> String {
    Target::open(pid).err().expect("the process cannot be read").to_string()
}

#[test]
fn a_process_that_waits_for_its_parent_has_ended() {
    let child = Ended(Command::new("true").spawn().unwrap());
    let pid = child.0.id();
    while state(pid) != 'Z' {
        thread::yield_now();
    }
    let text = refusal(pid);
    assert!(text.starts_with(&format!("process {pid} (true) has ended")), "{text}");
    assert!(text.contains(&format!("its parent, process {} ({})", id(), own_name())), "{text}");
}

#[test]
fn a_thread_is_named_with_its_process() {
    let (send_id, ids) = channel();
    let (end, is_over) = channel::<()>();
    let thread = thread::spawn(move || {
        // SAFETY: the call has no preconditions.
        send_id.send(unsafe { libc::gettid() }).unwrap();
        is_over.recv()
    });
    let of_thread = ids.recv().unwrap() as u32;
    let process = format!("{} ({})", id(), own_name());
    let expected = format!("{of_thread} is a thread of process {process}: give the number of the process");
    assert_eq!(refusal(of_thread), expected);
    drop(end);
    assert!(thread.join().unwrap().is_err());
}

#[test]
fn threads_of_the_kernel_have_no_memory() {
    // In containers it cannot be seen.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert_eq!(refusal(2), "process 2 (kthreadd) is a thread of the kernel: it has no memory of its own");
    }
}

#[test]
fn numbers_that_no_process_has_are_refused() {
    for pid in [0, 0x3fff_fff0, u32::MAX] {
        assert_eq!(refusal(pid), format!("there is no process {pid}"));
    }
}

#[test]
fn the_tracer_of_a_process_is_named() {
    let mut command = Command::new("sleep");
    command.arg("60");
    // SAFETY: between fork and exec only ptrace is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>());
            Ok(())
        });
    }
    let child = Ended(command.spawn().unwrap());
    let pid = child.0.id();
    while state(pid) != 't' {
        thread::yield_now();
    }
    let target = Target::open(pid).unwrap();
    let text = target.stop().err().expect("it is traced already").to_string();
    assert!(text.starts_with(&format!("process {pid} (sleep) cannot be stopped: process {} (", id())), "{text}");
    assert!(text.ends_with("leave out --stop"), "{text}");
}
