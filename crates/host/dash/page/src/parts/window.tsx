// How far charts look back.

import { useState } from "preact/hooks";
import type { Moment } from "../schema";

/** What can be chosen, in seconds: the fine part of what is kept, the middle one, and all. */
const WINDOWS: readonly [number, string][] = [
  [120, "2 min"],
  [600, "10 min"],
  [2400, "40 min"],
];

/** How far back charts look, in seconds, and what chooses it. */
export function useWindow() {
  const [window_s, choose] = useState(600);
  const chooser = (
    <div role="group" aria-label="Charts look back" class="choice">
      {WINDOWS.map(([seconds, name]) => (
        <button key={seconds} type="button" aria-pressed={seconds === window_s} onClick={() => choose(seconds)}>
          {name}
        </button>
      ))}
    </div>
  );
  return { window_s, chooser };
}

/** The part of moments that lies in the last `window_s`. A moment that began before is cut, its shares kept. */
export function clip(moments: readonly Moment[], window_s: number, at_s: number): Moment[] {
  const from = at_s - window_s;
  return moments
    .filter(({ to_s }) => to_s > from)
    .map((moment) => {
      const seconds = Math.min(moment.seconds, moment.to_s - from);
      if (seconds === moment.seconds) return moment;
      const limits = Object.entries(moment.limits_s).map(([name, held]) => [name, (held * seconds) / moment.seconds]);
      return { ...moment, seconds, limits_s: Object.fromEntries(limits) as Moment["limits_s"] };
    });
}
