use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use clap::Parser as _;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::list;
use super::view::{Turn, View};
use crate::arguments::{Arguments, Command};
use crate::commands::top::session::Session;

/// The host under watch, two connections of this test's own on it, and a screen.
struct Stage {
    session: Session,
    view: View,
    screen: Terminal<TestBackend>,
    pair: (TcpStream, TcpStream),
}

impl Stage {
    fn new(width: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let own = client.local_addr().unwrap().port();
        let filter = format!("port {port} and port {own} and not state time-wait");
        let words = ["longhaul", "top", "--filter", &filter, "--sort", "out"];
        let Some(Command::Top(arguments)) = Arguments::try_parse_from(words).unwrap().command
        else {
            panic!("`top` is a verb");
        };
        let session = Session::open(&arguments, arguments.filter().unwrap()).unwrap();
        let mut stage = Self {
            session,
            view: View::new(&arguments.filter),
            screen: Terminal::new(TestBackend::new(width, 30)).unwrap(),
            pair: (client, server),
        };
        stage.session.read().unwrap();
        stage.pair.0.write_all(&vec![7; 100_000]).unwrap();
        stage.pair.1.read_exact(&mut vec![0; 100_000]).unwrap();
        stage.session.read().unwrap();
        stage
    }

    fn draw(&mut self) -> String {
        self.screen
            .draw(|frame| list::draw(frame, &mut self.view, &self.session))
            .unwrap();
        self.screen.backend().to_string()
    }

    fn press(&mut self, code: KeyCode) -> Turn {
        self.view
            .key(KeyEvent::new(code, KeyModifiers::NONE), &mut self.session)
    }
}

#[test]
fn both_ends_are_listed_with_their_process_and_the_sender_comes_first() {
    let mut stage = Stage::new(180);
    let shown = stage.draw();
    let (client, server) = (&stage.pair.0, &stage.pair.1);
    let (sender, receiver) = (client.local_addr().unwrap(), server.local_addr().unwrap());
    let first = shown
        .lines()
        .find(|line| line.contains(&sender.to_string()))
        .unwrap_or_else(|| panic!("{sender} is missing:\n{shown}"));
    let place = |address: std::net::SocketAddr| first.find(&address.to_string()).unwrap();
    assert!(place(sender) < place(receiver), "{shown}");
    assert!(shown.contains("2 connections"), "{shown}");
    assert!(shown.contains("by out   1 to 2 of 2"), "{shown}");
    assert!(shown.contains("established 2"), "{shown}");
}

#[test]
fn enter_shows_the_history_and_escape_goes_back() {
    let mut stage = Stage::new(140);
    stage.draw();
    assert_eq!(stage.press(KeyCode::Enter), Turn::Stay);
    let shown = stage.draw();
    for words in [
        "goodput",
        "round-trip time",
        "congestion window",
        "since it is watched",
    ] {
        assert!(shown.contains(words), "{words} is missing:\n{shown}");
    }
    assert_eq!(stage.press(KeyCode::Esc), Turn::Stay);
    assert!(stage.draw().contains("by out"));
    assert_eq!(stage.press(KeyCode::Char('q')), Turn::Leave);
}

#[test]
fn a_filter_is_written_below_and_a_mistake_in_it_is_told() {
    let mut stage = Stage::new(140);
    stage.press(KeyCode::Char('/'));
    for letter in " and stat close-wait".chars() {
        stage.press(KeyCode::Char(letter));
    }
    stage.press(KeyCode::Enter);
    assert!(
        stage.draw().contains("expected `sport`"),
        "{}",
        stage.draw()
    );
    for _ in 0.." close-wait".len() {
        stage.press(KeyCode::Backspace);
    }
    for letter in "e close-wait".chars() {
        stage.press(KeyCode::Char(letter));
    }
    stage.press(KeyCode::Enter);
    let shown = stage.draw();
    assert!(shown.contains("0 connections"), "{shown}");
}

#[test]
fn the_chosen_connection_stays_chosen_while_others_come_and_go() {
    let mut view = View::default();
    assert_eq!(view.place(vec![5, 6, 7]), 0);
    view.chosen = Some(7);
    assert_eq!(view.place(vec![7, 9, 5]), 0);
    assert_eq!(view.place(vec![1, 9, 5, 7]), 3);
    assert_eq!(view.place(vec![1, 9]), 0);
    assert_eq!(view.chosen, Some(1));
}

#[test]
fn a_narrow_terminal_leaves_columns_out_and_keeps_the_limit() {
    let mut stage = Stage::new(80);
    let shown = stage.draw();
    assert!(
        shown.contains("limit, for") && !shown.contains("flight"),
        "{shown}"
    );
}
