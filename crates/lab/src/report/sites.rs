//! Call sites as people read them.

use std::io::Read;

use heapwright_trace::{Reader, SiteId};

/// So many stack frames of a site are named.
const FRAMES: usize = 3;

/// How the names of functions begin that say only that memory was asked for.
const ALLOCATING: [&str; 8] =
    ["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "operator new", "__rust_alloc", "alloc::"];

/// The innermost frames of a site that are not the allocator's own, the innermost first. The trace must have been read to its
/// end, which is where names stand.
pub fn name<R: Read>(trace: &Reader<R>, site: SiteId) -> String {
    let frames: Vec<&str> = trace.site_frames(site).map(|frame| trace.frame_name(frame).unwrap_or(frame)).collect();
    let allocating = |frame: &&str| ALLOCATING.iter().any(|name| frame.starts_with(name));
    let callers = frames.iter().position(|frame| !allocating(frame)).unwrap_or(0);
    frames[callers..].iter().take(FRAMES).copied().collect::<Vec<_>>().join(" ← ")
}

#[cfg(test)]
mod tests {
    use heapwright_trace::{About, Kind, Writer};

    use super::*;

    #[test]
    fn a_site_is_named_by_who_asked() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        for frames in [&["malloc", "a+1", "b", "c", "d"][..], &["malloc"], &[]] {
            let site = writer.define_site(frames).unwrap();
            writer.from_site(site).unwrap();
            writer.allocate(Kind::Malloc, 1, 16).unwrap();
        }
        writer.name_frame("a+1", "parse file.c:10").unwrap();
        writer.finish().unwrap();
        let mut reader = Reader::new(&file[..]).unwrap().with_sites();
        let mut sites = Vec::new();
        while reader.next_event().unwrap().is_some() {
            sites.extend(reader.site());
        }
        let names: Vec<String> = sites.into_iter().map(|site| name(&reader, site)).collect();
        assert_eq!(names, ["parse file.c:10 ← b ← c", "malloc", ""]);
    }
}
