//! Two processes at one heap: one leaves a list behind and is killed, the other reads it and clears up.
//!
//! `cargo run --example two_processes`

use std::error::Error;
use std::io::Read;
use std::process::{Command, Stdio, exit};

use heapwright_shared::{Offset, Place, PolicyKind, Relocatable, Settings, SharedHeap};

/// A link of a list that means the same in every process.
#[derive(Clone, Copy)]
#[repr(C)]
struct Node {
    number: u64,
    next: Option<Offset<Node>>,
}

// SAFETY: a number and an offset, in the order of C.
unsafe impl Relocatable for Node {}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(name) => write_list(&Place::new(name)?),
        None => read_list(&Place::new(format!("two-processes-{}", std::process::id()))?),
    }
}

/// The child: makes a list, says so, and waits for its end.
fn write_list(place: &Place) -> Result<(), Box<dyn Error>> {
    let heap = SharedHeap::open(place)?;
    let mut list = None;
    for number in 1..=10 {
        list = Some(heap.allocate_value(Node { number, next: list })?);
    }
    if let Some(first) = list {
        heap.set_root("list", first.cast())?;
    }
    println!("ready");
    std::thread::park();
    exit(1)
}

/// The parent: kills its child and inherits.
fn read_list(place: &Place) -> Result<(), Box<dyn Error>> {
    let settings = Settings { max_size: Some(64 << 20), policy: PolicyKind::Good, ..Settings::default() };
    let heap = SharedHeap::create(place, &settings)?;
    let name = place.path().as_os_str();
    let mut child = Command::new(std::env::current_exe()?).arg(name).stdout(Stdio::piped()).spawn()?;
    child.stdout.take().ok_or("no pipe")?.read_exact(&mut [0; 6])?;
    child.kill()?;
    child.wait()?;

    let mut at = heap.root("list")?.map(Offset::cast::<Node>);
    while let Some(offset) = at {
        // SAFETY: the list was complete when its root was set, and no process writes to it any more.
        let node = unsafe { heap.get(offset) };
        print!("{} ", node.number);
        at = node.next;
    }
    println!();
    for process in heap.processes()? {
        println!("{:?}: {} blocks of {} bytes in all", process.owner, process.blocks, process.bytes);
    }
    // The root keeps its block; take the rest, then that.
    println!("{:?}", heap.reclaim_dead()?);
    if let Some(first) = heap.root("list")? {
        heap.replace_root("list", Some(first), None)?;
        heap.deallocate(first)?;
    }
    heap.check()?;
    SharedHeap::unlink(place)?;
    Ok(heap.close()?)
}
