//! A worker process: allocates from a segment for one window of time after the other, as the parent requests.
//! `boost.cpp` does the same.

use anyhow::{Context, Result};
use heapwright_shared::{Place, PolicyKind, Settings, SharedHeap, SmallBlocks};

use super::load::Work;
use super::task::{Done, Reply, Role, Task, Window};
use crate::published::heaps::{Malloc, Memory, NoHeap, Segment};
use heapwright_host::child::{self, Job};
use heapwright_host::timer::{Clock, read, sleep_until};

/// The job of a worker process.
pub const JOB: Job = Job { name: "bench-shared", perform: |task| serve(&child::parse_task(task)?) };

/// The name of the malloc of the worker's own process.
pub const MALLOC: &str = "malloc";

/// The loop of a load alone: nothing is allocated.
pub const NOTHING: &str = "nothing";

/// What follows the name of a policy whose small blocks come from slabs.
pub const SLABS: &str = ", slabs";

/// The alignment of Boost.Interprocess' blocks, so that both round sizes in the same way.
const GRANULE: u32 = 16;

/// Answers requests until standard input ends.
fn serve(task: &Task) -> Result<()> {
    if task.allocator == MALLOC {
        return serve_on(Malloc, task);
    }
    if task.allocator == NOTHING {
        return serve_on(NoHeap::default(), task);
    }
    let (policy, small) = match task.allocator.strip_suffix(SLABS) {
        Some(policy) => (policy, SmallBlocks::Slabs),
        None => (task.allocator.as_str(), SmallBlocks::Placed),
    };
    let policy = PolicyKind::from_name(policy).with_context(|| format!("no policy {}", task.allocator))?;
    let place = Place::new(&task.name)?;
    let heap = match task.role {
        Role::Create => {
            let settings = Settings { size: task.bytes, policy, small, granule: GRANULE, ..Settings::default() };
            SharedHeap::create(&place, &settings)
        }
        Role::Join => SharedHeap::open(&place),
    };
    serve_on(Segment::of(heap?), task)
}

fn serve_on(heap: impl Memory, task: &Task) -> Result<()> {
    let mut work = Work::settle(heap, task.load, task.seed)?;
    child::reply(&Reply::Ready)?;
    for window in child::requests() {
        let window: Window = window?;
        sleep_until(window.start);
        work.run_until(window.begin)?;
        let busy = read(Clock::Processor);
        let pairs = work.run_until(window.end)?;
        child::reply(&Reply::Done(Done { pairs, busy: read(Clock::Processor) - busy, tail: work.tail() }))?;
    }
    Ok(())
}
