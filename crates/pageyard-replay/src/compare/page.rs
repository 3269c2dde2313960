//! A comparison as a page.

use super::text::interval;
use super::{Comparison, Metric, Objective};
use std::fmt::Write;

/// How the page looks: by the reader's choice of dark or light, and on paper.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}\
table{border-collapse:collapse;margin:.5rem 0 1rem}th,td{padding:.25rem .8rem;border-bottom:1px solid #8886;text-align:right}\
th:first-child,td:first-child{text-align:left}td.differs{font-weight:600}.quiet{opacity:.7}";

impl Comparison {
    /// Returns it as a page of its own: tables of what differs, then the rest.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        let title = format!("{}: {} settings compared", escaped(&self.trace), self.settings.len());
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n\
             <p>A recording of {}, replayed from {} opening states on each setting. Means of all seeds, in brackets the interval in which the mean of very many \
             lies, 95 times of 100. Bold: it differs from {} by more than seeds do.</p>\n",
            escaped(&self.kernel),
            self.seeds,
            escaped(self.settings.first().map_or("", String::as_str)),
        );
        for objective in Objective::ALL {
            let (differ, same) = self.split(objective);
            if differ.is_empty() && same.is_empty() {
                continue;
            }
            let _ = writeln!(page, "<h2>{}</h2>", objective.title());
            self.table(&mut page, &differ);
            if !same.is_empty() {
                let _ = writeln!(
                    page,
                    "<details><summary class=\"quiet\">No difference beyond that between seeds: {}</summary>",
                    same.len()
                );
                self.table(&mut page, &same);
                page.push_str("</details>\n");
            }
        }
        page.push_str("</body></html>\n");
        page
    }

    fn table(&self, page: &mut String, metrics: &[&Metric]) {
        if metrics.is_empty() {
            return;
        }
        page.push_str("<table><thead><tr><th scope=\"col\">metric</th>");
        self.settings.iter().for_each(|s| _ = write!(page, "<th scope=\"col\">{}</th>", escaped(s)));
        page.push_str("</tr></thead><tbody>\n");
        for metric in metrics {
            let _ = write!(page, "<tr><td>{}</td>", escaped(&metric.name));
            for n in 0..self.settings.len() {
                let class = if n > 0 && metric.differs(n) { " class=\"differs\"" } else { "" };
                let _ = write!(page, "<td{class}>{}</td>", interval(metric.of(n)));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table>\n");
    }
}

/// Writes a text so that a browser shows it and does nothing else with it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        let evil = "</h1><script>alert(1)</script>\"&".to_owned();
        let metric =
            Metric { name: evil.clone(), objective: Objective::Work, values: vec![vec![1.0], vec![2.0]] };
        let comparison = Comparison {
            trace: evil.clone(),
            kernel: evil.clone(),
            settings: vec![evil.clone(), evil],
            seeds: 1,
            metrics: vec![metric],
        };
        let page = comparison.page();
        assert!(!page.contains("<script") && page.matches("</h1>").count() == 1, "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;"));
    }
}
