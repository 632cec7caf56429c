// Made by `npm run types` from schema.json, which `longhaul schema page` prints. Not for editing.

/**
 * Every answer of the interface, for its schema: each is served at a path of its own.
 */
export type Answer = Overview | Connections | History | Reports | Document;
/**
 * What holds a transfer back. Every moment between a connection's first and last packet, per
 * direction, belongs to exactly one.
 *
 * Declared in the order of precedence: where two hold at one moment, the earlier name wins.
 */
export type LimitName =
  | "handshake"
  | "closing"
  | "tls-handshake"
  | "policer"
  | "loss-recovery"
  | "receive-window"
  | "bottleneck"
  | "slow-start"
  | "loss-limited"
  | "congestion-avoidance"
  | "send-buffer"
  | "nagle-delayed-ack"
  | "propagation"
  | "application"
  | "unknown";

/**
 * `/v1/overview`
 */
export interface Overview {
  /**
   * What somebody should look at, newest first.
   */
  alerts: Alert[];
  /**
   * Now, by the steady clock.
   */
  at_s: number;
  /**
   * Whether no more clients are let in.
   */
  draining: boolean;
  /**
   * The host's name, where it has one.
   */
  host?: string | null;
  /**
   * Between two readings of the kernel; `null` where nothing is read.
   */
  interval_s?: number | null;
  /**
   * Where clients come in.
   */
  listeners: Listener[];
  /**
   * The program's name and version.
   */
  longhaul: string;
  /**
   * Always `longhaul.page`.
   */
  schema: string;
  /**
   * What is served, which decides what the page shows.
   */
  serves: "relay" | "trunk" | "lab";
  /**
   * When the process started, in seconds since 1970.
   */
  started_unix_s: number;
  /**
   * All connections together, oldest moment first.
   */
  traffic: Moment[];
  /**
   * Trunks to and from other sites.
   */
  trunks: Trunk[];
  /**
   * [`VERSION`] of the program that answers.
   */
  version: number;
}
/**
 * What somebody should look at. The same word again is one alert with a higher count.
 */
export interface Alert {
  /**
   * Which listener, trunk or target it is about.
   */
  about: string;
  /**
   * When it ended; `null` while it lasts, or where it is an incident without an end.
   */
  cleared_s?: number | null;
  /**
   * How often it was told.
   */
  count: number;
  /**
   * When it was told first.
   */
  first_s: number;
  /**
   * Number since the start.
   */
  id: number;
  /**
   * When it was told last.
   */
  last_s: number;
  /**
   * A stable name, such as `target-gone`.
   */
  name: string;
  /**
   * How bad it is.
   */
  severity: "warning" | "error";
  /**
   * What it means and what to do.
   */
  text: string;
}
/**
 * A listener and what it has done.
 */
export interface Listener {
  /**
   * Clients that were let in so far.
   */
  accepted: number;
  /**
   * Payload towards clients, of what has ended.
   */
  bytes_down: number;
  /**
   * Payload towards the target, of what has ended.
   */
  bytes_up: number;
  /**
   * Clients that are there.
   */
  clients: number;
  /**
   * Connections, or requests, by who ended them.
   */
  ended: {
    [k: string]: number;
  };
  /**
   * Its address.
   */
  listen: string;
  /**
   * `http`, `tcp`, `tls` or `trunk`.
   */
  mode: string;
  /**
   * Clients that were turned away.
   */
  refused: number;
  /**
   * Requests, where requests are known.
   */
  requests?: number | null;
  /**
   * Requests that a hot connection served, where requests are known.
   */
  requests_hot?: number | null;
  /**
   * Where clients are brought to.
   */
  target: string;
  /**
   * Targets whose state has ever changed, and whether they are there.
   */
  targets: {
    [k: string]: boolean;
  };
}
/**
 * A span of time, of one connection's direction or of many together.
 */
