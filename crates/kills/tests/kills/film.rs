//! Every state that a file of shared memory passes through while a victim is stepped through an operation.
//!
//! A killed process leaves the memory as its last instruction left it, so the states after every instruction are the
//! states that survivors can find. Most instructions change nothing in the file: the film keeps the changes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::victim::{Step, Victim};

/// What a path shows: the bytes of the file, or that there is no file.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(Option<Vec<u8>>);

impl Image {
    /// Takes the image of the file at `path`.
    pub fn of(path: &Path) -> io::Result<Image> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Image(Some(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Image(None)),
            Err(error) => Err(error),
        }
    }

    /// Puts the file back to this state; processes that have mapped it see it.
    pub fn restore(&self, path: &Path) -> io::Result<()> {
        let Some(bytes) = &self.0 else {
            return match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        file.write_all_at(bytes, 0)
    }

    /// The same with zeros in a range, where there is a file.
    pub fn erased(&self, range: std::ops::Range<usize>) -> Image {
        let mut image = self.clone();
        if let Some(bytes) = &mut image.0 {
            bytes[range].fill(0);
        }
        image
    }
}

/// A state and the instructions after which it stood.
pub struct Frame {
    /// The number of instructions done when it was first seen.
    pub after: usize,
    /// The address of the instruction that made it.
    pub made_by: u64,
    /// The state.
    pub image: Image,
}

/// All states of one operation, in order.
pub struct Film {
    pub frames: Vec<Frame>,
    /// The address of every instruction, in order.
    pub instructions: Vec<u64>,
}

/// An operation of more instructions than this is taken for endless.
const LONGEST: usize = 5_000_000;

impl Film {
    /// Steps a victim through its whole operation.
    pub fn shoot(victim: Victim, path: &Path) -> Result<Film, String> {
        let mut camera = Camera::new(path);
        let first = Frame { after: 0, made_by: victim.program_counter(), image: camera.take()? };
        let mut film = Film { frames: vec![first], instructions: Vec::new() };
        loop {
            let at = victim.program_counter();
            let step = victim.step()?;
            film.instructions.push(at);
            if camera.sees_a_change()? {
                film.frames.push(Frame { after: film.instructions.len(), made_by: at, image: camera.take()? });
            }
            if step == Step::Over {
                return Ok(film);
            }
            if film.instructions.len() == LONGEST {
                return Err(format!("the operation is not over after {LONGEST} instructions"));
            }
        }
    }

    /// The instruction counts at which a kill differs from its neighbours as far as a processor is concerned: every
    /// one, but of the repetitions of one string instruction (`rep movs`, `rep stos`) only every 64th.
    pub fn moments(&self) -> impl Iterator<Item = usize> {
        let again = |k: usize| k > 0 && k < self.instructions.len() && self.instructions[k] == self.instructions[k - 1];
        (0..=self.instructions.len()).filter(move |&k| !again(k) || k.is_multiple_of(64))
    }
}

/// Watches a path.
struct Camera {
    path: PathBuf,
    seen: Option<(u64, File, Mmap)>,
    last: Vec<u8>,
}

impl Camera {
    fn new(path: &Path) -> Camera {
        Camera { path: path.to_owned(), seen: None, last: Vec::new() }
    }

    /// Whether the file differs from when its image was last taken.
    fn sees_a_change(&mut self) -> Result<bool, String> {
        let inode = std::fs::metadata(&self.path).ok().map(|facts| facts.ino());
        Ok(match (&self.seen, inode) {
            (Some((known, file, map)), Some(inode)) => {
                *known != inode || file.metadata().map_err(text)?.len() != map.len() as u64 || map[..] != self.last[..]
            }
            (None, None) => false,
            _ => true,
        })
    }

    /// Takes the file's image.
    fn take(&mut self) -> Result<Image, String> {
        self.seen = match File::open(&self.path) {
            Ok(file) => {
                // SAFETY: the victim, the only writer, is stopped whenever the mapping is read.
                let map = unsafe { Mmap::map(&file) }.map_err(text)?;
                Some((file.metadata().map_err(text)?.ino(), file, map))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.to_string()),
        };
        self.last = self.seen.as_ref().map_or_else(Vec::new, |(_, _, map)| map.to_vec());
        Ok(Image(self.seen.is_some().then(|| self.last.clone())))
    }
}

fn text(error: io::Error) -> String {
    error.to_string()
}
