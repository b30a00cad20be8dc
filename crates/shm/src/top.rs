//! `heapwright shm top`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use heapwright_shared::{Access, Error, LockView, ObservedProcess, Observer, Picture, Place};
use serde_json::{Value, json};

use super::arguments::TopArgs;
use super::list::FOLDER;
use super::look;
use super::output::print;
use heapwright_show::number;
use heapwright_show::output::failure;
use heapwright_show::table::{Cell, Side, Table};

/// How often the lock is looked at between two pictures.
const LOOKS: u32 = 50;

/// Processes shown of each segment; all are in the JSON.
const SHOWN: usize = 20;

/// Clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints pictures until the time is over.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let start = Instant::now();
    let mut seen = look(args, &[])?;
    loop {
        watch_locks(&mut seen, args.every);
        let views = look(args, &seen)?;
        if args.json {
            print_line(&views)?;
        } else {
            print(&page(&views))?;
        }
        if args.once || args.seconds.is_some_and(|most| start.elapsed() >= Duration::from_secs(most)) {
            return Ok(ExitCode::SUCCESS);
        }
        seen = views;
    }
}

/// A segment at one moment, and since the moment before.
struct View {
    place: Place,
    observer: Observer,
    picture: Picture,
    at: Instant,
    /// Operations of all per second; `None` without a picture before.
    rate: Option<f64>,
    /// Operations of each process of the picture on blocks of slabs, per second; others are not counted by process.
    rates: Vec<Option<f64>>,
    /// The looks at the lock since the picture before.
    past: Looks,
    /// Those since this one.
    next: Looks,
}

/// What looks at a lock have found.
#[derive(Clone, Copy, Default)]
struct Looks {
    count: u32,
    held: u32,
    contended: u32,
}

impl Looks {
    fn add(&mut self, lock: LockView) {
        self.count += 1;
        self.held += u32::from(lock.holder.is_some());
        self.contended += u32::from(lock.contended);
    }

    /// The share of looks, as a number from 0 to 1.
    fn share(self, of: u32) -> Option<f64> {
        (self.count > 0).then(|| f64::from(of) / f64::from(self.count))
    }
}

/// Looks at the segment that was named, or at all that this user can read.
fn look(args: &TopArgs, before: &[View]) -> Result<Vec<View>> {
    let access = args.trust.access();
    if let Some(place) = &args.place {
        return Ok(vec![View::of(place.clone(), &access, before)?]);
    }
    let entries = fs::read_dir(FOLDER).with_context(|| format!("cannot list {FOLDER}"))?;
    let mut views = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| format!("cannot list {FOLDER}"))?.file_name();
        if let Ok(place) = Place::new(name) {
            match View::of(place, &access, before) {
                Ok(view) => views.push(view),
                Err(error) if look::is_shortage(&error) => return Err(error.into()),
                // Of another user, or no segment.
                Err(_) => {}
            }
        }
    }
    views.sort_by(|one, other| one.place.path().cmp(other.place.path()));
    Ok(views)
}

/// Looks at the locks a number of times, spread over `time`.
fn watch_locks(views: &mut [View], time: Duration) {
    for _ in 0..LOOKS {
        thread::sleep(time / LOOKS);
        for view in &mut *views {
            if let Ok(lock) = view.observer.lock() {
                view.next.add(lock);
            }
        }
    }
}

impl View {
    fn of(place: Place, access: &Access, before: &[View]) -> Result<View, Error> {
        let observer = Observer::open_with(&place, access)?;
        let (at, picture) = (Instant::now(), observer.picture()?);
        let last = before.iter().find(|view| view.place.path() == place.path());
        let per_second = |now: u64, then: u64, last: &View| {
            // A segment made anew counts from 0.
            now.checked_sub(then).map(|count| count as f64 / at.duration_since(last.at).as_secs_f64())
        };
        let rate = last.and_then(|last| per_second(operations(&picture), operations(&last.picture), last));
        let rate_of = |process: &ObservedProcess| {
            let last = last?;
            let same = |one: &&ObservedProcess| (one.slot, one.owner.pid) == (process.slot, process.owner.pid);
            let then = last.picture.processes.iter().find(same)?;
            per_second(process.operations?, then.operations?, last)
        };
        let rates = picture.processes.iter().map(rate_of).collect();
        let past = last.map_or(Looks::default(), |last| last.next);
        Ok(View { place, observer, picture, at, rate, rates, past, next: Looks::default() })
    }

