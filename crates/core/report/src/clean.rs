//! Strings from captures, made harmless.

/// `text` without anything that moves a cursor, changes a colour or turns the direction of reading:
/// such characters appear as `\u{1b}`.
pub(crate) fn for_terminal(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let harmful = character.is_control() || is_invisible_control(character);
            let escaped = harmful.then(|| character.escape_unicode());
            let kept = (!harmful).then_some(character);
            escaped.into_iter().flatten().chain(kept)
        })
        .collect()
}

/// `text` as content or attribute value of HTML and SVG.
pub(crate) fn for_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in for_terminal(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// `text` with a no-break space between every number and its unit, so that no line ends between them.
pub(crate) fn with_units_bound(text: &str) -> String {
    const UNITS: [&str; 19] = [
        "s", "ms", "µs", "B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "bit/s", "kbit/s",
        "Mbit/s", "Gbit/s", "%", "RTT", "times", "x",
    ];
    let mut bound = String::with_capacity(text.len());
    let mut after_number = false;
    for (index, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches(['.', ',', ';', ':', ')']);
        if index > 0 {
            bound.push(if after_number && UNITS.contains(&unit) {
                NO_BREAK
            } else {
                ' '
            });
        }
        bound.push_str(word);
        after_number = word.ends_with(|last: char| last.is_ascii_digit());
    }
    bound
}

/// The space at which no line ends.
pub(crate) const NO_BREAK: char = '\u{a0}';

/// Bidirectional controls (Unicode Standard Annex 9, table 4), which can make a line read as another
/// than it is, and the line separators that `char::is_control` leaves out.
const fn is_invisible_control(character: char) -> bool {
    matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_terminal_sees_escapes_as_text() {
        assert_eq!(for_terminal("a\u{1b}[31mb\n"), r"a\u{1b}[31mb\u{a}");
        assert_eq!(for_terminal("gepj\u{202e}exe"), r"gepj\u{202e}exe");
        assert_eq!(for_terminal("Größe 5 µs"), "Größe 5 µs");
    }

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(
            with_units_bound("100 KiB over 200.6 ms: 98 % of it, 3 of 4 s."),
            "100\u{a0}KiB over 200.6\u{a0}ms: 98\u{a0}% of it, 3 of 4\u{a0}s."
        );
    }

    proptest! {
        #[test]
        fn nothing_gets_out_of_markup(text in any::<String>()) {
            let escaped = for_markup(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.chars().any(char::is_control));
            // Every ampersand begins one of the five entities.
            for rest in escaped.split('&').skip(1) {
                prop_assert!(
                    ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|name| rest.starts_with(name))
                );
            }
        }

        #[test]
        fn markup_and_back_is_what_a_terminal_shows(text in any::<String>()) {
            let back = for_markup(&text)
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            prop_assert_eq!(back, for_terminal(&text));
        }
    }
}