export interface Moment {
  /**
   * Congestion window at its end; 0 of many.
   */
  cwnd_bytes: number;
  /**
   * Payload per second that was acknowledged.
   */
  goodput_bps: number;
  /**
   * Payload in flight at its end.
   */
  in_flight_bytes: number;
  /**
   * Time per limit; of many connections, their times together.
   */
  limits_s: {
    [k: string]: number;
  };
  /**
   * Segments sent again in it.
   */
  retransmissions: number;
  /**
   * Smoothed round-trip time at its end; `null` of many, or before the first sample.
   */
  rtt_s?: number | null;
  /**
   * How long it was.
   */
  seconds: number;
  /**
   * When it ended.
   */
  to_s: number;
}
/**
 * A trunk: one session between two sites.
 */
export interface Trunk {
  /**
   * Its connections over the WAN.
   */
  connections: WanConnection[];
  /**
   * What it is called.
   */
  name: string;
  /**
   * Received and not taken by applications.
   */
  receive_held_bytes: number;
  /**
   * Accepted from applications and not acknowledged by the other end.
   */
  send_held_bytes: number;
  /**
   * Who its two ends are to each other.
   */
  session: string;
  /**
   * Streams that are open.
   */
  streams: number;
  /**
   * All its connections together, oldest moment first.
   */
  traffic: Moment[];
  /**
   * Whether it carries streams.
   */
  up: boolean;
  /**
   * Connections that it would like.
   */
  wanted_connections: number;
}
/**
 * A trunk's connection.
 */
export interface WanConnection {
  /**
   * TCP's congestion window.
   */
  cwnd_bytes?: number | null;
  /**
   * The highest delivery rate of late.
   */
  delivery_bps?: number | null;
  /**
   * Bytes of frames that are not acknowledged.
   */
  in_flight_bytes: number;
  /**
   * The least one of late.
   */
  min_rtt_s?: number | null;
  /**
   * Its number in the session.
   */
  number: number;
  /**
   * Whether the other end has let it in.
   */
  ready: boolean;
  /**
   * Bytes from the socket so far.
   */
  received_bytes: number;
  /**
   * Payload among those sent that had gone out on another connection before.
   */
  repeated_bytes: number;
  /**
   * TCP's smoothed round trip.
   */
  rtt_s?: number | null;
  /**
   * Bytes to the socket so far.
   */
  sent_bytes: number;
  /**
   * Whether acknowledgements have stopped.
   */
  stalled: boolean;
}
/**
 * `/v1/connections`
 */
export interface Connections {
  /**
   * Now, by the steady clock.
   */
  at_s: number;
  /**
   * Connections that are over and still known.
   */
  ended: number;
  /**
   * Open connections that send, by what holds them back now.
   */
  limits: {
    [k: string]: number;
  };
  /**
   * Connections that match.
   */
  matching: number;
  /**
   * Connections that are open.
   */
  open: number;
  /**
   * Those asked for.
   */
  shown: Connection[];
  /**
   * The order of those below.
   */
  sort: "goodput" | "bytes" | "rtt" | "retransmissions" | "age" | "held";
}
/**
 * A connection that is relayed, or one of a pool.
 */
export interface Connection {
  /**
   * The client's address; `null` for a pool's connection.
   */
  client?: string | null;
  /**
   * Towards the client, sent on the client side's socket.
   */
  down?: Way | null;
  /**
   * How it ended; `null` while it is open.
   */
  end?: End | null;
  /**
   * Number since the start.
   */
  id: number;
  /**
   * The listener that it came in by, or that its pool belongs to.
   */
  listener: string;
  /**
   * When it was opened.
   */
  opened_s: number;
  /**
   * The target's address; `null` where there is none yet, or where a pool serves the client.
   */
  server?: string | null;
  /**
   * Towards the target, sent on the server side's socket.
   */
  up?: Way | null;
}
/**
 * One direction, as the kernel of the relay that sends it tells.
 */
