//! `cargo xtask limits`: the smallest limit of a control group under which real programs finish, under every malloc.

mod group;
mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use heapwright_allocators::{peers, preload};
use heapwright_host::interruption::{self, Interruption};
use heapwright_host::temporary::Folder;
use heapwright_show::number;
use heapwright_show::progress::Progress;
use heapwright_show::results;
use heapwright_show::table::{Cell, Table, ratio};
use serde::Serialize;

use self::group::Group;
use self::programs::{PROGRAMS, Program, write_inputs};

/// The arguments of `cargo xtask limits`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only programs whose names contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// The library to measure; the one that the command carries by default
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Leave out the other mallocs
    #[arg(long)]
    alone: bool,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask limits                        every program under every malloc; some minutes
  cargo xtask limits --only perl --alone    one program, under glibc and ours

Needs the rights to make control groups, and no swap. Programs that are not installed are left out.

Exit code: 0, or 130 after Ctrl-C.";

/// A malloc.
struct Contender {
    name: String,
    /// The variables that choose it.
    variables: Vec<(String, String)>,
}

/// The smallest limits of a program.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    /// In bytes, for each malloc in the order of the table; null for one under which the program does not finish.
    smallest: Vec<Option<u64>>,
}

/// Measures the smallest limits.
///
/// # Errors
/// When no control group can be made or the library cannot be used.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let until = Interruption::listen()?;
    // Fails early where there are no groups.
    drop(Group::new()?);
    let folder = Folder::new("limits")?;
    write_inputs(folder.path())?;
    let contenders = contenders(arguments)?;
    let chosen = |program: &&Program| arguments.only.as_deref().is_none_or(|text| program.name.contains(text));
    let bench = Bench { folder: folder.path() };
    let mut rows = Vec::new();
    let programs: Vec<&Program> = PROGRAMS.iter().filter(chosen).collect();
    let progress = Progress::new("limits", programs.len() * contenders.len());
    for program in programs {
        let Some(executable) = find(program) else {
            progress.aside(|| heapwright_show::eprintln!("xtask: {} is not installed", program.name));
            continue;
        };
        let mut smallest = Vec::new();
        for contender in &contenders {
            progress.at(&format!("{} under {}", program.name, contender.name));
            smallest.push(bench.smallest(program, &executable, contender, &until)?);
            progress.step();
        }
        if until.came() {
            break;
        }
        rows.push(Row { program: program.name, smallest });
    }
    drop(progress);
    if arguments.json {
        results::print(&rows)?;
    } else {
        print(&contenders, &rows);
    }
    Ok(if until.came() { interruption::exit_code() } else { ExitCode::SUCCESS })
}

/// Returns glibc, ours and the others.
fn contenders(arguments: &Arguments) -> Result<Vec<Contender>> {
    let preloaded = |name: &str, library: &Path| Contender {
        name: name.to_owned(),
        variables: vec![("LD_PRELOAD".to_owned(), library.display().to_string())],
    };
    let mut all = vec![
        Contender { name: "glibc".to_owned(), variables: Vec::new() },
        preloaded("cached", &preload::library(arguments.library.as_deref())?),
    ];
    if !arguments.alone {
        for peer in peers::find() {
            let mut contender = preloaded(&peer.name, &peer.library);
            let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
            contender.variables.extend(peer.settings().into_iter().map(|(name, value)| (text(name), text(value))));
            all.push(contender);
        }
    }
    Ok(all)
}

/// Returns the executable of a program.
fn find(program: &Program) -> Option<String> {
    let finds = |name: &&&str| {
        Command::new("sh")
            .args(["-c", "command -v \"$1\"", "sh", name])
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    program.executables.iter().find(finds).map(|&name| name.to_owned())
}

/// What the programs run in.
struct Bench<'f> {
    folder: &'f Path,
}

