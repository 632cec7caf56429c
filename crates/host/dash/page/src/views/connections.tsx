// Connections: found, sorted, filtered by what holds them back.

import { useEffect, useRef, useState } from "preact/hooks";
import { count, counted } from "../format";
import { LIMITS, MEANING } from "../limits";
import { useLive } from "../live";
import { ConnectionTable, type Sort } from "../parts/connections";
import type { Connections, LimitName } from "../schema";

const PAGE = 100;

export function ConnectionsView({ paused }: { paused: boolean }) {
  const [sort, setSort] = useState<Sort>("goodput");
  const [find, setFind] = useState("");
  const [limit, setLimit] = useState<LimitName | null>(null);
  const [ended, setEnded] = useState(false);
  const [from, setFrom] = useState(0);
  const settled = useSettled(find);
  useEffect(() => setFrom(0), [sort, settled, limit, ended]);

  const question = new URLSearchParams({ sort, count: String(PAGE), from: String(from) });
  if (settled) question.set("find", settled);
  if (limit) question.set("limit", limit);
  if (ended) question.set("ended", "true");
  const { data, problem } = useLive<Connections>(`/v1/connections?${question}`, 1000, paused);
  // While another question is under way, the answer to the one before stays.
  const last = useRef<Connections | null>(null);
  if (data) last.current = data;
  const shown = data ?? last.current;
  const census = shown?.limits ?? {};
  const chips = LIMITS.filter((name) => (census[name] ?? 0) > 0 || name === limit);
  return (
    <section aria-labelledby="connections">
      <h2 id="connections">Connections</h2>
      <div class="tools">
        <input
          id="find"
          type="search"
          placeholder="Find an address"
          aria-label="Find connections by a part of an address"
          value={find}
          onInput={(event) => setFind(event.currentTarget.value)}
        />
        <div role="group" aria-label="Which connections" class="choice">
          <button type="button" aria-pressed={!ended} onClick={() => setEnded(false)}>
            Open <span class="quiet">{count(shown?.open ?? 0)}</span>
          </button>
          <button type="button" aria-pressed={ended} onClick={() => setEnded(true)}>
            Ended <span class="quiet">{count(shown?.ended ?? 0)}</span>
          </button>
        </div>
        <div role="group" aria-label="Held back now by" class="chips">
          {chips.map((name) => (
            <button
              key={name}
              type="button"
              class="chip"
              title={MEANING[name]}
              aria-pressed={limit === name}
              onClick={() => setLimit(limit === name ? null : name)}
            >
              <i class={`swatch limit-${name}`} aria-hidden="true" />
              {name} <b>{count(census[name] ?? 0)}</b>
            </button>
          ))}
        </div>
      </div>
      {!shown && <p class="quiet">{problem ? `No answer: ${problem}` : "Asking…"}</p>}
      {shown && shown.matching === 0 && <p class="empty">{nobody(ended, find, limit)}</p>}
      {shown && shown.matching > 0 && (
        <>
          <ConnectionTable connections={shown.shown} at_s={shown.at_s} sort={sort} onSort={setSort} />
          <Pages from={from} shown={shown.shown.length} matching={shown.matching} onGo={setFrom} />
        </>
      )}
    </section>
  );
}

function nobody(ended: boolean, find: string, limit: LimitName | null): string {
  if (find || limit) return "No connection is like that.";
  return ended ? "No connection has ended yet." : "Nobody is connected.";
}

function Pages({
  from,
  shown,
  matching,
  onGo,
}: {
  from: number;
  shown: number;
  matching: number;
  onGo: (from: number) => void;
}) {
  if (matching <= PAGE && from === 0) return <p class="quiet">{counted(matching, "connection")}</p>;
  return (
    <p class="pages">
      <button type="button" disabled={from === 0} onClick={() => onGo(Math.max(0, from - PAGE))}>
        Before
      </button>
      <span>
        {count(from + 1)} to {count(from + shown)} of {count(matching)}
      </span>
      <button type="button" disabled={from + shown >= matching} onClick={() => onGo(from + PAGE)}>
        Next
      </button>
    </p>
  );
}

/** A text once nobody has typed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text), 200);
    return () => window.clearTimeout(timer);
  }, [text]);
  return settled.trim();
}
