//! Reading a trace from its front.

use std::io::{self, Read};

use crate::VERSION;
use crate::about::About;
use crate::columns::Cursor;
use crate::error::{Fault, ReadError};
use crate::event::Event;
use crate::frame::{self, Contents, HEADER, Header};

/// The first bytes of every trace.
pub(crate) const MAGIC: &[u8; 8] = b"hwtrace\0";
/// The last bytes of a trace that has an index, behind the index's offset.
pub(crate) const INDEXED: &[u8; 8] = b"hwindex\0";

/// Reads a trace, event by event. Memory: one frame, at most 4 MiB, whatever the file says.
///
/// Frames of kinds that are not known are passed over, so that a trace with side streams can be read by those who do
/// not know them.
pub struct Reader<R: Read> {
    file: R,
    about: About,
    events: Cursor,
    /// The number of the next event, and of the next block that appears.
    next_event: u64,
    next_block: u64,
    /// The frame under way: its number and where it begins.
    frame: u64,
    offset: u64,
    /// Where the next frame begins.
    position: u64,
    ended: bool,
    finished: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn new(mut file: R) -> Result<Reader<R>, ReadError> {
        let mut start = [0; 12];
        if fill(&mut file, &mut start)? < start.len() || start[..8] != *MAGIC {
            return Err(ReadError::NotATrace);
        }
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if version == 0 || version > VERSION {
            return Err(ReadError::Version { found: version });
        }
        let mut reader = Reader {
            file,
            about: About::default(),
            events: Cursor::default(),
            next_event: 0,
            next_block: 0,
            frame: 0,
            offset: start.len() as u64,
            position: start.len() as u64,
            ended: false,
            finished: false,
        };
        let Some((header, contents)) = reader.next_frame()? else { return Err(reader.damaged(Fault::CutOff)) };
        let about = (header.kind == Contents::About as u32).then(|| About::from_bytes(&contents)).flatten();
        reader.about = about.ok_or_else(|| reader.damaged(Fault::Contents))?;
        Ok(reader)
    }

    /// What the trace tells besides events.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether the end that was reached is the one that the writer set: a recording that was cut off has none.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// How many events have been read.
    pub fn events_read(&self) -> u64 {
        self.next_event
    }

    /// How many bytes of the file have been read.
    pub fn bytes_read(&self) -> u64 {
        self.position
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] names the frame; nothing can be read behind it. [`ReadError::Io`].
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            match self.events.next_event(&mut self.next_block) {
                Ok(Some(event)) => {
                    self.next_event += 1;
                    return Ok(Some(event));
                }
                Ok(None) if self.ended => return Ok(None),
                Ok(None) => self.open_frame()?,
                Err(fault) => return Err(self.damaged(fault)),
            }
        }
    }

    /// Goes on to the next frame, if there is one.
    #[cold]
    fn open_frame(&mut self) -> Result<(), ReadError> {
        let Some((header, contents)) = self.next_frame()? else {
            self.ended = true;
            return Ok(());
        };
        if header.kind == Contents::Index as u32 {
            (self.ended, self.finished) = (true, true);
        }
        if header.kind != Contents::Events as u32 {
            return Ok(());
        }
        if (header.first_event, header.first_block) != (self.next_event, self.next_block) {
            return Err(self.damaged(Fault::Order));
        }
        self.events = Cursor::new(contents, header.events).map_err(|fault| self.damaged(fault))?;
        Ok(())
    }

    /// The next frame, unpacked; `None` at the end of the file.
    fn next_frame(&mut self) -> Result<Option<(Header, Vec<u8>)>, ReadError> {
        let mut header = [0; HEADER];
        self.offset = self.position;
        match fill(&mut self.file, &mut header)? {
            0 => return Ok(None),
            HEADER => {}
            _ => return Err(self.damaged(Fault::CutOff)),
        }
        let header = Header::from_bytes(&header).map_err(|fault| self.damaged(fault))?;
        let mut packed = vec![0; header.packed as usize];
        if fill(&mut self.file, &mut packed)? < packed.len() {
            return Err(self.damaged(Fault::CutOff));
        }
        let contents = frame::unpack(&packed, header.length as usize).map_err(|fault| self.damaged(fault))?;
        self.position += (HEADER + packed.len()) as u64;
        self.frame += 1;
        Ok(Some((header, contents)))
    }

    /// An error in the frame under way, after which nothing more is read.
    fn damaged(&mut self, fault: Fault) -> ReadError {
        self.ended = true;
        self.events = Cursor::default();
        ReadError::Damaged {
            frame: self.frame,
            offset: self.offset,
            events_before: self.next_event,
            what: fault.to_string(),
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

/// Reads until `bytes` is full or the file ends; returns how many bytes that were.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
