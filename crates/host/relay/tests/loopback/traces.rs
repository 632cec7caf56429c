//! Spans, as a collector on loopback gets them.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul_relay::{Config, ConfigOptions, Event, RunError, TraceOptions};
use rustls::HandshakeKind;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::admin::ask;
use crate::harness::{Origin, Relay, listen, nobody, once, plain, read_exactly, read_head, within};
use crate::tls::{Site, accept, both, connect};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Takes spans, and hands them out one after the other.
struct Collector {
    address: SocketAddr,
    batches: mpsc::UnboundedReceiver<Value>,
    /// Of those who came with TLS.
    handshakes: mpsc::UnboundedReceiver<HandshakeKind>,
    spans: Vec<Value>,
}

impl Collector {
    async fn start() -> Self {
        Self::start_with(None).await
    }

    /// One that speaks TLS where there is an acceptor.
    async fn start_with(acceptor: Option<TlsAcceptor>) -> Self {
        let (listener, address) = listen().await;
        let (sender, batches) = mpsc::unbounded_channel();
        let (met, handshakes) = mpsc::unbounded_channel();
        tokio::spawn(collect(listener, acceptor, sender, met));
        Self {
            address,
            batches,
            handshakes,
            spans: Vec::new(),
        }
    }

    /// All spans up to the first of this name, with it.
    async fn up_to(&mut self, name: &str) -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            while !self.spans.is_empty() {
                found.push(self.spans.remove(0));
                if found.last().is_some_and(|span| span["name"] == name) {
                    return found;
                }
            }
            let batch = within(self.batches.recv()).await.unwrap();
            let resource = &batch["resourceSpans"][0];
            assert_eq!(attribute(&resource["resource"], "service.name"), "tested");
            let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
            self.spans.extend(spans.iter().cloned());
        }
    }
}

async fn collect(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    sender: mpsc::UnboundedSender<Value>,
    met: mpsc::UnboundedSender<HandshakeKind>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let sender = sender.clone();
        let take = service_fn(move |request: Request<Incoming>| {
            let sender = sender.clone();
            async move {
                assert_eq!(request.uri().path(), "/v1/traces");
                assert_eq!(request.headers()["content-type"], "application/json");
                let body = request.into_body().collect().await.unwrap().to_bytes();
                drop(sender.send(serde_json::from_slice(&body).unwrap()));
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("{}"))))
            }
        });
        let http = hyper::server::conn::http1::Builder::new();
        let (acceptor, met) = (acceptor.clone(), met.clone());
        tokio::spawn(async move {
            match acceptor {
                None => http.serve_connection(TokioIo::new(stream), take).await,
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => {
                        let kind = stream.get_ref().1.handshake_kind();
                        // Few tests ask.
                        let _ = met.send(kind.unwrap());
                        http.serve_connection(TokioIo::new(stream), take).await
                    }
                    // Who does not trust this collector sends it nothing.
                    Err(_) => return,
                },
            }
            .unwrap_or_default();
        });
    }
}

/// An attribute's value, whatever it is; `null` where there is none.
fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |attribute| {
        let value = attribute["value"].as_object().unwrap();
        value.values().next().unwrap()
    })
}

fn nanos(span: &Value, key: &str) -> u64 {
    span[key].as_str().unwrap().parse().unwrap()
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    assert!(found.next().is_none(), "{name} twice: {spans:#?}");
    first
}

/// The same relay with its spans sent there.
async fn start(options: impl Into<ConfigOptions>, collector: SocketAddr, share: &str) -> Relay {
    let mut options = options.into();
    options.traces = Some(TraceOptions {
        share: Some(share.parse().unwrap()),
        ..to(format!("http://{collector}/v1/traces"))
    });
    Relay::start_with(Config::new(options).unwrap()).await
}

fn to(endpoint: String) -> TraceOptions {
    TraceOptions {
        endpoint,
        service_name: Some("tested".into()),
        ..TraceOptions::default()
    }
}

