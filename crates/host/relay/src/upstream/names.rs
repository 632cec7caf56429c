//! What names mean: addresses of a host, or the hosts of a service (SRV, RFC 2782).
//!
//! Hosts are asked of this host's resolver, which knows its files as well, unless a configuration names servers of its
//! own. A service is always asked of name servers: those, or the ones of `/etc/resolv.conf`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr as _;
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, Name, ParsedName, Ttl};
use domain::rdata::{A, Aaaa, Srv};
use domain::resolv::StubResolver;
use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};
use tokio::net::lookup_host;

use crate::Target;

/// The shortest and the longest that an answer is used. Zero means once only (RFC 2181 §8 and RFC 1035 §3.2.1), which of
/// a busy relay would make a question per connection.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_hours(24);

type Answer = Message<bytes::Bytes>;

/// Who is asked for names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// None: this host's own.
    servers: Vec<SocketAddr>,
}

/// What a name means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Meaning {
    /// A host's addresses, in the resolver's order.
    Host(Vec<SocketAddr>),
    /// Where a service is offered.
    Service(Vec<Offer>),
    /// The service is not to be had at this domain: RFC 2782, "The format of the SRV RR", Target.
    NotOffered,
}

/// A host of a service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Offer {
    /// The lowest comes first.
    priority: u16,
    /// How often it comes before others of its priority.
    weight: u16,
    addresses: Vec<SocketAddr>,
}

/// What a name means, and how long that holds where it is known.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) meaning: Meaning,
    pub(super) holds: Option<Duration>,
}

// === impl Names ===

impl Names {
    pub(super) fn of(servers: &[SocketAddr]) -> Self {
        Self {
            servers: servers.to_vec(),
        }
    }

    /// What a target's name means now.
    pub(super) async fn find(&self, target: &Target) -> io::Result<Found> {
        match &target.service {
            None => {
                let (addresses, holds) = self.addresses(&target.host, target.port).await?;
                Ok(Found {
                    meaning: Meaning::Host(addresses),
                    holds,
                })
            }
            Some(service) => self.offers(&format!("{service}.{}", target.host)).await,
        }
    }

    async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> io::Result<(Vec<SocketAddr>, Option<Duration>)> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok((vec![SocketAddr::new(address, port)], None));
        }
        if self.servers.is_empty() {
            return Ok((lookup_host((host, port)).await?.collect(), None));
        }
        let resolver = self.resolver();
        let name = name(host)?;
        let (v4, v6) = tokio::join!(
            ask(&resolver, &name, Rtype::A),
            ask(&resolver, &name, Rtype::AAAA)
        );
        let mut addresses: Vec<IpAddr> = Vec::new();
        let mut holds = Lifetime::default();
        // One family is enough: where the other is not known, that is no failure.
        if let Ok(answer) = &v4 {
            for record in answer.answer().map_err(malformed)?.limit_to_in::<A>() {
                let record = record.map_err(malformed)?;
                addresses.push(record.data().addr().into());
                holds.take(record.ttl());
            }
        }
        if let Ok(answer) = &v6 {
            for record in answer.answer().map_err(malformed)?.limit_to_in::<Aaaa>() {
                let record = record.map_err(malformed)?;
                addresses.push(record.data().addr().into());
                holds.take(record.ttl());
            }
        }
        if addresses.is_empty() {
            v4?;
            v6?;
        }
        let addresses = addresses.into_iter();
        Ok((
            addresses
                .map(|address| SocketAddr::new(address, port))
                .collect(),
            holds.0,
        ))
    }

    async fn offers(&self, service: &str) -> io::Result<Found> {
        let answer = ask(&self.resolver(), &name(service)?, Rtype::SRV).await?;
        let mut holds = Lifetime::default();
        let mut records = Vec::new();
        let section = answer.answer().map_err(malformed)?;
        for record in section.limit_to_in::<Srv<ParsedName<_>>>() {
            let record = record.map_err(malformed)?;
            holds.take(record.ttl());
            let srv = record.data();
            let target = srv.target().to_string();
            records.push((srv.priority(), srv.weight(), srv.port(), target));
        }
        if records.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("`{service}` has no SRV record"),
            ));
        }
        // The root's name is written without its dot.
        if let [(_, _, _, target)] = records.as_slice()
            && (target.is_empty() || target == ".")
        {
            return Ok(Found {
                meaning: Meaning::NotOffered,
                holds: holds.0,
            });
        }
        let mut offers = Vec::new();
        let mut failure = None;
        for (priority, weight, port, target) in records {
            match self.addresses(&target, port).await {
                Ok((addresses, lifetime)) => {
                    holds.take_span(lifetime);
                    offers.push(Offer {
                        priority,
                        weight,
                        addresses,
                    });
                }
                // The others may be known.
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if offers.is_empty() => Err(error),
            _ => Ok(Found {
                meaning: Meaning::Service(offers),
                holds: holds.0,
            }),
        }
    }

    /// Made anew for each question: a file that has changed is read, and nothing is kept open in between.
    fn resolver(&self) -> StubResolver {
        if self.servers.is_empty() {
            return StubResolver::new();
        }
        let mut conf = ResolvConf::new();
        let servers = self.servers.iter();
        conf.servers = servers
            .map(|&server| ServerConf::new(server, Transport::UdpTcp))
            .collect();
        conf.finalize();
        StubResolver::from_conf(conf)
    }
}

