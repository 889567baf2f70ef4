//! Rust as far as the checks need it: lines before the tests, without comments, with the literals apart. It knows no
//! grammar.

use std::iter::Peekable;

/// A line of code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: usize,
    /// Without comments and without what is in string literals.
    pub(crate) code: String,
    /// What is in the string literals that end on this line.
    pub(crate) literals: Vec<String>,
}

impl Line {
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        words(&self.code)
    }
}

/// The identifiers, keywords and numbers of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The lines before the module with the tests.
pub(crate) fn before_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let opens = |next: &&str| next.contains("mod ") && next.ends_with('{');
        // A mere declaration, as at the top of a folder's module, ends nothing.
        (line != "#[cfg(test)]" || !lines.peek().is_some_and(opens)).then_some(line)
    })
}

/// The code of a file of the library; files that are nothing but tests have none.
pub(crate) fn code(path: &str, text: &str) -> Vec<Line> {
    // What is compiled for tests only.
    if path.contains("/tests/") || ["/tests.rs", "_tests.rs", "/testing.rs"].iter().any(|end| path.ends_with(end)) {
        return Vec::new();
    }
    let text: String = before_tests(text).flat_map(|line| [line, "\n"]).collect();
    let mut scanner =
        Scanner { rest: text.chars().peekable(), line: Line { number: 1, ..Line::default() }, lines: Vec::new() };
    scanner.run();
    scanner.lines
}

struct Scanner<I: Iterator<Item = char>> {
    rest: Peekable<I>,
    line: Line,
    lines: Vec<Line>,
}

impl<I: Iterator<Item = char>> Scanner<I> {
    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                '/' if self.rest.peek() == Some(&'/') => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '"' => self.literal(0, false),
                'r' if self.rest.peek().is_some_and(|c| matches!(c, '"' | '#')) && !self.in_word() => {
                    self.raw_literal()
                }
                '\'' => self.character(),
                '\n' => self.end_line(),
                c => self.line.code.push(c),
            }
        }
    }

    /// Whether an `r` would only be the end of a name.
    fn in_word(&self) -> bool {
        self.line.code.ends_with(|c: char| c.is_alphanumeric() && c != 'b' || c == '_')
    }

    fn raw_literal(&mut self) {
        let mut fence = 0;
        while self.rest.next_if_eq(&'#').is_some() {
            fence += 1;
        }
        // Without a quote it is a raw identifier.
        if self.rest.next_if_eq(&'"').is_some() {
            self.literal(fence, true);
        }
    }

    /// Reads to the closing quote and its fence.
    fn literal(&mut self, fence: usize, raw: bool) {
        let mut literal = String::new();
        self.line.code.push_str("\"\"");
        while let Some(c) = self.rest.next() {
            match c {
                '\\' if !raw => {
                    literal.extend(self.rest.next().filter(|c| *c != '\n').map(|c| ['\\', c]).into_iter().flatten())
                }
                '"' => {
                    let mut closes = 0;
                    while closes < fence && self.rest.next_if_eq(&'#').is_some() {
                        closes += 1;
                    }
                    if closes == fence {
                        break;
                    }
                    literal.push('"');
                }
                '\n' => {
                    literal.push(c);
                    self.end_line();
                }
                c => literal.push(c),
            }
        }
        self.line.literals.push(literal);
    }

    /// A character's quote must not open a string, and a lifetime's must not hide one.
    fn character(&mut self) {
        match self.rest.next() {
            Some('\\') => {
                self.rest.next();
                while self.rest.next_if(|c| *c != '\'' && *c != '\n').is_some() {}
                self.rest.next_if_eq(&'\'');
            }
            // A character that is not closed is the start of a lifetime.
            Some(c) if self.rest.next_if_eq(&'\'').is_none() => self.line.code.extend(['\'', c]),
            Some(_) | None => {}
        }
    }

    fn end_line(&mut self) {
        let next = Line { number: self.line.number + 1, ..Line::default() };
        self.lines.push(std::mem::replace(&mut self.line, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> (String, Vec<String>) {
        let mut lines = code("src/a.rs", text);
        let line = lines.remove(0);
        (line.code, line.literals)
    }

    #[test]
    fn comments_go_and_literals_stand_apart() {
        assert_eq!(line("a(\"b // c\", 'd') // e"), ("a(\"\", ) ".into(), vec!["b // c".into()]));
        assert_eq!(line(r##"a(r#"b"c"#, "\"")"##), ("a(\"\", \"\")".into(), vec!["b\"c".into(), "\\\"".into()]));
        assert_eq!(
            line("let a: &'a str = '\"'.for_r(\"b\")"),
            ("let a: &'a str = .for_r(\"\")".into(), vec!["b".into()])
        );
    }

    #[test]
    fn lines_are_numbered_over_long_literals_and_end_before_the_tests() {
        let lines = code("src/a.rs", "a\n\"b\nc\"\nd\n#[cfg(test)]\nmod tests {\ne\n");
        let numbers: Vec<(usize, &str)> = lines.iter().map(|line| (line.number, line.code.as_str())).collect();
        assert_eq!(numbers, [(1, "a"), (2, "\"\""), (3, ""), (4, "d")]);
        assert_eq!(lines[2].literals, ["b\nc"]);
        assert_eq!(code("src/engine/tests/a.rs", "a"), []);
    }
}
