//! What of a file is TOML, where not all of it is.
//!
//! The parser goes on behind a mistake, but with what it was about: to a list that is not closed, every further line belongs,
//! and is wrong. So the file is cut into statements, and each judged by itself. Blanks then take the place of what cannot be
//! read, and the rest is read where it stands.

use std::borrow::Cow;
use std::ops::Range;

use toml::de::DeTable;
use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

use crate::problem::Problem;

/// Each is shown with its line, and who has more of them has no TOML in mind.
pub(crate) const MOST: usize = 20;

/// What of a file can be read.
#[derive(Debug)]
pub(crate) struct Legible<'t> {
    /// The file, with blanks in the place of what cannot.
    pub(crate) text: Cow<'t, str>,
    /// What is wrong.
    pub(crate) told: Vec<(Range<usize>, Problem)>,
    /// What was left out and is nowhere else.
    pub(crate) lost: Vec<Lost>,
    /// There was too much, and the rest was not judged.
    pub(crate) given_up: bool,
}

/// Text that was left out.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) span: Range<usize>,
    /// The table that it was in, by where its head ends, which is 0 for the root; `None` where the head was lost as well.
    pub(crate) table: Option<usize>,
}

/// A key with its value, a table's head, a comment or an empty line; with the end of its line.
#[derive(Debug)]
struct Statement {
    span: Range<usize>,
    head: Option<Head>,
    /// Where something begins that does not end, and what it is.
    open: Option<(usize, &'static str)>,
}

/// `[table]` or `[[table]]`.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Behind the last bracket.
    ends: usize,
    /// The table is in another one.
    inner: bool,
}

// === impl Legible ===

impl<'t> Legible<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        let mut legible = Self {
            text: Cow::Borrowed(text),
            told: Vec::new(),
            lost: Vec::new(),
            given_up: false,
        };
        if DeTable::parse(text).is_err() {
            let statements = Statement::all(text);
            legible.judge_each(text, &statements);
            legible.judge_together(&statements);
        }
        legible
    }

    /// Leaves out statements that are none. Where a head cannot be read, nobody knows what is below it.
    fn judge_each(&mut self, text: &str, statements: &[Statement]) {
        let mut table = Some(0);
        for statement in statements {
            let faults = statement.faults(text);
            match statement.head {
                Some(_) if !faults.is_empty() => table = None,
                Some(head) if table.is_some() || !head.inner => table = Some(head.ends),
                Some(_) | None => {}
            }
            if !faults.is_empty() || table.is_none() {
                self.blank(&statement.span);
                self.lost.push(Lost {
                    span: statement.span.clone(),
                    table,
                });
            }
            for (span, problem) in faults {
                if !self.tell(span, problem) {
                    return;
                }
            }
        }
    }

    /// Leaves out statements that cannot stand beside those before them, such as a key that is there twice.
    fn judge_together(&mut self, statements: &[Statement]) {
        while !self.given_up {
            let Err(error) = DeTable::parse(&self.text) else {
                return;
            };
            let span = error.span().unwrap_or_default();
            let (_, rest) = statements.split_at(
                statements
                    .iter()
                    .position(|statement| statement.span.contains(&span.start))
                    .unwrap_or(statements.len()),
            );
            // Each time one statement more is left out, so this comes to an end; should the parser ever be of another opinion
            // than before, then here.
            let is_there = |statement: &Statement| {
                let written = self.text.get(statement.span.clone());
                !written.unwrap_or_default().trim().is_empty()
            };
            let Some((first, below)) = rest.split_first().filter(|(first, _)| is_there(first))
            else {
                self.told.push((span, problem(error.message())));
                self.given_up = true;
                return;
            };
            self.blank(&first.span);
            if first.head.is_some() {
                let below = below
                    .iter()
                    .take_while(|statement| statement.head.is_none_or(|head| head.inner));
                let ends = below.last().map_or(first.span.end, |last| last.span.end);
                let span = first.span.start..ends;
                self.blank(&span);
                self.lost.push(Lost { span, table: None });
            }
            self.tell(span, problem(error.message()));
        }
    }

    /// Whether there is room for more.
    fn tell(&mut self, span: Range<usize>, mut problem: Problem) -> bool {
        self.given_up = self.told.len() == MOST;
        if self.given_up {
            let hint = "is this a TOML file?".to_owned();
            problem = Problem::new(&[], "nothing was read from here on", Some(hint));
        }
        self.told.push((span, problem));
        !self.given_up
    }

    fn blank(&mut self, span: &Range<usize>) {
        let text = self.text.to_mut();
        let written = text.get(span.clone()).unwrap_or_default().bytes();
        let blanks: String = written
            .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
            .collect();
        text.replace_range(span.clone(), &blanks);
    }
}

// === impl Statement ===

impl Statement {
    fn all(text: &str) -> Vec<Self> {
        let mut statements = Vec::new();
        let mut begins = 0;
        while let Some((_, rest)) = text.split_at_checked(begins)
            && !rest.is_empty()
        {
            let statement = Self::first(rest, begins);
            begins = statement.span.end;
            statements.push(statement);
        }
        statements
    }

