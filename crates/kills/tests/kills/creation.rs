//! Making a segment, as the subject of kills: a creator that dies leaves nothing or all.

use std::ops::Range;
use std::path::Path;

use heapwright_shared::{Error, Place, PolicyKind, Settings, SharedHeap};

use crate::fates::empty;
use crate::subject::Subject;
use crate::words;

/// Creation under one policy. Dropping it removes the segment.
pub struct Creation {
    place: Place,
    settings: Settings,
}

impl Creation {
    pub fn new(policy: PolicyKind, place: Place) -> Creation {
        let settings = Settings { size: 16 << 10, policy, processes: 4, roots: 2, ..Settings::default() };
        Creation { place, settings }
    }

    fn create(&self) -> Result<SharedHeap, Error> {
        SharedHeap::create(&self.place, &self.settings)
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        // There need be none.
        let _ = SharedHeap::unlink(&self.place);
    }
}

impl Subject for Creation {
    type Handle = Option<SharedHeap>;

    fn name(&self) -> String {
        format!("{}, create", self.settings.policy.name())
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    fn prepare(&self) -> Result<(), String> {
        match SharedHeap::unlink(&self.place) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn attach(&self) -> Result<Self::Handle, String> {
        Ok(None)
    }

    fn operate(&self, handle: &mut Self::Handle) -> Result<(), String> {
        *handle = Some(self.create().map_err(words("create"))?);
        Ok(())
    }

    fn recover(&self, handle: &mut Self::Handle) -> Result<(), String> {
        let heap = match self.create() {
            Err(Error::Exists { .. }) => SharedHeap::open(&self.place).map_err(words("open"))?,
            other => other.map_err(words("the next creation"))?,
        };
        *handle = Some(heap);
        Ok(())
    }

    fn judge(&self, handle: &mut Self::Handle) -> Result<(), String> {
        let heap = handle.as_ref().ok_or("no process is attached")?;
        heap.check().map_err(words("check"))?;
        if let Some(left) = remains(&self.place) {
            return Err(format!("the dead creator left {left}"));
        }
        heap.allocate(1000).map_err(words("allocate"))?;
        empty(heap)
    }

    fn record(&self) -> Range<usize> {
        0..0
    }
}

/// What else than the segment lies where it was made, with its name.
fn remains(place: &Place) -> Option<String> {
    let path = place.path();
    let (directory, own) = (path.parent()?, path.file_name()?.to_str()?);
    let mut names =
        std::fs::read_dir(directory).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| name.contains(own) && name != own)
}
