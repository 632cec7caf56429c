// What the lab has measured.

import { count, counted, date, percent, rate, span } from "../format";
import { useLive } from "../live";
import { LimitBar, LimitTable } from "../parts/limit";
import type { Arm, Cell, Document, Report, Reports } from "../schema";
import { to } from "../route";
import { Scroll } from "../parts/scroll";

export function ReportsView({ paused }: { paused: boolean }) {
  const { data, problem } = useLive<Reports>("/v1/reports", 2000, paused);
  return (
    <section aria-labelledby="reports">
      <h2 id="reports">Reports of the lab</h2>
      {!data && <p class="quiet">{problem ? `No answer: ${problem}` : "Asking…"}</p>}
      {data && data.reports.length === 0 && data.unreadable.length === 0 && (
        <p class="empty">
          There is no result below this folder yet. <code>longhaul lab run SCENARIO --out DIR</code> writes one.
        </p>
      )}
      {data && data.reports.length > 0 && (
        <Scroll label="Reports">
          <table>
            <thead>
              <tr>
                <th scope="col">Scenario</th>
                <th scope="col">Verdict</th>
                <th scope="col" class="number">
                  Cells
                </th>
                <th scope="col">Folder</th>
                <th scope="col">Written</th>
              </tr>
            </thead>
            <tbody>
              {data.reports.map((report) => (
                <tr key={report.id}>
                  <th scope="row">
                    <a href={to({ view: "report", id: report.id })}>{report.scenario}</a>
                  </th>
                  <td>
                    <Verdict report={report} />
                  </td>
                  <td class="number">{count(report.cells)}</td>
                  <td>
                    <code>{report.id}</code>
                  </td>
                  <td>{date(report.written_unix_s)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {data?.unreadable.map(({ id, why }) => (
        <p key={id} class="bad">
          <code>{id}</code> {why}
        </p>
      ))}
    </section>
  );
}

function Verdict({ report }: { report: Report }) {
  const said = [];
  if (report.interrupted) said.push("cut short");
  if (report.invalid_cells > 0) said.push(`${counted(report.invalid_cells, "cell")} on a path that was off`);
  if (report.broken_assertions > 0)
    said.push(`${report.broken_assertions} of ${counted(report.assertions, "assertion")} fail`);
  if (said.length > 0) return <span class="bad">{said.join(", ")}</span>;
  return (
    <span class="good">
      {report.assertions > 0 ? `all ${counted(report.assertions, "assertion")} hold` : "measured, nothing asserted"}
    </span>
  );
}

export function ReportView({ id }: { id: string }) {
  const { data, problem, gone } = useLive<Document>(`/v1/reports/document?id=${encodeURIComponent(id)}`, null, false);
  const listed = useLive<Reports>("/v1/reports", null, false).data?.reports.find((report) => report.id === id);
  const back = (
    <p>
      <a href={to({ view: "reports" })}>← Reports</a>
    </p>
  );
  if (!data) {
    const why = gone ? "There is no such report." : problem ? `No answer: ${problem}` : "Asking…";
    return (
      <section>
        {back}
        <p class="empty">{why}</p>
      </section>
    );
  }
  const { manifest } = data;
  return (
    <section aria-labelledby="report">
      {back}
      <h2 id="report">{data.scenario}</h2>
      <p class="facts">
        <span>{manifest.started_at ?? "start not recorded"}</span>
        <span>seed {data.seed}</span>
        <span>{manifest.machine}</span>
        <span>kernel {manifest.kernel}</span>
        <span>longhaul {manifest.longhaul}</span>
        {listed?.has_page && (
          <a href={`/v1/reports/page?id=${encodeURIComponent(id)}`}>The whole report, with pictures</a>
        )}
      </p>
      {data.interrupted && <p class="bad">This run was cut short: what is here was measured, the rest is missing.</p>}
      {data.assertions.length > 0 && (
        <ul class="assertions">
          {data.assertions.map(({ text, holds, detail }) => (
            <li key={text} class={holds ? "holds" : "fails"}>
              <b>{holds ? "✓ holds" : "✗ fails"}</b> <code>{text}</code> <span class="quiet">{detail}</span>
            </li>
          ))}
        </ul>
      )}
      {data.cells.map((cell, at) => (
        <CellPart key={at} cell={cell} />
      ))}
      {manifest.command && (
        <>
          <h3>Repeat it</h3>
          <pre>
            <code>{manifest.command}</code>
          </pre>
        </>
      )}
    </section>
  );
}

function CellPart({ cell }: { cell: Cell }) {
  const factors = Object.entries(cell.factors).map(([factor, value]) => `${factor} = ${value}`);
  const times = cell.measure !== "rate";
  const whole_s = Math.max(...cell.arms.map(total));
  return (
    <article>
      <h3>
        {cell.workload} {factors.length > 0 && <span class="quiet">{factors.join(", ")}</span>}
      </h3>
      {!cell.valid && <p class="bad">The path was not what the scenario says: {cell.why}</p>}
      <Scroll label="Arms">
        <table>
          <caption>
            {times
              ? `No design takes less than ${span(cell.floor_s)}`
              : `No design carries more than ${rate(cell.ceiling_bps)}`}
          </caption>
          <thead>
            <tr>
              <th scope="col">Arm</th>
              <th scope="col" class="number">
                {times ? "Median" : "Goodput"}
              </th>
              <th scope="col" class="number">
                95 % interval
              </th>
              <th scope="col" class="number">
                Of the floor
              </th>
              <th scope="col" class="number">
                n, failed
              </th>
              <th scope="col">Where the time went</th>
            </tr>
          </thead>
          <tbody>
            {cell.arms.map((arm) => (
              <tr key={arm.name}>
                <th scope="row">{arm.name}</th>
                <td class="number strong">{times ? span(arm.median_s) : rate(arm.goodput_bps)}</td>
                <td class="number">{times ? interval(arm.ci95_s, span) : interval(arm.goodput_ci95_bps, rate)}</td>
                <td class="number">{arm.share_of_floor == null ? "–" : percent(arm.share_of_floor)}</td>
                <td class="number">
                  {arm.n}, {arm.failed > 0 ? <b class="bad">{arm.failed}</b> : 0}
                </td>
                <td class="bands">
                  <LimitBar limits_s={arm.limits} whole_s={whole_s} label={arm.name} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <details>
        <summary>Time by limit, arm by arm</summary>
        {cell.arms.map((arm) => (
          <LimitTable key={arm.name} limits_s={arm.limits} caption={arm.name} />
        ))}
      </details>
    </article>
  );
}

function total(arm: Arm): number {
  return Object.values(arm.limits).reduce((sum, seconds) => sum + seconds, 0);
}

function interval(ends: readonly unknown[] | null | undefined, format: (value: number) => string): string {
  if (!ends) return "–";
  const [from, until] = ends;
  return typeof from === "number" && typeof until === "number" ? `${format(from)} to ${format(until)}` : "–";
}