export interface Way {
  /**
   * What held it back, oldest first, up to now: at most the last two minutes.
   */
  band: Stretch[];
  /**
   * Payload that was acknowledged.
   */
  bytes: number;
  /**
   * The congestion control at work.
   */
  congestion_control?: string | null;
  /**
   * Congestion window.
   */
  cwnd_bytes: number;
  /**
   * The same per second, of late.
   */
  goodput_bps: number;
  /**
   * Payload in flight.
   */
  in_flight_bytes: number;
  /**
   * What held it back for most of the newest reading.
   */
  limit?: LimitName | null;
  /**
   * Time per limit, of all that was read.
   */
  limits_s: {
    [k: string]: number;
  };
  /**
   * The smallest of the kernel's window.
   */
  min_rtt_s?: number | null;
  /**
   * The window that the peer advertised last.
   */
  peer_window_bytes?: number | null;
  /**
   * Segments sent again.
   */
  retransmissions: number;
  /**
   * Smoothed round-trip time; `null` before the first sample.
   */
  rtt_s?: number | null;
  /**
   * The socket that sends it, as its kernel listed it last; `null` before that.
   */
  socket?: Socket | null;
}
/**
 * A time in which one limit prevailed.
 */
export interface Stretch {
  /**
   * Which one.
   */
  limit:
    | "handshake"
    | "closing"
    | "tls-handshake"
    | "policer"
    | "loss-recovery"
    | "receive-window"
    | "bottleneck"
    | "slow-start"
    | "loss-limited"
    | "congestion-avoidance"
    | "send-buffer"
    | "nagle-delayed-ack"
    | "propagation"
    | "application"
    | "unknown";
  /**
   * For how long.
   */
  seconds: number;
}
/**
 * A socket of the serving process, as its kernel listed it.
 */
export interface Socket {
  /**
   * The kernel's own number of it: no other one of that kernel has it.
   */
  cookie: number;
  /**
   * This end.
   */
  local: string;
  /**
   * The other end.
   */
  peer: string;
  /**
   * When it was listed, by the steady clock.
   */
  read_s: number;
  /**
   * Bytes received that nobody has read.
   */
  receive_queue_bytes: number;
  /**
   * Payload received so far.
   */
  received_bytes: number;
  /**
   * Bytes written that the peer has not acknowledged.
   */
  send_queue_bytes: number;
  /**
   * Slow start threshold; `null` while infinite.
   */
  ssthresh_bytes?: number | null;
  /**
   * Where the connection stands.
   */
  state:
    | "established"
    | "syn-sent"
    | "syn-recv"
    | "fin-wait-1"
    | "fin-wait-2"
    | "time-wait"
    | "closed"
    | "close-wait"
    | "last-ack"
    | "listening"
    | "closing"
    | "other";
}
/**
 * How a connection ended.
 */
export interface End {
  /**
   * When.
   */
  at_s: number;
  /**
   * `completed`, `client`, `server`, `timeout`, `resource` or `relay`.
   */
  by: string;
  /**
   * What went wrong, if anything.
   */
  error?: string | null;
  /**
   * How far it had come, such as `data`.
   */
  phase: string;
}
/**
 * `/v1/connections/ID`
 */
export interface History {
  /**
   * Now, by the steady clock.
   */
  at_s: number;
  connection: Connection1;
  /**
   * Towards the client.
   */
  down: Moment[];
  /**
   * Towards the target, oldest moment first. Moments are longer the longer ago they were.
   */
  up: Moment[];
}
/**
 * A connection that is relayed, or one of a pool.
 */
export interface Connection1 {
  /**
   * The client's address; `null` for a pool's connection.
   */
  client?: string | null;
  /**
   * Towards the client, sent on the client side's socket.
   */
  down?: Way | null;
  /**
   * How it ended; `null` while it is open.
   */
  end?: End | null;
  /**
   * Number since the start.
   */
  id: number;
  /**
   * The listener that it came in by, or that its pool belongs to.
   */
  listener: string;
  /**
   * When it was opened.
   */
  opened_s: number;
  /**
   * The target's address; `null` where there is none yet, or where a pool serves the client.
   */
  server?: string | null;
  /**
   * Towards the target, sent on the server side's socket.
   */
  up?: Way | null;
}
/**
 * `/v1/reports`
 */
