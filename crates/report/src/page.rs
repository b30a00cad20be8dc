//! Pages: one file each that needs nothing else.

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("assets/style.css");

/// A kind of page: its template, and its script. The script is one module: what stands in one file is known in all that
/// follow.
pub struct Page {
    template: &'static str,
    script: &'static str,
}

/// The page of `heapwright report`.
pub const REPORT: Page = Page {
    template: include_str!("assets/page.html"),
    script: concat!(
        "// The constants of charts, which pictures have in common with the page.\nconst CHART = ",
        include_str!("assets/chart.json"),
        ";\n",
        include_str!("assets/text.js"),
        include_str!("assets/scales.js"),
        include_str!("assets/time.js"),
        include_str!("assets/colours.js"),
        include_str!("assets/canvas.js"),
        include_str!("assets/outliers.js"),
        include_str!("assets/lines.js"),
        include_str!("assets/heapmap.js"),
        include_str!("assets/bars.js"),
        include_str!("assets/parts.js"),
        include_str!("assets/table.js"),
        include_str!("assets/pins.js"),
        include_str!("assets/measures.js"),
        include_str!("assets/flames.js"),
        include_str!("assets/main.js"),
    ),
};

/// The page of `heapwright diff`.
pub const CHANGES: Page = Page {
    template: include_str!("assets/changes.html"),
    script: concat!(
        include_str!("assets/text.js"),
        include_str!("assets/colours.js"),
        include_str!("assets/table.js"),
        include_str!("assets/measures.js"),
        include_str!("assets/changes.js"),
    ),
};

impl Page {
    /// Returns the whole page with its data.
    pub fn html(&self, title: &str, data: &impl Serialize) -> Result<String> {
        let (style, script) = (block(STYLE), block(self.script));
        let data = json_in_script(&serde_json::to_string(data)?);
        let parts = [
            ("policy", policy_of(&style, &script)),
            ("title", text(title)),
            ("style", style),
            ("data", data),
            ("script", script),
        ];
        Ok(fill(self.template, &parts))
    }
}

/// Puts each part in place of its `{{name}}`; what a part holds is not looked at again.
fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut pieces = template.split("{{");
    page.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap_or((piece, ""));
        page.extend(parts.iter().filter(|(part, _)| *part == name).map(|(_, text)| text.as_str()));
        page.push_str(rest);
    }
    page
}

/// What stands between the tags of a style or a script, to the byte: it is what is hashed.
fn block(source: &str) -> String {
    format!("\n{source}")
}

/// Returns the page's content security policy: it loads nothing, and runs only the script that it was made with,
/// whatever texts the trace holds.
fn policy_of(style: &str, script: &str) -> String {
    format!(
        "default-src 'none'; img-src data: blob:; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(style),
        hash(script)
    )
}

fn hash(source: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(source)))
}

/// Text as it stands in HTML.
fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON as it may stand in a script element: nothing in it can end the element or begin a comment.
fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_in_as_they_are() {
        let parts = [("a", "1 {{b}} $1".to_owned()), ("b", "2".to_owned())];
        assert_eq!(fill("<{{a}}|{{b}}|{{none}}>", &parts), "<1 {{b}} $1|2|>");
    }

    #[test]
    fn nothing_in_the_data_ends_its_element() {
        let json = json_in_script(r#"{"a":"</script><!--"}"#);
        assert!(!json.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["a"], "</script><!--");
    }
}
