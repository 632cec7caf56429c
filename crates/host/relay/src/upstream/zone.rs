//! A name server for tests, with all authority over what it is told: one socket for UDP and one for TCP on a port of
//! loopback.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Record, ToName as _, Ttl};
use domain::rdata::{A, Srv};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Priority, weight, port and host.
type Offer = (u16, u16, u16, String);

/// What the server knows, and what it was asked.
#[derive(Debug, Default)]
struct Books {
    /// Each with its TTL.
    services: BTreeMap<String, (u32, Vec<Offer>)>,
    hosts: BTreeMap<String, (u32, Vec<Ipv4Addr>)>,
    fails: bool,
    /// Answers over UDP say only that they do not fit.
    cuts: bool,
    asked: Vec<(String, Rtype, &'static str)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) address: SocketAddr,
    books: Arc<Mutex<Books>>,
}

impl Zone {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(address).await.unwrap();
        let zone = Self {
            address,
            books: Arc::default(),
        };
        tokio::spawn(zone.clone().answer_datagrams(socket));
        tokio::spawn(zone.clone().answer_streams(listener));
        zone
    }

    /// Records of a service: priority, weight, port, host.
    pub(crate) fn offers(&self, service: &str, ttl: u32, offers: &[(u16, u16, u16, &str)]) {
        let owned = |&(priority, weight, port, host): &(u16, u16, u16, &str)| {
            (priority, weight, port, host.to_owned())
        };
        let offers = offers.iter().map(owned).collect();
        let mut books = self.books.lock().unwrap();
        books.services.insert(service.to_owned(), (ttl, offers));
    }

    pub(crate) fn host(&self, name: &str, ttl: u32, addresses: &[Ipv4Addr]) {
        let mut books = self.books.lock().unwrap();
        books
            .hosts
            .insert(name.to_owned(), (ttl, addresses.to_vec()));
    }

    /// From now on nothing is known, and that is said.
    pub(crate) fn fail(&self, fails: bool) {
        self.books.lock().unwrap().fails = fails;
    }

    pub(crate) fn cut(&self) {
        self.books.lock().unwrap().cuts = true;
    }

    /// How often records of this type were asked for over this transport.
    pub(crate) fn asked(&self, kind: Rtype, over: &str) -> usize {
        let books = self.books.lock().unwrap();
        let asked = books.asked.iter();
        asked
            .filter(|(_, asked, by)| *asked == kind && *by == over)
            .count()
    }

    async fn answer_datagrams(self, socket: UdpSocket) {
        let mut question = [0; 1232];
        loop {
            let (length, peer) = socket.recv_from(&mut question).await.unwrap();
            let answer = self.answer(&question[..length], "udp");
            socket.send_to(&answer, peer).await.unwrap();
        }
    }

    async fn answer_streams(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(self.clone().answer_stream(stream));
        }
    }

    /// RFC 1035 §4.2.2: each message behind its length.
    async fn answer_stream(self, mut stream: TcpStream) {
        while let Ok(length) = stream.read_u16().await {
            let mut question = vec![0; length.into()];
            stream.read_exact(&mut question).await.unwrap();
            let answer = self.answer(&question, "tcp");
            let length = u16::try_from(answer.len()).unwrap();
            let framed = [&length.to_be_bytes()[..], &answer].concat();
            stream.write_all(&framed).await.unwrap();
        }
    }

    fn answer(&self, question: &[u8], over: &'static str) -> Vec<u8> {
        let message = Message::from_octets(question).unwrap();
        let asked = message.sole_question().unwrap();
        let (owner, kind) = (asked.qname().to_name::<Vec<u8>>(), asked.qtype());
        let name = owner.to_string();
        let mut books = self.books.lock().unwrap();
        books.asked.push((name.clone(), kind, over));
        let builder = MessageBuilder::new_vec();
        if books.fails {
            let answer = builder.start_answer(&message, Rcode::SERVFAIL).unwrap();
            return answer.finish();
        }
        let known = books.services.contains_key(&name) || books.hosts.contains_key(&name);
        let code = if known {
            Rcode::NOERROR
        } else {
            Rcode::NXDOMAIN
        };
        let mut answer = builder.start_answer(&message, code).unwrap();
        if books.cuts && over == "udp" {
            answer.header_mut().set_tc(true);
            return answer.finish();
        }
        if kind == Rtype::SRV
            && let Some((ttl, offers)) = books.services.get(&name)
        {
            for (priority, weight, port, host) in offers {
                let host: Name<Vec<u8>> = host.parse().unwrap();
                let data = Srv::new(*priority, *weight, *port, host);
                let ttl = Ttl::from_secs(*ttl);
                answer
                    .push(Record::new(&owner, Class::IN, ttl, data))
                    .unwrap();
            }
        }
        if kind == Rtype::A
            && let Some((ttl, addresses)) = books.hosts.get(&name)
        {
            for address in addresses {
                let data = A::new(*address);
                let ttl = Ttl::from_secs(*ttl);
                answer
                    .push(Record::new(&owner, Class::IN, ttl, data))
                    .unwrap();
            }
        }
        answer.finish()
    }
}
