// A process that answers whatever a test wants, for states that are hard to bring about in a real one.

import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Connection, Connections, History, LimitName, Moment, Overview, Way } from "../src/schema";
import { PAGE } from "./browser";

const TYPES: Record<string, string> = {
  html: "text/html",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};

/** What it answers by path; `null` for no answer at all. */
export type Answers = (path: string, query: URLSearchParams) => unknown;

/** Serves the built page and these answers, on a port of its own. */
export async function pretend(answers: Answers): Promise<{ url: string; stop: () => Promise<void> }> {
  const server: Server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    if (pathname.startsWith("/v1/")) {
      const answer = answers(pathname, searchParams);
      if (answer === null) {
        request.socket.destroy();
        return;
      }
      response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify(answer));
      return;
    }
    const name = pathname === "/" ? "index.html" : pathname.slice(1);
    readFile(join(PAGE, "../assets", name)).then(
      (file) => {
        const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
        response.writeHead(200, {
          "content-type": TYPES[name.split(".").at(-1) ?? ""] ?? "",
          "content-security-policy": policy,
        });
        response.end(file);
      },
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((closed) => {
        server.closeAllConnections();
        server.close(() => closed());
      }),
  };
}

/** The same numbers in every run. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const AT_S = 5_400;

/** Moments up to now in which limits take turns. */
export function moments(seed: number, mbit_per_s: number, many = 1, seconds = 150): Moment[] {
  const roll = dice(seed);
  const names: LimitName[] = ["receive-window", "bottleneck", "slow-start", "loss-recovery", "application"];
  let held = 0;
  return Array.from({ length: seconds }, (_, at) => {
    if (roll() < 0.07) held = Math.floor(roll() * names.length);
    const share = 0.55 + 0.45 * roll();
    const first = names[held] ?? "unknown";
    const second = names[(held + 1) % names.length] ?? "unknown";
    const idle = first === "application";
    return {
      to_s: AT_S - seconds + at + 1,
      seconds: 1,
      limits_s: { [first]: many * share, [second]: many * (1 - share) },
      goodput_bps: idle ? 0 : mbit_per_s * 1e6 * (0.7 + 0.5 * roll()),
      rtt_s: 0.2 + 0.05 * roll(),
      cwnd_bytes: 2_400_000 + Math.floor(600_000 * roll()),
      in_flight_bytes: idle ? 0 : 2_000_000 + Math.floor(400_000 * roll()),
      retransmissions: first === "loss-recovery" ? Math.floor(8 * roll()) : 0,
    };
  });
}

function way(seed: number, mbit_per_s: number): Way {
  const past = moments(seed, mbit_per_s, 1, 120);
  const band: Way["band"] = [];
  const limits_s: Partial<Record<LimitName, number>> = {};
  for (const { limits_s: held } of past) {
    const [[limit]] = Object.entries(held).sort(([, one], [, other]) => other - one) as [[LimitName, number]];
    const last = band.at(-1);
    if (last?.limit === limit) last.seconds += 1;
    else band.push({ limit, seconds: 1 });
    for (const [name, seconds] of Object.entries(held))
      limits_s[name as LimitName] = (limits_s[name as LimitName] ?? 0) + seconds;
  }
  const newest = past.at(-1);
  return {
    bytes: Math.floor(mbit_per_s * 1e6 * 14),
    goodput_bps: newest?.goodput_bps ?? 0,
    rtt_s: newest?.rtt_s ?? null,
    min_rtt_s: 0.1904,
    cwnd_bytes: newest?.cwnd_bytes ?? 0,
    in_flight_bytes: newest?.in_flight_bytes ?? 0,
    peer_window_bytes: 6_291_456,
    retransmissions: seed % 7 === 0 ? 41 : 0,
    congestion_control: "bbr",
    limit: band.at(-1)?.limit ?? null,
    limits_s: limits_s as Way["limits_s"],
    band,
  };
}

/** The n-th connection of a relay. */
export function connection(id: number): Connection {
  return {
    id,
    listener: "10.20.0.1:9000",
    client: `10.20.${Math.floor(id / 250)}.${(id % 250) + 1}:${40_000 + id}`,
    server: "203.0.113.9:443",
    opened_s: Math.max(0, AT_S - 40 - id * 3),
    up: way(id, 90 / (1 + id / 4)),
    down: way(id + 9_999, 1 / (1 + id / 4)),
    end: null,
  };
}