export interface Reports {
  /**
   * Newest first.
   */
  reports: Report[];
  /**
   * Results that cannot be read, and why.
   */
  unreadable: Unreadable[];
}
/**
 * One run of the lab, as its result says.
 */
export interface Report {
  /**
   * Assertions of the scenario.
   */
  assertions: number;
  /**
   * Those that do not hold.
   */
  broken_assertions: number;
  /**
   * Workloads and combinations of factors.
   */
  cells: number;
  /**
   * Whether there is a `report.html` beside it.
   */
  has_page: boolean;
  /**
   * The folder, below the one that is shown; `.` for that itself.
   */
  id: string;
  /**
   * Whether it was cut short.
   */
  interrupted: boolean;
  /**
   * Those whose path was not what the scenario says.
   */
  invalid_cells: number;
  /**
   * The scenario's name.
   */
  scenario: string;
  /**
   * When the run began, as its manifest says.
   */
  started_at?: string | null;
  /**
   * When the result was written, in seconds since 1970.
   */
  written_unix_s: number;
}
/**
 * A result that cannot be read.
 */
export interface Unreadable {
  /**
   * The folder.
   */
  id: string;
  /**
   * Why.
   */
  why: string;
}
/**
 * `/v1/reports/document?id=ID`
 */
export interface Document {
  /**
   * Assertions of the scenario and how they went.
   */
  assertions: Assertion[];
  /**
   * Why the run ended before its time, where something broke, such as the link: what is here was measured
   * before.
   */
  broken?: string | null;
  /**
   * One cell per workload and combination of factors.
   */
  cells: Cell[];
  /**
   * How transfers were repeated, as the scenario asks.
   */
  conduct?: Conduct | null;
  /**
   * Whether the run was cut short (Ctrl-C): what is here was measured, the rest is missing.
   */
  interrupted: boolean;
  manifest: Manifest;
  /**
   * The order of blocks as it was run, such as `relay 100 KiB`.
   */
  order: string[];
  /**
   * What pools were primed with, by arm.
   */
  priming: Priming[];
  /**
   * The scenario's name.
   */
  scenario: string;
  /**
   * Always `longhaul.lab`.
   */
  schema: string;
  /**
   * The seed of everything random in it.
   */
  seed: number;
  /**
   * [`VERSION`] of the program that wrote it; a field that is younger than it is absent.
   */
  version: number;
}
/**
 * One assertion of the scenario.
 */
export interface Assertion {
  /**
   * The numbers on both sides.
   */
  detail: string;
  /**
   * Whether it holds.
   */
  holds: boolean;
  /**
   * As written in the scenario.
   */
  text: string;
}
/**
 * One workload under one combination of factors.
 */
export interface Cell {
  /**
   * The arms in the scenario's order.
   */
  arms: Arm[];
  /**
   * Payload bytes per transfer; 0 where a transfer lasts for a time instead.
   */
  bytes: number;
  /**
   * Payload bits per second above which no design can come, whatever it transfers.
   */
  ceiling_bps?: number | null;
  /**
   * Every other arm against the first.
   */
  comparisons?: Comparison[];
  /**
   * Factors and their values; empty without a sweep.
   */
  factors: {
    [k: string]: string;
  };
  /**
   * How the floor was computed.
   */
  floor_derivation: string;
  /**
   * The time below which no design can come; 0 where transfers last for a time.
   */
  floor_s: number;
  /**
   * Whether arms are compared by the time of a transfer or by its rate.
   */
  measure?: "time" | "rate";
  path: PathCheck;
  /**
   * What `explain` predicted, before the arm it speaks of was run.
   */
  predictions: PredictedArm[];
  /**
   * Whether the path was what the scenario says, in every block that counts.
   */
  valid: boolean;
  /**
   * Why not, where it was not.
   */
  why?: string | null;
  /**
   * The workload's name, such as `upload 102400 B`.
   */
  workload: string;
}
/**
 * One way of doing the workload.
 */