    fn json(&self) -> Value {
        let Picture { counters, .. } = &self.picture;
        let process = |(process, rate): (&ObservedProcess, &Option<f64>)| {
            json!({
                "pid": process.owner.pid,
                "state": look::state(process.owner.state),
                "blocks": process.blocks,
                "bytes": process.bytes,
                "slab_operations_per_second": rate,
            })
        };
        json!({
            "place": look::path(&self.place),
            "torn": self.picture.torn,
            "operations_per_second": self.rate,
            "lock": {
                "looks": self.past.count,
                "held": self.past.share(self.past.held),
                "contended": self.past.share(self.past.contended),
            },
            "size": self.picture.size,
            "max_size": self.picture.max_size,
            "used": self.used(),
            "mallocs": counters.mallocs,
            "frees": counters.frees,
            "resizes": counters.resizes,
            "recoveries": self.picture.recoveries,
            "processes": self.picture.processes.iter().zip(&self.rates).map(process).collect::<Value>(),
        })
    }

    fn used(&self) -> u64 {
        self.picture.processes.iter().map(|process| process.bytes).sum()
    }

    fn describe(&self, text: &mut String) {
        let (size, used) = (self.picture.size as u64, self.used());
        let rate = self.rate.map_or_else(|| "-".to_owned(), number::short);
        let torn = if self.picture.torn { ", torn" } else { "" };
        let share = |of| self.past.share(of).map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let _ = writeln!(text, "{}{torn}", self.place);
        let _ = writeln!(text, "  {rate} operations/s, {} of {} used", number::bytes(used), number::bytes(size));
        let (held, contended) = (share(self.past.held), share(self.past.contended));
        let _ = writeln!(text, "  lock: held in {held}, waited for in {contended} of {} looks", self.past.count);
        let _ = write!(text, "{}", self.table());
        if self.rates.len() > SHOWN {
            let _ = writeln!(text, "  and {} more", self.rates.len() - SHOWN);
        }
    }

    /// The processes, the busiest first.
    fn table(&self) -> Table {
        let headings = [("process", Side::Left), ("state", Side::Left), ("slab operations/s", Side::Right)];
        let sizes = [("blocks", Side::Right), ("bytes", Side::Right)];
        let mut table = Table::aligned(headings.into_iter().chain(sizes)).indented();
        let mut rows: Vec<_> = self.picture.processes.iter().zip(&self.rates).collect();
        rows.sort_by(|(one, rate), (other, than)| {
            than.unwrap_or(0.0).total_cmp(&rate.unwrap_or(0.0)).then(other.bytes.cmp(&one.bytes))
        });
        for (process, rate) in rows.into_iter().take(SHOWN) {
            let number = usize::from(process.slot);
            table.row([
                Cell::styled(look::pid(process.owner), look::owner_style(process.owner, number)),
                look::state(process.owner.state).into(),
                rate.map_or_else(Cell::missing, |rate| number::short(rate).into()),
                number::grouped(process.blocks).into(),
                number::bytes(process.bytes).into(),
            ]);
        }
        table
    }
}

fn operations(picture: &Picture) -> u64 {
    let counters = &picture.counters;
    counters.mallocs.wrapping_add(counters.frees).wrapping_add(counters.resizes)
}

/// One picture for people, in place of the one before if that can be.
fn page(views: &[View]) -> String {
    let mut text = if io::stdout().is_terminal() { CLEAR.to_owned() } else { String::new() };
    if views.is_empty() {
        let _ = writeln!(text, "there are no segments that you can read in {FOLDER}");
    }
    views.iter().for_each(|view| view.describe(&mut text));
    text
}

/// One picture for programs.
fn print_line(views: &[View]) -> io::Result<()> {
    let rows: Vec<Value> = views.iter().map(View::json).collect();
    let mut out = io::stdout().lock();
    let line = json!({ "schema": 1, "results": rows });
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| failure(&error))
}
