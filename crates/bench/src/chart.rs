//! Pictures of figures: bars with their ranges, and lines, as one SVG without scripts or fonts of its own.

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 24.0;
/// Left edge of a chart's drawing, which leaves room for labels.
const LEFT: f64 = 250.0;
const LINES_LEFT: f64 = 90.0;
const LINES_HEIGHT: f64 = 200.0;
const BAR_HEIGHT: f64 = 22.0;
const COLOURS: [&str; 6] = ["#2563eb", "#ea580c", "#16a34a", "#9333ea", "#64748b", "#be123c"];

/// A place in the picture, counted from its upper left corner.
#[derive(Clone, Copy)]
struct Position {
    x: f64,
    y: f64,
}

fn at(x: f64, y: f64) -> Position {
    Position { x, y }
}

/// One bar, with the range it was seen in.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Words for what it stands for.
    pub label: String,
    /// Length of the bar, in whatever the chart counts.
    pub value: f64,
    /// Least and greatest seen.
    pub range: (f64, f64),
}

impl Bar {
    /// A bar of one figure, without a range.
    pub fn exact(label: &str, value: f64) -> Self {
        Self { label: label.to_owned(), value, range: (value, value) }
    }
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartLine {
    /// Words for what it stands for.
    pub label: String,
    /// Points as (x, y), from left to right.
    pub points: Vec<(f64, f64)>,
}

/// One chart of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    title: String,
    body: Body,
}

#[derive(Debug, Clone, PartialEq)]
enum Body {
    Bars(Vec<Bar>),
    Lines { ticks: Vec<(f64, String)>, lines: Vec<ChartLine>, is_logarithmic: bool },
}

impl Chart {
    /// Bars from zero, one below the other.
    pub fn bars(title: &str, bars: Vec<Bar>) -> Self {
        Self { title: title.to_owned(), body: Body::Bars(bars) }
    }

    /// Lines over an axis with these marks.
    pub fn lines(title: &str, ticks: Vec<(f64, String)>, lines: Vec<ChartLine>) -> Self {
        Self { title: title.to_owned(), body: Body::Lines { ticks, lines, is_logarithmic: false } }
    }

    /// The same with a scale on which ten times as much is one step more.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        if let Body::Lines { is_logarithmic, .. } = &mut self.body {
            *is_logarithmic = true;
        }
        self
    }

    fn draw(&self, top: f64) -> (String, f64) {
        let (drawn, height) = match &self.body {
            Body::Bars(bars) => draw_bars(bars, top + 30.0),
            Body::Lines { ticks, lines, is_logarithmic } => {
                draw_lines(ticks, lines, *is_logarithmic, top + 30.0)
            }
        };
        (format!("{}{drawn}", text(at(MARGIN, top + 16.0), "start", "h", &self.title)), height + 52.0)
    }
}

/// Draws the whole picture as SVG.
pub fn svg(title: &str, subtitle: &str, charts: &[Chart]) -> String {
    let mut top = 84.0;
    let mut body = String::new();
    for chart in charts {
        let (drawn, height) = chart.draw(top);
        body.push_str(&drawn);
        top += height;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" height=\"{top}\">\n\
         <style>text{{font:13px system-ui,sans-serif;fill:#334155}}.t{{font-size:20px;font-weight:600;fill:#0f172a}}\
         .h{{font-weight:600;fill:#0f172a}}.s{{font-size:12px}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}{}{body}</svg>\n",
        text(at(MARGIN, 36.0), "start", "t", title),
        text(at(MARGIN, 60.0), "start", "s", subtitle),
    )
}

fn draw_bars(bars: &[Bar], top: f64) -> (String, f64) {
    let most = bars.iter().map(|bar| bar.range.1.max(bar.value)).fold(0.0, f64::max);
    let x = |value: f64| LEFT + if most > 0.0 { value / most * (WIDTH - LEFT - 90.0) } else { 0.0 };
    let mut out = String::new();
    let mut y = top;
    for (bar, colour) in bars.iter().zip(COLOURS.iter().cycle()) {
        let (least, greatest) = bar.range;
        let middle = y + BAR_HEIGHT / 2.0 - 2.0;
        out.push_str(&text(at(LEFT - 8.0, middle + 4.0), "end", "s", &bar.label));
        out.push_str(&rect(at(LEFT, y), x(bar.value) - LEFT, BAR_HEIGHT - 4.0, colour));
        if greatest > least {
            out.push_str(&stroke(&[at(x(least), middle), at(x(greatest), middle)], "#0f172a"));
        }
        out.push_str(&text(
            at(x(greatest.max(bar.value)) + 6.0, middle + 4.0),
            "start",
            "s",
            &figure(bar.value),
        ));
        y += BAR_HEIGHT;
    }
    (out, y - top)
}