export interface Arm {
  /**
   * Median by position within a block of consecutive transfers, first to last.
   */
  by_position_s: number[];
  /**
   * 95 % bootstrap interval of the median.
   *
   * @minItems 2
   * @maxItems 2
   */
  ci95_s?: [unknown, unknown] | null;
  /**
   * Kernel counters by host, summed over the arm: `origin: TcpRetransSegs`.
   */
  counters?: {
    [k: string]: number;
  };
  /**
   * The same for every transfer, in the order of [`samples_s`](Self::samples_s): from its start to the
   * start of the next, or to the end of its block. Of transfers that failed only the sums have them.
   */
  counters_by_run?: {
    [k: string]: number[];
  };
  /**
   * Transfers that failed (error, or another digest in the store than was sent).
   */
  failed: number;
  /**
   * The first transfer through a pool that was connected but not primed, reported beside.
   */
  first_unprimed_s?: number | null;
  /**
   * Median of payload bits per second.
   */
  goodput_bps?: number | null;
  /**
   * 95 % bootstrap interval of it.
   *
   * @minItems 2
   * @maxItems 2
   */
  goodput_ci95_bps?: [unknown, unknown] | null;
  /**
   * What was off about them.
   */
  invalid_because?: string[];
  /**
   * Blocks that were repeated because the path was off meanwhile.
   */
  invalid_blocks?: number;
  /**
   * The same for every hop of the payload, each captured at its sender; empty where none was captured.
   */
  legs?: Leg[];
  /**
   * Mean seconds per limit and transfer, from a capture at the host that sends the payload across the
   * WAN; where payload flows both ways, of the way towards the origin.
   */
  limits: {
    [k: string]: number;
  };
  /**
   * Slowest.
   */
  max_s?: number | null;
  /**
   * Median seconds.
   */
  median_s?: number | null;
  /**
   * Transfers measured.
   */
  n: number;
  /**
   * Its name in the scenario.
   */
  name: string;
  /**
   * 5th percentile.
   */
  p05_s?: number | null;
  /**
   * 95th percentile.
   */
  p95_s?: number | null;
  /**
   * The same where the report gives rates, in payload bits per second.
   */
  reported_bps?: number[];
  /**
   * The field report's figures for this arm, where it gives some.
   */
  reported_s: number[];
  /**
   * Segments sent again per transfer, by all hosts but rivals.
   */
  retransmissions?: number | null;
  /**
   * The metrics of RFC 6349 section 4.
   */
  rfc6349?: Rfc6349 | null;
  /**
   * What became of the flows that shared the path.
   */
  rivals?: Rivals | null;
  /**
   * Payload bits per second of every transfer, in the same order.
   */
  samples_bps?: number[];
  /**
   * Seconds of every transfer, in the order in which they ran.
   */
  samples_s: number[];
  /**
   * The transfer that took the median time, from inside the sender.
   */
  series?: Series | null;
  /**
   * `floor_s / median_s`, or `goodput_bps / ceiling_bps` where rates are compared.
   */
  share_of_floor?: number | null;
  /**
   * Median payload bits per second over the last half of a transfer, when slow start is over.
   */
  steady_bps?: number | null;
}
/**
 * One hop of an arm's payload.
 */
export interface Leg {
  /**
   * Whether the WAN lies between them.
   */
  crosses_wan: boolean;
  /**
   * The host that sends it, and where it was captured.
   */
  from: string;
  /**
   * Mean seconds per limit and transfer.
   */
  limits: {
    [k: string]: number;
  };
  /**
   * The host that it is sent to.
   */
  to: string;
}
/**
 * The three metrics of RFC 6349 section 4, as shares of one where the RFC gives percentages.
 */
