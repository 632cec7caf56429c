// The frame around every view: how things stand, whether that is still true, and where to go.

import { useEffect, useRef, useState } from "preact/hooks";
import { age, clock } from "./format";
import { useLive, useNow } from "./live";
import { type Choice, SchemeProvider, useChoice } from "./parts/scheme";
import { Trunks } from "./parts/trunks";
import type { Overview } from "./schema";
import { type Route, to, useRoute } from "./route";
import { facts, verdict } from "./verdict";
import { ConnectionView } from "./views/connection";
import { ConnectionsView } from "./views/connections";
import { OverviewView } from "./views/overview";
import { ReportsView, ReportView } from "./views/reports";

/** What is shown is called old after three answers that did not come. */
const OLD_MS = 3_500;

export function Page() {
  const [choice, scheme, choose] = useChoice();
  const [paused, setPaused] = useState(false);
  const live = useLive<Overview>("/v1/overview", 1000, paused);
  const route = useRoute();
  const help = useRef<HTMLDialogElement>(null);
  const overview = live.data;
  const old_ms = Math.max(0, useNow() - live.at_ms);
  // One answer that is missed is not worth an alarm; none since the page was opened is.
  const silent = (old_ms > OLD_MS && !paused && overview !== null) || (live.problem !== null && overview === null);
  const views = overview ? viewsOf(overview) : [];
  const shown = route ?? views[0]?.route ?? { view: "overview" };
  useKeys(views, () => setPaused((before) => !before), help);
  useTitle(overview, silent);
  return (
    <SchemeProvider value={scheme}>
      <a class="skip" href="#main" onClick={skip}>
        To the content
      </a>
      <header>
        <h1>
          Longhaul <span class="quiet">{overview && serving(overview)}</span>
        </h1>
        <nav aria-label="Views">
          {views.map(({ name, route: there }, at) => (
            <a key={name} href={to(there)} aria-current={isBelow(shown, there) ? "page" : undefined}>
              <kbd aria-hidden="true">{at + 1}</kbd> {name}
            </a>
          ))}
        </nav>
        <div class="controls">
          <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)} title="Stop asking (p)">
            {paused ? "Paused" : "Pause"}
          </button>
          <select aria-label="Colours" value={choice} onChange={(event) => choose(event.currentTarget.value as Choice)}>
            <option value="system">Colours of the system</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
          <button type="button" onClick={() => help.current?.showModal()} aria-label="Keys" title="Keys (?)">
            ?
          </button>
        </div>
      </header>
      <Standing overview={overview} old_s={old_ms / 1000} problem={live.problem} silent={silent} paused={paused} />
      <main id="main" tabIndex={-1} class={silent ? "old" : ""}>
        {overview ? (
          <View route={shown} overview={overview} paused={paused} />
        ) : (
          !live.problem && <p class="quiet">Asking…</p>
        )}
      </main>
      <footer class="quiet">{overview && `${overview.longhaul}, running for ${age(overview.at_s)}`}</footer>
      <Keys dialog={help} />
    </SchemeProvider>
  );
}

/** How things stand, in one sentence; and whether that is still true. */
function Standing(props: {
  overview: Overview | null;
  old_s: number;
  problem: string | null;
  silent: boolean;
  paused: boolean;
}) {
  const { overview, old_s, problem, silent, paused } = props;
  const since = clock(Date.now() / 1000 - old_s);
  if (silent) {
    const then = overview ? ` What is shown is from ${since}, ${age(old_s)} ago.` : "";
    return (
      <div class="standing error" role="alert">
        <b>No answer.</b> The process behind this page {problem ? `did not answer: ${problem}.` : "is silent."}
        {then}
      </div>
    );
  }
  if (!overview) return <div class="standing" />;
  if (overview.serves === "lab") return null;
  const { tone, text } = verdict(overview);
  return (
    <div class={`standing ${tone}`} role="status">
      <b>{text}.</b>
      <span class="facts">
        {facts(overview).map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
        {paused && <span>paused at {since}</span>}
      </span>
    </div>
  );
}

function View({ route, overview, paused }: { route: Route; overview: Overview; paused: boolean }) {
  switch (route.view) {
    case "overview":
      return <OverviewView overview={overview} />;
    case "connections":
      return <ConnectionsView paused={paused} />;
    case "connection":
      return <ConnectionView id={route.id} started_unix_s={overview.started_unix_s} paused={paused} />;
    case "trunks":
      return <Trunks trunks={overview.trunks} started_unix_s={overview.started_unix_s} at_s={overview.at_s} />;
    case "reports":
      return <ReportsView paused={paused} />;
    case "report":
      return <ReportView id={route.id} />;
  }
}

interface Named {
  name: string;
  route: Route;
}

/** The views that have something to show. */
function viewsOf(overview: Overview): Named[] {
  if (overview.serves === "lab") return [{ name: "Reports", route: { view: "reports" } }];
  const views: Named[] = [{ name: "Overview", route: { view: "overview" } }];
  if (overview.serves === "relay") views.push({ name: "Connections", route: { view: "connections" } });
  if (overview.trunks.length > 0 || overview.serves === "trunk")
    views.push({ name: "Trunks", route: { view: "trunks" } });
  return views;
}

function serving(overview: Overview): string {
  return overview.host ? `${overview.serves} on ${overview.host}` : overview.serves;
}

/** Whether a view stands for the one that is shown: a connection is below the connections. */
function isBelow(shown: Route, there: Route): boolean {
  return shown.view === there.view || `${shown.view}s` === there.view;
}

/** Moves the focus without changing the address, which names the view. */
function skip(event: Event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function useTitle(overview: Overview | null, silent: boolean) {
  useEffect(() => {
    const host = overview?.host ? ` ${overview.host}` : "";
    const tone = overview && overview.serves !== "lab" ? verdict(overview).tone : "good";
    const mark = silent || tone === "error" ? "✗ " : tone === "warning" ? "! " : "";
    document.title = `${mark}Longhaul${host}`;
  }, [overview, silent]);
}

function useKeys(views: readonly Named[], pause: () => void, help: { current: HTMLDialogElement | null }) {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.ctrlKey || event.metaKey || event.altKey || help.current?.open) return;
      if (event.key === "Escape") {
        if (typing) event.target.blur();
        else if (/^#\/\w+\/./.test(location.hash)) location.hash = location.hash.replace(/^(#\/\w+)\/.*/, "$1");
        return;
      }
      if (typing) return;
      const view = views[Number(event.key) - 1];
      if (view) location.hash = to(view.route);
      else if (event.key === "p") pause();
      else if (event.key === "?") help.current?.showModal();
      else if (event.key === "/") document.getElementById("find")?.focus();
      else if (event.key === "j" || event.key === "ArrowDown") {
        // Into the table; from there on it walks by itself.
        const inside = document.activeElement?.closest("table.connections tbody");
        const first = document.querySelector<HTMLElement>("table.connections tbody a");
        if (inside || !first || (event.key === "ArrowDown" && document.activeElement !== document.body)) return;
        first.focus();
      } else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [views.map(({ name }) => name).join(), pause]);
}

const KEYS: readonly [string, string][] = [
  ["1 2 3", "go to a view"],
  ["j k, ↓ ↑", "from connection to connection"],
  ["Enter", "open a connection"],
  ["Esc", "back"],
  ["/", "find an address"],
  ["p", "pause, and go on"],
  ["?", "this list"],
];

function Keys({ dialog }: { dialog: { current: HTMLDialogElement | null } }) {
  return (
    <dialog ref={dialog} aria-labelledby="keys">
      <h2 id="keys">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        Close
      </button>
    </dialog>
  );
}
