mod faults;

use super::*;

fn options() -> HttpOptions {
    HttpOptions {
        listen: "127.0.0.1:8080".into(),
        target: "store.example:80".into(),
        ..HttpOptions::default()
    }
}

#[test]
fn a_listener_and_a_target_are_enough() {
    let config = Config::http(options()).unwrap();
    let relay = &config.http[0];
    assert_eq!(relay.front.client_profile.name, "lan");
    assert_eq!(relay.front.server_profile.name, "s3");
    assert_eq!(relay.priming.as_ref().unwrap().host, "store.example");
    assert_eq!(relay.front.destination.to_string(), "store.example:80");
}

#[test]
fn a_printed_configuration_reads_back_as_itself() {
    let mut options = options();
    options.path_rate = Some(Rate::mbit_per_s(100));
    options.allow = vec!["10.0.0.0/8".into()];
    options.prime.window = Some(Bytes::mib(2));
    options.pool.min_idle = Some(4);
    let text = ConfigOptions::from(options.clone()).to_toml().unwrap();
    assert_eq!(
        Config::from_toml(&text).unwrap(),
        Config::http(options).unwrap(),
        "{text}"
    );
}

#[test]
fn loopback_and_private_networks_may_connect_unless_something_else_is_said() {
    let admits = |options: &HttpOptions, address: &str| {
        let relay = Config::http(options.clone()).unwrap().http.remove(0);
        let address = address.parse().unwrap();
        relay
            .front
            .allow
            .iter()
            .any(|block| block.contains(address))
    };
    let mut options = options();
    for inside in ["127.0.0.1", "10.9.8.7", "172.16.0.1", "192.168.1.1"] {
        assert!(admits(&options, inside), "{inside}");
    }
    for inside in ["::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1"] {
        assert!(admits(&options, inside), "{inside}");
    }
    for outside in ["203.0.113.1", "172.32.0.1", "2001:db8::1"] {
        assert!(!admits(&options, outside), "{outside}");
    }
    options.allow = vec!["0.0.0.0/0".into(), "::/0".into()];
    assert!(admits(&options, "203.0.113.1") && admits(&options, "2001:db8::1"));
}

#[test]
fn all_problems_are_told_at_once() {
    let text = r#"
        [profiles.lan]
        nagle = true
        [[http]]
        listen = "here"
        target = "store.example"
        client-profile = "lann"
        allow = ["10.10.10.7/24"]
        [http.pool]
        min-idle = 9
        max-connections = 3
        [http.prime]
        method = "DELETE"
        [http.limits]
        connections = 0
    "#;
    let error = Config::from_toml(text).unwrap_err();
    assert_eq!(error.problems().len(), 8, "{error}");
}

/// Lines of a file that are said to be wrong, and the keys there.
fn told(error: &ConfigError) -> Vec<(usize, &str)> {
    let problems = error.problems().iter();
    problems
        .map(|problem| {
            let line = problem.position.as_ref().map_or(0, |at| at.line);
            (line, problem.key.as_str())
        })
        .collect()
}

#[test]
fn profiles_alone_are_read_by_the_same_reader() {
    let text = "[profiles.office]\nextend = \"lan\"\nnagle = \"no\"\n";
    let error = ConfigOptions::from_toml(text).unwrap_err();
    assert_eq!(
        told(&error),
        [(2, "profiles.office.extend"), (3, "profiles.office.nagle")]
    );
}

#[test]
fn two_listeners_on_one_address_are_told_of_and_port_0_is_not() {
    let relay = |kind: &str, port: u16| {
        format!("[[{kind}]]\nlisten = \"127.0.0.1:{port}\"\ntarget = \"a:1\"\n")
    };
    let error = Config::from_toml(&(relay("tcp", 8080) + &relay("http", 8080))).unwrap_err();
    assert_eq!(told(&error), [(2, "tcp.listen")]);
    Config::from_toml(&(relay("tcp", 0) + &relay("http", 0))).unwrap();
}

#[test]
fn an_unknown_key_is_shown_with_its_line() {
    let text = "[[http]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\nprofile = \"lan\"\n";
    let error = Config::from_toml(text).unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("line 4, column 1: there is no key `profile` here"),
        "{told}"
    );
}

#[test]
fn a_number_without_its_unit_is_refused() {
    let text = "[[http]]\nlisten = \"127.0.0.1:1\"\ntarget = \"a:1\"\npath-rate = 100\n";
    assert!(Config::from_toml(text).is_err());
}

#[test]
fn targets_are_names_and_addresses_with_ports() {
    for (text, host, port) in [
        ("store.example:80", "store.example", 80),
        ("10.0.0.1:9000", "10.0.0.1", 9000),
        ("[2001:db8::1]:8080", "2001:db8::1", 8080),
    ] {
        let target: Target = text.parse().unwrap();
        assert_eq!((target.host.as_str(), target.port), (host, port));
        assert_eq!(target.to_string(), text);
    }
    for text in [
        "store",
        ":80",
        "a:0",
        "a:b",
        "2001:db8::1:80",
        "a b:1",
        "[::1:80",
        "a\r\nb:1",
    ] {
        assert!(text.parse::<Target>().is_err(), "{text}");
    }
}

