//! Lines of standard input, kept in a file: they are read twice and never all in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write},
};

/// A due notice has a hundred bytes; a longer line is not one.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// One line that is not empty.
pub(super) struct InputLine {
    /// From 1.
    pub(super) number: usize,
    /// Without the line break; or why it cannot be used.
    pub(super) text: Result<String, String>,
}

/// Copies the input to a file without a name, which is gone with the process.
pub(super) fn keep(mut input: impl Read) -> io::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    io::copy(&mut input, &mut file)?;
    file.flush()?;
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The lines of a file, from its beginning.
pub(super) fn lines(file: &File) -> io::Result<impl Iterator<Item = io::Result<InputLine>>> {
    let mut reader = BufReader::new(file);
    reader.rewind()?;
    let mut number = 0;
    Ok(std::iter::from_fn(move || {
        loop {
            number += 1;
            match line(&mut reader) {
                Ok(None) => return None,
                Ok(Some(Ok(text))) if text.trim().is_empty() => {}
                Ok(Some(text)) => return Some(Ok(InputLine { number, text })),
                Err(error) => return Some(Err(error)),
            }
        }
    }))
}

/// The next line; none at the end.
fn line(reader: &mut impl BufRead) -> io::Result<Option<Result<String, String>>> {
    let mut bytes = Vec::new();
    if reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 == MAX_LINE_BYTES {
        reader.skip_until(b'\n')?;
        return Ok(Some(Err(format!("it has more than {} KiB", MAX_LINE_BYTES / 1024))));
    }
    Ok(Some(String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())))
}
