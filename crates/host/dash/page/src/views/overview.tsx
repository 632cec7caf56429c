// What one look should tell.

import { useState } from "preact/hooks";
import { Alerts } from "../parts/alerts";
import { Goodput, Stack } from "../parts/chart";
import { Listeners } from "../parts/listeners";
import { clip, useWindow } from "../parts/window";
import type { Overview } from "../schema";
import { to } from "../route";
import { bytes, rate } from "../format";
import { lately } from "../verdict";
import { Scroll } from "../parts/scroll";

export function OverviewView({ overview }: { overview: Overview }) {
  const { alerts, at_s, listeners, started_unix_s, traffic, trunks } = overview;
  const [idle, setIdle] = useState(false);
  const { window_s, chooser } = useWindow();
  const moments = clip(traffic, window_s, at_s);
  return (
    <>
      <Alerts alerts={alerts} at_s={at_s} />
      {traffic.length > 0 && (
        <section aria-labelledby="traffic">
          <div class="head">
            <h2 id="traffic">Traffic</h2>
            {chooser}
          </div>
          <div class="charts">
            <Goodput
              title="Payload acknowledged, all connections"
              group="all"
              moments={moments}
              started_unix_s={started_unix_s}
            />
            <Stack
              title="Directions held back, by what"
              group="all"
              moments={moments}
              started_unix_s={started_unix_s}
              of="many"
              hide={idle ? [] : ["application", "closing"]}
            />
          </div>
          <label class="quiet">
            <input type="checkbox" checked={idle} onChange={() => setIdle(!idle)} /> with those that have nothing to
            send
          </label>
        </section>
      )}
      <Listeners listeners={listeners} />
      {trunks.length > 0 && (
        <section aria-labelledby="trunks">
          <h2 id="trunks">Trunks</h2>
          <Scroll label="Trunks">
            <table>
              <thead>
                <tr>
                  <th scope="col">Trunk</th>
                  <th scope="col">State</th>
                  <th scope="col" class="number">
                    Streams
                  </th>
                  <th scope="col" class="number">
                    Connections
                  </th>
                  <th scope="col" class="number">
                    Payload
                  </th>
                  <th scope="col" class="number">
                    Waiting to leave
                  </th>
                </tr>
              </thead>
              <tbody>
                {trunks.map((trunk) => (
                  <tr key={`${trunk.name} ${trunk.session}`}>
                    <th scope="row">
                      <a href={to({ view: "trunks" })}>{trunk.name}</a>
                    </th>
                    <td class={trunk.up ? "good" : "bad"}>{trunk.up ? "up" : "down"}</td>
                    <td class="number">{trunk.streams}</td>
                    <td class="number">
                      {trunk.connections.length} of {trunk.wanted_connections}
                    </td>
                    <td class="number">{rate(lately(trunk.traffic))}</td>
                    <td class="number">{bytes(trunk.send_held_bytes)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </section>
      )}
      {listeners.length === 0 && trunks.length === 0 && <p class="quiet">No listener is open.</p>}
    </>
  );
}