export interface Rfc6349 {
  /**
   * Average RTT during the transfer above the baseline RTT, over the baseline (section 4.3); 0 is
   * ideal.
   */
  buffer_delay?: number | null;
  /**
   * Bytes transmitted less bytes retransmitted, over bytes transmitted (section 4.2); 1 is ideal.
   */
  tcp_efficiency?: number | null;
  /**
   * Actual over ideal transfer time (section 4.1); 1 is ideal.
   */
  transfer_time_ratio?: number | null;
}
/**
 * Flows of others beside an arm's.
 */
export interface Rivals {
  /**
   * Payload bits per second of each without the arm.
   */
  alone_bps: number[];
  /**
   * Payload bits per second of each beside the arm.
   */
  beside_bps: number[];
  /**
   * The share of the rivals' throughput that the arm cost them (Ware et al., `HotNets` 2019): 0 is
   * none.
   */
  harm?: number | null;
  /**
   * Jain's fairness index over the arm's and the rivals' flows: 1 is an equal share for each.
   */
  jain?: number | null;
  /**
   * Payload bits per second of each flow of the arm, over the same time.
   */
  own_bps?: number[];
}
/**
 * What a sender's kernel (or the simulator) said about one transfer, at regular intervals.
 */
export interface Series {
  /**
   * Seconds between two points, as asked for.
   */
  interval_s: number;
  /**
   * Points by time.
   */
  points: SeriesPoint[];
}
/**
 * One moment of a transfer. What the source does not tell is absent.
 */
export interface SeriesPoint {
  /**
   * Seconds since the transfer began.
   */
  at_s: number;
  /**
   * Congestion window, in bytes.
   */
  cwnd?: number | null;
  /**
   * Payload bits per second delivered since the point before.
   */
  goodput_bps?: number | null;
  /**
   * Bytes sent and not acknowledged.
   */
  in_flight?: number | null;
  /**
   * Bytes waiting at the bottleneck.
   */
  queue?: number | null;
  /**
   * Segments sent again since the transfer began.
   */
  retransmissions?: number | null;
  /**
   * Smoothed RTT.
   */
  rtt_s?: number | null;
}
/**
 * One arm against another, transfer by transfer.
 */
export interface Comparison {
  /**
   * What it is compared with.
   */
  against: string;
  /**
   * The arm.
   */
  arm: string;
  /**
   * The same where rates are compared.
   */
  difference_bps?: number | null;
  /**
   * The same where rates are compared.
   *
   * @minItems 2
   * @maxItems 2
   */
  difference_ci95_bps?: [unknown, unknown] | null;
  /**
   * 95 % bootstrap interval of it.
   *
   * @minItems 2
   * @maxItems 2
   */
  difference_ci95_s?: [unknown, unknown] | null;
  /**
   * Median of paired differences, or difference of medians where nothing pairs them.
   */
  difference_s?: number | null;
  /**
   * Cliff's delta: the probability that a transfer of this arm takes a larger value than one of the
   * other, less that of a smaller one; -1 to 1.
   */
  effect?: number | null;
  /**
   * Probability of ranks at least this uneven were the arms alike; two-sided.
   */
  p?: number | null;
  /**
   * Whether transfers at the same place of the same round were compared with one another.
   */
  paired: boolean;
  /**
   * Its median over the other's, by the cell's measure.
   */
  ratio?: number | null;
  /**
   * 95 % bootstrap interval of the ratio.
   *
   * @minItems 2
   * @maxItems 2
   */
  ratio_ci95?: [unknown, unknown] | null;
  /**
   * The Hodges-Lehmann estimate of the shift, in the unit of the cell's measure.
   */
  shift?: number | null;
  /**
   * The test that says so, such as `Wilcoxon signed-rank, exact`.
   */
  test: string;
}
/**
 * The path as asked and as endpoints measured it.
 */
