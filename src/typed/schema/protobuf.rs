//! Parses the text of a `.proto` file to a serialized `FileDescriptorProto`, without resolving names and options.
//!
//! The crate `protox-parse` parses proto2 and proto3, and a `Rewriter` first replaces what the crate rejects:
//!
//! * A file with an edition becomes proto2 with the same lines: fields get the label `optional`, and words that proto2
//!   does not have are removed or quoted.
//! * A single number of extensions with options becomes a range, and the value `-inf` of an option becomes a number.
//!
//! Names are resolved by the package protobuf, and options by `klamm.registry.proto`.

use prost::Message;
use prost::encoding::{int32, string};

/// Parses a `.proto` file.
///
/// # Errors
///
/// A text that is not a `.proto` file. The message says where and why.
pub fn parse(name: &str, text: &str) -> Result<Vec<u8>, String> {
    let rewritten = Rewriter::rewrite(text)?;
    let text = &rewritten.text;
    let mut file = protox_parse::parse(name, text).map_err(|why| {
        let line = why.span().map_or(1, |span| line_at(text, span.start));
        format!("line {line}: {why}")
    })?;
    file.source_code_info = None;
    if rewritten.edition == 0 {
        return Ok(file.encode_to_vec());
    }
    file.syntax = Some("editions".to_owned());
    let mut bytes = file.encode_to_vec();
    int32::encode(EDITION_FIELD, &rewritten.edition, &mut bytes);
    string::encode_repeated(OPTION_DEPENDENCY_FIELD, &rewritten.option_imports, &mut bytes);
    Ok(bytes)
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The text of a file in the form that the crate parses, and what this form cannot say.
#[derive(Default)]
struct Rewriter<'a> {
    text: String,
    /// The number of the edition in `google.protobuf.Edition`, or 0 for proto2 and proto3.
    edition: i32,
    /// Files that are imported for their options only: `import option "…";`.
    option_imports: Vec<String>,
    /// The open blocks: whether the block declares fields, and the first word of the statement with the block.
    blocks: Vec<(bool, &'a str)>,
    /// The first word of the current statement, or an empty text.
    first: &'a str,
    /// The last word of the statement, and the word before it. A comma clears both.
    last: &'a str,
    before: &'a str,
    /// Length of `text` where the current statement starts.
    start: usize,
    is_option_import: bool,
}

impl<'a> Rewriter<'a> {
    fn rewrite(whole: &'a str) -> Result<Self, String> {
        let mut this = Self { text: String::with_capacity(whole.len()), ..Self::default() };
        let mut rest = whole;
        while !rest.is_empty() {
            let kind = Kind::of(rest);
            let (token, after) = rest.split_at(kind.length(rest));
            rest = after;
            let line = || line_at(whole, whole.len() - after.len());
            this.token(kind, token, after).map_err(|why| format!("line {}: {why}", line()))?;
        }
        Ok(this)
    }

    fn token(&mut self, kind: Kind, token: &'a str, rest: &'a str) -> Result<(), String> {
        match kind {
            Kind::Blank => self.text.push_str(token),
            Kind::Word if self.first.is_empty() => self.statement(token, rest)?,
            Kind::Word => self.word(token),
            Kind::Text if self.first == "edition" && self.blocks.is_empty() => {
                let year = token.trim_matches(['"', '\'']);
                let known = EDITIONS.iter().find(|(name, _)| *name == year);
                self.edition = known.ok_or_else(|| format!("the edition {token} is unknown"))?.1;
                self.text.push_str("\"proto2\"");
            }
            Kind::Text if self.is_option_import => {
                self.option_imports.push(token.trim_matches(['"', '\'']).to_owned());
            }
            Kind::Text => self.text.push_str(token),
            Kind::Symbol => self.symbol(token),
        }
        Ok(())
    }

    /// Handles the first word of a statement.
    fn statement(&mut self, word: &'a str, rest: &str) -> Result<(), String> {
        let declares = |rest: &str| ["message", "enum"].iter().any(|kind| rest.trim_start().starts_with(kind));
        self.start = self.text.len();
        self.first = word;
        if self.edition == 0 {
            self.text.push_str(if word == "edition" && self.blocks.is_empty() { "syntax" } else { word });
            return Ok(());
        }
        if matches!(word, "export" | "local") && declares(rest) {
            self.first = "";
            return Ok(()); // the visibility of a type matters only to compilers
        }
        let is_field = self.blocks.last().is_some_and(|(has_fields, _)| *has_fields);
        if is_field && matches!(word, "optional" | "required") {
            return Err(format!("a file with an edition has no label {word}"));
        }
        if is_field && !STATEMENTS.contains(&word) {
            self.text.push_str("optional ");
        }
        self.text.push_str(word);
        Ok(())
    }

    fn word(&mut self, word: &'a str) {
        (self.before, self.last) = (self.last, word);
        if matches!(word, "inf" | "nan") && self.is_negative_option() {
            self.text.push_str(if word == "inf" { "1e999" } else { word });
            return;
        }
        if self.edition == 0 {
            self.text.push_str(word);
            return;
        }
        let is_name = word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        if self.first == "import" && word == "option" {
            self.text.truncate(self.start);
            self.is_option_import = true;
        } else if self.first == "reserved" && is_name && !matches!(word, "to" | "max") {
            self.text.extend(["\"", word, "\""]);
        } else {
            self.text.push_str(word);
        }
    }

    /// Returns whether `-` is the last character, after the `=` of an option. The crate reads the sign of a number only.
    fn is_negative_option(&mut self) -> bool {
        let Some(before) = self.text.trim_end().strip_suffix('-') else { return false };
        let is_option = before.trim_end().ends_with('=') && self.before != "default";
        if is_option && self.last == "nan" {
            self.text.truncate(before.len()); // a sign of "not a number" does not matter
        }
        is_option
    }

    fn symbol(&mut self, symbol: &str) {
        let is_number = self.last.starts_with(|letter: char| letter.is_ascii_digit());
        match symbol {
            "[" if self.first == "extensions" && self.before != "to" && is_number => {
                self.text.extend([" to ", self.last, " "]);
            }
            "," => (self.before, self.last) = ("", ""),
            "{" => {
                let is_inside = self.blocks.last().is_none_or(|(has_fields, _)| *has_fields);
                self.blocks.push((is_inside && matches!(self.first, "message" | "extend"), self.first));
                self.first = "";
            }
            // An option in brackets continues after the braces of its value.
            "}" => {
                let (_, first) = self.blocks.pop().unwrap_or_default();
                self.first = if is_block(first) { "" } else { first };
            }
            ";" => (self.first, self.before, self.last) = ("", "", ""),
            _ => {}
        }
        if !(self.is_option_import && symbol == ";") {
            self.text.push_str(symbol);
        }
        self.is_option_import &= symbol != ";";
    }
}

/// Returns whether a statement with this first word ends with its block.
fn is_block(first: &str) -> bool {
    matches!(first, "message" | "enum" | "oneof" | "extend" | "service" | "rpc")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// White space or a comment.
    Blank,
    /// A name with dots, or a number.
    Word,
    Text,
    Symbol,
}

impl Kind {
    fn of(rest: &str) -> Self {
        match rest.chars().next() {
            Some('"' | '\'') => Self::Text,
            Some(letter) if letter.is_whitespace() => Self::Blank,
            Some(letter) if is_word(letter) => Self::Word,
            _ if rest.starts_with("//") || rest.starts_with("/*") => Self::Blank,
            _ => Self::Symbol,
        }
    }

    /// Returns the length in bytes of the token of this kind at the start of a text.
    fn length(self, rest: &str) -> usize {
        let found = match self {
            Self::Blank if rest.starts_with("//") => rest.find('\n'),
            Self::Blank if rest.starts_with("/*") => rest.find("*/").map(|at| at + 2),
            Self::Blank => rest.find(|letter: char| !letter.is_whitespace()),
            Self::Word => rest.find(|letter| !is_word(letter)),
            Self::Symbol => rest.chars().next().map(char::len_utf8),
            Self::Text => {
                let quote = rest.chars().next();
                let mut is_escaped = false;
                let end = rest.char_indices().skip(1).find(|(_, letter)| {
                    let ends = !is_escaped && Some(*letter) == quote;
                    is_escaped = !is_escaped && *letter == '\\';
                    ends
                });
                end.map(|(at, _)| at + 1)
            }
        };
        found.unwrap_or(rest.len())
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '.'
}

/// The editions that the package protobuf knows, with their numbers in `google.protobuf.Edition`.
const EDITIONS: &[(&str, i32)] = &[("2023", 1000), ("2024", 1001), ("2026", 1002), ("UNSTABLE", 9999)];

/// The first words of statements in a message that are not fields without a label.
const STATEMENTS: &[&str] =
    &["message", "enum", "oneof", "extend", "extensions", "reserved", "option", "repeated", "map", "export", "local"];

/// Numbers of fields of `google.protobuf.FileDescriptorProto` that the crate `prost-types` does not have.
const EDITION_FIELD: u32 = 14;
const OPTION_DEPENDENCY_FIELD: u32 = 15;
