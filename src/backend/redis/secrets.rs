//! What a link shows to be let in, and how words are shown that may repeat it: a server that does not know a command quotes
//! what stood behind it, and whatever stands in between may quote anything.

use std::{fmt, fmt::Write, sync::Arc};

use redis::RedisConnectionInfo;

/// What is shown where a credential stood.
const HIDDEN: &str = "<hidden>";

/// What comes before a command's arguments where a server quotes them. It cuts them somewhere, so what is left of the last
/// one need not be known for what it is.
const QUOTED: &str = "with args beginning with:";

/// A shorter password is hidden only where it is a word: it would be found in most words.
const SHORT_PASSWORD: usize = 4;

/// A shorter name of a user likewise: many are called what servers speak of.
const SHORT_NAME: usize = 8;

/// A password that was cut is known by so many of its first characters.
const BEGINNING: usize = 4;

/// The user that a connection has without a name: no secret.
const NOBODY: &str = "default";

/// The credentials of a link.
#[derive(Clone, Default)]
pub(super) struct Secrets(Arc<[Secret]>);

struct Secret {
    text: Vec<char>,
    place: MatchAt,
}

/// Where a secret is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchAt {
    /// Anywhere, and its beginning where a word begins.
    Anywhere,
    /// Only where it is a whole word.
    Word,
}

impl Secrets {
    pub(super) fn of(info: &RedisConnectionInfo) -> Self {
        let password = info.password().map(|password| (password, SHORT_PASSWORD));
        let name = info.username().filter(|name| *name != NOBODY).map(|name| (name, SHORT_NAME));
        let given = password.into_iter().chain(name).filter(|(text, _)| !text.is_empty());
        Self(given.flat_map(|(text, short)| Secret::all_forms(text, short)).collect())
    }

    /// The words without any credential, and without the arguments of a command: a token may be one.
    pub(super) fn hide(&self, words: String) -> String {
        let quoted = words.find(QUOTED).map(|at| at + QUOTED.len());
        if self.0.is_empty() && quoted.is_none() {
            return words;
        }
        let kept: Vec<char> = words[..quoted.unwrap_or(words.len())].chars().collect();
        let mut shown = String::with_capacity(words.len());
        let mut at = 0;
        while at < kept.len() {
            let found = self.0.iter().map(|secret| secret.found(&kept, at)).max().unwrap_or_default();
            match found {
                0 => shown.push(kept[at]),
                _ => shown.push_str(HIDDEN),
            }
            at += found.max(1);
        }
        if quoted.is_some() {
            shown.push(' ');
            shown.push_str(HIDDEN);
        }
        shown
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secret {
    /// As it was sent, and as servers write what is not plain.
    fn all_forms(text: &str, short: usize) -> impl Iterator<Item = Self> {
        let place = if text.chars().count() < short { MatchAt::Word } else { MatchAt::Anywhere };
        let escaped = Some(escaped(text)).filter(|escaped| escaped != text);
        let forms = [Some(text.to_owned()), escaped].into_iter().flatten();
        forms.map(move |form| Self { text: form.chars().collect(), place })
    }

    /// How many of the words' characters from here on are this secret, or its beginning.
    fn found(&self, words: &[char], at: usize) -> usize {
        let same = self.text.iter().zip(&words[at..]).take_while(|(secret, word)| is_same(**secret, **word)).count();
        let whole = same == self.text.len();
        let begins = at == 0 || !words[at - 1].is_alphanumeric();
        let ends = words.get(at + same).is_none_or(|next| !next.is_alphanumeric());
        let is_it = match self.place {
            MatchAt::Word => whole && begins && ends,
            MatchAt::Anywhere => whole || (same >= BEGINNING && begins && ends),
        };
        if is_it { same } else { 0 }
    }
}

/// In either case, and with a blank for what would break the line.
fn is_same(secret: char, word: char) -> bool {
    secret.eq_ignore_ascii_case(&word) || (word == ' ' && secret.is_whitespace())
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let written = match byte {
            b'\\' | b'"' => write!(escaped, "\\{}", char::from(byte)),
            b'\n' => write!(escaped, "\\n"),
            b'\r' => write!(escaped, "\\r"),
            b'\t' => write!(escaped, "\\t"),
            b' '..=b'~' => write!(escaped, "{}", char::from(byte)),
            other => write!(escaped, "\\x{other:02x}"),
        };
        written.unwrap_or_default();
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(name: &str, password: &str) -> Secrets {
        Secrets::of(&RedisConnectionInfo::default().set_username(name).set_password(password))
    }

    #[test]
    fn what_a_server_quotes_is_hidden_as_a_whole() {
        let rows = [
            (
                "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `ann`, `s3cret`, ",
                "ERR unknown command `HELLO`, with args beginning with: <hidden>",
            ),
            // Cut in the middle of a word.
            (
                "ERR unknown command 'AUTH', with args beginning with: 'ann' 's3",
                "ERR unknown command 'AUTH', with args beginning with: <hidden>",
            ),
        ];
        for (words, shown) in rows {
            assert_eq!(secrets("ann", "s3cret").hide(words.to_owned()), shown);
        }
        // Without credentials, too: the token of a lock is an argument.
        let words = "ERR unknown command 'EVALSHA', with args beginning with: 'abc' '1' 'lock' 't0ken' ";
        let shown = "ERR unknown command 'EVALSHA', with args beginning with: <hidden>";
        assert_eq!(Secrets::default().hide(words.to_owned()), shown);
    }

    #[test]
    fn a_credential_is_hidden_wherever_and_however_it_stands() {
        let rows = [
            ("ann", "s3cret", "no s3cret, S3CRET or xs3cretx", "no <hidden>, <hidden> or x<hidden>x"),
            ("ann", "s3cret", "User ann may not, annual", "User <hidden> may not, annual"),
            ("ann", "s3cret-and-long", "you sent s3cret-and", "you sent <hidden>"),
            ("s3cret-name", "pw", "s3cret-name's password pw, not pwd", "<hidden>'s password <hidden>, not pwd"),
            ("ann", "s3\r\n\"cre\u{7}t", "s3  \"cre\u{7}t and s3\\r\\n\\\"cre\\x07t", "<hidden> and <hidden>"),
            ("ann", "ann-s3cret", "ann-s3cret", "<hidden>"),
            ("ann", "pä55wörd", "pä55wörd, p\\xc3\\xa455w\\xc3\\xb6rd", "<hidden>, <hidden>"),
            ("default", "s3cret", "the default user", "the default user"),
            ("", "", "nothing to hide", "nothing to hide"),
        ];
        for (name, password, words, shown) in rows {
            assert_eq!(secrets(name, password).hide(words.to_owned()), shown);
        }
        assert_eq!(format!("{:?}", secrets("ann", "s3cret")), "Secrets");
    }
}
