//! Where a frame of the protocol ends, and which words it has. It decodes no further than the tests can use.

use std::str;

/// A header that is longer than this is no header.
const LONGEST_HEADER: usize = 64 * 1024;

/// Bytes that are not the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// One whole frame, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// Takes the first whole frame off the buffer, if it is all there.
    pub(super) fn take(buffer: &mut Vec<u8>) -> Result<Option<Self>, Malformed> {
        let Some(end) = end_of_frame(buffer, 0)? else {
            return Ok(None);
        };
        let rest = buffer.split_off(end);
        Ok(Some(Self { bytes: std::mem::replace(buffer, rest) }))
    }

    /// A whole frame that somebody wrote down.
    pub(super) fn made(text: &str) -> Self {
        let bytes = text.as_bytes().to_vec();
        debug_assert_eq!(end_of_frame(&bytes, 0), Ok(Some(bytes.len())), "{text:?} is no frame");
        Self { bytes }
    }

    /// The same with another name of the same length wherever this one stands.
    pub(super) fn renaming(mut self, from: &str, to: &str) -> Self {
        assert_eq!(from.len(), to.len(), "no length in the frame changes");
        let is_there = |at: &usize| self.bytes[*at..].starts_with(from.as_bytes());
        let places: Vec<_> = (0..self.bytes.len()).filter(is_there).collect();
        for at in places {
            self.bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        self
    }

    /// The frame as it came.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The frame's first byte: what kind it is.
    pub(crate) fn kind(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }

    /// Whether it is an error.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.kind(), b'-' | b'!')
    }

    /// The texts of a list's elements, or the one text of anything else. A nested list is one word, undecoded.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        match self.kind() {
            b'*' | b'>' | b'~' => {
                let mut words = Vec::new();
                let mut at = end_of_line(&self.bytes, 0).unwrap_or(self.bytes.len());
                while let Ok(Some(end)) = end_of_frame(&self.bytes, at) {
                    words.push(text(&self.bytes[at..end]).to_vec());
                    at = end;
                }
                words
            }
            b'$' | b'=' | b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'!' | b'_' => {
                vec![text(&self.bytes).to_vec()]
            }
            // A command typed by hand.
            _ => self.bytes.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect(),
        }
    }
}

/// The text of a frame that is not a list; a list itself.
fn text(frame: &[u8]) -> &[u8] {
    let line = end_of_line(frame, 0).unwrap_or(frame.len());
    let inner = match frame.first() {
        Some(b'$' | b'!' | b'=') => &frame[line..],
        Some(b'*' | b'>' | b'~' | b'%' | b'|') | None => return frame,
        Some(_) => &frame[1..],
    };
    inner.strip_suffix(b"\r\n").unwrap_or(inner)
}

/// Where the frame that starts at `at` ends, or `None` while it is not all there.
fn end_of_frame(bytes: &[u8], at: usize) -> Result<Option<usize>, Malformed> {
    let Some(line) = end_of_line(bytes, at) else {
        return if bytes.len().saturating_sub(at) > LONGEST_HEADER { Err(Malformed) } else { Ok(None) };
    };
    let elements = match bytes[at] {
        b'$' | b'!' | b'=' => {
            let end = count(bytes, at, line)?.map_or(line, |length| line + length + 2);
            return Ok((end <= bytes.len()).then_some(end));
        }
        b'*' | b'>' | b'~' => count(bytes, at, line)?.unwrap_or(0),
        b'%' => 2 * count(bytes, at, line)?.unwrap_or(0),
        // Attributes stand before the frame that they are about.
        b'|' => 2 * count(bytes, at, line)?.unwrap_or(0) + 1,
        _ => 0,
    };
    let mut end = line;
    for _ in 0..elements {
        match end_of_frame(bytes, end)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

fn end_of_line(bytes: &[u8], at: usize) -> Option<usize> {
    let feed = bytes.get(at..)?.iter().position(|byte| *byte == b'\n')?;
    Some(at + feed + 1)
}

/// The number in a header; `None` stands for the protocol's −1.
fn count(bytes: &[u8], at: usize, line: usize) -> Result<Option<usize>, Malformed> {
    match str::from_utf8(&bytes[at + 1..line]).map(str::trim_end) {
        Ok("-1") => Ok(None),
        Ok(digits) => digits.parse().map(Some).map_err(|_| Malformed),
        Err(_) => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<String> {
        let frame = Frame::take(&mut bytes.to_vec()).expect("well formed").expect("whole");
        frame.words().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn a_frame_is_taken_only_when_it_is_whole() {
        let whole = b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n".as_slice();
        for cut in 0..whole.len() {
            assert_eq!(Frame::take(&mut whole[..cut].to_vec()), Ok(None), "cut at {cut}");
        }
        let mut buffer = [whole, b"+OK"].concat();
        assert_eq!(Frame::take(&mut buffer).map(|frame| frame.map(|frame| frame.bytes)), Ok(Some(whole.to_vec())));
        assert_eq!(buffer, b"+OK");
    }

    #[test]
    fn frames_of_both_protocols_have_their_words() {
        assert_eq!(words(b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n"), ["GET", "a\r\n"]);
        assert_eq!(words(b">3\r\n+message\r\n$1\r\nc\r\n:0\r\n"), ["message", "c", "0"]);
        assert_eq!(words(b"*2\r\n*1\r\n:1\r\n$-1\r\n"), ["*1\r\n:1\r\n", ""]);
        assert_eq!(words(b"%1\r\n+a\r\n:1\r\n"), ["%1", "+a", ":1"]);
        assert_eq!(words(b"|1\r\n+a\r\n:1\r\n+OK\r\n"), ["|1", "+a", ":1", "+OK"]);
        assert_eq!(words(b"-NOSCRIPT no\r\n"), ["NOSCRIPT no"]);
        assert_eq!(words(b"PING a\r\n"), ["PING", "a"]);
    }

    #[test]
    fn a_name_is_another_one_wherever_it_stands_in_a_frame() {
        let frame = Frame::made("*2\r\n*1\r\n$9\r\n127.0.0.1\r\n$16\r\nm 127.0.0.1 6379\r\n");
        assert_eq!(
            frame.renaming("127.0.0.1", "127.0.0.7").words(),
            [&b"*1\r\n$9\r\n127.0.0.7\r\n"[..], b"m 127.0.0.7 6379"]
        );
    }

    #[test]
    fn bytes_that_are_no_protocol_are_refused() {
        assert_eq!(Frame::take(&mut b"*x\r\n".to_vec()), Err(Malformed));
        assert_eq!(Frame::take(&mut vec![b'a'; LONGEST_HEADER + 1]), Err(Malformed));
    }
}