fn draw_lines(ticks: &[(f64, String)], lines: &[ChartLine], is_logarithmic: bool, top: f64) -> (String, f64) {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (first, last) = points().fold((f64::MAX, f64::MIN), |(a, b), (x, _)| (a.min(*x), b.max(*x)));
    let most = points().map(|(_, y)| *y).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let least = points().map(|(_, y)| *y).filter(|y| *y > 0.0).fold(most, f64::min);
    let marks = marks(least, most, is_logarithmic);
    let (low, high) = (marks.first().copied().unwrap_or_default(), marks.last().copied().unwrap_or(1.0));
    let bottom = top + LINES_HEIGHT;
    let scaled = |y: f64| if is_logarithmic { y.max(low).log10() } else { y };
    let to_y = |y: f64| bottom - (scaled(y) - scaled(low)) / (scaled(high) - scaled(low)) * LINES_HEIGHT;
    let to_x = |x: f64| {
        LINES_LEFT + (x - first) / (last - first).max(f64::MIN_POSITIVE) * (WIDTH - LINES_LEFT - 110.0)
    };
    let mut out = String::new();
    for mark in &marks {
        out.push_str(&stroke(&[at(LINES_LEFT, to_y(*mark)), at(WIDTH - 110.0, to_y(*mark))], "#e2e8f0"));
        out.push_str(&text(at(LINES_LEFT - 8.0, to_y(*mark) + 4.0), "end", "s", &figure(*mark)));
    }
    for (x, label) in ticks {
        out.push_str(&text(at(to_x(*x), bottom + 18.0), "middle", "s", label));
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let drawn: Vec<Position> = line.points.iter().map(|(x, y)| at(to_x(*x), to_y(*y))).collect();
        out.push_str(&stroke(&drawn, colour));
        if let Some(Position { x, y }) = drawn.last() {
            out.push_str(&rect(at(x - 2.0, y - 2.0), 4.0, 4.0, colour));
            out.push_str(&text(at(x + 8.0, y + 4.0), "start", "s", &line.label));
        }
    }
    (out, LINES_HEIGHT + 18.0)
}

/// Round figures from below `least` to above `most`; from zero unless the scale is logarithmic.
fn marks(least: f64, most: f64, is_logarithmic: bool) -> Vec<f64> {
    if is_logarithmic {
        let (low, high) = (least.log10().floor(), most.log10().ceil());
        let steps = (0_u32..12).map(|n| low + f64::from(n)).take_while(|step| *step <= high.max(low + 1.0));
        return steps.map(|step| 10_f64.powf(step)).collect();
    }
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough).unwrap_or(rough);
    (0_u32..=5).map(|n| f64::from(n) * step).take_while(|mark| *mark < most + step).collect()
}

/// Three digits that matter.
fn figure(value: f64) -> String {
    let text = match value {
        large if large >= 100.0 => format!("{large:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small if small >= 0.095 || small <= 0.0 => format!("{small:.2}"),
        least => format!("{least:.3}"),
    };
    let is_whole = text.contains('.');
    if is_whole { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn text(Position { x, y }: Position, anchor: &str, class: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>\n")
}

fn rect(Position { x, y }: Position, width: f64, height: f64, colour: &str) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
    )
}

fn stroke(points: &[Position], colour: &str) -> String {
    let points: Vec<String> = points.iter().map(|Position { x, y }| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_figures() {
        #[track_caller]
        fn check(least: f64, most: f64, is_logarithmic: bool, want: &str) {
            let found: Vec<String> = marks(least, most, is_logarithmic).into_iter().map(figure).collect();
            assert_eq!(found.join(" "), want);
        }
        check(1.0, 38_000.0, false, "0 10000 20000 30000 40000");
        check(0.2, 0.9, false, "0 0.5 1");
        check(0.3, 40.0, true, "0.1 1 10 100");
        check(0.004, 0.006, true, "0.001 0.01");
    }

    #[test]
    fn a_picture_is_whole_and_strange_words_stay_words() {
        let bars =
            Chart::bars("a < b & c", vec![Bar { label: "x".to_owned(), value: 2.0, range: (1.0, 3.0) }]);
        let empty = Chart::lines("nothing", Vec::new(), Vec::new());
        let one = vec![ChartLine { label: "p50".to_owned(), points: vec![(1.0, 5.0)] }];
        let lines = Chart::lines("one", vec![(1.0, "1".to_owned())], one).logarithmic();
        let picture = svg("t", "s", &[bars, empty, lines, Chart::bars("none", Vec::new())]);
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        assert!(
            picture.contains("a &lt; b &amp; c") && !picture.contains("NaN") && !picture.contains("inf"),
            "{picture}"
        );
        let mut reader = quick_xml::Reader::from_str(&picture);
        while !matches!(reader.read_event().expect("XML"), quick_xml::events::Event::Eof) {}
    }

    #[test]
    fn a_figure_has_the_digits_that_matter() {
        #[track_caller]
        fn check(value: f64, want: &str) {
            assert_eq!(figure(value), want);
        }
        check(0.0, "0");
        check(0.004_2, "0.004");
        check(0.095, "0.1");
        check(1.5, "1.5");
        check(9.999, "10");
        check(12.34, "12.3");
        check(100.0, "100");
        check(38_123.4, "38123");
    }

    #[test]
    fn bars_start_at_zero_and_the_longest_fills_the_chart() {
        let bar = |label: &str, value: f64| Bar::exact(label, value);
        let (drawn, height) = draw_bars(&[bar("half", 5.0), bar("all", 10.0)], 0.0);
        let widths: Vec<f64> =
            drawn.split("width=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
        assert!(
            (widths[0] * 2.0 - widths[1]).abs() < 0.11 && (widths[1] - (WIDTH - LEFT - 90.0)).abs() < 0.1
        );
        assert!((height - 2.0 * BAR_HEIGHT).abs() < 1e-9);
        assert!(draw_bars(&[bar("nothing", 0.0)], 0.0).0.contains("width=\"0.0\""), "no division by zero");
    }
}
