//! What is shown, and what keys do to it.

use live::{Filter, Order};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::commands::top::session::Session;

/// What is shown.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The chosen connection.
    pub(super) chosen: Option<u64>,
    /// The connection whose history is shown.
    pub(super) detail: Option<u64>,
    /// The filter in effect, as written.
    pub(super) filter: String,
    /// The filter that is being written.
    pub(super) writing: Option<String>,
    /// What is wrong with it.
    pub(super) mistake: Option<String>,
    pub(super) help: bool,
    /// Connections in the order in which they were drawn last, and the first of them on the screen.
    pub(super) drawn: Vec<u64>,
    pub(super) first: usize,
    /// Lines of the table.
    pub(super) height: usize,
    paused: bool,
}

/// What comes after a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    Stay,
    Leave,
}

impl View {
    pub(super) fn new(filter: &str) -> Self {
        Self {
            filter: filter.to_owned(),
            ..Self::default()
        }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn key(&mut self, key: KeyEvent, session: &mut Session) -> Turn {
        if key.kind == KeyEventKind::Release {
            return Turn::Stay;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Turn::Leave;
        }
        if self.writing.is_some() {
            self.write(key.code, session);
            return Turn::Stay;
        }
        if self.help {
            self.help = false;
            return Turn::Stay;
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "all other keys of a keyboard do nothing"
        )]
        match key.code {
            KeyCode::Char('q') => return Turn::Leave,
            KeyCode::Esc if self.detail.is_none() => return Turn::Leave,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.detail = None,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/' | 'f') => self.writing = Some(self.filter.clone()),
            KeyCode::Char('s' | '>') => session.order = turned(session.order, 1),
            KeyCode::Char('S' | '<') => {
                session.order = turned(session.order, Order::ALL.len() - 1);
            }
            KeyCode::Enter | KeyCode::Right => self.detail = self.chosen,
            KeyCode::Down | KeyCode::Char('j') => self.step(1, true),
            KeyCode::Up | KeyCode::Char('k') => self.step(1, false),
            KeyCode::PageDown => self.step(self.height.max(1), true),
            KeyCode::PageUp => self.step(self.height.max(1), false),
            KeyCode::Home | KeyCode::Char('g') => self.chosen = self.drawn.first().copied(),
            KeyCode::End | KeyCode::Char('G') => self.chosen = self.drawn.last().copied(),
            _ => {}
        }
        Turn::Stay
    }

    /// Where the chosen connection stands now; the first one, where it has gone.
    pub(super) fn place(&mut self, drawn: Vec<u64>) -> usize {
        self.drawn = drawn;
        let place = self
            .chosen
            .and_then(|chosen| self.drawn.iter().position(|id| *id == chosen));
        if place.is_none() {
            self.chosen = self.drawn.first().copied();
        }
        place.unwrap_or(0)
    }

    fn step(&mut self, count: usize, down: bool) {
        let here = self
            .chosen
            .and_then(|chosen| self.drawn.iter().position(|id| *id == chosen))
            .unwrap_or(0);
        let last = self.drawn.len().saturating_sub(1);
        let there = if down {
            here.saturating_add(count).min(last)
        } else {
            here.saturating_sub(count)
        };
        self.chosen = self.drawn.get(there).copied();
    }

    fn write(&mut self, code: KeyCode, session: &mut Session) {
        let Some(text) = &mut self.writing else {
            return;
        };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "all other keys of a keyboard write nothing"
        )]
        match code {
            KeyCode::Char(letter) => text.push(letter),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Esc => {
                self.writing = None;
                self.mistake = None;
            }
            KeyCode::Enter => match text.parse::<Filter>() {
                Ok(filter) => {
                    session.filter = filter;
                    self.filter = std::mem::take(text);
                    self.writing = None;
                    self.mistake = None;
                }
                Err(error) => self.mistake = Some(error.to_string()),
            },
            _ => {}
        }
    }
}

/// The order so many further on, around the end.
fn turned(order: Order, steps: usize) -> Order {
    let here = Order::ALL.iter().position(|one| *one == order).unwrap_or(0);
    Order::ALL[(here + steps) % Order::ALL.len()]
}
