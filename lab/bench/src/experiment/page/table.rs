//! Tables that scroll in boxes of their own, their first column in sight.

use super::super::Rows;
use super::super::lines::{lines, value};
use super::escape;
use std::fmt::Write;

/// Writes a table of all its rows.
pub(super) fn table(rows: &Rows, section: &str) -> String {
    let columns = rows.columns(section);
    let name = escape(section);
    let mut text = format!(
        "<h3>{name}</h3><div class=\"wide\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\"><table><thead><tr><td></td>"
    );
    for column in &columns {
        let _ = write!(text, "<th scope=\"col\">{}</th>", breakable(column));
    }
    text.push_str("</tr></thead><tbody>");
    for line in lines(rows, section) {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(line.metric));
        for cell in line.cells {
            let _ = write!(text, "<td>{}</td>", cell.map_or(String::new(), |r| escape(&value(r))));
        }
        text.push_str("</tr>");
    }
    text + "</tbody></table></div>"
}

/// Lets the name of a column break after its source and within its variant.
fn breakable(column: &str) -> String {
    escape(column).replace(':', ":<wbr>").replace('_', "_<wbr>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_box_that_scrolls_and_its_names_are_escaped() {
        let mut rows = Rows::default();
        rows.section("a & b");
        rows.add("x < y", "published:c_d", 1234.0, "ns");
        rows.add("z", "pageyard", 1.0, "");
        let html = table(&rows, "a & b");
        assert!(
            html.contains("<div class=\"wide\"") && html.contains("a &amp; b") && html.contains("x &lt; y")
        );
        assert!(html.contains("published:<wbr>c_<wbr>d") && html.contains("1,234 ns"));
        assert_eq!(html.matches("<tr>").count(), 3);
    }
}