#[test]
fn services_are_told_from_hosts_and_spoken_to_under_their_domains_name() {
    let text = "srv+_https._tcp.store.example";
    let mut options = options();
    options.target = text.into();
    let relay = Config::http(options.clone()).unwrap().http.remove(0);
    assert_eq!(relay.front.destination.to_string(), text);
    // The certificate is for what was asked for: what a name server answers is nobody's word.
    assert_eq!(relay.tls.server.unwrap().name, "store.example");
    assert_eq!(relay.priming.unwrap().host, "store.example");
    for text in [
        "srv+",
        "srv+s3._tcp.store.example",
        "srv+_s3._udp.store.example",
        "srv+_s3._tcp.",
        "srv+_s3._tcp.store.example:80",
        "srv+_._tcp.store.example",
        "srv+_s3._tcp.a b",
    ] {
        options.target = text.into();
        assert!(Config::http(options.clone()).is_err(), "{text}");
    }
}

#[test]
fn name_servers_are_addresses_with_or_without_a_port() {
    let mut options = options();
    options.balance.name_servers = ["10.0.0.53", "[::1]:5353", "::1"].map(Into::into).into();
    let relay = Config::http(options.clone()).unwrap().http.remove(0);
    let servers = relay.front.balancing.name_servers.iter();
    let servers: Vec<String> = servers.map(ToString::to_string).collect();
    assert_eq!(servers, ["10.0.0.53:53", "[::1]:5353", "[::1]:53"]);
    options.balance.name_servers = vec!["ns.example".into()];
    assert!(Config::http(options).is_err());
}

#[test]
fn a_collector_is_an_address_of_http_without_a_password() {
    let with_authority = |endpoint: &str, authority: Option<&str>| {
        let mut options = ConfigOptions::from(options());
        options.traces = Some(TraceOptions {
            endpoint: endpoint.into(),
            endpoint_ca: authority.map(Into::into),
            ..TraceOptions::default()
        });
        Config::new(options).map(|config| config.traces.unwrap())
    };
    let traces = |endpoint| with_authority(endpoint, None);
    let told = traces("http://[::1]:4318/v1/traces").unwrap();
    assert_eq!(
        (told.endpoint.host.as_str(), told.endpoint.port),
        ("::1", 4318)
    );
    assert_eq!(told.endpoint.path, "/v1/traces");
    assert_eq!(told.endpoint.to_string(), "http://[::1]:4318/v1/traces");
    assert_eq!(told.service, "longhaul-relay");
    assert_eq!(told.endpoint.tls, None);
    assert_eq!(traces("http://collector").unwrap().endpoint.port, 80);
    let told = with_authority("https://[::1]/v1/traces", Some("ca.pem")).unwrap();
    assert_eq!(told.endpoint.port, 443);
    assert_eq!(told.endpoint.to_string(), "https://[::1]/v1/traces");
    let tls = told.endpoint.tls.unwrap();
    assert_eq!(
        (tls.name.as_str(), tls.authority),
        ("::1", Some("ca.pem".into()))
    );
    let error = with_authority("http://collector", Some("ca.pem")).unwrap_err();
    assert_eq!(error.problems()[0].key, "traces.endpoint-ca", "{error}");
    for endpoint in [
        "",
        "127.0.0.1:4318",
        "/v1/traces",
        "ftp://collector/v1/traces",
        "http://me:secret@collector/v1/traces",
    ] {
        let error = traces(endpoint).unwrap_err();
        assert_eq!(error.problems()[0].key, "traces.endpoint", "{error}");
    }
}

#[test]
fn the_hot_window_follows_the_path_where_its_rate_is_known() {
    let rtt = Duration::from_micros(200_400);
    let mut options = options();
    let window =
        |options: &HttpOptions| Config::http(options.clone()).unwrap().http[0].hot_window(rtt);
    assert_eq!(window(&options), Bytes::mib(2));
    options.path_rate = Some(Rate::mbit_per_s(100));
    assert_eq!(window(&options), Bytes::new(2_505_000));
    options.path_rate = Some(Rate::mbit_per_s(1_000));
    assert_eq!(window(&options), Bytes::mib(3));
    options.path_rate = Some(Rate::mbit_per_s(1));
    assert_eq!(window(&options), Bytes::kib(64));
    options.prime.window = Some(Bytes::mib(1));
    assert_eq!(window(&options), Bytes::mib(1));
}

#[test]
fn a_pool_that_fills_the_path_has_connections_for_twice_what_it_holds() {
    let far = Some(Duration::from_millis(200));
    let mut options = options();
    options.pool.min_idle = Some(8);
    let count =
        |options: &HttpOptions, rtt| Config::http(options.clone()).unwrap().http[0].min_idle(rtt);
    options.path_rate = Some(Rate::mbit_per_s(1_000));
    assert_eq!(count(&options, far), 8, "it was not asked for");
    options.pool.fill_path = Some(true);
    // 25 MB twice, in windows of 3 MiB.
    assert_eq!(count(&options, far), 15);
    assert_eq!(count(&options, None), 8, "nothing is known yet");
    options.path_rate = Some(Rate::mbit_per_s(100));
    assert_eq!(count(&options, far), 8, "two would do");
    options.path_rate = Some(Rate::mbit_per_s(100_000));
    assert_eq!(count(&options, far), 32, "each costs twice its window");
    options.pool.max_connections = Some(20);
    assert_eq!(count(&options, far), 20);
    options.path_rate = None;
    assert_eq!(count(&options, far), 8);
}

#[test]
fn the_example_has_every_default_as_it_is() {
    let example = Config::from_toml(include_str!("../../../../../examples/relay.toml")).unwrap();
    let shortest = |front: &Front, kind: &str| {
        format!(
            "[[{kind}]]\nlisten = \"{}\"\ntarget = \"{}\"\n",
            front.listen, front.destination
        )
    };
    let text = shortest(&example.http[0].front, "http")
        + &shortest(&example.tcp[0].front, "tcp")
        + &shortest(&example.tls[0].front, "tls");
    assert_eq!(example, Config::from_toml(&text).unwrap());
}
