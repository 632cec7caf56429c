// What the process answers, asked again and again while somebody looks.

import { useEffect, useRef, useState } from "preact/hooks";

/** A process that has not answered by then is not there. */
const PATIENCE_MS = 5_000;

/** What was answered last, and what has gone wrong since. */
export interface Live<T> {
  data: T | null;
  /** When it came, by the browser's steady clock. */
  at_ms: number;
  /** Why there was no newer answer. */
  problem: string | null;
  /** Whether the process says that there is no such thing. */
  gone: boolean;
}

/** Asks `path` every `every_ms`, or once where that is `null`. Nobody is asked while the page is hidden or `paused`. */
export function useLive<T>(path: string, every_ms: number | null, paused: boolean): Live<T> {
  const [live, setLive] = useState<Live<T> & { of: string }>(() => ({ ...nothing<T>(), of: path }));
  const pausedNow = useRef(paused);
  pausedNow.current = paused;
  useEffect(() => {
    const left = new AbortController();
    let timer: number | undefined;
    const ask = async () => {
      const idle = (pausedNow.current || document.hidden) && !left.signal.aborted;
      if (!idle) {
        const answer = await get<T>(path, left.signal);
        if (left.signal.aborted) return;
        setLive((before) => ({ ...merge(before.of === path ? before : nothing<T>(), answer), of: path }));
      }
      if (every_ms !== null) timer = window.setTimeout(ask, every_ms);
    };
    const shown = () => {
      if (document.hidden || every_ms === null) return;
      window.clearTimeout(timer);
      void ask();
    };
    void ask();
    document.addEventListener("visibilitychange", shown);
    return () => {
      left.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [path, every_ms]);
  // What another path answered is not shown as this one's, not even for the moment before its own answer.
  return live.of === path ? live : nothing<T>();
}

type Got<T> = { data: T } | { problem: string; gone: boolean };

async function get<T>(path: string, left: AbortSignal): Promise<Got<T>> {
  try {
    const signal = AbortSignal.any([left, AbortSignal.timeout(PATIENCE_MS)]);
    const response = await fetch(path, { signal });
    if (!response.ok) {
      const problem = `${response.status}: ${(await response.text()).trim()}`;
      return { problem, gone: response.status === 404 };
    }
    return { data: (await response.json()) as T };
  } catch (error) {
    const slow = error instanceof DOMException && error.name === "TimeoutError";
    return { problem: slow ? "it takes longer than 5 s to answer" : "it cannot be reached", gone: false };
  }
}

function merge<T>(before: Live<T>, got: Got<T>): Live<T> {
  if ("data" in got) return { data: got.data, at_ms: performance.now(), problem: null, gone: false };
  return { ...before, problem: got.problem, gone: got.gone };
}

function nothing<T>(): Live<T> {
  return { data: null, at_ms: performance.now(), problem: null, gone: false };
}

/** The browser's steady clock, moving on once a second. */
export function useNow(): number {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(performance.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