export interface PathCheck {
  /**
   * Rate that the client measured.
   */
  backward_rate_achieved_bps?: number | null;
  /**
   * Rate the scenario asks for, towards the client.
   */
  backward_rate_asked_bps?: number | null;
  /**
   * Checks made.
   */
  checks: number;
  /**
   * Checks that failed, after which a block was repeated.
   */
  invalid_checks: number;
  /**
   * Where arms have networks of their own, each of them.
   */
  networks?: NetworkCheck[];
  /**
   * Rate that the receiving endpoint measured, the origin.
   */
  rate_achieved_bps?: number | null;
  /**
   * Rate the scenario asks for, towards the origin.
   */
  rate_asked_bps: number;
  /**
   * Median RTT that endpoints measured. It and the rates are those of the first network; `networks` has
   * each, where arms have several.
   */
  rtt_achieved_s?: number | null;
  /**
   * RTT the scenario asks for.
   */
  rtt_asked_s: number;
  /**
   * What the scenario asks of the path and no check looked at, in words: a path is right but for this.
   */
  unchecked?: string[];
}
/**
 * A network of some arms as its endpoints saw it.
 */
export interface NetworkCheck {
  /**
   * The first of its arms.
   */
  arm: string;
  /**
   * Rate towards the client.
   */
  backward_rate_achieved_bps?: number | null;
  /**
   * Rate towards the origin.
   */
  rate_achieved_bps?: number | null;
  /**
   * Median RTT.
   */
  rtt_achieved_s?: number | null;
}
/**
 * A prediction and what was then measured.
 */
export interface PredictedArm {
  /**
   * The arm it speaks of.
   */
  arm: string;
  /**
   * How it was computed.
   */
  derivation: string;
  /**
   * `predicted / measured - 1`.
   */
  error?: number | null;
  /**
   * Measured median.
   */
  measured_s?: number | null;
  /**
   * Predicted seconds.
   */
  predicted_s: number;
}
/**
 * How often and in what order transfers are asked for.
 */
export interface Conduct {
  /**
   * Consecutive transfers of a block that count.
   */
  block: number;
  /**
   * Transfers of each arm and workload at which `precision` gives up.
   */
  max_runs?: number | null;
  /**
   * Share of the median within which its 95 % interval is asked to lie; absent where `runs` alone count.
   */
  precision?: number | null;
  /**
   * Transfers of each arm and workload that count.
   */
  runs: number;
  /**
   * Transfers at the beginning of each block that are done and do not count.
   */
  warm_up: number;
}
/**
 * Where the result comes from.
 */
export interface Manifest {
  /**
   * The command line that repeats this result.
   */
  command?: string | null;
  /**
   * Facts by name: sysctls per host (`client: net.ipv4.tcp_rmem`), congestion control, queueing
   * discipline, offloads, real-time priority. What could not be read is here too, with the reason
   * as its value.
   */
  facts: {
    [k: string]: string;
  };
  /**
   * Kernel release, `null` outside Linux.
   */
  kernel?: string | null;
  /**
   * The program's version and commit.
   */
  longhaul: string;
  /**
   * CPU count and model.
   */
  machine?: string | null;
  /**
   * Wall-clock start in RFC 3339, UTC; the only wall-clock time in a record.
   */
  started_at?: string | null;
}
/**
 * What it took to make connections hot.
 */
export interface Priming {
  /**
   * The arm whose relay did it.
   */
  arm: string;
  /**
   * Bytes sent for it.
   */
  bytes: number;
  /**
   * Connections primed.
   */
  connections: number;
  /**
   * Smallest cwnd among them when done, in bytes.
   */
  cwnd?: number | null;
  /**
   * Smallest window of the origin among them when done, in bytes.
   */
  peer_window?: number | null;
  /**
   * Harmless requests sent.
   */
  requests: number;
  /**
   * Seconds until the last of them was hot.
   */
  seconds: number;
}