impl Bench<'_> {
    /// Returns the smallest limit under which the program finishes, within 1 %, by bisection below what it takes
    /// without one; `None` if it does not finish at all.
    fn smallest(
        &self,
        program: &Program,
        executable: &str,
        contender: &Contender,
        until: &Interruption,
    ) -> Result<Option<u64>> {
        const MOST: u64 = 64 << 30;
        let group = Group::new()?;
        let finishes = |limit: u64| self.run(&group, program, executable, contender, limit);
        if !finishes(MOST)? {
            return Ok(None);
        }
        let mut works = group.peak()?;
        // The system reclaims the cache of files first, so that less may do.
        let mut fails = works / 2;
        while works - fails > works / 128 && !until.came() {
            let middle = fails.midpoint(works) & !4095;
            if finishes(middle)? {
                works = middle;
            } else {
                fails = middle;
            }
        }
        // What is barely enough may fail by chance.
        while works < MOST && !until.came() && !(finishes(works)? && finishes(works)?) {
            works += works / 128;
        }
        Ok(Some(works).filter(|_| !until.came()))
    }

    /// Runs a program under a limit; returns whether it finishes.
    fn run(
        &self,
        group: &Group,
        program: &Program,
        executable: &str,
        contender: &Contender,
        limit: u64,
    ) -> Result<bool> {
        group.set_limit(limit)?;
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$1\" && shift && exec env \"$@\"", "sh"]).arg(group.members());
        command.args(contender.variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(program.variable).arg(executable).args(program.arguments);
        let input = match program.input {
            Some(file) => Stdio::from(std::fs::File::open(self.folder.join(file))?),
            None => Stdio::null(),
        };
        command.current_dir(self.folder).env("LC_ALL", "C").stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status().context("cannot run sh")?.success())
    }
}

/// Prints the limits, each malloc's over glibc's.
fn print(contenders: &[Contender], rows: &[Row]) {
    let names = contenders.iter().skip(1).map(|contender| contender.name.clone());
    let mut table = Table::new(["program".to_owned(), "glibc".to_owned()].into_iter().chain(names));
    for row in rows {
        let Some(Some(glibc)) = row.smallest.first().copied() else { continue };
        let over = |smallest: &Option<u64>| match smallest {
            Some(bytes) => Cell::from(ratio(*bytes as f64 / glibc as f64)),
            None => Cell::missing(),
        };
        let first = [Cell::from(row.program), Cell::from(number::bytes(glibc))];
        table.row(first.into_iter().chain(row.smallest.iter().skip(1).map(over)));
    }
    let means = (1..contenders.len())
        .map(|place| mean_over_first(rows, place).map_or(Cell::missing(), |mean| ratio(mean).into()));
    table.row([Cell::from("mean"), Cell::from("")].into_iter().chain(means));
    heapwright_show::print!("{table}");
}

/// Returns the geometric mean of the limits of a malloc over those of the first; `None` when one is missing.
fn mean_over_first(rows: &[Row], place: usize) -> Option<f64> {
    let logarithm = |row: &Row| Some((row.smallest[place]? as f64 / row.smallest[0]? as f64).ln());
    let sum: Option<f64> = rows.iter().map(logarithm).sum();
    sum.filter(|_| !rows.is_empty()).map(|sum| (sum / rows.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_ratios() {
        let row = |smallest: &[Option<u64>]| Row { program: "p", smallest: smallest.to_vec() };
        let rows = [row(&[Some(100), Some(50), None]), row(&[Some(100), Some(200), Some(1)])];
        assert!(mean_over_first(&rows, 1).is_some_and(|mean| (mean - 1.0).abs() < 1e-9));
        assert_eq!((mean_over_first(&rows, 2), mean_over_first(&[], 1)), (None, None));
    }

    #[test]
    fn inputs_are_what_the_programs_name() {
        let folder = Folder::new("limits").unwrap();
        write_inputs(folder.path()).unwrap();
        for program in &PROGRAMS {
            let files =
                program.arguments.iter().chain(&program.input).filter(|name| name.contains('.') && !name.contains('('));
            assert!(files.clone().count() > 0, "{}", program.name);
            for file in files {
                assert!(folder.path().join(file).metadata().unwrap().len() > 100, "{file}");
            }
        }
    }
}
