// Charts over time, drawn by uPlot.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clock, percent, rate } from "../format";
import { colourOf, LIMITS } from "../limits";
import type { LimitName, Moment } from "../schema";
import { useScheme } from "./scheme";

/** Charts of one group move their cursors together. */
type Group = string;

/** A line over time. */
export interface Line {
  label: string;
  /** The custom property of its colour, such as `--data`. */
  colour: string;
  /** A dash pattern, so that colour is not all that tells two lines apart. */
  dash?: number[];
  of: (moment: Moment) => number | null;
}

/** Lines over moments: a value stands for the whole of its moment. */
export function Lines(props: {
  title: string;
  group: Group;
  moments: readonly Moment[];
  started_unix_s: number;
  lines: readonly Line[];
  format: (value: number) => string;
}) {
  const { title, group, moments, started_unix_s, lines, format } = props;
  const options = (element: Element): Omit<uPlot.Options, "width" | "height"> => {
    const ink = inks(element);
    return {
      cursor: cursor(group),
      legend: { live: true },
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
      axes: [timeAxis(ink), valueAxis(ink, format)],
      series: [
        { label: "at", value: (_, at) => (at == null ? "–" : clock(at)) },
        ...lines.map(({ label, colour, dash }) => ({
          label,
          stroke: getComputedStyle(element).getPropertyValue(colour).trim(),
          width: 1.8,
          ...(dash ? { dash } : {}),
          ...steps(),
          spanGaps: false,
          points: { show: false },
          value: (_: uPlot, value: number | null) => (value == null ? "–" : format(value)),
        })),
      ],
    };
  };
  const values = lines.map(({ of }) => cornered(moments.map(of)));
  const data = [timesOf(moments, started_unix_s), ...values] as uPlot.AlignedData;
  const shape = lines.map((line) => line.label).join();
  return <Plot title={title} options={options} data={data} shape={shape} />;
}

/** Payload per second of moments. */
export function Goodput(props: { title: string; group: Group; moments: readonly Moment[]; started_unix_s: number }) {
  const line = { label: "payload", colour: "--data", of: ({ goodput_bps }: Moment) => goodput_bps };
  return <Lines {...props} lines={[line]} format={rate} />;
}

/** The ends of moments, behind the beginning of the first. */
function timesOf(moments: readonly Moment[], started_unix_s: number): number[] {
  const first = moments[0];
  if (!first) return [];
  return [first.to_s - first.seconds, ...moments.map(({ to_s }) => to_s)].map((at) => started_unix_s + at);
}

/** A value at the beginning too, so that the first step has a corner there. */
function cornered<T>(values: T[]): T[] {
  const [first] = values;
  return first === undefined ? [] : [first, ...values];
}

function steps(): Pick<uPlot.Series, "paths"> {
  const paths = uPlot.paths.stepped?.({ align: -1 });
  return paths ? { paths } : {};
}

/** What held, stacked: for one direction the share of each moment, for many how many of them. */
export function Stack(props: {
  title: string;
  group: Group;
  moments: readonly Moment[];
  started_unix_s: number;
  /** `share`: of one. `many`: of as many as there were. */
  of: "share" | "many";
  hide?: readonly LimitName[];
}) {
  const { title, group, moments, started_unix_s, of, hide = [] } = props;
  const names = LIMITS.filter(
    (name) => !hide.includes(name) && moments.some(({ limits_s }) => (limits_s[name] ?? 0) > 0),
  );
  const own = names.map((name) => {
    return cornered(moments.map(({ limits_s, seconds }) => (seconds > 0 ? (limits_s[name] ?? 0) / seconds : 0)));
  });
  const sums: number[][] = [];
  for (const values of own) {
    const below = sums.at(-1);
    sums.push(values.map((value, at) => value + (below?.[at] ?? 0)));
  }
  const format = of === "share" ? percent : some;
  const options = (element: Element): Omit<uPlot.Options, "width" | "height"> => {
    const ink = inks(element);
    return {
      cursor: cursor(group),
      legend: { live: true },
      scales: {
        x: { time: true },
        y: { range: of === "share" ? [0, 1] : (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
      },
      axes: [timeAxis(ink), valueAxis(ink, format)],
      series: [
        { label: "at", value: (_, at) => (at == null ? "–" : clock(at)) },
        // The tallest sum is painted first, and each one over it leaves its own part.
        ...names.toReversed().map((name) => ({
          label: name,
          fill: colourOf(name, element),
          width: 0,
          ...steps(),
          points: { show: false },
          value: (_: uPlot, __: number, ___: number, at: number | null) => {
            const value = at == null ? null : own[names.indexOf(name)]?.[at];
            return value == null ? "–" : format(value);
          },
        })),
      ],
    };
  };
  const data = [timesOf(moments, started_unix_s), ...sums.toReversed()] as uPlot.AlignedData;
  return <Plot title={title} options={options} data={data} shape={`${of} ${names.join()}`} />;
}

/** How many, on average over a moment. */
function some(value: number): string {
  return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1);
}

const HEIGHT = 168;

/** A uPlot that is made anew when its series or the colour scheme change, and otherwise only gets its data. */
function Plot(props: {
  title: string;
  options: (element: Element) => Omit<uPlot.Options, "width" | "height">;
  data: uPlot.AlignedData;
  shape: string;
}) {
  const { title, options, data, shape } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const scheme = useScheme();
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const size = () => ({ width: Math.max(element.clientWidth, 120), height: HEIGHT });
    const hooks = { setCursor: [newest], setData: [newest] };
    const made = new uPlot({ ...options(element), ...size(), hooks }, data, element);
    newest(made);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize(size()));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, scheme]);
  useEffect(() => plot.current?.setData(data));
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} />
    </figure>
  );
}

/** Where nobody points at a moment, the key tells the newest one. */
function newest(plot: uPlot) {
  const last = plot.data[0].length - 1;
  if (plot.cursor.idx == null && last >= 0) plot.setLegend({ idx: last }, false);
}

interface Inks {
  ink: string;
  grid: string;
  font: string;
}

function inks(element: Element): Inks {
  const style = getComputedStyle(element);
  return {
    ink: style.getPropertyValue("--muted").trim(),
    grid: style.getPropertyValue("--grid").trim(),
    font: `12px ${style.fontFamily}`,
  };
}

function cursor(group: Group): uPlot.Cursor {
  return { sync: { key: group }, y: false, drag: { x: false, y: false }, points: { show: false } };
}

function timeAxis({ ink, grid, font }: Inks): uPlot.Axis {
  return {
    stroke: ink,
    font,
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1 },
    space: 80,
    values: (_, times) => distinct(times.map((at) => clock(at))),
  };
}

/** What rounds to the same as the mark before is left blank. */
function distinct(marks: string[]): string[] {
  return marks.map((mark, at) => (mark === marks[at - 1] ? "" : mark));
}

function valueAxis({ ink, grid, font }: Inks, format: (value: number) => string): uPlot.Axis {
  return {
    stroke: ink,
    font,
    size: 78,
    grid: { stroke: grid, width: 1 },
    ticks: { show: false },
    values: (_, values) => distinct(values.map(format)),
  };
}
