//! Markup of one picture.

use std::fmt::Write as _;

use super::style::{ARMS, STYLE, Sheet};
use crate::clean::for_markup;

/// An `<svg>` element in the making. Coordinates are in pixels of its view box.
#[derive(Debug)]
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
    plot: String,
}

/// Which end of a text its position is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
            plot: String::new(),
        }
    }

    /// Says which values the plane between these pixels stands for, so that a page can read them back
    /// under the pointer.
    pub(super) fn readable(&mut self, x: &super::axis::Axis, y: &super::axis::Axis) {
        self.plot = format!(
            r#" data-x="{} {} {} {}" data-y="{} {} {} {}" data-units="{} {}""#,
            px(x.start),
            px(x.end),
            x.from,
            x.to,
            px(y.start),
            px(y.end),
            y.from,
            y.to,
            x.unit.symbol(),
            y.unit.symbol(),
        );
    }

    /// Markup that this crate wrote itself; callers escape what they insert.
    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing into a `String` cannot fail.
        let _ = self.body.write_fmt(arguments);
        self.body.push('\n');
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        ));
    }

    /// A box with a corner, a size and what it is.
    pub(super) fn rectangle(&mut self, class: &str, at: (f64, f64), size: (f64, f64), title: &str) {
        let corner = if size.0.min(size.1) > 6.0 { 2 } else { 0 };
        let title = titled(title);
        self.push(format_args!(
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}" rx="{corner}">{title}</rect>"#,
            px(at.0),
            px(at.1),
            px(size.0.max(0.0)),
            px(size.1.max(0.0))
        ));
    }

    pub(super) fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, title: &str) {
        let title = titled(title);
        self.push(format_args!(
            r#"<circle class="{class}" cx="{}" cy="{}" r="{}">{title}</circle>"#,
            px(at.0),
            px(at.1),
            px(radius)
        ));
    }

    pub(super) fn path(&mut self, class: &str, commands: &str, title: &str) {
        if commands.is_empty() {
            return;
        }
        let title = titled(title);
        self.push(format_args!(
            r#"<path class="{class}" d="{commands}">{title}</path>"#
        ));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(format_args!(
            r#"<text class="{class}" x="{}" y="{}" text-anchor="{anchor}">{}</text>"#,
            px(at.0),
            px(at.1),
            for_markup(text)
        ));
    }

    /// A text that stands for a longer one.
    pub(super) fn text_with(
        &mut self,
        class: &str,
        at: (f64, f64),
        anchor: Anchor,
        text: &str,
        title: &str,
    ) {
        self.push(format_args!("<g><title>{}</title>", for_markup(title)));
        self.text(class, at, anchor, text);
        self.push(format_args!("</g>"));
    }

    /// Everything drawn by `draw` is a plot of its own, whose values a page can read back under the
    /// pointer. `name` says what it shows.
    pub(super) fn panel(
        &mut self,
        x: &super::axis::Axis,
        y: &super::axis::Axis,
        name: &str,
        draw: impl FnOnce(&mut Self),
    ) {
        let outer = std::mem::take(&mut self.plot);
        self.readable(x, y);
        let plot = std::mem::replace(&mut self.plot, outer);
        self.push(format_args!(
            r#"<g class="lh-panel" data-name="{}"{plot}>"#,
            for_markup(name)
        ));
        draw(self);
        self.push(format_args!("</g>"));
    }

    /// A path that belongs to an arm and says so to the page.
    pub(super) fn path_of(&mut self, class: &str, commands: &str, arm: &str) {
        if commands.is_empty() {
            return;
        }
        self.push(format_args!(
            r#"<path class="{class}" data-arm="{0}" d="{commands}"><title>{0}</title></path>"#,
            for_markup(arm)
        ));
    }

    /// Everything drawn by `draw` is cut to a box.
    pub(super) fn clipped(
        &mut self,
        at: (f64, f64),
        size: (f64, f64),
        draw: impl FnOnce(&mut Self),
    ) {
        // A nested viewport clips without an identifier, which could meet its like on one page.
        self.push(format_args!(
            r#"<svg x="{0}" y="{1}" width="{2}" height="{3}" viewBox="{0} {1} {2} {3}">"#,
            px(at.0),
            px(at.1),
            px(size.0),
            px(size.1)
        ));
        draw(self);
        self.push(format_args!("</svg>"));
    }

    /// The whole element. `title` names the picture, `description` says what it shows.
    pub(super) fn finish(self, sheet: Sheet, title: &str, description: &str) -> String {
        let style = match sheet {
            Sheet::Own => format!("<style>\n{STYLE}{ARMS}</style>\n"),
            Sheet::Page => String::new(),
        };
        let paper = match sheet {
            Sheet::Own => "<rect class=\"lh-paper\" width=\"100%\" height=\"100%\"/>\n",
            Sheet::Page => "",
        };
        format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" class="lh" role="img" viewBox="0 0 {} {}" "#,
                r#"width="{}" height="{}" aria-label="{}"{}>"#,
                "\n<desc>{}</desc>\n{}{}{}</svg>\n"
            ),
            px(self.width),
            px(self.height),
            px(self.width),
            px(self.height),
            for_markup(title),
            self.plot,
            for_markup(description),
            style,
            paper,
            self.body,
        )
    }
}