#[tokio::test]
async fn a_connection_is_a_span_with_its_handshakes_and_its_way_to_the_target_below_it() {
    let mut collector = Collector::start().await;
    let site = Site::make();
    let (listener, target) = listen().await;
    let relay = start(both(&site, &listener), collector.address, "100 %").await;
    let (connector, acceptor) = (site.connector(), site.acceptor());
    let (mut client, mut server) =
        within(async { tokio::join!(connect(&relay, &connector), accept(&listener, &acceptor)) })
            .await;
    client.write_all(b"hello").await.unwrap();
    within(read_exactly(&mut server, 5)).await;
    let peer = client.get_ref().0.local_addr().unwrap();
    client.shutdown().await.unwrap();
    within(server.read_to_end(&mut Vec::new())).await.unwrap();
    server.shutdown().await.unwrap();
    within(client.read_to_end(&mut Vec::new())).await.unwrap();
    drop((client, server));

    let spans = collector.up_to("connection").await;
    let whole = named(&spans, "connection");
    assert_eq!(whole["kind"], 2);
    assert!(whole.get("parentSpanId").is_none());
    assert_eq!(attribute(whole, "network.peer.address"), "127.0.0.1");
    assert_eq!(
        *attribute(whole, "network.peer.port"),
        peer.port().to_string()
    );
    assert_eq!(attribute(whole, "longhaul.ended_by"), "completed");
    assert_eq!(attribute(whole, "longhaul.bytes_up"), "5");
    assert_eq!(*attribute(whole, "error.type"), Value::Null);
    assert_eq!(whole["status"], serde_json::json!({}));
    let way = named(&spans, "connect");
    assert_eq!(way["kind"], 3);
    assert_eq!(attribute(way, "server.address"), "127.0.0.1");
    assert_eq!(*attribute(way, "server.port"), target.port().to_string());
    let handshakes: Vec<&Value> = spans
        .iter()
        .filter(|span| span["name"] == "tls handshake")
        .collect();
    assert_eq!(handshakes.len(), 2, "{spans:#?}");
    assert_eq!(
        (&handshakes[0]["kind"], &handshakes[1]["kind"]),
        (&1.into(), &3.into())
    );
    for handshake in handshakes {
        assert_eq!(attribute(handshake, "tls.protocol.version"), "1.3");
    }
    // Each within the whole, and one after the other.
    let mut last = nanos(whole, "startTimeUnixNano");
    for span in spans.iter().filter(|span| span["name"] != "connection") {
        assert_eq!(span["traceId"], whole["traceId"]);
        assert_eq!(span["parentSpanId"], whole["spanId"]);
        let (start, end) = (
            nanos(span, "startTimeUnixNano"),
            nanos(span, "endTimeUnixNano"),
        );
        // Seconds of an event are a floating-point number: off by less than a microsecond.
        assert!(start + 1_000 >= last && start <= end, "{spans:#?}");
        assert!(end <= nanos(whole, "endTimeUnixNano") + 1_000, "{spans:#?}");
        last = end;
    }
}

#[tokio::test]
async fn a_target_that_is_not_there_is_an_error_of_the_way_and_of_the_whole() {
    let mut collector = Collector::start().await;
    let (_nobody, target) = nobody();
    let options = longhaul_relay::TcpOptions {
        listen: "127.0.0.1:0".into(),
        target: target.to_string(),
        ..longhaul_relay::TcpOptions::default()
    };
    let relay = start(options, collector.address, "100 %").await;
    assert!(relay.end_of_newcomer().await.is_err());
    let spans = collector.up_to("connection").await;
    for name in ["connect", "connection"] {
        let span = named(&spans, name);
        assert_eq!(span["status"]["code"], 2);
        assert_eq!(attribute(span, "error.type"), "server");
        assert_eq!(attribute(span, "longhaul.ended_by"), "server");
        let message = span["status"]["message"].as_str().unwrap();
        assert!(message.contains("refused"), "{message}");
    }
}

#[tokio::test]
async fn a_request_belongs_to_its_clients_trace_and_passes_unchanged() {
    let mut collector = Collector::start().await;
    let (listener, target) = listen().await;
    let relay = start(plain(target), collector.address, "100 %").await;
    let mut client = relay.connect().await;
    let parents = [
        format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n"),
        format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n"),
        String::new(),
    ];
    let mut origin = None;
    for (number, parent) in parents.iter().enumerate() {
        let head = format!(
            "GET /object-{number}?X-Amz-Signature=secret HTTP/1.1\r\nHost: store.example\r\n{parent}\
             Authorization: AWS4-HMAC-SHA256 secret\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        if origin.is_none() {
            origin = Some(within(listener.accept()).await.unwrap().0);
        }
        let origin = origin.as_mut().unwrap();
        assert_eq!(within(read_head(origin)).await, head);
        let answer = if number == 0 {
            "404 Not Found"
        } else {
            "200 OK"
        };
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
        origin.write_all(answer.as_bytes()).await.unwrap();
        within(read_head(&mut client)).await;
    }
    drop(client);

    let spans = collector.up_to("connection").await;
    // The client does not record the second.
    assert_eq!(spans.len(), 3, "{spans:#?}");
    let whole = named(&spans, "connection");
    assert_eq!(attribute(whole, "longhaul.requests"), "3");
    let (followed, own) = (&spans[0], &spans[1]);
    assert_eq!(followed["traceId"], TRACE);
    assert_eq!(followed["parentSpanId"], PARENT);
    assert_eq!(followed["links"][0]["traceId"], whole["traceId"]);
    assert_eq!(followed["links"][0]["spanId"], whole["spanId"]);
    assert_eq!(attribute(followed, "url.path"), "/object-0");
    assert_eq!(attribute(followed, "http.response.status_code"), "404");
    assert_eq!(attribute(followed, "error.type"), "404");
    assert_eq!(own["traceId"], whole["traceId"]);
    assert_eq!(own["parentSpanId"], whole["spanId"]);
    assert_eq!(attribute(own, "url.path"), "/object-2");
    for span in [followed, own] {
        assert_eq!(span["kind"], 3);
        assert_eq!(span["name"], "GET");
        assert_eq!(attribute(span, "http.request.method"), "GET");
        assert_eq!(attribute(span, "network.peer.address"), "127.0.0.1");
        assert_eq!(*attribute(span, "server.port"), target.port().to_string());
    }
    assert_eq!(*attribute(own, "error.type"), Value::Null);
    let all = serde_json::to_string(&spans).unwrap();
    assert!(!all.contains("secret"), "{all}");
}

