// Trunks and their connections over the WAN.

import { bytes, count, rate, span } from "../format";
import type { Moment, Trunk, WanConnection } from "../schema";
import { lately } from "../verdict";
import { Goodput, Stack } from "./chart";
import { Scroll } from "./scroll";
import { clip, useWindow } from "./window";

export function Trunks({
  trunks,
  started_unix_s,
  at_s,
}: {
  trunks: readonly Trunk[];
  started_unix_s: number;
  at_s: number;
}) {
  const { window_s, chooser } = useWindow();
  if (trunks.length === 0) return <p class="empty">There is no trunk.</p>;
  return (
    <>
      <div class="head">{chooser}</div>
      {trunks.map((trunk) => (
        <One
          key={`${trunk.name} ${trunk.session}`}
          trunk={trunk}
          moments={clip(trunk.traffic, window_s, at_s)}
          started_unix_s={started_unix_s}
        />
      ))}
    </>
  );
}

function One({ trunk, moments, started_unix_s }: { trunk: Trunk; moments: readonly Moment[]; started_unix_s: number }) {
  const id = `trunk-${trunk.name}-${trunk.session}`;
  const ready = trunk.connections.filter((one) => one.ready && !one.stalled).length;
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>
        Trunk {trunk.name} <span class={`state ${trunk.up ? "good" : "bad"}`}>{trunk.up ? "up" : "down"}</span>
      </h2>
      <p class="facts">
        <span>{count(trunk.streams)} streams</span>
        <span>
          {ready} of {trunk.wanted_connections} connections carry
        </span>
        <span>{rate(lately(trunk.traffic))} of payload</span>
        <span>{bytes(trunk.send_held_bytes)} waiting to leave</span>
        <span>{bytes(trunk.receive_held_bytes)} waiting for applications</span>
        <span class="quiet">session {trunk.session}</span>
      </p>
      {trunk.traffic.length > 0 && (
        <div class="charts">
          <Goodput title="Payload to the other end" group={id} moments={moments} started_unix_s={started_unix_s} />
          <Stack
            title="What holds its connections back"
            group={id}
            moments={moments}
            started_unix_s={started_unix_s}
            of="many"
          />
        </div>
      )}
      {trunk.connections.length === 0 ? <p class="quiet">It has no connection now.</p> : <WanTable trunk={trunk} />}
    </section>
  );
}

function WanTable({ trunk }: { trunk: Trunk }) {
  return (
    <Scroll label="Connections of the trunk">
      <table>
        <thead>
          <tr>
            <th scope="col">Connection</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Rate
            </th>
            <th scope="col" class="number">
              RTT, least
            </th>
            <th scope="col" class="number">
              Window
            </th>
            <th scope="col" class="number">
              In flight
            </th>
            <th scope="col" class="number">
              Sent
            </th>
            <th scope="col" class="number">
              Received
            </th>
            <th scope="col" class="number">
              Repeated
            </th>
          </tr>
        </thead>
        <tbody>
          {trunk.connections.map((one) => (
            <Wan key={one.number} one={one} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Wan({ one }: { one: WanConnection }) {
  const state = one.stalled ? "stalled" : one.ready ? "ready" : "joining";
  return (
    <tr>
      <th scope="row">#{one.number}</th>
      <td class={one.stalled ? "bad" : ""}>{state}</td>
      <td class="number">{rate(one.delivery_bps)}</td>
      <td class="number">
        {span(one.rtt_s)}, {span(one.min_rtt_s)}
      </td>
      <td class="number">{bytes(one.cwnd_bytes)}</td>
      <td class="number">{bytes(one.in_flight_bytes)}</td>
      <td class="number">{bytes(one.sent_bytes)}</td>
      <td class="number">{bytes(one.received_bytes)}</td>
      <td class="number">{bytes(one.repeated_bytes)}</td>
    </tr>
  );
}
