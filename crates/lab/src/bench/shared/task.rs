//! What a worker is to do, as words of a command line: those of our own workers and those of the comparator are the same.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// What a worker does with whose heap.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Task {
    /// The allocator, as its program knows it.
    pub allocator: String,
    /// The name of the shared-memory object.
    pub name: String,
    /// The length of the segment, in bytes.
    pub bytes: usize,
    /// Whether the segment is there already.
    #[arg(value_enum)]
    pub role: Role,
    /// What is done.
    #[command(flatten)]
    pub load: Load,
    /// Where the worker's random numbers start.
    pub seed: u64,
}

impl Task {
    /// The words that give this task.
    pub fn to_arguments(&self) -> [String; 9] {
        let Load { pattern, sizes, touch, live } = self.load;
        [
            self.allocator.clone(),
            self.name.clone(),
            self.bytes.to_string(),
            word(self.role),
            word(pattern),
            word(sizes),
            word(touch),
            live.to_string(),
            self.seed.to_string(),
        ]
    }
}

/// What each of the processes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Load {
    /// Which blocks come and go.
    #[arg(value_enum)]
    pub pattern: Pattern,
    /// How long they are.
    #[arg(value_enum)]
    pub sizes: Sizes,
    /// Whether they are written to.
    #[arg(value_enum)]
    pub touch: Touch,
    /// How many blocks each process holds in the steady state.
    pub live: usize,
}

/// Who makes the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// This worker does.
    Create,
    /// Another one did.
    Join,
}

/// Which blocks come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Each process holds many; a random one goes, another comes.
    Steady,
    /// Each process holds one; another comes and goes at once.
    Pair,
}

/// How long blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// 16 to 256 bytes, uniform.
    Small,
    /// 16 bytes to 4 KiB, log-uniform.
    Mixed,
}

/// Whether blocks are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Never.
    Untouched,
    /// Every byte, once.
    Touched,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", word(self.pattern), word(self.sizes))
    }
}

/// The word for a value.
pub fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        task: Task,
    }

    #[test]
    fn a_task_survives_the_command_line() {
        let load = Load { pattern: Pattern::Steady, sizes: Sizes::Mixed, touch: Touch::Touched, live: 10 };
        let task = Task {
            allocator: "best".to_owned(),
            name: "x".to_owned(),
            bytes: 1 << 20,
            role: Role::Join,
            load,
            seed: 7,
        };
        let line = Line::parse_from(["program".to_owned()].into_iter().chain(task.to_arguments()));
        assert_eq!(line.task, task);
    }
}
