//! A column of a frame that is being encoded: bytes and numbers, for which room is made ahead.

use crate::number;

/// A column.
#[derive(Default)]
pub(crate) struct Encoded {
    /// Longer than `length`, by what the events need for which there is room.
    bytes: Vec<u8>,
    length: usize,
}

impl Encoded {
    /// Makes room for this number of bytes.
    #[inline]
    pub(crate) fn reserve(&mut self, bytes: usize) {
        let length = self.length + bytes;
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }

    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline(always)]
    pub(crate) fn push_number(&mut self, number: u64) {
        if number >= u64::from(number::SHORT) {
            return self.push_long(number);
        }
        let (bytes, length) = number::short(number as u32);
        self.bytes[self.length..][..2].copy_from_slice(&bytes);
        self.length += length;
    }

    #[inline(never)]
    fn push_long(&mut self, number: u64) {
        number::each_byte(number, |byte| self.push(byte));
    }

    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}