/// A path through points, going right before it goes up or down: values that hold until the next one.
pub(super) fn steps(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut commands = String::new();
    let mut last: Option<(String, String)> = None;
    for (x, y) in points {
        let (x, y) = (px(x), px(y));
        match &last {
            None => {
                let _ = write!(commands, "M{x} {y}");
            }
            // Points on one pixel would make the file larger and the line no better.
            Some((at_x, at_y)) if *at_x == x && *at_y == y => continue,
            Some((_, at_y)) if *at_y == y => {
                let _ = write!(commands, "H{x}");
            }
            Some((at_x, _)) if *at_x == x => {
                let _ = write!(commands, "V{y}");
            }
            Some(_) => {
                let _ = write!(commands, "H{x}V{y}");
            }
        }
        last = Some((x, y));
    }
    commands
}

/// A path through points by straight lines.
pub(super) fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut commands = String::new();
    let mut last = None;
    for (x, y) in points {
        let point = format!("{} {}", px(x), px(y));
        // Points on one pixel would make the file larger and the line no better.
        if last.as_ref() == Some(&point) {
            continue;
        }
        commands.push(if last.is_none() { 'M' } else { 'L' });
        commands.push_str(&point);
        last = Some(point);
    }
    commands
}

/// A coordinate with one decimal, without a needless one. What is not a number goes to the corner.
pub(super) fn px(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{:.1}", value.clamp(-1e6, 1e6));
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

fn titled(title: &str) -> String {
    if title.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", for_markup(title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        let shown = [0.0, -0.04, 1.0, 12.345, f64::NAN, f64::INFINITY, 1e9].map(px);
        assert_eq!(shown, ["0", "0", "1", "12.3", "0", "0", "1000000"]);
    }

    #[test]
    fn steps_hold_a_value_until_the_next_and_skip_repeated_pixels() {
        let points = [(0.0, 5.0), (1.0, 5.0), (2.0, 3.0), (2.01, 3.01), (4.0, 3.0)];
        assert_eq!(steps(points), "M0 5H1H2V3H4");
        assert_eq!(steps([]), "");
    }

    #[test]
    fn names_cannot_leave_their_element() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.text("lh-quiet", (0.0, 0.0), Anchor::Start, "</text><script>");
        canvas.path("lh-data", "M0 0", "\"</title>");
        let svg = canvas.finish(Sheet::Page, "\"><script>", "</desc>");
        assert!(!svg.contains("<script"));
        assert!(!svg.contains("\"</title>"));
        assert_eq!(svg.matches("</desc>").count(), 1);
    }
}
