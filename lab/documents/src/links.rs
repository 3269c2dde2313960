//! Links of pages, to files, headings and pictures of the repository.

use crate::pages::{Page, Paragraph};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A link of a page.
#[derive(Clone, Debug, PartialEq)]
struct Link {
    line: usize,
    target: String,
}

/// A fault of a page, with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    page: String,
    line: usize,
    says: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.says)
    }
}

/// Returns the links of these pages that lead nowhere. `exists` is asked for paths from the repository's root.
#[must_use]
pub fn broken(pages: &[Page], exists: &dyn Fn(&str) -> bool) -> Vec<Fault> {
    let anchors: HashMap<&str, Vec<String>> =
        pages.iter().map(|page| (&page.name[..], anchors(page))).collect();
    let mut faults = Vec::new();
    for page in pages {
        for Link { line, target } in links(page) {
            if let Some(why) = fault(page, &target, &anchors, exists) {
                let says = format!("`{target}` {why}");
                faults.push(Fault { page: page.name.clone(), line, says });
            }
        }
    }
    faults
}

/// Returns why a link leads nowhere; `None` if it is fine or leads out of the repository.
fn fault(
    page: &Page,
    target: &str,
    anchors: &HashMap<&str, Vec<String>>,
    exists: &dyn Fn(&str) -> bool,
) -> Option<&'static str> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let Some(file) = (if path.is_empty() { Some(page.name.clone()) } else { resolve(&page.name, path) })
    else {
        return Some("leads out of the repository");
    };
    if !exists(&file) {
        return Some("does not exist");
    }
    let anchor = anchor?;
    match anchors.get(&file[..]) {
        None => Some("names a heading of a file that is no page"),
        Some(known) if known.iter().any(|known| known == anchor) => None,
        Some(_) => Some("names a heading that is not there"),
    }
}

/// Returns the path, from the root, of what a page names; `None` outside the repository.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    if path.starts_with('/') {
        return None;
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns a page's links and pictures: `[text](target)`, `[name]: target`, and `href` and `src` of HTML.
fn links(page: &Page) -> Vec<Link> {
    page.paragraphs().iter().flat_map(links_of).collect()
}

fn links_of(paragraph: &Paragraph) -> Vec<Link> {
    let spans = paragraph.code_spans();
    let in_code = |at: usize| spans.iter().any(|span: &Range<usize>| span.contains(&at));
    let text = &paragraph.text;
    let mut links = Vec::new();
    for (opens, closes) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"'), ("]: ", '\n')] {
        for (at, _) in text.match_indices(opens).filter(|(at, _)| !in_code(*at)) {
            let begins_line = text[..at].rsplit('\n').next().is_some_and(|line| line.starts_with('['));
            if opens == "]: " && !begins_line {
                continue;
            }
            let rest = &text[at + opens.len()..];
            let whole = &rest[..rest.find(closes).unwrap_or(rest.len())];
            // A title may follow.
            let target = whole.split_whitespace().next().unwrap_or("").trim_matches(['<', '>']);
            links.push(Link { line: paragraph.line_at(at), target: target.to_owned() });
        }
    }
    links
}

/// Returns the anchors that a page's headings get. The second of two equal headings has `-1` behind it.
fn anchors(page: &Page) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for line in page.lines().iter().filter(|line| line.code.is_none() && line.text.starts_with('#')) {
        let title = line.text.trim_start_matches('#');
        if !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title.trim());
        let before = seen.entry(anchor.clone()).or_insert(0);
        anchors.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

/// Returns the anchor of a heading: its text in lower case, with hyphens for spaces and without punctuation.
fn anchor(title: &str) -> String {
    let mut text = String::new();
    let mut rest = title;
    // Of a link the text counts.
    while let Some((before, behind)) = rest.split_once("](") {
        text.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    text.push_str(rest);
    let kept = text.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the pages that the book's table of contents lacks.
#[must_use]
pub fn not_in_the_book(pages: &[Page]) -> Vec<&str> {
    let summary = pages.iter().find(|page| page.name == SUMMARY).expect("the book has a table of contents");
    let listed: Vec<_> = links(summary).iter().filter_map(|link| resolve(SUMMARY, &link.target)).collect();
    let names = pages.iter().map(|page| &page.name[..]);
    names.filter(|name| *name != SUMMARY && !listed.iter().any(|listed| listed == name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::root;

    fn page(name: &str, text: &str) -> Page {
        Page { name: name.into(), text: text.into() }
    }

    #[test]
    fn every_link_and_picture_of_the_pages_leads_somewhere() {
        let root = root();
        let faults = broken(&Page::all(), &|path| root.join(path).exists());
        let faults: Vec<_> = faults.iter().map(Fault::to_string).collect();
        assert!(faults.is_empty(), "links that lead nowhere:\n{}", faults.join("\n"));
    }

    #[test]
    fn every_page_is_in_the_book() {
        let pages = Page::all();
        let missing = not_in_the_book(&pages);
        assert!(missing.is_empty(), "{SUMMARY} lacks {}", missing.join(", "));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_place() {
        let good =
            "# One `two`, three\n[a](b.md) [c](#one-two-three) [d](../e.rs#) `[f](gone)`\n\n    [g](gone)\n";
        let bad = "# B\n[a](../gone.md)\n![b](gone.png \"title\") [c](#gone) [d](a.md#one-two\
                   -four)\n[e]: ../../f\n<img src=\"gone.svg\"> [g](../e.rs#L1)\n";
        let pages = [page("docs/a.md", &good.replace("e.rs#", "e.rs")), page("docs/b.md", bad)];
        let exists = |path: &str| ["docs/a.md", "docs/b.md", "e.rs"].contains(&path);
        let mut faults: Vec<_> = broken(&pages, &exists).iter().map(Fault::to_string).collect();
        faults.sort();
        assert_eq!(
            faults,
            [
                "docs/b.md:2: `../gone.md` does not exist",
                "docs/b.md:3: `#gone` names a heading that is not there",
                "docs/b.md:3: `a.md#one-two-four` names a heading that is not there",
                "docs/b.md:3: `gone.png` does not exist",
                "docs/b.md:4: `../../f` leads out of the repository",
                "docs/b.md:5: `../e.rs#L1` names a heading of a file that is no page",
                "docs/b.md:5: `gone.svg` does not exist",
            ]
        );
    }

    #[test]
    fn a_page_that_the_book_lacks_is_named() {
        let names = ["README.md", "docs/a.md", "docs/b.md", "fuzz/README.md"];
        let mut pages = names.map(|name| page(name, "")).to_vec();
        pages.push(page(SUMMARY, "[a](a.md) [readme](../README.md)"));
        assert_eq!(not_in_the_book(&pages), ["docs/b.md", "fuzz/README.md"]);
    }

    #[test]
    fn headings_have_anchors() {
        let page = page("a.md", "# A [link](b.md) to `c_d`: e/f\n## Again\n## Again\n    # code\n#none\n");
        assert_eq!(anchors(&page), ["a-link-to-c_d-ef", "again", "again-1"]);
    }
}
