// One connection: what held it back, in each direction, for as long as it is known.

import { age, bytes, clock, count, rate, span } from "../format";
import { useLive } from "../live";
import { Goodput, Lines, Stack } from "../parts/chart";
import { LimitChip, LimitTable } from "../parts/limit";
import { clip, useWindow } from "../parts/window";
import type { History, Moment, Way } from "../schema";
import { to } from "../route";

export function ConnectionView({
  id,
  started_unix_s,
  paused,
}: {
  id: string;
  started_unix_s: number;
  paused: boolean;
}) {
  const { data, problem, gone } = useLive<History>(`/v1/connections/${encodeURIComponent(id)}`, 1000, paused);
  const { window_s, chooser } = useWindow();
  const back = (
    <p>
      <a href={to({ view: "connections" })}>← Connections</a>
    </p>
  );
  if (!data) {
    const why = gone
      ? "This connection is over, and not known any more."
      : problem
        ? `No answer: ${problem}`
        : "Asking…";
    return (
      <section>
        {back}
        <p class="empty">{why}</p>
      </section>
    );
  }
  const { connection, at_s } = data;
  const { up, down, end } = connection;
  const pooled = connection.client == null;
  return (
    <section aria-labelledby="connection">
      {back}
      <h2 id="connection">
        {connection.client ?? "Pool"} <span aria-label="to">→</span>{" "}
        {connection.server ?? (pooled ? "no target yet" : "hot pool")}
      </h2>
      <p class="facts">
        <span>by {connection.listener}</span>
        <span>since {clock(started_unix_s + connection.opened_s)}</span>
        <span>for {age((end?.at_s ?? at_s) - connection.opened_s)}</span>
        {end && (
          <span class={end.by === "completed" ? "" : "bad"}>
            {end.by === "completed" ? "completed" : `ended by ${end.by} (${end.phase})`} at{" "}
            {clock(started_unix_s + end.at_s)}
            {end.error && `: ${end.error}`}
          </span>
        )}
        {gone && <span class="bad">over, and not known any more</span>}
      </p>
      <div class="head">{chooser}</div>
      {up && (
        <Direction
          title="Up, towards the target"
          group="up"
          way={up}
          moments={clip(data.up, window_s, end?.at_s ?? at_s)}
          started_unix_s={started_unix_s}
        />
      )}
      {down && (
        <Direction
          title="Down, towards the client"
          group="down"
          way={down}
          moments={clip(data.down, window_s, end?.at_s ?? at_s)}
          started_unix_s={started_unix_s}
        />
      )}
      {!up && !down && <p class="empty">The kernel has not been asked about it yet.</p>}
    </section>
  );
}

function Direction(props: {
  title: string;
  group: string;
  way: Way;
  moments: readonly Moment[];
  started_unix_s: number;
}) {
  const { title, group, way, moments, started_unix_s } = props;
  const charts = { group, moments, started_unix_s };
  return (
    <article aria-label={title} class="direction">
      <h3>
        {title} <LimitChip limit={way.limit} />
      </h3>
      <dl class="figures">
        <Figure term="Goodput" value={rate(way.goodput_bps)} />
        <Figure term="So far" value={bytes(way.bytes)} />
        <Figure term="RTT" value={span(way.rtt_s)} />
        <Figure term="Least RTT" value={span(way.min_rtt_s)} />
        <Figure term="Window" value={bytes(way.cwnd_bytes)} />
        <Figure term="In flight" value={bytes(way.in_flight_bytes)} />
        <Figure term="Peer's window" value={bytes(way.peer_window_bytes)} />
        <Figure term="Sent again" value={count(way.retransmissions)} />
        <Figure term="Control" value={way.congestion_control ?? "–"} />
      </dl>
      {moments.length > 0 && (
        <div class="charts">
          <Stack title="What held it back" {...charts} of="share" />
          <Goodput title="Payload acknowledged" {...charts} />
          <Lines
            title="Congestion window and flight"
            {...charts}
            format={bytes}
            lines={[
              { label: "window", colour: "--data", of: ({ cwnd_bytes }) => cwnd_bytes },
              { label: "in flight", colour: "--second", dash: [6, 4], of: ({ in_flight_bytes }) => in_flight_bytes },
            ]}
          />
          <Lines
            title="Round-trip time"
            {...charts}
            format={span}
            lines={[{ label: "RTT", colour: "--data", of: ({ rtt_s }) => rtt_s ?? null }]}
          />
        </div>
      )}
      <LimitTable limits_s={way.limits_s} caption="Time by what held it back" />
    </article>
  );
}

function Figure({ term, value }: { term: string; value: string }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{value}</dd>
    </div>
  );
}
