// The table of connections: what holds each direction back now, and for the last two minutes.

import { age, bytes, count, rate, span } from "../format";
import type { Connection, Connections, Way } from "../schema";
import { to } from "../route";
import { Band, LimitChip } from "./limit";
import { Scroll } from "./scroll";

/** What connections are sorted by. */
export type Sort = Connections["sort"];

const COLUMNS: readonly { head: string; sort?: Sort; className?: string }[] = [
  { head: "Client, server" },
  { head: "Held back by" },
  { head: "Last two minutes", sort: "held", className: "bands" },
  { head: "Goodput", sort: "goodput", className: "number" },
  { head: "So far", sort: "bytes", className: "number wide" },
  { head: "RTT", sort: "rtt", className: "number" },
  { head: "Sent again", sort: "retransmissions", className: "number wide" },
  { head: "Age", sort: "age", className: "number wide" },
];

export function ConnectionTable(props: {
  connections: readonly Connection[];
  at_s: number;
  sort: Sort;
  onSort: (sort: Sort) => void;
}) {
  const { connections, at_s, sort, onSort } = props;
  return (
    <Scroll label="Connections">
      <table class="connections" onKeyDown={walk}>
        <thead>
          <tr>
            {COLUMNS.map(({ head, sort: by, className }) => (
              <th key={head} scope="col" class={className} aria-sort={by === sort ? "descending" : undefined}>
                {by ? (
                  <button type="button" class="sort" aria-pressed={by === sort} onClick={() => onSort(by)}>
                    {head}
                    <span aria-hidden="true">{by === sort ? " ▾" : ""}</span>
                  </button>
                ) : (
                  head
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {connections.map((connection) => (
            <Row key={connection.id} connection={connection} at_s={at_s} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** Up and down, j and k go from row to row; Enter opens one, since each row is a link. */
function walk(event: KeyboardEvent & { currentTarget: HTMLTableElement }) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("tbody a")];
  const now = links.findIndex((link) => link === document.activeElement);
  const next = links[now + step];
  if (now < 0 || !next) return;
  event.preventDefault();
  next.focus();
}

function Row({ connection, at_s }: { connection: Connection; at_s: number }) {
  const { up, down, end } = connection;
  const lasted = (end?.at_s ?? at_s) - connection.opened_s;
  return (
    <tr>
      <th scope="row">
        <a href={to({ view: "connection", id: String(connection.id) })}>
          <span class="who">{connection.client ?? "pool"}</span>
          <span class="who quiet">{connection.server ?? (connection.client ? "hot pool" : "no target yet")}</span>
        </a>
      </th>
      <td>
        {end ? (
          <Ended connection={connection} at_s={at_s} />
        ) : (
          <Two up={up} down={down} of={(way) => <LimitChip limit={way.limit} />} />
        )}
      </td>
      <td class="bands">
        <Two up={up} down={down} of={(way, label) => <Band stretches={way.band} label={label} />} />
      </td>
      <td class="number">
        <Two up={up} down={down} of={(way) => rate(way.goodput_bps)} />
      </td>
      <td class="number wide">
        <Two up={up} down={down} of={(way) => bytes(way.bytes)} />
      </td>
      <td class="number">
        <Two up={up} down={down} of={(way) => span(way.rtt_s)} />
      </td>
      <td class="number wide">
        <Two
          up={up}
          down={down}
          of={(way) => (way.retransmissions > 0 ? count(way.retransmissions) : <span class="quiet">0</span>)}
        />
      </td>
      <td class="number wide">{age(lasted)}</td>
    </tr>
  );
}

/** A cell of two lines: towards the target, and towards the client. */
function Two(props: { up?: Way | null; down?: Way | null; of: (way: Way, label: string) => preact.ComponentChildren }) {
  const { up, down, of } = props;
  return (
    <>
      {up && (
        <div class="way">
          <span class="arrow" aria-label="up" title="towards the target">
            ↑
          </span>
          {of(up, "up")}
        </div>
      )}
      {down && (
        <div class="way">
          <span class="arrow" aria-label="down" title="towards the client">
            ↓
          </span>
          {of(down, "down")}
        </div>
      )}
    </>
  );
}

function Ended({ connection, at_s }: { connection: Connection; at_s: number }) {
  const { end } = connection;
  if (!end) return null;
  const well = end.by === "completed";
  return (
    <span class={well ? "quiet" : "bad"} title={end.error ?? undefined}>
      {well ? "completed" : `ended by ${end.by} (${end.phase})`} {age(at_s - end.at_s)} ago
    </span>
  );
}
