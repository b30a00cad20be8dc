//! Detects the compression of a source from its first bytes, and decompresses it.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::ImportError;

/// The number of bytes that identify the compression.
const MAGIC: u64 = 6;

/// Calls `read` with the decompressed `source`: gzip, zstd, the first file of a zip, or uncompressed.
pub(super) fn unpacked<T>(
    source: impl BufRead,
    read: impl FnOnce(&mut dyn BufRead) -> Result<T, ImportError>,
) -> Result<T, ImportError> {
    let (magic, mut whole) = peeked(source, MAGIC)?;
    match Packing::of(&magic) {
        Packing::Gzip => read(&mut BufReader::new(flate2::bufread::MultiGzDecoder::new(whole))),
        Packing::Zstd => read(&mut BufReader::new(zstd::stream::read::Decoder::with_buffer(whole)?)),
        Packing::Zip => unzipped(whole, read),
        Packing::Other(with) => Err(ImportError::Packed { with }),
        Packing::None => read(&mut whole),
    }
}

/// Returns up to `length` first bytes of `source`, and a reader of all of it.
pub(super) fn peeked<R: BufRead>(mut source: R, length: u64) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut first = Vec::new();
    (&mut source).take(length).read_to_end(&mut first)?;
    Ok((first.clone(), Cursor::new(first).chain(source)))
}

/// Reads the first file of a zip as a stream, without the directory at its end.
fn unzipped<T>(
    mut zip: impl BufRead,
    read: impl FnOnce(&mut dyn BufRead) -> Result<T, ImportError>,
) -> Result<T, ImportError> {
    loop {
        let entry = zip::read::read_zipfile_from_stream(&mut zip);
        let entry = entry.map_err(|error| ImportError::Zip { what: error.to_string() })?;
        match entry {
            None => return Err(ImportError::Zip { what: "it contains no file".to_owned() }),
            Some(folder) if folder.is_dir() => {}
            Some(file) => return read(&mut BufReader::new(file)),
        }
    }
}

enum Packing {
    None,
    Gzip,
    Zstd,
    Zip,
    /// A compression that is not supported, by the name of the program that decompresses it.
    Other(&'static str),
}

impl Packing {
    fn of(magic: &[u8]) -> Packing {
        match magic {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            [b'P', b'K', 3, 4, ..] => Packing::Zip,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Packing::Other("xz"),
            [b'B', b'Z', b'h', ..] => Packing::Other("bzip2"),
            _ => Packing::None,
        }
    }
}
