//! A page of its own: what every page of tables and charts has.

use crate::text::markup;
use pageyard_trace::Trust;
use pageyard_trace::document::Made;
use pageyard_trace::text::escaped;

/// How the page looks: by the reader's choice of dark or light, and on paper.
const STYLE: &str = include_str!("page.css");

/// The page's content security policy: a browser may lay it out, and nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'none'; base-uri 'none'; form-action 'none'";

/// Makes a page of a title, what stands above it, an introduction and a body, all of them markup. `made` says what made
/// it.
pub(crate) fn page(title: &str, above: &str, introduction: &str, body: &str, made: Option<&Made>) -> String {
    let foot = made.map_or_else(String::new, |made| {
        format!(
            "<footer><p>Made by version {} of</p><pre>{}</pre></footer>\n",
            made.version,
            markup(&escaped(&made.command))
        )
    });
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body>\n<header>{above}<h1>{title}</h1>\n{introduction}</header>\n<main>\n\
         {body}</main>\n{foot}</body></html>\n"
    )
}

/// Says how far what a page says of `what` can be trusted.
pub(crate) fn trust_box(what: &str, trust: &Trust) -> String {
    let level = trust.level.name();
    let reasons: Vec<String> = trust.words().iter().map(|why| format!("<li>{}.</li>", markup(why))).collect();
    format!(
        "<aside class=\"trust {level}\"><p>Trust{}: <strong>{level}</strong></p><ul>{}</ul></aside>\n",
        markup(what),
        reasons.join("")
    )
}