/// What a target means now; blocks until that is known.
pub(crate) fn addresses_of(target: &Target, servers: &[SocketAddr]) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = target.address() {
        return Ok(vec![address]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let found = runtime.block_on(Names::of(servers).find(target))?;
    match found.meaning {
        Meaning::NotOffered => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "its domain says that it is not offered",
        )),
        meaning @ (Meaning::Host(_) | Meaning::Service(_)) => {
            Ok(meaning.in_order(&mut |most| fastrand::u32(..=most)))
        }
    }
}

fn name(text: &str) -> io::Result<Name<Vec<u8>>> {
    Name::from_str(text).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{text}` is no name of the DNS: {error}"),
        )
    })
}

/// One answer, over UDP, or over TCP where it was cut short.
async fn ask(resolver: &StubResolver, name: &Name<Vec<u8>>, kind: Rtype) -> io::Result<Answer> {
    let mut asked = 1;
    let answer = loop {
        match resolver.query((name, kind)).await {
            // The question or the answer may have been lost.
            Err(error)
                if error.kind() == io::ErrorKind::TimedOut
                    && asked < resolver.options().attempts =>
            {
                asked += 1;
            }
            other => break other?.into_message(),
        }
    };
    match answer.header().rcode() {
        Rcode::NOERROR => Ok(answer),
        code => Err(io::Error::other(format!(
            "the name server answers {code} for `{name}`"
        ))),
    }
}

fn malformed(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the name server's answer cannot be read: {error}"),
    )
}

/// The least of all records'.
#[derive(Default)]
struct Lifetime(Option<Duration>);

impl Lifetime {
    fn take(&mut self, ttl: Ttl) {
        self.take_span(Some(ttl.into_duration().clamp(LEAST, MOST)));
    }

    fn take_span(&mut self, span: Option<Duration>) {
        self.0 = match (self.0, span) {
            (Some(known), Some(span)) => Some(known.min(span)),
            (known, span) => known.or(span),
        };
    }
}

// === impl Meaning ===

impl Meaning {
    /// Addresses in the order in which to try them.
    pub(super) fn in_order(&self, draw: &mut impl FnMut(u32) -> u32) -> Vec<SocketAddr> {
        match self {
            Self::Host(addresses) => addresses.clone(),
            Self::Service(offers) => {
                let ordered = in_order(offers, draw).into_iter();
                ordered.flat_map(|offer| offer.addresses.clone()).collect()
            }
            Self::NotOffered => Vec::new(),
        }
    }
}

/// The order in which a service's hosts are tried: by priority, the lowest first, and by chance within one, by weight.
/// `draw` gives a number from 0 to its argument, which may be drawn as well.
fn in_order<'a>(offers: &'a [Offer], draw: &mut impl FnMut(u32) -> u32) -> Vec<&'a Offer> {
    let mut left: Vec<&Offer> = offers.iter().collect();
    // RFC 2782, "The format of the SRV RR", Weight: those with weight 0 come first among those not ordered yet, so that
    // they have a small chance beside others.
    left.sort_by_key(|offer| (offer.priority, offer.weight != 0));
    let mut ordered = Vec::new();
    while let Some(priority) = left.first().map(|offer| offer.priority) {
        let count = left.iter().take_while(|offer| offer.priority == priority);
        let candidates: Vec<u32> = count.map(|offer| offer.weight.into()).collect();
        // The same place: a number from 0 to the sum of the weights is drawn, both included, and the first is taken
        // whose running sum is not below it. Then the same of those that are left.
        let drawn = draw(candidates.iter().sum());
        let mut sum = 0;
        let chosen = candidates.iter().position(|weight| {
            sum += weight;
            sum >= drawn
        });
        ordered.push(left.remove(chosen.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(priority: u16, weight: u16, port: u16) -> Offer {
        let addresses = vec![SocketAddr::from(([127, 0, 0, 1], port))];
        Offer {
            priority,
            weight,
            addresses,
        }
    }

    /// Ports in the order in which they are tried.
    fn ports(offers: &[Offer], draw: &mut impl FnMut(u32) -> u32) -> Vec<u16> {
        let meaning = Meaning::Service(offers.to_vec());
        let order = meaning.in_order(draw);
        order.iter().map(SocketAddr::port).collect()
    }

    #[test]
    fn a_lower_priority_comes_first_whatever_its_weight() {
        let offers = [offer(20, 65_535, 3), offer(10, 0, 1), offer(15, 1, 2)];
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            assert_eq!(ports(&offers, &mut |most| random.u32(..=most)), [1, 2, 3]);
        }
    }

    #[test]
    fn the_number_drawn_meets_the_first_running_sum_that_is_not_below_it() {
        // Running sums: 0 (the weight of 0 comes first), 10, 40.
        let offers = [offer(0, 10, 1), offer(0, 30, 2), offer(0, 0, 3)];
        for (drawn, first) in [(0, 3), (1, 1), (10, 1), (11, 2), (40, 2)] {
            let mut sums = Vec::new();
            let order = ports(&offers, &mut |most| {
                sums.push(most);
                drawn.min(most)
            });
            assert_eq!(order[0], first, "{drawn}");
            assert_eq!(sums[0], 40);
            assert_eq!(order.len(), 3);
        }
    }

    #[test]
    fn hosts_of_one_priority_are_first_as_often_as_their_weights_say() {
        const TIMES: u32 = 40_000;
        let offers = [offer(0, 1, 1), offer(0, 3, 2)];
        let mut random = fastrand::Rng::with_seed(2782);
        let mut first = 0;
        for _ in 0..TIMES {
            first += u32::from(ports(&offers, &mut |most| random.u32(..=most))[0] == 1);
        }
        // Of the numbers 0 to 4, which are drawn alike, 0 and 1 choose the first.
        let share = f64::from(first) / f64::from(TIMES);
        // Five standard deviations of a share of 2/5 among 40,000.
        assert!((share - 0.4).abs() < 0.0123, "{share}");
    }

    #[test]
    fn an_answer_is_used_a_second_at_least_and_a_day_at_most() {
        let mut lifetime = Lifetime::default();
        lifetime.take(Ttl::from_secs(1_000_000));
        assert_eq!(lifetime.0, Some(MOST));
        lifetime.take(Ttl::from_secs(300));
        lifetime.take(Ttl::from_secs(600));
        assert_eq!(lifetime.0, Some(Duration::from_mins(5)));
        lifetime.take(Ttl::ZERO);
        assert_eq!(lifetime.0, Some(LEAST));
    }
}
