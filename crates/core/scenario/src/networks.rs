//! Named networks: plausible figures for paths that people know, each with where they come from.
//!
//! Nobody's own path; a starting point to be replaced by what was measured.

/// A path that people know by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    /// As `lab new --network` takes it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Round trip of a small packet on the idle path, as a scenario file writes it.
    pub rtt: &'static str,
    /// Rate in IP bytes; the slower direction's, because a `[path]` of plain fields is symmetric.
    pub rate: &'static str,
    /// Droptail queue before it.
    pub queue: &'static str,
    /// Random loss in each direction.
    pub loss: Option<&'static str>,
    /// Why these figures.
    pub source: &'static str,
}

/// All of them, the shortest path first.
pub const NETWORKS: [Network; 12] = [
    Network {
        name: "lan",
        title: "One building, switched Ethernet",
        rtt: "0.5 ms",
        rate: "1 Gbit/s",
        queue: "512 kB",
        loss: None,
        source: "gigabit Ethernet; switches of this class share some 500 kB of buffer",
    },
    Network {
        name: "metro",
        title: "Two data centres of one region",
        rtt: "2 ms",
        rate: "1 Gbit/s",
        queue: "1 MB",
        loss: None,
        source: "100 km of fibre are 1 ms of round trip (5 us per km each way); doubled for detours",
    },
    Network {
        name: "dsl",
        title: "DSL at home, its upstream",
        rtt: "25 ms",
        rate: "10 Mbit/s",
        queue: "125 kB",
        loss: None,
        source: "VDSL upstream; interleaving adds 5 to 20 ms; 100 ms of buffer at the modem, as Gettys and \
                 Nichols (2011) describe bufferbloat's milder form",
    },
    Network {
        name: "5g",
        title: "5G, mid band, outdoors",
        rtt: "25 ms",
        rate: "100 Mbit/s",
        queue: "1500 kB",
        loss: None,
        source: "public speed-test summaries of 2023 and 2024 name 20 to 35 ms; radio repairs its losses \
                 itself, at the price of delay",
    },
    Network {
        name: "leo",
        title: "Satellites in low orbit",
        rtt: "45 ms",
        rate: "15 Mbit/s",
        queue: "300 kB",
        loss: Some("0.5 %"),
        source: "Michel et al., \"A First Look at Starlink Performance\" (IMC 2022): 40 to 50 ms, losses of \
                 0.4 % and more under load; upstream 10 to 20 Mbit/s",
    },
    Network {
        name: "4g",
        title: "4G, outdoors",
        rtt: "50 ms",
        rate: "20 Mbit/s",
        queue: "500 kB",
        loss: None,
        source: "public speed-test summaries name 40 to 60 ms; radio repairs its losses itself, buffers of \
                 200 ms and more are usual",
    },
    Network {
        name: "coast-to-coast",
        title: "New York to San Francisco",
        rtt: "70 ms",
        rate: "100 Mbit/s",
        queue: "875 kB",
        loss: None,
        source: "4,100 km as the crow flies are 41 ms of fibre; carriers publish 62 to 75 ms; a queue of one \
                 bandwidth-delay product",
    },
    Network {
        name: "transatlantic",
        title: "New York to London",
        rtt: "75 ms",
        rate: "100 Mbit/s",
        queue: "940 kB",
        loss: None,
        source: "5,600 km are 56 ms of fibre; carriers publish 65 to 80 ms; a queue of one bandwidth-delay \
                 product",
    },
    Network {
        name: "transpacific",
        title: "Los Angeles to Tokyo",
        rtt: "110 ms",
        rate: "100 Mbit/s",
        queue: "1375 kB",
        loss: Some("0.01 %"),
        source: "8,800 km are 88 ms of fibre; carriers publish 100 to 120 ms; a queue of one \
                 bandwidth-delay product; a trace of loss, as such carriers grant in their contracts",
    },
    Network {
        name: "china-us",
        title: "Shenzhen to the US East coast",
        rtt: "200.4 ms",
        rate: "100 Mbit/s",
        queue: "2505 kB",
        loss: None,
        source: "field case C of this project (scenarios/field/c-uploads.toml)",
    },
    Network {
        name: "antipodes",
        title: "London to Sydney",
        rtt: "270 ms",
        rate: "100 Mbit/s",
        queue: "3375 kB",
        loss: Some("0.01 %"),
        source: "17,000 km are 170 ms of fibre; carriers publish 250 to 290 ms, cables go around continents",
    },
    Network {
        name: "geo-satellite",
        title: "A satellite in geostationary orbit",
        rtt: "600 ms",
        rate: "5 Mbit/s",
        queue: "375 kB",
        loss: Some("0.1 %"),
        source: "35,786 km up and down twice are 477 ms; RFC 2488 section 2; links add framing and shared \
                 access; upstream of a usual subscription",
    },
];

/// The network of this name.
#[must_use]
pub fn network(name: &str) -> Option<&'static Network> {
    NETWORKS.iter().find(|network| network.name == name)
}
