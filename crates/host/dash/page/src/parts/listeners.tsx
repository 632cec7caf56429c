// Where clients come in.

import { bytes, count, percent } from "../format";
import type { Listener } from "../schema";
import { Scroll } from "./scroll";

export function Listeners({ listeners }: { listeners: readonly Listener[] }) {
  if (listeners.length === 0) return null;
  const requests = listeners.some((listener) => listener.requests != null);
  return (
    <section aria-labelledby="listeners">
      <h2 id="listeners">Listeners</h2>
      <Scroll label="Listeners">
        <table>
          <thead>
            <tr>
              <th scope="col">Listens on</th>
              <th scope="col">Target</th>
              <th scope="col" class="number">
                Clients
              </th>
              <th scope="col" class="number">
                So far
              </th>
              <th scope="col" class="number">
                Up
              </th>
              <th scope="col" class="number">
                Down
              </th>
              {requests && (
                <th scope="col" class="number">
                  Requests, hot
                </th>
              )}
              <th scope="col" class="number">
                Not completed
              </th>
            </tr>
          </thead>
          <tbody>
            {listeners.map((listener) => (
              <Row key={listener.listen} listener={listener} requests={requests} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Row({ listener, requests }: { listener: Listener; requests: boolean }) {
  const gone = Object.entries(listener.targets).filter(([, there]) => !there);
  const ended = Object.entries(listener.ended);
  const all = ended.reduce((sum, [, times]) => sum + times, 0);
  const broken = ended.filter(([by]) => by !== "completed");
  const hot = listener.requests ? (listener.requests_hot ?? 0) / listener.requests : 0;
  return (
    <tr>
      <th scope="row">
        <span class="mode">{listener.mode}</span> {listener.listen}
      </th>
      <td>
        {listener.target}
        {gone.map(([target]) => (
          <span key={target} class="bad">
            {target} is gone
          </span>
        ))}
      </td>
      <td class="number strong">{count(listener.clients)}</td>
      <td class="number">
        {count(listener.accepted)}
        {listener.refused > 0 && <span class="quiet"> +{count(listener.refused)} refused</span>}
      </td>
      <td class="number">{bytes(listener.bytes_up)}</td>
      <td class="number">{bytes(listener.bytes_down)}</td>
      {requests && (
        <td class="number">{listener.requests == null ? "–" : `${count(listener.requests)}, ${percent(hot)}`}</td>
      )}
      <td class="number" title={broken.map(([by, times]) => `${by}: ${times}`).join(", ")}>
        {broken.length === 0 ? "0" : broken.map(([by, times]) => `${count(times)} by ${by}`).join(", ")}
        <span class="quiet"> of {count(all)}</span>
      </td>
    </tr>
  );
}
