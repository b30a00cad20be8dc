//! Places of code in files, for profiles of other tools.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use heapwright_trace::import::{CodeFiles, Located};

use crate::sites::{Library, Place, Places};

/// The programs and libraries of this machine.
#[derive(Clone, Default)]
pub struct InstalledFiles {
    library: Library,
}

impl fmt::Debug for InstalledFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstalledFiles")
    }
}

impl InstalledFiles {
    fn place(&self, path: &str, offset: u64) -> Option<Place> {
        let path: Arc<Path> = Path::new(path).into();
        // Opening anything else might wait.
        let binary = path.is_file().then(|| self.library.binaries.at(&path))??;
        let address = offset.wrapping_sub(binary.bias(offset, offset)?);
        Some(Place { path, version: Some(binary.version), address })
    }
}

impl CodeFiles for InstalledFiles {
    fn locate(&self, places: &[(&str, u64)]) -> Vec<Option<Located>> {
        let found: Vec<Option<Place>> = places.iter().map(|&(path, offset)| self.place(path, offset)).collect();
        let text = |place: &Place| format!("{}+{:#x}", place.path.display(), place.address);
        let by_text: Places = found.iter().flatten().map(|place| (text(place).into(), place.clone())).collect();
        let names: HashMap<&str, String> = self.library.names.of(&by_text).into_iter().collect();
        let located = |place: Place| Located { address: place.address, name: names.get(&*text(&place)).cloned() };
        found.into_iter().map(|place| place.map(located)).collect()
    }
}
