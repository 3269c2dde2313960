//! The repository's pages of Markdown, as far as checks of links and commands need them.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Returns the repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate lies in the repository")
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path from the repository's root.
    pub name: String,
    /// Its Markdown.
    pub text: String,
}

/// The language of a code block; empty for an indented block and for a fence without one.
type Language<'a> = &'a str;

/// A line of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its text.
    pub text: &'a str,
    /// The language of the code block that it belongs to; `None` for prose.
    pub code: Option<Language<'a>>,
}

/// Lines of prose without a blank line between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Paragraph {
    /// The number of its first line.
    pub line: usize,
    /// Its text.
    pub text: String,
}

impl Page {
    /// Returns every page of the repository.
    #[must_use]
    pub fn all() -> Vec<Page> {
        let mut pages = Vec::new();
        collect(&root(), Path::new(""), &mut pages);
        assert!(pages.len() > 20, "few pages in {}", root().display());
        pages
    }

    /// Reads the page with this name.
    #[must_use]
    pub fn read(name: &str) -> Page {
        let text = fs::read_to_string(root().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        Page { name: name.to_owned(), text }
    }

    /// Returns the page's lines, the fences of code blocks left out.
    #[must_use]
    pub fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        let mut fence = None;
        let mut indented = false;
        let mut after_blank = true;
        for (at, text) in self.text.lines().enumerate() {
            let trimmed = text.trim_start();
            let marks = ["```", "~~~"].into_iter().find(|marks| trimmed.starts_with(marks));
            match (fence, marks) {
                (None, Some(marks)) => fence = Some((marks, trimmed.trim_start_matches(marks).trim())),
                (Some((open, _)), Some(marks)) if open == marks => fence = None,
                _ => {
                    let blank = trimmed.is_empty();
                    indented = text.starts_with("    ") && (indented || after_blank) || indented && blank;
                    let code = fence.map(|(_, language)| language).or((indented && !blank).then_some(""));
                    lines.push(Line { number: at + 1, text, code });
                }
            }
            after_blank = trimmed.is_empty();
        }
        lines
    }

    /// Returns the page's prose. Each heading, list item and table row begins a paragraph.
    #[must_use]
    pub fn paragraphs(&self) -> Vec<Paragraph> {
        let mut paragraphs: Vec<Paragraph> = Vec::new();
        let mut last = 0;
        for Line { number, text, code } in self.lines() {
            if code.is_some() || text.trim().is_empty() {
                continue;
            }
            let begins = ["#", "|", "* ", "- "].iter().any(|mark| text.trim_start().starts_with(mark));
            match paragraphs.last_mut() {
                Some(open) if last + 1 == number && !begins => {
                    open.text.push('\n');
                    open.text.push_str(text);
                }
                _ => paragraphs.push(Paragraph { line: number, text: text.to_owned() }),
            }
            last = number;
        }
        paragraphs
    }
}

impl Paragraph {
    /// Returns the places of its code spans, without their backticks.
    #[must_use]
    pub fn code_spans(&self) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        let mut at = 0;
        while let Some(open) = self.text[at..].find('`').map(|n| at + n) {
            let ticks = self.text[open..].bytes().take_while(|byte| *byte == b'`').count();
            let from = open + ticks;
            let Some(to) = closing(&self.text, from, ticks) else {
                at = from;
                continue;
            };
            spans.push(from..to);
            at = to + ticks;
        }
        spans
    }

    /// Returns the number of the line at this place of the text.
    #[must_use]
    pub fn line_at(&self, at: usize) -> usize {
        self.line + self.text[..at].matches('\n').count()
    }
}

/// Returns where the run of exactly `ticks` backticks begins that closes a code span.
fn closing(text: &str, from: usize, ticks: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += text[at..].find('`')?;
        let run = text[at..].bytes().take_while(|byte| *byte == b'`').count();
        if run == ticks {
            return Some(at);
        }
        at += run;
    }
}

/// Adds the pages below a folder. Build outputs, packages and hidden folders are not the repository's.
fn collect(root: &Path, below: &Path, pages: &mut Vec<Page>) {
    let mut entries: Vec<_> = fs::read_dir(root.join(below)).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = below.join(&name);
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&&name[..]) {
            collect(root, &path, pages);
        } else if kind.is_file() && name.ends_with(".md") {
            pages.push(Page::read(path.to_str().expect("names of pages are texts")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { name: "page.md".into(), text: text.into() }
    }

    #[test]
    fn code_is_told_from_prose() {
        let page = page("a\n    b\n\n    c\n\n    d\n* e\n\n```sh\nf\n```\n1. g\n\n       h\n");
        let code: Vec<_> =
            page.lines().iter().filter_map(|line| Some((line.text.trim(), line.code?))).collect();
        assert_eq!(code, [("c", ""), ("d", ""), ("f", "sh"), ("h", "")]);
        let prose: Vec<_> = page.paragraphs().into_iter().map(|p| (p.line, p.text)).collect();
        assert_eq!(prose, [(1, "a\n    b".into()), (7, "* e".into()), (12, "1. g".into())]);
    }

    #[test]
    fn a_code_span_may_end_on_another_line() {
        let page = page("a `b\nc` ``d ` e`` ` f\n");
        let paragraph = &page.paragraphs()[0];
        let spans: Vec<_> = paragraph.code_spans().into_iter().map(|span| &paragraph.text[span]).collect();
        assert_eq!(spans, ["b\nc", "d ` e"]);
        assert_eq!(paragraph.line_at(paragraph.text.find("d `").unwrap()), 2);
    }

    #[test]
    fn the_program_of_the_readme_is_the_one_that_is_compiled() {
        let readme = Page::read("README.md");
        let lines = readme.lines();
        let lines = lines.iter().filter(|line| line.code == Some("rust")).map(|line| line.text);
        let program: String = lines.map(|line| format!("{}\n", format!("//! {line}").trim_end())).collect();
        assert!(program.lines().count() >= 8, "a short program:\n{program}");
        let compiled = fs::read_to_string(root().join("crates/pageyard/src/lib.rs")).unwrap();
        assert!(
            compiled.contains(&program),
            "the documentation of `pageyard` lacks README's program:\n{program}"
        );
    }
}
