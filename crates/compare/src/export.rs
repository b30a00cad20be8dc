//! Writes a comparison as JSON, CSV or Markdown.

use std::io::Write;

use anyhow::Result;

use super::comparison::Comparison;
use super::marks::{Mark, marks};
use super::metric::{Metric, Origin};
use super::row::{Parts, Row, signed};
use heapwright_host::destination::Destination;
use heapwright_host::names::Shown;
use heapwright_stats::Estimate;

/// A form that a comparison can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One object with all there is.
    Json,
    /// A line per row.
    Csv,
    /// Tables.
    Markdown,
}

impl Form {
    /// Writes `comparison` to the destination.
    pub fn export(self, comparison: &Comparison, destination: &Destination) -> Result<()> {
        let mut bytes = Vec::new();
        self.write(comparison, &mut bytes)?;
        destination.write(&bytes)
    }

    fn write(self, comparison: &Comparison, out: &mut impl Write) -> Result<()> {
        match self {
            Form::Json => {
                serde_json::to_writer(&mut *out, comparison)?;
                writeln!(out)?;
            }
            Form::Csv => csv(comparison, out)?,
            Form::Markdown => markdown(comparison, out)?,
        }
        Ok(())
    }
}

/// A line per row; for each figure its median and the ends of its interval, in seconds, bytes, shares.
fn csv(comparison: &Comparison, out: &mut impl Write) -> Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let headings =
        Metric::ALL.into_iter().flat_map(|metric| ["", " low", " high"].map(|end| format!("{}{end}", metric.name())));
    csv.write_record(["row", "kind"].map(str::to_owned).into_iter().chain(headings))?;
    for row in &comparison.rows {
        let figures = Metric::ALL.into_iter().flat_map(|metric| cells(row.figures.get(&metric)));
        let kind = serde_json::to_value(row.kind)?;
        let names = [row.name.clone(), kind.as_str().unwrap_or_default().to_owned()];
        csv.write_record(names.into_iter().chain(figures))?;
    }
    Ok(csv.flush()?)
}

/// Returns an estimate and its interval as cells. A figure that is not known is an empty cell.
fn cells(estimate: Option<&Estimate>) -> [String; 3] {
    let cell = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    let interval = estimate.and_then(|estimate| estimate.interval);
    [estimate.map(|estimate| estimate.median), interval.map(|[low, _]| low), interval.map(|[_, high]| high)].map(cell)
}

fn markdown(comparison: &Comparison, out: &mut impl Write) -> Result<()> {
    let trace = &comparison.trace;
    writeln!(out, "# {}: allocators and policies\n", escaped(trace.program.as_deref().unwrap_or(&trace.file)))?;
    let [compared, machine] = comparison.headline();
    writeln!(out, "{}\n{}\n", escaped(&compared), escaped(&machine))?;
    if let Some(recommendation) = &comparison.recommendation {
        writeln!(out, "**{}**\n", escaped(&recommendation.text))?;
    }
    for origin in Origin::ALL {
        table(comparison, origin, out)?;
    }
    parts(comparison, out)?;
    for text in comparison.describe_fidelity().into_iter().chain(comparison.notes()).chain([comparison.legend()]) {
        writeln!(out, "{}\n", escaped(&text))?;
    }
    Ok(())
}

fn table(comparison: &Comparison, origin: Origin, out: &mut impl Write) -> Result<()> {
    let is_known = |metric: &Metric| comparison.rows.iter().any(|row| row.figures.contains_key(metric));
    let metrics: Vec<Metric> =
        Metric::ALL.into_iter().filter(|metric| metric.origin() == origin && is_known(metric)).collect();
    if metrics.is_empty() {
        return Ok(());
    }
    let headings: String = metrics.iter().map(|metric| format!(" {} |", metric.name())).collect();
    writeln!(out, "| {} |{headings}\n|---|{}", origin.describe(), "---:|".repeat(metrics.len()))?;
    let marks: Vec<Vec<Mark>> = metrics.iter().map(|&metric| marks(comparison, metric)).collect();
    for (at, row) in comparison.rows.iter().enumerate() {
        if metrics.iter().any(|metric| row.figures.contains_key(metric)) {
            let cells: String = metrics
                .iter()
                .zip(&marks)
                .map(|(&metric, marks)| format!(" {} |", cell(row, metric, marks[at])))
                .collect();
            writeln!(out, "| {} |{cells}", escaped(&row.name))?;
        }
    }
    Ok(writeln!(out)?)
}

/// The parts of the peak RSS, if it was measured.
fn parts(comparison: &Comparison, out: &mut impl Write) -> Result<()> {
    let known: Vec<(&Row, &Parts)> =
        comparison.rows.iter().filter_map(|row| Some((row, row.parts.as_ref()?))).collect();
    if known.is_empty() {
        return Ok(());
    }
    let headings = Parts::NAMES.map(|name| format!(" {name} |")).concat();
    writeln!(out, "| parts of peak RSS |{headings}\n|---|{}", "---:|".repeat(Parts::NAMES.len()))?;
    for (row, parts) in known {
        let cell = |bytes: Option<i64>| format!(" {} |", bytes.map_or_else(|| "-".to_owned(), signed));
        writeln!(out, "| {} |{}", escaped(&row.name), parts.bytes().map(cell).concat())?;
    }
    Ok(writeln!(out)?)
}

