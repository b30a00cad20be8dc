//! All combinations of a sweep's parameters, in a fixed order.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_replay::Model;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The version of the form of rows.
pub const SCHEMA: u32 = 1;

/// What is combined with what.
#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    /// The traces: names and hashes, no paths, so that shards may run on different machines.
    pub traces: Vec<TraceName>,
    /// By name.
    pub policies: Vec<String>,
    pub granules: Vec<u32>,
    pub headers: Vec<u32>,
    pub min_remainders: Vec<u32>,
    pub shapes: Vec<Shape>,
    /// Of random fit; the other policies are tried once.
    pub seeds: Vec<u64>,
}

/// Which trace it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceName {
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub hash: String,
}

/// How long a heap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// As long as it needs to be, growing by a rule.
    Append,
    Extend,
    Pages(u32),
    /// A fixed region; its length in bytes.
    Region(usize),
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Which of the traces.
    pub trace: usize,
    pub shape: Shape,
    pub model: Model,
}

impl Shape {
    /// The growth rule, as it is typed.
    pub fn growth(self) -> String {
        match self {
            Shape::Append => "append".to_owned(),
            Shape::Extend => "extend".to_owned(),
            Shape::Pages(bytes) => format!("pages:{bytes}"),
            Shape::Region(_) => "fixed".to_owned(),
        }
    }

    /// The length of a fixed region.
    pub fn region(self) -> Option<usize> {
        if let Shape::Region(bytes) = self { Some(bytes) } else { None }
    }

    fn rule(self) -> Growth {
        match self {
            Shape::Append => Growth::Append,
            Shape::Extend => Growth::Extend,
            Shape::Pages(bytes) => Growth::Pages(bytes),
            Shape::Region(_) => Growth::Fixed,
        }
    }
}

impl Grid {
    /// All points, in their order: by trace, policy, granule, header, minimum remainder, shape and seed.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (trace, policy) in
            (0..self.traces.len()).flat_map(|trace| self.policies.iter().map(move |name| (trace, name)))
        {
            let Some(policy) = PolicyKind::from_name(policy) else { continue };
            let seeds = if policy == PolicyKind::Random { &self.seeds[..] } else { &[1] };
            for &granule in &self.granules {
                for &header in &self.headers {
                    for &min_remainder in &self.min_remainders {
                        for &shape in &self.shapes {
                            let rules =
                                Rules { granule, header, min_remainder, growth: shape.rule(), ..Rules::default() };
                            let usual = Model::with(policy, rules);
                            let capacity = shape.region().unwrap_or(usual.capacity);
                            let of = |&seed: &u64| Point { trace, shape, model: Model { capacity, seed, ..usual } };
                            points.extend(seeds.iter().map(of));
                        }
                    }
                }
            }
        }
        points
    }

    /// At least as many points as there are.
    pub fn most_points(&self) -> usize {
        let lists = [self.traces.len(), self.policies.len(), self.granules.len(), self.headers.len()];
        let more = [self.min_remainders.len(), self.shapes.len(), self.seeds.len().max(1)];
        lists.into_iter().chain(more).fold(1, usize::saturating_mul)
    }

    /// Returns the identity of this sweep: parameters, contents of traces, version of the program and form of rows.
    pub fn fingerprint(&self) -> Result<String> {
        let text = serde_json::to_string(&(SCHEMA, env!("CARGO_PKG_VERSION"), self))?;
        Ok(hexadecimal(&Sha256::digest(text))[..32].to_owned())
    }
}

impl TraceName {
    /// The name and the hash of the trace at `path`.
    pub fn of(path: &Path) -> Result<TraceName> {
        let cannot = || format!("{} cannot be read", path.display());
        let mut file = std::fs::File::open(path).with_context(cannot)?;
        let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match file.read(&mut bytes).with_context(cannot)? {
                0 => break,
                read => hash.update(&bytes[..read]),
            }
        }
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(TraceName { name, hash: hexadecimal(&hash.finalize()) })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
