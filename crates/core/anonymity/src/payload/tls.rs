//! Records: headers stay, and of the hellos what says version and groups. Randoms, session identifiers,
//! keys, tickets, names and certificates do not.

use wire::tls::{ContentType, Message, RecordHeader, extension};

use super::Keeper;

/// `HelloRetryRequest` is told by its random alone, which is the same for everybody.
const RANDOM: usize = 32;

pub(super) fn keep(keeper: &mut Keeper<'_>) {
    while let Some(header) = RecordHeader::read(&keeper.from[keeper.at..]) {
        keeper.keep(RecordHeader::LEN);
        let end = keeper.at.saturating_add(usize::from(header.len));
        match header.content {
            ContentType::ChangeCipherSpec => {
                keeper.keep(1);
            }
            ContentType::Handshake => messages(keeper, end),
            ContentType::Alert | ContentType::ApplicationData => {}
        }
        keeper.skip(end.saturating_sub(keeper.at));
    }
}

/// The messages of a record that ends at `end`. Of an encrypted one nothing is kept.
fn messages(keeper: &mut Keeper<'_>, end: usize) {
    while keeper.at < end.min(keeper.from.len()) {
        let rest = &keeper.from[keeper.at..end.min(keeper.from.len())];
        let Some((message, _)) = Message::read(rest) else {
            return;
        };
        let ends = keeper.at.saturating_add(4).saturating_add(message.len);
        match message.kind {
            Message::CLIENT_HELLO | Message::SERVER_HELLO => {
                keeper.keep(4);
                hello(keeper, &message, ends);
            }
            Message::CERTIFICATE => {
                keeper.keep(4);
            }
            Message::SERVER_KEY_EXCHANGE if message.named_curve().is_some() => {
                keeper.keep(4 + 3);
            }
            _ => return,
        }
        keeper.skip(ends.saturating_sub(keeper.at));
    }
}

fn hello(keeper: &mut Keeper<'_>, message: &Message<'_>, ends: usize) {
    let client = message.kind == Message::CLIENT_HELLO;
    keeper.keep(2);
    let retry = !client
        && wire::tls::Hello::server(message.body).is_some_and(|hello| hello.is_retry_request());
    if retry {
        keeper.keep(RANDOM);
    } else {
        keeper.skip(RANDOM);
    }
    let session_id = keeper.keep_len8();
    keeper.skip(session_id);
    if client {
        let suites = keeper.keep_len16();
        keeper.keep(suites);
        let compressions = keeper.keep_len8();
        keeper.keep(compressions);
    } else {
        keeper.keep(3);
    }
    keeper.keep(2);
    while keeper.at < ends.min(keeper.from.len()) {
        let Some(number) = keeper.keep_u16() else {
            return;
        };
        let len = keeper.keep_len16();
        let next = keeper.at.saturating_add(len);
        match number {
            extension::SUPPORTED_GROUPS | extension::SUPPORTED_VERSIONS => {
                keeper.keep(len);
            }
            extension::KEY_SHARE if client => {
                keeper.keep(2);
                while keeper.at < next.min(keeper.from.len()) {
                    keeper.keep(2);
                    let key = keeper.keep_len16();
                    keeper.skip(key);
                }
            }
            extension::KEY_SHARE => {
                keeper.keep(4);
            }
            _ => {}
        }
        keeper.skip(next.saturating_sub(keeper.at));
        if keeper.at < next {
            return;
        }
    }
}