#[tokio::test]
async fn of_no_share_only_what_clients_record_is_traced() {
    let mut collector = Collector::start().await;
    let origin = Origin::start().await;
    let relay = start(plain(origin.address), collector.address, "0 %").await;
    let mut client = relay.connect().await;
    for parent in [
        "",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
    ] {
        let head = format!("HEAD / HTTP/1.1\r\nHost: a\r\n{parent}\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        within(read_head(&mut client)).await;
    }
    drop(client);
    // The first to come is the second request's.
    let spans = collector.up_to("HEAD").await;
    assert_eq!(spans.len(), 1, "{spans:#?}");
    assert_eq!(spans[0]["traceId"], TRACE);
    assert!(spans[0].get("links").is_none(), "{spans:#?}");
}

/// A relay whose spans go to `collector`, and where its metrics are.
async fn with_metrics(target: SocketAddr, collector: SocketAddr) -> (Relay, SocketAddr) {
    let traces = to(format!("http://{collector}/v1/traces"));
    traced_with_metrics(target, traces).await
}

async fn traced_with_metrics(target: SocketAddr, traces: TraceOptions) -> (Relay, SocketAddr) {
    let mut options = ConfigOptions::from(plain(target));
    options.admin = Some(longhaul_relay::AdminOptions {
        listen: "127.0.0.1:0".into(),
        allow: Vec::new(),
    });
    options.traces = Some(traces);
    let mut relay = Relay::start_with(Config::new(options).unwrap()).await;
    let admin = relay.event(|event| match event {
        Event::Admin { address } => Some(*address),
        _ => None,
    });
    let admin = within(admin).await;
    (relay, admin)
}

/// A counter's value.
async fn count(admin: SocketAddr, series: &str) -> u64 {
    let metrics = ask(admin, "/metrics").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("{series}: {metrics}"))
        .trim()
        .parse()
        .unwrap()
}

const NOT_DELIVERED: &str = "longhaul_spans_lost_total{why=\"not-delivered\"}";
const QUEUE_FULL: &str = "longhaul_spans_lost_total{why=\"queue-full\"}";

#[tokio::test]
async fn a_collector_that_is_not_there_costs_counted_spans_and_is_told_of_once() {
    let (_nobody, collector) = nobody();
    let origin = Origin::start().await;
    let (mut relay, admin) = with_metrics(origin.address, collector).await;
    let mut client = relay.connect().await;
    for lost in 1..=2 {
        client
            .write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let head = within(read_head(&mut client)).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let counted = async {
            while count(admin, NOT_DELIVERED).await < lost {
                tokio::task::yield_now().await;
            }
        };
        within(counted).await;
    }
    assert_eq!(count(admin, QUEUE_FULL).await, 0);
    assert_eq!(count(admin, "longhaul_spans_sent_total").await, 0);
    drop(client);
    let warnings = |event: &Event| matches!(event, Event::Warning { name: "traces-not-delivered", text } if text.contains("refused"));
    relay.event(|event| warnings(event).then_some(())).await;
    let rest = relay.stopped().await;
    assert!(!rest.iter().any(warnings), "{rest:#?}");
}

#[tokio::test]
async fn more_spans_than_a_collector_takes_are_lost_and_no_request_waits() {
    /// What fits the queue, what is under way to the collector, and some.
    const REQUESTS: u64 = 2_048 + 512 + 300;
    // It takes connections, and never answers.
    let (_silent, collector) = listen().await;
    let origin = Origin::start().await;
    let (relay, admin) = with_metrics(origin.address, collector).await;
    let mut client = relay.connect().await;
    for _ in 0..REQUESTS {
        client
            .write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        within(read_head(&mut client)).await;
    }
    drop(client);
    let counted = async {
        while count(admin, QUEUE_FULL).await < 300 {
            tokio::task::yield_now().await;
        }
    };
    within(counted).await;
    assert_eq!(count(admin, "longhaul_spans_sent_total").await, 0);
}

