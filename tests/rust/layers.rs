//! Checks the import rules: which layers each layer of `src/` may use, and what pure layers must not use.
//!
//! `LAYERS` has the rules, and `lib.rs` describes the rules in words. The test reads the sources as text, so it also
//! sees code behind features and in macros. The test finds paths that name a layer: `crate::layer`, `crate::{layer,
//! ...}` and a chain of `super::` that reaches the crate's root. The test ignores comments and strings. The test cannot
//! know the layer of an item that `lib.rs` re-exports, so code in `src/` must use the item's path in its layer.

use std::fs;
use std::path::Path;

/// A layer and the layers that it may use.
struct Layer {
    name: &'static str,
    uses: &'static [&'static str],
    /// Whether the layer has no socket, thread, lock or clock.
    pure: bool,
}

const fn layer(name: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer { name, uses, pure: false }
}

const fn pure(name: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer { name, uses, pure: true }
}

const LAYERS: &[Layer] = &[
    pure("random", &[]),
    layer("logging", &[]),
    pure("wire", &[]),
    pure("compress", &[]),
    pure("otlp", &[]),
    pure("frame", &["wire"]),
    pure("api", &["wire"]),
    pure("record", &["wire", "compress"]),
    pure("legacy", &["wire", "compress", "frame", "record"]),
    pure("engine", &["random", "logging", "wire", "compress", "otlp", "frame", "api", "record", "legacy"]),
    layer("net", &[]),
    layer("client", &["logging", "wire", "compress", "frame", "api", "record", "legacy", "engine", "net"]),
    // Never engine or client: both ends of a connection must not share one misunderstanding.
    layer("broker", &["random", "wire", "compress", "otlp", "frame", "api", "record", "legacy", "net"]),
    pure("arrow", &["record"]),
    pure("typed", &[]),
    pure("registry", &["record", "arrow", "typed"]),
    // The codec layers are exposed as they are (`klamm.protocol`); engine and net only through the client.
    layer(
        "py",
        &[
            "logging", "wire", "compress", "otlp", "frame", "api", "record", "legacy", "client", "broker", "arrow",
            "registry", "typed",
        ],
    ),
];

/// Modules of `std` and other names that a pure layer must not touch.
const IMPURE_STD: &[&str] = &["net", "thread"];
const IMPURE_NAMES: &[&str] = &["mio", "Mutex", "RwLock", "Condvar", "Instant", "SystemTime"];

#[test]
fn every_layer_uses_only_what_the_table_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 10, "no sources below {}", root.display());

    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        if name != "lib.rs" {
            found.extend(violations(&name, &fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(found.is_empty(), "import rules broken:\n{}", found.join("\n"));
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
}

/// Returns the violations in one file, as lines `src/file:line: why`. `file` is its path below `src/`.
fn violations(file: &str, source: &str) -> Vec<String> {
    let own = file.split(['/', '.']).next().unwrap_or_default();
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == own) else {
        return vec![format!("src/{file}:1: `{own}` has no row in tests/rust/layers.rs")];
    };
    let code = blank_comments_and_strings(source);
    let mut broken: Vec<(usize, String)> = Vec::new();
    for (at, used) in layers_named(file, &code) {
        if used != own && !layer.uses.contains(&used) {
            broken.push((at, format!("`{own}` must not use `{used}`")));
        }
    }
    if layer.pure {
        let std_modules = words(&code, "std").into_iter().flat_map(|at| path_heads(&code, at + "std".len()));
        let names = IMPURE_NAMES.iter().flat_map(|name| words(&code, name).into_iter().map(move |at| (at, *name)));
        for (at, name) in std_modules.filter(|(_, name)| IMPURE_STD.contains(name)).chain(names) {
            broken.push((at, format!("`{own}` must not touch `{name}`: time and bytes come in as arguments")));
        }
    }
    broken.sort();
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    broken.iter().map(|(at, why)| format!("src/{file}:{}: {why}", line(*at))).collect()
}

/// Returns all layers that paths in `code` name, with their positions.
fn layers_named<'a>(file: &str, code: &'a str) -> Vec<(usize, &'a str)> {
    let depth = file.trim_end_matches("/mod.rs").trim_end_matches(".rs").split('/').count();
    let mut found = Vec::new();
    for at in words(code, "crate") {
        found.extend(path_heads(code, at + "crate".len()));
    }
    for at in words(code, "super") {
        let chain = "super::".repeat(depth);
        let starts_a_chain = !code[..at].ends_with("super::");
        if starts_a_chain && code[at..].starts_with(&chain) {
            let rest = code[at..].trim_start_matches("super::");
            found.extend(path_heads(code, code.len() - rest.len() - "::".len()));
        }
    }
    found.retain(|(_, name)| LAYERS.iter().any(|layer| layer.name == *name));
    found
}

/// Returns the first names of the path that continues at `at` with `::name` or `::{name, name::more, ...}`.
fn path_heads(code: &str, at: usize) -> Vec<(usize, &str)> {
    let Some(rest) = code[at..].trim_start().strip_prefix("::").map(str::trim_start) else {
        return Vec::new();
    };
    let start = code.len() - rest.len();
    if !rest.starts_with('{') {
        return vec![(start, identifier(rest))];
    }
    let (mut heads, mut nesting) = (Vec::new(), 0);
    for (offset, letter) in rest.char_indices() {
        match letter {
            '{' => nesting += 1,
            '}' => nesting -= 1,
            _ => {}
        }
        if nesting == 0 {
            break;
        }
        if nesting == 1 && (letter == '{' || letter == ',') {
            let head = rest[offset + 1..].trim_start();
            heads.push((code.len() - head.len(), identifier(head)));
        }
    }
    heads
}

fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !is_word(letter)).unwrap_or(text.len());
    &text[..end]
}

/// Returns the positions of `word` in `code` as a whole word.
fn words(code: &str, word: &str) -> Vec<usize> {
    let whole = |at: usize| {
        !code[..at].chars().next_back().is_some_and(is_word)
            && !code[at + word.len()..].chars().next().is_some_and(is_word)
    };
    code.match_indices(word).map(|(at, _)| at).filter(|at| whole(*at)).collect()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the source with comments and literals replaced by spaces, so that positions and lines stay.
fn blank_comments_and_strings(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + literal_length(&source[at..]);
        if end == at {
            at += source[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        }
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(code).unwrap()
}

/// Returns the length of the comment, string or character literal at the start of `text`, or 0.
fn literal_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_length(text);
    }
    if text.starts_with("r\"") || text.starts_with("r#") {
        let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
        if text[1 + hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = 2 + hashes;
            return text[body..].find(&close).map_or(text.len(), |end| body + end + close.len());
        }
        return 0;
    }
    match text.strip_prefix('"') {
        Some(body) => 1 + quoted_length(body, '"'),
        // `'a'` and `'\n'` are characters, `'a` alone is a lifetime.
        None if text.starts_with("'\\") => 1 + quoted_length(&text[1..], '\''),
        None if text.starts_with('\'') && text.chars().nth(2) == Some('\'') => {
            2 + text[1..].chars().next().map_or(0, char::len_utf8)
        }
        None => 0,
    }
}

fn block_comment_length(text: &str) -> usize {
    let mut nesting = 0;
    for (at, pair) in text.as_bytes().windows(2).enumerate() {
        match pair {
            b"/*" => nesting += 1,
            b"*/" => nesting -= 1,
            _ => {}
        }
        if nesting == 0 {
            return at + 2;
        }
    }
    text.len()
}

/// Returns the length up to and including the closing `quote`.
fn quoted_length(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in body.char_indices() {
        if letter == quote && !escaped {
            return at + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    body.len()
}

mod checking {
    use super::violations;

    #[test]
    fn allowed_paths_pass() {
        assert_eq!(
            violations("record/batch.rs", "use crate::wire::Reader;\nuse crate::{compress, record::view};"),
            [""; 0]
        );
    }

    #[test]
    fn a_forbidden_layer_is_named_with_file_and_line() {
        let found = violations("broker/log.rs", "//! A log.\n\nuse crate::api;\nuse crate::engine::Time;\n");
        assert_eq!(found, ["src/broker/log.rs:4: `broker` must not use `engine`"]);
    }

    #[test]
    fn the_old_protocol_is_no_part_of_the_new_one() {
        let found = violations("legacy/request.rs", "use crate::api;\nuse crate::record::crc32;\n");
        assert_eq!(found, ["src/legacy/request.rs:1: `legacy` must not use `api`"]);
        let found = violations("record/batch.rs", "use crate::legacy;");
        assert_eq!(found, ["src/record/batch.rs:1: `record` must not use `legacy`"]);
    }

    #[test]
    fn groups_are_looked_into_but_only_at_their_first_names() {
        let found = violations("api/fetch.rs", "use crate::{\n    wire::{record, Reader},\n    client,\n};");
        assert_eq!(found, ["src/api/fetch.rs:3: `api` must not use `client`"]);
    }

    #[test]
    fn a_path_in_an_expression_or_macro_counts() {
        let found = violations("wire/message.rs", "macro_rules! m { () => { $crate::api::KEY } }");
        assert_eq!(found, ["src/wire/message.rs:1: `wire` must not use `api`"]);
    }

    #[test]
    fn super_counts_where_it_reaches_the_root() {
        assert_eq!(violations("frame.rs", "use super::api;").len(), 1);
        assert_eq!(violations("engine/mod.rs", "use super::net;").len(), 1);
        assert_eq!(violations("engine/producer/batch.rs", "use super::super::super::client::Error;").len(), 1);
        assert_eq!(violations("broker/log.rs", "use super::client::Id;").len(), 0);
    }

    #[test]
    fn pure_layers_have_no_clock_thread_lock_or_socket() {
        let source = "use std::time::Instant;\nuse std::sync::{Arc, Mutex};\n\
                      use std::{mem, net::TcpStream};\nfn f() { std::thread::spawn(g) }";
        let because = "time and bytes come in as arguments";
        let expected = [(1, "Instant"), (2, "Mutex"), (3, "net"), (4, "thread")]
            .map(|(line, name)| format!("src/engine/metadata.rs:{line}: `engine` must not touch `{name}`: {because}"));
        assert_eq!(violations("engine/metadata.rs", source), expected);
        assert_eq!(violations("net/poll.rs", source), [""; 0]);
    }

    #[test]
    fn comments_strings_and_longer_words_do_not_count() {
        let source = r##"
            // crate::client and Mutex
            /* crate::client /* nested */ SystemTime */
            /// [`crate::client`]
            const A: &str = "crate::client \" Instant"; const B: &str = r#"crate::net "Mutex"#;
            const Q: char = '"'; const E: char = '\''; fn life<'a>(instant: &'a MutexLike) {}
        "##;
        assert_eq!(violations("engine/mod.rs", source), [""; 0]);
        assert_eq!(violations("engine/mod.rs", &format!("{source}use crate::client;")).len(), 1);
    }

    #[test]
    fn a_new_folder_needs_a_row() {
        assert_eq!(violations("extra/mod.rs", ""), ["src/extra/mod.rs:1: `extra` has no row in tests/rust/layers.rs"]);
    }
}
