//! The results as a picture: four panels of bars, each on its own logarithmic scale, because the results differ by
//! orders of magnitude.

use std::fmt::Write as _;

use crate::contender::Contender;
use crate::measure::Result;

const PANEL_WIDTH: f64 = 420.0;
const LABELS: f64 = 200.0;
const BAR: f64 = 16.0;
const BETWEEN_BARS: f64 = 8.0;
/// Above the bars is the title.
const TOP: f64 = 36.0;
/// In the order of [`Contender::ALL`].
const COLOURS: [&str; Contender::ALL.len()] = ["#1b7f5c", "#0d4f73", "#7a8ca0", "#63b292", "#b7a48b"];

/// A title, the unit, and the value of a bar.
type Panel = (&'static str, &'static str, fn(&Result) -> f64);

const PANELS: [Panel; 4] = [
    ("Process start until the last Service answers", "s", |it| it.start.as_secs_f64()),
    ("API change until a packet goes to the new endpoint (median)", "ms", |it| {
        it.replaced.time(0.5).as_secs_f64() * 1e3
    }),
    ("CPU time for one change", "ms", |it| it.replaced.cpu.as_secs_f64() * 1e3),
    ("Resident memory", "MB", |it| it.memory as f64 / 1e6),
];

pub(crate) fn plot(results: &[Result]) -> String {
    let panel_height = TOP + results.len() as f64 * (BAR + BETWEEN_BARS) + 20.0;
    let (width, height) = (2.0 * (PANEL_WIDTH + 20.0), 2.0 * panel_height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (index, panel) in PANELS.iter().enumerate() {
        let (column, row) = ((index % 2) as f64, (index / 2) as f64);
        _ = writeln!(svg, "<g transform=\"translate({},{})\">", column * (PANEL_WIDTH + 20.0), row * panel_height);
        draw(&mut svg, panel, results);
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

fn draw(svg: &mut String, (title, unit, value): &Panel, results: &[Result]) {
    _ = writeln!(svg, "<text x=\"10\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{title}</text>");
    let values: Vec<f64> = results.iter().map(value).collect();
    let least = values.iter().copied().fold(f64::MAX, f64::min).max(1e-6) / 2.0;
    let most = values.iter().copied().fold(0.0, f64::max).max(least * 2.0);
    let room = PANEL_WIDTH - LABELS - 70.0;
    for (index, (result, value)) in results.iter().zip(values).enumerate() {
        let length = room * (value.max(least) / least).ln() / (most / least).ln();
        let top = TOP + index as f64 * (BAR + BETWEEN_BARS);
        let label = format!("{} x {}, {}", result.services, result.endpoints, result.contender.name());
        let (text, colour) = (top + BAR - 4.0, colour(result.contender));
        _ = writeln!(svg, "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{label}</text>", LABELS - 8.0);
        _ = writeln!(
            svg,
            "<rect x=\"{LABELS}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
            length.max(1.0)
        );
        _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{text}\">{value:.3} {unit}</text>", LABELS + length.max(1.0) + 5.0);
    }
}

fn colour(contender: Contender) -> &'static str {
    Contender::ALL.iter().zip(COLOURS).find(|(it, _)| **it == contender).map_or("black", |(_, colour)| colour)
}
