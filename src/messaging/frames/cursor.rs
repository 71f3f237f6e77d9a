//! Reads the values of a frame, which may be malformed.

pub(super) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)?;
    usize::try_from(number).ok()
}

/// A position in a payload; each step returns `None` if the payload is too short.
pub(super) struct Cursor {
    pub(super) position: usize,
    pub(super) end: usize,
}

impl Cursor {
    pub(super) const fn after(payload: &[u8], position: usize) -> Self {
        Self { position, end: payload.len() }
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.position = self.position.checked_add(bytes).filter(|next| *next <= self.end)?;
        Some(())
    }

    pub(super) fn byte(&mut self, payload: &[u8]) -> Option<u8> {
        let byte = *payload.get(self.position)?;
        self.skip(1)?;
        Some(byte)
    }

    /// Reads a length of four bytes, and returns the position at which the value ends.
    pub(super) fn length(&mut self, payload: &[u8]) -> Option<usize> {
        let length = read_u32(payload, self.position)?;
        self.skip(4)?;
        self.position.checked_add(length).filter(|end| *end <= self.end)
    }

    /// Reads a short string; its bytes that are not UTF-8 become `?`.
    pub(super) fn short_text(&mut self, payload: &mut [u8]) -> Option<()> {
        let length = usize::from(self.byte(payload)?);
        let start = self.position;
        self.skip(length)?;
        let text = payload.get_mut(start..start + length)?;
        let mut checked = 0;
        while let Err(error) = std::str::from_utf8(&text[checked..]) {
            checked += error.valid_up_to();
            text[checked] = b'?';
        }
        Some(())
    }

    pub(super) fn short_texts(&mut self, payload: &mut [u8], count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.short_text(payload))
    }
}
