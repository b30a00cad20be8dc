//! Processes push to a linked list in the segment and are killed; nothing leaks.
//!
//!     cargo run --release --package heapwright-shared --example killed_writers

use std::process::{Child, Command};
use std::time::Duration;

use heapwright_shared::{BlockState, Error, Offset, Place, Relocatable, Settings, SharedHeap};

const KILLS: u64 = 50;

#[derive(Clone, Copy)]
#[repr(C)]
struct Node {
    next: Option<Offset<Node>>,
    value: u64,
}

// SAFETY: an offset and a number, laid out alike by every process that runs this program.
unsafe impl Relocatable for Node {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1) {
        Some(name) => Ok(write(&Place::new(name)?)?),
        None => kill_writers(),
    }
}

/// Pushes for ever.
fn write(place: &Place) -> Result<(), Error> {
    let heap = SharedHeap::open(place)?;
    let Some(head) = heap.root("list")? else { return Ok(()) };
    for value in 0.. {
        // Allocated, filled and linked in one step: a kill leaves all of it or nothing.
        // SAFETY: the root is the list's head, which serves these calls only, and stays.
        unsafe { heap.allocate_value_into(head.cast(), |next| Node { next, value }) }?;
    }
    Ok(())
}

fn kill_writers() -> Result<(), Box<dyn std::error::Error>> {
    let name = format!("heapwright-killed-writers-{}", std::process::id());
    let place = Place::new(&name)?;
    let heap = SharedHeap::create(&place, &Settings { max_size: Some(1 << 30), ..Settings::default() })?;
    let head: Offset<Option<Offset<Node>>> = heap.allocate_value(None)?;
    heap.set_root("list", head.cast())?;
    let done = kill_each(&name).and_then(|()| Ok(count(&heap, head)?));
    SharedHeap::unlink(&place)?;
    let (nodes, blocks) = done?;
    println!("{KILLS} writers killed: the list has {nodes} nodes, {blocks} blocks are used");
    println!("not in the list: {}, the list's head", blocks - nodes);
    Ok(())
}

fn kill_each(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    for kill in 0..KILLS {
        let mut writer: Child = Command::new(std::env::current_exe()?).arg(name).spawn()?;
        std::thread::sleep(Duration::from_micros(5000 + kill * 97));
        writer.kill()?;
        writer.wait()?;
    }
    Ok(())
}

/// The number of nodes in the list and of used blocks.
fn count(heap: &SharedHeap, head: Offset<Option<Offset<Node>>>) -> Result<(usize, usize), Error> {
    // SAFETY: the head and the nodes are what they were allocated as, and no writer lives.
    let mut node = unsafe { *heap.get(head) };
    let mut nodes = 0;
    while let Some(at) = node {
        nodes += 1;
        // SAFETY: as above.
        node = unsafe { heap.get(at) }.next;
    }
    let blocks = heap.blocks()?;
    Ok((nodes, blocks.iter().filter(|block| block.state == BlockState::Used).count()))
}
