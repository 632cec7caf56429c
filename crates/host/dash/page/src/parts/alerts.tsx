// What somebody should look at.

import { age, counted } from "../format";
import type { Alert } from "../schema";
import { standing } from "../verdict";

/** Alerts, the standing ones first. */
export function Alerts({ alerts, at_s }: { alerts: readonly Alert[]; at_s: number }) {
  const open = standing(alerts, at_s);
  const past = alerts.filter((alert) => !open.includes(alert));
  return (
    <section aria-labelledby="alerts">
      <h2 id="alerts">{open.length === 0 ? "No alerts" : "Alerts"}</h2>
      {open.length > 0 && (
        <ul class="alerts">
          {open.map((alert) => (
            <Item key={alert.id} alert={alert} at_s={at_s} />
          ))}
        </ul>
      )}
      {past.length > 0 && (
        <details>
          <summary>{counted(past.length, "earlier alert")}</summary>
          <ul class="alerts past">
            {past.map((alert) => (
              <Item key={alert.id} alert={alert} at_s={at_s} />
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Item({ alert, at_s }: { alert: Alert; at_s: number }) {
  const times = alert.count > 1 ? `, ${alert.count} times since ${age(at_s - alert.first_s)} ago` : "";
  const cleared = alert.cleared_s == null ? "" : `, over since ${age(at_s - alert.cleared_s)}`;
  return (
    <li class={`alert ${alert.severity}`}>
      <b class="severity">{alert.severity}</b> <code>{alert.name}</code> {alert.about && <b>{alert.about}</b>}
      <span class="quiet when">
        {age(at_s - alert.last_s)} ago{times}
        {cleared}
      </span>
      <p>{alert.text}</p>
    </li>
  );
}
