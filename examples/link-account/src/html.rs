//! Text into HTML, and the frame that all pages have.
//!
//! The pages run no script and load nothing: their style stands in them, and the headers forbid everything else.

use std::fmt;

use crate::NAME;

/// Text that prints itself escaped: the same between tags and in a quoted attribute.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let mut special = special.chars();
            f.write_str(match special.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                _ => "&#39;",
            })?;
            rest = special.as_str();
        }
        f.write_str(rest)
    }
}

/// A whole page. `body` is HTML; the others are text.
pub(crate) fn page(title: &str, host: &str, body: &str) -> String {
    format!(
        include_str!("html/frame.html"),
        title = Text(title),
        style = include_str!("html/style.css"),
        name = Text(NAME),
        host = Text(host),
        body = body,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_html_is_escaped() {
        for (text, escaped) in [
            ("", ""),
            ("plain ü", "plain ü"),
            (
                "<script>alert('1')</script>",
                "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;",
            ),
            (
                "\" autofocus x=\"&amp;",
                "&quot; autofocus x=&quot;&amp;amp;",
            ),
            ("a&", "a&amp;"),
        ] {
            assert_eq!(Text(text).to_string(), escaped);
        }
    }

    #[test]
    fn a_frame_holds_title_and_host_as_text() {
        let page = page("<T>", "<h>:1", "<p>body</p>");
        assert!(page.contains("<title>&lt;T&gt;</title>"), "{page}");
        assert!(page.contains("&lt;h&gt;:1") && !page.contains("<h>"));
        assert!(page.contains("<p>body</p>"));
    }
}