    /// The statement that `rest` begins with, which itself begins at `at`.
    fn first(rest: &str, at: usize) -> Self {
        let line = rest.lines().next().unwrap_or_default();
        let kinds: Vec<TokenKind> = tokens(line).map(|token| token.kind()).collect();
        // Also one whose first bracket is missing.
        let is_head = kinds.first().is_some_and(|first| {
            *first == TokenKind::LeftSquareBracket
                || is_of_key(*first)
                    && kinds.contains(&TokenKind::RightSquareBracket)
                    && !kinds.contains(&TokenKind::Equals)
        });
        let mut head = is_head.then_some(Head {
            ends: at,
            inner: false,
        });
        let mut open = Open::default();
        let mut ends = rest.len();
        for token in tokens(rest) {
            if token.kind() == TokenKind::Newline && (is_head || open.is_empty()) {
                ends = token.span().end();
                break;
            }
            open.pass(&token, rest);
            if let Some(head) = &mut head {
                head.inner |= token.kind() == TokenKind::Dot;
                if token.kind() == TokenKind::RightSquareBracket {
                    head.ends = at + token.span().end();
                }
            }
        }
        let mut statement = Self {
            span: at..at + ends,
            head,
            open: None,
        };
        if !is_head && !open.is_empty() {
            // It would have the whole rest of the file. It gets what cannot be anything else.
            let mut lines = rest.match_indices('\n').map(|(newline, _)| newline + 1);
            let next = lines.find(|&line| begins_statement(rest.split_at(line).1));
            let (own, _) = rest.split_at(next.unwrap_or(rest.len()));
            let mut open = Open::default();
            for token in tokens(own) {
                open.pass(&token, own);
            }
            statement.span = at..at + own.len();
            statement.open = open.last().map(|(place, what)| (at + place, what));
        }
        statement
    }

    /// What is wrong with it by itself: one thing for each line, since what else is wrong there mostly follows from it.
    fn faults(&self, text: &str) -> Vec<(Range<usize>, Problem)> {
        let written = text.get(self.span.clone()).unwrap_or_default();
        let (_, errors) = DeTable::parse_recoverable(written);
        let mut faults: Vec<_> = errors
            .iter()
            .map(|error| {
                let span = error.span().unwrap_or_default();
                let span = self.span.start + span.start..self.span.start + span.end;
                (span, problem(error.message()))
            })
            .collect();
        faults.sort_by_key(|(span, _)| span.start);
        if let Some((open, what)) = self.open {
            // Where it should have ended, nothing is wrong but that it did not.
            let ends = self.span.start + written.trim_end().len();
            faults.retain(|(span, _)| span.start < ends);
            faults.push((open..open + 1, problem(what)));
            faults.truncate(1);
        }
        let line = |at: usize| text.get(..at).map(|before| before.matches('\n').count());
        faults.dedup_by_key(|(span, _)| line(span.start));
        faults
    }
}

/// What was opened and not closed yet.
#[derive(Debug, Default)]
struct Open {
    brackets: Vec<(usize, &'static str)>,
    /// A text of several lines, which takes all that follows.
    text: Option<(usize, &'static str)>,
}

// === impl Open ===

impl Open {
    fn pass(&mut self, token: &Token, text: &str) {
        let (kind, span) = (token.kind(), token.span());
        if kind == TokenKind::LeftSquareBracket {
            let what = "this list is not closed";
            self.brackets.push((span.start(), what));
        } else if kind == TokenKind::LeftCurlyBracket {
            let what = "this table is not closed";
            self.brackets.push((span.start(), what));
        } else if matches!(
            kind,
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket
        ) {
            self.brackets.pop();
        } else if matches!(kind, TokenKind::MlBasicString | TokenKind::MlLiteralString) {
            let written = text.get(span.start()..span.end()).unwrap_or_default();
            let (quotes, inside) = written.split_at_checked(3).unwrap_or((written, ""));
            if !inside.ends_with(quotes) {
                self.text = Some((span.start(), "this text is not closed"));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.last().is_none()
    }

    fn last(&self) -> Option<(usize, &'static str)> {
        self.text.or_else(|| self.brackets.last().copied())
    }
}

/// The tokens of a text but for blanks.
fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let tokens = Source::new(text).lex();
    tokens.filter(|token| token.kind() != TokenKind::Whitespace)
}

/// Whether the first line is a table's head, or begins with a key and an equals sign: neither can be in a list.
fn begins_statement(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let kinds: Vec<TokenKind> = tokens(line).map(|token| token.kind()).collect();
    let mut behind_key = kinds.iter().skip_while(|kind| is_of_key(**kind));
    if kinds.first() != Some(&TokenKind::LeftSquareBracket) {
        return behind_key.next() == Some(&TokenKind::Equals);
    }
    // One that cannot be read is a head as well. In a list there would be commas.
    let is_of_head = |kind: &TokenKind| {
        let bracket =
            TokenKind::LeftSquareBracket == *kind || TokenKind::RightSquareBracket == *kind;
        bracket || is_of_key(*kind) || matches!(kind, TokenKind::Comment | TokenKind::Eof)
    };
    kinds.iter().any(|kind| is_of_key(*kind)) && kinds.iter().all(is_of_head)
}

/// Whether keys are made of such.
fn is_of_key(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Atom | TokenKind::Dot | TokenKind::BasicString | TokenKind::LiteralString
    )
}

/// What the parser says. It takes each value without quotation marks for one of the kinds that have none, and most are texts
/// here: addresses, and numbers with a unit.
fn problem(what: &str) -> Problem {
    const TAKEN_FOR: [&str; 7] = [
        "invalid boolean",
        "invalid date",
        "invalid float",
        "invalid fraction",
        "invalid integer",
        "invalid mantissa",
        "unexpected leading zero",
    ];
    let taken = TAKEN_FOR.iter().any(|begin| what.starts_with(begin));
    let hint = taken.then(|| "a text stands between quotation marks".to_owned());
    Problem::new(&[], what, hint)
}
