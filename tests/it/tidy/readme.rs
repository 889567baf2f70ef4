//! README and guide: the README is short enough to be read, and neither has a link that is dead where it is shown, which for
//! the README is on the registry's page and as the documentation's first page too.

use std::{collections::BTreeSet, fs, path::Path};

use super::{ROOT, collect, rust::code};

/// What a busy person reads in five minutes.
const LINES: usize = 170;
const WORDS: usize = 1300;

/// Where the pages of the guide are.
const GUIDE: &str = "https://docs.rs/relatch/latest/relatch/guide/";

#[test]
fn the_readme_is_read_in_five_minutes() {
    let readme = readme();
    let (lines, words) = (readme.lines().count(), readme.split_whitespace().count());
    assert!(lines <= LINES && words <= WORDS, "{lines} lines, {LINES} are allowed; {words} words of {WORDS}");
}

#[test]
fn no_link_of_the_readme_is_dead_wherever_it_is_shown() {
    let title = "# A title: of `two` words\n";
    for dead in ["[a](SECURITY.md)", "[a](./b.svg)", "![a](benches/b.svg)", "[a](#gone)", "[a][b]\n\n[b]: tests/c.md"] {
        assert_eq!(dead_links(&format!("{title}{dead}")).len(), 1, "{dead}");
    }
    let page = |name: &str| format!("[a]({GUIDE}{name})");
    for dead in [page("no_such_page/"), page("owners"), page("owners/more/"), "<a href=\"b.md\">a</a>".to_owned()] {
        assert_eq!(dead_links(&dead).len(), 1, "{dead}");
    }
    let good =
        format!("{title}[a](#a-title-of-two-words) {} {} [b](https://docs.rs/tracing)", page(""), page("owners/"));
    assert_eq!(dead_links(&good), Vec::<String>::new());
    let code = "```rust\nlet a = [b](c);\n```\n`[a](b)`";
    assert_eq!(dead_links(code), Vec::<String>::new());

    assert_eq!(dead_links(&readme()), Vec::<String>::new());
}

#[test]
fn no_link_of_the_guide_is_dead() {
    // Those to items are rustdoc's to check.
    let dead = |page: &str| {
        let text: Vec<&str> = page.lines().map(|line| line.trim_start_matches("//!").trim_start()).collect();
        let mut dead = dead_links(&text.join("\n"));
        dead.retain(|target| !["crate::", "super", "mod@"].iter().any(|item| target.starts_with(item)));
        dead
    };
    assert_eq!(dead("//! [a](../README.md)\n//! [b](#gone) [c](super::owners)"), ["../README.md", "#gone"]);
    for page in fs::read_dir(Path::new(ROOT).join("src/guide")).expect("there is a guide") {
        let page = page.expect("the folder can be read").path();
        assert_eq!(dead(&fs::read_to_string(&page).expect("a page can be read")), Vec::<String>::new(), "{page:?}");
    }
}

#[test]
fn every_page_of_the_guide_is_in_its_table_of_contents() {
    let guide = Path::new(ROOT).join("src/guide");
    let contents = fs::read_to_string(guide.join("mod.rs")).expect("the guide opens with its contents");
    for page in fs::read_dir(guide).expect("there is a guide") {
        let page = page.expect("the folder can be read").path();
        let name = page.file_stem().expect("a page has a name").to_string_lossy().into_owned();
        let listed = contents.contains(&format!("//! | [`{name}`]"));
        assert!(name == "mod" || listed, "{name} is not in the table of contents");
    }
}

#[test]
fn every_warning_is_in_the_table_of_the_guide_word_for_word() {
    let said = |text: &str| events("src/a.rs", text);
    assert_eq!(said("tracing::warn!(%lock, \"lost\");"), ["| `warn` | `lost` |"]);
    assert_eq!(said("warn!(\n    error = %a.b(),\n    \"two \\\n     lines\"\n);"), ["| `warn` | `two lines` |"]);
    assert_eq!(said("info!(\"back\"); f(\"a\"); error!(\"away\")"), ["| `info` | `back` |", "| `error` | `away` |"]);
    assert_eq!(said("debug!(\"released\"); // warn!(\"a\")"), Vec::<String>::new());

    let mut files = Vec::new();
    collect(&Path::new(ROOT).join("src"), true, &mut files);
    let read = |file| fs::read_to_string(file).expect("a source file can be read");
    let said: BTreeSet<String> = files.iter().flat_map(|file| events(&file.to_string_lossy(), &read(file))).collect();
    let page = read(&Path::new(ROOT).join("src/guide/tracing.rs"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("//! | ")?.split(" | ").collect();
        let loud = ["`warn`", "`info`", "`error`"].contains(cells.first()?);
        loud.then(|| format!("| {} | {} |", cells[0], cells[1]))
    };
    assert_eq!(said, page.lines().filter_map(row).collect());
}

fn readme() -> String {
    fs::read_to_string(Path::new(ROOT).join("README.md")).expect("there is a README")
}

/// What is said above `debug`, as the first cells of its row.
fn events(path: &str, text: &str) -> Vec<String> {
    let lines = code(path, text);
    let mut events = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        // The message is the only text in a macro's call, on its line or on one that follows.
        let mut literals = lines[at..].iter().flat_map(|line| &line.literals);
        for part in line.code.split_inclusive("\"\"") {
            let level = ["warn", "info", "error"].into_iter().find(|level| part.contains(&format!("{level}!(")));
            // A part that ends with a text has used it.
            let literal = if part.ends_with("\"\"") || level.is_some() { literals.next() } else { None };
            if let (Some(level), Some(message)) = (level, literal) {
                let message: Vec<&str> = message.split_whitespace().collect();
                events.push(format!("| `{level}` | `{}` |", message.join(" ")));
            }
        }
    }
    events
}

/// The targets of links that lead nowhere from another page than the repository's own.
fn dead_links(text: &str) -> Vec<String> {
    let text = without_code(text);
    let anchors: Vec<String> = text.lines().filter_map(|line| line.strip_prefix('#')).map(anchor).collect();
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let named = text.lines().filter(|line| line.starts_with('[')).filter_map(|line| line.split_once("]: ")?.1.into());
    let raw = ["href=\"", "src=\""].into_iter().flat_map(|name| text.split(name).skip(1).collect::<Vec<_>>());
    let raw = raw.filter_map(|rest| rest.split('"').next());
    let targets = inline.chain(named).chain(raw);
    targets.filter(|target| !leads_somewhere(target, &anchors)).map(str::to_owned).collect()
}

fn leads_somewhere(target: &str, anchors: &[String]) -> bool {
    if let Some(page) = target.strip_prefix(GUIDE) {
        let name = page.strip_suffix('/').unwrap_or(page);
        return page.is_empty()
            || page.ends_with('/') && Path::new(ROOT).join(format!("src/guide/{name}.rs")).is_file();
    }
    match target.strip_prefix('#') {
        Some(anchor) => anchors.iter().any(|known| known == anchor),
        None => target.starts_with("https://"),
    }
}

/// Code has brackets of its own; in a heading it counts without its marks.
fn without_code(text: &str) -> String {
    let blocks = text.split("```").step_by(2).collect::<String>();
    let lines = blocks.lines().map(|line| match line.starts_with('#') {
        true => line.replace('`', ""),
        false => line.split('`').step_by(2).collect(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A heading's anchor, as the registry's page makes it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
