use serde::Deserialize;

use crate::{ConfigError, Problems, read};

/// A kind of file, with little in it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct House {
    /// Which of the rooms, or of `BUILT_IN`, is lit.
    lit: Vec<String>,
    #[serde(default)]
    rooms: std::collections::BTreeMap<String, Room>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Room {
    #[expect(
        dead_code,
        reason = "nobody asks about it, but it has to be there and fit"
    )]
    windows: u32,
}

const BUILT_IN: &str = "hall";
const SOUND: &str = "lit = [\"hall\", \"office\"]\n[rooms.office]\nwindows = 1\n";

impl House {
    fn judge(&self, problems: &mut Problems) {
        problems.within("lit", |problems| {
            for (index, name) in self.lit.iter().enumerate() {
                let known = name == BUILT_IN || self.rooms.contains_key(name);
                let what = format!("there is no room `{name}`");
                problems.within(index, |problems| problems.require(known, "", &what));
            }
        });
    }
}

fn house(text: &str) -> Result<(), ConfigError> {
    read(text, |house: House, problems| house.judge(problems))
}

/// Lines of a file that are said to be wrong, and what is said of them.
fn told(error: &ConfigError) -> Vec<(usize, &str)> {
    let problems = error.problems().iter();
    problems
        .map(|problem| {
            let line = problem.position.as_ref().map_or(0, |at| at.line);
            (line, problem.what.as_str())
        })
        .collect()
}

#[test]
fn slips_and_what_values_mean_are_told_at_once_with_line_caret_and_next_step() {
    house(SOUND).unwrap();
    let text = SOUND.replace("hall", "hell") + "widnows = 2\n";
    let error = house(&text).unwrap_err().in_file("house.toml");
    assert_eq!(
        error.to_string(),
        "2 things are wrong with `house.toml`\n\n\
         house.toml:1:8: there is no room `hell`\n    1 | lit = [\"hell\", \"office\"]\n      |        ^^^^^^\n\n\
         house.toml:4:1: there is no key `widnows` here\n    4 | widnows = 2\n      | ^^^^^^^ did you mean `windows`?"
    );
}

#[test]
fn what_could_not_be_read_hides_a_name_but_no_part_of_one() {
    for (lit, hidden) in [("office", true), ("ice", false), ("off", false)] {
        let text = format!("lit = [\"{lit}\"]\n[rooms.office\nwindows = 1\n");
        let error = house(&text).unwrap_err();
        let missing = told(&error).iter().any(|(line, _)| *line == 1);
        assert_eq!(missing, !hidden, "{lit}: {error}");
    }
}

#[test]
fn a_file_that_is_no_toml_at_all_is_given_up() {
    let yaml = "http:\n  listen: 127.0.0.1:1\n".repeat(500);
    let error = house(&yaml).unwrap_err();
    let (last, all) = error.problems().split_last().unwrap();
    assert_eq!(all.len(), super::legible::MOST, "{error}");
    assert_eq!(last.hint.as_deref(), Some("is this a TOML file?"));
    let brackets = house(&"a = [\n".repeat(5_000)).unwrap_err();
    assert_eq!(brackets.problems().len(), all.len() + 1);
}

#[test]
fn wide_letters_and_tabs_do_not_move_the_caret() {
    let error = house("\tlit = [\"ä\"] # ö\n").unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.contains("    1 | \tlit = [\"ä\"] # ö\n      | \t       ^^^"),
        "{shown}"
    );
}

#[test]
fn a_file_of_nothing_but_slips_is_not_read_for_ever() {
    let keys: Vec<String> = (0..1_000)
        .map(|number| format!("key-{number} = 1"))
        .collect();
    let text = keys.join("\n");
    let error = house(&text).unwrap_err();
    assert_eq!(error.problems().len(), super::MOST);
}

#[test]
fn whoever_asks_what_values_mean_hears_that_not_all_could_be_read() {
    for (text, expected) in [
        (SOUND.to_owned(), true),
        (format!("{SOUND}widnows = 1\n"), false),
        (format!("{SOUND}color = red\n"), false),
        (SOUND.replace("hall", "hell"), false),
    ] {
        let mut none = None;
        let result = read(&text, |house: House, problems| {
            house.judge(problems);
            none = Some(problems.none_yet());
        });
        assert_eq!(none, Some(expected), "{text}");
        assert_eq!(result.is_ok(), expected, "{text}");
    }
}