/// The characters of names and sentences that Markdown would take as its own: for code, emphasis, links, HTML, cells.
const OWN_OF_MARKDOWN: &str = "\\`*_~[]<>&|";

/// Returns a text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let escape = |letter: char| OWN_OF_MARKDOWN.contains(letter).then_some('\\').into_iter().chain([letter]);
    text.shown().chars().flat_map(escape).collect()
}

/// Returns a figure with its interval, the best in bold.
fn cell(row: &Row, metric: Metric, mark: Mark) -> String {
    let Some(estimate) = row.figures.get(&metric) else { return "-".to_owned() };
    let figure = row.shown(metric, estimate.median);
    let figure = match mark {
        Mark::Best => format!("**{figure}**\\*"),
        Mark::Tie => format!("{figure}\\~"),
        Mark::None => figure,
    };
    match estimate.interval {
        Some([low, high]) if metric.show(low) != metric.show(high) => {
            format!("{figure} ({} to {})", metric.show(low), metric.show(high))
        }
        _ => figure,
    }
}

#[cfg(test)]
mod tests {
    use super::super::recommend::recommend;
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    fn text(form: Form) -> String {
        let mut comparison =
            Synthetic::beside([row("mine", 0.5, 1.04)]).simulated(&[("best", 1.02), ("first", 1.2)]).build();
        comparison.recommendation = Some(recommend(&comparison));
        comparison.trace.program = Some("prog".to_owned());
        let mut bytes = Vec::new();
        form.write(&comparison, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn csv_has_a_line_per_row_and_leaves_out_what_is_not_known() {
        let text = text(Form::Csv);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headings = reader.headers().unwrap().clone();
        let at = |name: &str| headings.iter().position(|heading| heading == name).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 5);
        assert_eq!((&rows[1][0], &rows[1][at("kind")]), ("mine", "allocator"));
        let [low, middle, high] =
            ["time low", "time", "time high"].map(|name| rows[1][at(name)].parse::<f64>().unwrap());
        assert!(low < middle && middle < high && high < 0.52);
        assert_eq!((&rows[1][at("heap")], &rows[3][at("time")]), ("", ""));
        assert_eq!(&rows[3][at("heap/asked")], "1.02");
    }

    #[test]
    fn markdown_has_a_table_for_each_origin_and_the_recommendation() {
        let text = text(Form::Markdown);
        assert!(text.starts_with("# prog: allocators and policies\n"));
        assert!(text.contains("**Use mine: 50 % less time"), "{text}");
        assert!(text.contains("| measured | time | time/system | peak |"), "{text}");
        assert!(text.contains("| best |") && text.contains("**1.02x**\\* |"), "{text}");
        assert!(!text.contains("p9999"), "no call was timed");
        assert!(text.contains("| parts of peak RSS | asked | rounding | holes | kept |"), "{text}");
        assert!(text.contains("| mine | 58.1 MiB | - | - | 5.35 MiB |"), "{text}");
        let widths = |line: &str| line.matches('|').count();
        for lines in text
            .lines()
            .collect::<Vec<_>>()
            .windows(2)
            .filter(|pair| pair[0].starts_with('|') && pair[1].starts_with('|'))
        {
            assert_eq!(widths(lines[0]), widths(lines[1]), "{text}");
        }
    }

    #[test]
    fn markdown_shows_names_as_they_are() {
        let mut comparison = Synthetic::beside([row("my|<b>_own_", 0.5, 1.04)]).build();
        comparison.recommendation = Some(recommend(&comparison));
        comparison.trace.program = Some("fr`a`g<script><!--&lt;*x*[y](z)".to_owned());
        let mut bytes = Vec::new();
        Form::Markdown.write(&comparison, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let program = r"fr\`a\`g\<script\>\<!--\&lt;\*x\*\[y\](z)";
        assert!(text.starts_with(&format!("# {program}: allocators and policies\n")), "{text}");
        assert!(text.contains(r"**Use my\|\<b\>\_own\_: "), "{text}");
        assert!(text.contains(r"| my\|\<b\>\_own\_ |"), "{text}");
        let is_escaped = |at: usize| text[..at].ends_with('\\');
        assert!(text.match_indices(['<', '&', '`']).all(|(at, _)| is_escaped(at)), "{text}");
    }

    #[test]
    fn json_is_one_object_with_its_schema() {
        let json: serde_json::Value = serde_json::from_str(&text(Form::Json)).unwrap();
        assert_eq!((&json["schema"], &json["results"][1]["name"]), (&1.into(), &"mine".into()));
        assert_eq!(json["results"][1]["rounds"].as_array().unwrap().len(), 12);
    }
}
