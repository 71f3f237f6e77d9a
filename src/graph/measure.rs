//! How wide a text is, without fonts: measured so that it fits in the widest of the usual ones (Verdana and the like).

/// Width of `text` in a sans serif of `size` pixels, in pixels, rounded up.
pub(super) fn sans(text: &str, size: i32) -> i32 {
    let hundredths: i32 = text.chars().map(sans_hundredths).fold(0, i32::saturating_add);
    scaled(hundredths, size)
}

/// The same in bold.
pub(super) fn sans_bold(text: &str, size: i32) -> i32 {
    let wide = sans(text, size);
    wide.saturating_add(wide / 9).saturating_add(1)
}

/// Width of `text` in a monospaced font.
pub(super) fn mono(text: &str, size: i32) -> i32 {
    let hundredths = text.chars().map(|c| if c.is_ascii() { 61 } else { 110 });
    scaled(hundredths.fold(0, i32::saturating_add), size)
}

fn scaled(hundredths: i32, size: i32) -> i32 {
    hundredths.saturating_mul(size).saturating_add(99) / 100
}

/// Advance width in hundredths of the font size.
fn sans_hundredths(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' => 32,
        ' ' | '.' | ',' | ':' | ';' | 'f' | 'I' | '·' | '/' => 38,
        'r' | 't' | '(' | ')' | '[' | ']' | '!' | '-' => 43,
        'm' | 'M' | 'W' | '%' | '@' | '…' => 100,
        'w' | '<' | '>' | '#' | '=' | '+' => 84,
        'A'..='Z' => 77,
        c if c.is_ascii() => 64,
        _ => 110,
    }
}

/// `text` in at most `most` characters; of a longer one the middle is left out.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let end = kept / 2;
    let start: String = text.chars().take(kept - end).collect();
    let tail: String = text.chars().skip(length - end).collect();
    format!("{start}…{tail}")
}
