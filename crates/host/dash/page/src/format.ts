// Quantities for people. Three significant digits, one unit, never a bare number.

const NONE = "–";

/** Bits per second. */
export function rate(bps: number | null | undefined): string {
  if (bps == null) return NONE;
  if (bps < 1) return "0";
  return scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
}

/** Bytes, by thousands. */
export function bytes(count: number | null | undefined): string {
  if (count == null) return NONE;
  return scaled(count, ["B", "kB", "MB", "GB", "TB", "PB"]);
}

/** A count. */
export function count(value: number): string {
  return value < 10_000 ? String(value) : value.toLocaleString("en-GB");
}

/** A count and its noun. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A short time, such as a round trip. */
export function span(seconds: number | null | undefined): string {
  if (seconds == null) return NONE;
  if (seconds <= 0) return "0";
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}

/** A long time, such as an age: its two largest units. */
export function age(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  const shown = parts.slice(first, first + 2).filter(([value]) => value > 0);
  return shown.map(([value, unit]) => `${value} ${unit}`).join(" ");
}

/** A share of one. */
export function percent(share: number): string {
  if (share > 0 && share < 0.005) return "<1 %";
  return `${Math.round(share * 100)} %`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** The time of day, of seconds since 1970. */
export function clock(unix_s: number): string {
  return CLOCK.format(new Date(unix_s * 1000));
}

/** Day and time, of seconds since 1970. */
export function date(unix_s: number): string {
  return DATE.format(new Date(unix_s * 1000));
}

function scaled(value: number, units: readonly string[]): string {
  let scale = 0;
  let left = value;
  // What would be rounded to 1000 takes the next unit.
  while (left >= 999.5 && scale < units.length - 1) {
    left /= 1000;
    scale += 1;
  }
  // Below a thousand bytes or bits there are no parts of one.
  return `${scale === 0 ? Math.round(left) : digits(left)} ${units[scale]}`;
}

/** Three significant digits, so that a figure that changes keeps its width. */
function digits(value: number): string {
  return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}
