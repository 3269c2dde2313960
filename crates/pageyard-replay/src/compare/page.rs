//! A comparison as a page.

use super::chart::{ALIKE, DIFFERS, FIRST};
use super::text::interval;
use super::{Comparison, Metric, Objective};
use crate::page::{page, trust_box};
use crate::text::{markup, shown};
use pageyard_trace::document::Made;
use std::fmt::Write;

impl Comparison {
    /// Returns it as a page of its own: for each objective charts and tables of what differs, then the rest.
    /// `made` says what made it.
    #[must_use]
    pub fn page(&self, made: Option<&Made>) -> String {
        let title = format!("{}: {} settings compared", markup(&shown(&self.trace)), self.settings.len());
        let mut body = String::new();
        let mut charts = 0;
        for objective in Objective::ALL {
            let (differ, same) = self.split(objective);
            // An objective in which nothing differs still shows its first figure.
            let drawn = if differ.is_empty() { &same[..same.len().min(1)] } else { &differ[..] };
            if drawn.is_empty() {
                continue;
            }
            let title = objective.title();
            let _ = write!(body, "<section aria-label=\"{title}\"><h2>{title}</h2>\n<div class=\"charts\">");
            for metric in drawn {
                body.push_str(&self.chart(metric, charts));
                charts += 1;
            }
            body.push_str("</div>\n");
            self.table(&mut body, title, &differ);
            if !same.is_empty() {
                let _ = writeln!(body, "<details><summary>{}: {}</summary>", self.alike(), same.len());
                self.table(&mut body, title, &same);
                body.push_str("</details>\n");
            }
            body.push_str("</section>\n");
        }
        page(&title, &trust_box("", &self.trust), &self.introduction(), &body, made)
    }

    /// Says what was compared, how to read it, and how much differs.
    fn introduction(&self) -> String {
        let first = markup(&shown(self.settings.first().map_or("", String::as_str)));
        let mut text =
            format!("<p>A recording of {}, replayed on each setting from ", markup(&shown(&self.kernel)));
        text.push_str(&match self.seeds {
            1 => "one opening state, so that nothing says how much of a difference is chance.".to_owned(),
            seeds => format!(
                "{seeds} opening states. Points are means of all seeds; lines, and brackets in tables, are the interval in which \
                 the mean of very many lies, 95 times of 100."
            ),
        });
        let counts: Vec<String> = Objective::ALL
            .into_iter()
            .map(|objective| {
                let (differ, same) = self.split(objective);
                let differs = |metric: &&&Metric| (1..self.settings.len()).any(|n| metric.differs(n));
                match differ.len() + same.len() {
                    0 => format!("{}: all are 0", objective.title()),
                    all => {
                        format!("{}: {} of {all}", objective.title(), differ.iter().filter(differs).count())
                    }
                }
            })
            .collect();
        let differ = match self.trust.is_low() {
            true => "No conclusion is drawn from figures that so much speaks against.".to_owned(),
            false => format!(
                "Figures that differ from <strong>{first}</strong> by more than seeds do: {}.",
                counts.join("; ")
            ),
        };
        let _ = write!(
            text,
            "</p>\n<p>{differ}</p>\n\
             <ul class=\"key\"><li>{}{first}, and dashed its mean</li><li>{}differs from it{}</li>\
             <li>{}{}</li></ul>\n",
            key(FIRST),
            key(DIFFERS),
            if self.trust.is_low() { " in these replays" } else { ", bold in tables" },
            key(ALIKE),
            self.alike().to_lowercase(),
        );
        text
    }

    fn table(&self, page: &mut String, title: &str, metrics: &[&Metric]) {
        if metrics.is_empty() {
            return;
        }
        // A table that is wider than the page is moved by itself, with keys as well.
        let _ = write!(
            page,
            "<div class=\"wide\" role=\"group\" aria-label=\"{title}, table\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">metric</th>"
        );
        self.settings.iter().for_each(|s| _ = write!(page, "<th scope=\"col\">{}</th>", markup(&shown(s))));
        page.push_str("</tr></thead><tbody>\n");
        for metric in metrics {
            let _ = write!(page, "<tr><th scope=\"row\">{}</th>", markup(&shown(&metric.name)));
            for n in 0..self.settings.len() {
                let class = if metric.differs(n) && !self.trust.is_low() { " class=\"differs\"" } else { "" };
                let _ = write!(page, "<td{class}>{}</td>", interval(metric.of(n)));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table></div>\n");
    }
}

/// Draws a symbol beside the words that say what it means.
fn key(symbol: &str) -> String {
    format!(
        "<svg class=\"symbol\" width=\"16\" height=\"16\" viewBox=\"-8 -8 16 16\" aria-hidden=\"true\">{symbol}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_trace::{Meta, Trust};

    #[test]
    fn names_cannot_leave_their_place() {
        let evil =
            "</h1></title></style><script>alert(1)</script>\"' onload=\"alert(2)\" &\u{202e}\u{7}\n<!--"
                .to_owned();
        let metric = Metric {
            name: evil.clone(),
            objective: Objective::Work,
            values: [[1.0, 2.0], [5.0, 6.0], [1.0, 2.0]].map(|of| of.map(Some).to_vec()).to_vec(),
        };
        let comparison = Comparison {
            trust: Trust::of(&Meta::new(2), 1),
            trace: evil.clone(),
            kernel: evil.clone(),
            settings: vec![evil.clone(), evil.clone(), evil],
            seeds: 2,
            metrics: vec![metric],
        };
        let page = comparison.page(None);
        assert!(!page.contains("<script") && page.matches("</h1>").count() == 1, "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"));
        // Every quote of a name is written as one, so no attribute ends early; nothing acts on the text around it.
        assert!(!page.contains("onload=\"") && page.contains("onload=&quot;"));
        assert!(!page.contains(['\u{202e}', '\u{7}']) && page.contains("\\u{202e}\\u{7}\\n&lt;!--"));
        assert_eq!(page.matches("<!--").count(), 0);
        assert_eq!(page.matches("class=\"setting\"").count(), 3);
    }

    #[test]
    fn an_objective_without_a_difference_shows_its_first_figure() {
        let metric = |name: &str, objective, second: f64| Metric {
            name: name.to_owned(),
            objective,
            values: vec![vec![Some(1.0); 3], vec![Some(second); 3]],
        };
        let comparison = Comparison {
            trust: Trust::of(&Meta::new(2), 1),
            trace: "busy".to_owned(),
            kernel: "Linux 6.1.0".to_owned(),
            settings: vec!["a".to_owned(), "b".to_owned()],
            seeds: 3,
            metrics: vec![
                metric("failures", Objective::Failures, 1.0),
                metric("failures_order_0", Objective::Failures, 1.0),
                metric("zone_lock", Objective::Work, 2.0),
                metric("pcp_refill", Objective::Work, 1.0),
            ],
        };
        let page = comparison.page(None);
        let drawn: Vec<&str> =
            page.split("<h3 id=\"chart-").skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1)).collect();
        assert_eq!(drawn, ["failures", "zone_lock"]);
        let counts = "do: Refused requests: 0 of 2; Free memory at the end: all are 0; Work: 1 of 2; Latency on this host: all are 0.";
        assert!(page.contains(counts), "{page}");
    }
}