#[tokio::test]
async fn a_reload_changes_where_spans_go() {
    let mut first = Collector::start().await;
    let mut second = Collector::start().await;
    let origin = Origin::start().await;
    let mut relay = start(plain(origin.address), first.address, "100 %").await;
    once(
        &relay,
        b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .await;
    first.up_to("connection").await;
    let mut options = ConfigOptions::from(plain(origin.address));
    options.traces = Some(to(format!("http://{}/v1/traces", second.address)));
    relay.reload(Config::new(options).unwrap()).await;
    once(
        &relay,
        b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .await;
    second.up_to("connection").await;
    assert!(first.batches.try_recv().is_err());
}

/// A request of a client that says that it is the last.
const LAST: &[u8] = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_collector_may_speak_tls_with_a_certificate_of_an_authority_of_ones_own() {
    let site = Site::make();
    let mut collector = Collector::start_with(Some(site.acceptor_for(&["h2", "http/1.1"]))).await;
    let origin = Origin::start().await;
    let traces = TraceOptions {
        endpoint_ca: Some(site.files.authority.clone()),
        ..to(format!("https://{}/v1/traces", collector.address))
    };
    let (relay, admin) = traced_with_metrics(origin.address, traces).await;
    // The second batch goes over a connection of its own.
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        once(&relay, LAST).await;
        let spans = collector.up_to("connection").await;
        assert_eq!(spans.len(), 2, "{spans:#?}");
        assert_eq!(collector.handshakes.try_recv(), Ok(kind));
    }
    assert_eq!(count(admin, NOT_DELIVERED).await, 0);
}

#[tokio::test]
async fn a_collector_with_a_wrong_certificate_gets_no_span_and_no_request_notices() {
    let (site, other) = (Site::named("collector.example"), Site::make());
    let mut collector = Collector::start_with(Some(site.acceptor())).await;
    let origin = Origin::start().await;
    let port = collector.address.port();
    for (host, authority, why) in [
        ("127.0.0.1", &other, "invalid peer certificate"),
        ("localhost", &site, "not valid for name"),
    ] {
        let traces = TraceOptions {
            endpoint_ca: Some(authority.files.authority.clone()),
            ..to(format!("https://{host}:{port}/v1/traces"))
        };
        let (mut relay, admin) = traced_with_metrics(origin.address, traces).await;
        let answer = once(&relay, LAST).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let warning = relay.event(|event| match event {
            Event::Warning {
                name: "traces-not-delivered",
                text,
            } => Some(text.clone()),
            _ => None,
        });
        let warning = within(warning).await;
        assert!(
            warning.starts_with(&format!("https://{host}:")) && warning.contains(why),
            "{warning}"
        );
        assert_eq!(count(admin, NOT_DELIVERED).await, 2);
        assert_eq!(count(admin, "longhaul_spans_sent_total").await, 0);
        // And it serves on.
        let answer = once(&relay, LAST).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(collector.batches.try_recv().is_err());
}

#[tokio::test]
async fn a_collectors_authority_is_read_at_the_start_and_again_at_a_reload() {
    let (site, other) = (Site::make(), Site::make());
    let mut collector = Collector::start_with(Some(site.acceptor())).await;
    let origin = Origin::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let mut options = ConfigOptions::from(plain(origin.address));
    options.traces = Some(TraceOptions {
        endpoint_ca: Some(file.clone()),
        ..to(format!("https://{}/v1/traces", collector.address))
    });
    let config = Config::new(options).unwrap();
    let (_orders, given) = mpsc::channel(1);
    let missing = longhaul_relay::run(config.clone(), Vec::new(), drop, given).await;
    assert!(matches!(missing, Err(RunError::Traces(_))), "{missing:?}");
    assert!(longhaul_relay::check(&config).is_err());

    std::fs::copy(&other.files.authority, &file).unwrap();
    let mut relay = Relay::start_with(config.clone()).await;
    once(&relay, LAST).await;
    let warning = relay.event(|event| {
        let warned =
            matches!(event, Event::Warning { name, .. } if *name == "traces-not-delivered");
        warned.then_some(())
    });
    within(warning).await;
    std::fs::copy(&site.files.authority, &file).unwrap();
    let told = relay.reload(config).await;
    assert!(matches!(told, Event::Reloaded { .. }), "{told:?}");
    once(&relay, LAST).await;
    collector.up_to("connection").await;
}