/** An answer to `/v1/connections`, of so many. */
export function connections(count: number, query: URLSearchParams): Connections {
  const from = Number(query.get("from") ?? 0);
  const shown = Array.from(
    { length: Math.min(Number(query.get("count") ?? 100), Math.max(0, count - from)) },
    (_, at) => connection(from + at + 1),
  );
  const limits: Connections["limits"] = {};
  for (const one of shown) if (one.up?.limit) limits[one.up.limit] = (limits[one.up.limit] ?? 0) + 1;
  return { at_s: AT_S, open: count, ended: 12, matching: count, limits, sort: "goodput", shown };
}

/** An answer to `/v1/connections/ID`. */
export function history(id: number): History {
  const held = connection(id);
  return { at_s: AT_S, connection: held, up: moments(id, 90), down: moments(id + 9_999, 1) };
}

/** A relay that works; `more` says what is different. */
export function overview(more: Partial<Overview> = {}): Overview {
  return {
    schema: "longhaul.page",
    version: 1,
    longhaul: "longhaul 0.1.0",
    serves: "relay",
    host: "edge-fra-2",
    started_unix_s: 1_795_000_000,
    at_s: AT_S,
    interval_s: 1,
    draining: false,
    listeners: [
      {
        listen: "10.20.0.1:9000",
        mode: "tcp",
        target: "store.example:443",
        clients: 212,
        accepted: 48_211,
        refused: 3,
        bytes_up: 9_412_000_000_000,
        bytes_down: 88_000_000_000,
        ended: { completed: 47_960, client: 31, timeout: 8 },
        targets: {},
      },
      {
        listen: "10.20.0.1:80",
        mode: "http",
        target: "store.example:80",
        clients: 18,
        accepted: 903,
        refused: 0,
        bytes_up: 88_000_000_000,
        bytes_down: 1_200_000_000,
        requests: 190_233,
        requests_hot: 189_020,
        ended: { completed: 190_233 },
        targets: { "203.0.113.9:80": true },
      },
    ],
    trunks: [],
    traffic: moments(4, 640, 190),
    alerts: [],
    ...more,
  };
}

/** Alerts of all kinds. */
export const ALERTS: Overview["alerts"] = [
  {
    id: 3,
    severity: "error",
    name: "target-gone",
    about: "203.0.113.9:443",
    text: "cannot connect: Connection refused (os error 111)",
    count: 4,
    first_s: AT_S - 190,
    last_s: AT_S - 6,
    cleared_s: null,
  },
  {
    id: 2,
    severity: "warning",
    name: "slow-start-after-idle",
    about: "",
    text: "the kernel forgets congestion windows over idle time (tcp_slow_start_after_idle = 1); run `sysctl -w net.ipv4.tcp_slow_start_after_idle=0`",
    count: 1,
    first_s: AT_S - 300,
    last_s: AT_S - 300,
    cleared_s: null,
  },
  {
    id: 1,
    severity: "error",
    name: "target-gone",
    about: "203.0.113.10:443",
    text: "cannot connect: No route to host (os error 113)",
    count: 2,
    first_s: AT_S - 4_000,
    last_s: AT_S - 3_900,
    cleared_s: AT_S - 3_600,
  },
];

/** Trunks, one that works and one that does not. */
export const TRUNKS: Overview["trunks"] = [true, false].map((up, at) => ({
  name: up ? "fra-nyc" : "fra-sin",
  session: `7f3a-${at}`,
  up,
  streams: up ? 311 : 0,
  wanted_connections: 4,
  send_held_bytes: up ? 1_820_000 : 0,
  receive_held_bytes: up ? 40_000 : 0,
  connections: up
    ? [1, 2, 3, 4].map((number) => ({
        number,
        ready: true,
        stalled: number === 3,
        sent_bytes: 7_000_000_000 * number,
        received_bytes: 900_000_000 * number,
        repeated_bytes: number === 3 ? 2_000_000 : 0,
        rtt_s: 0.082,
        min_rtt_s: 0.0799,
        cwnd_bytes: 3_800_000,
        in_flight_bytes: number === 3 ? 0 : 2_900_000,
        delivery_bps: number === 3 ? null : 214e6,
      }))
    : [],
  traffic: up ? moments(8, 830, 4) : [],
}));
