// One sentence that says how things stand.

import { counted, rate } from "./format";
import type { Alert, Moment, Overview } from "./schema";

/** How things stand. */
export interface Verdict {
  tone: "good" | "warning" | "error";
  text: string;
}

/** Alerts that somebody should still look at: what lasts, and what happened within the last quarter of an hour. */
export function standing(alerts: readonly Alert[], at_s: number): Alert[] {
  return alerts.filter((alert) => alert.cleared_s == null && at_s - alert.last_s < 900);
}

/** How things stand, of a relay or a trunk. */
export function verdict(overview: Overview): Verdict {
  const open = standing(overview.alerts, overview.at_s);
  const worst = open.find((alert) => alert.severity === "error") ?? open[0];
  const down = overview.trunks.filter((trunk) => !trunk.up);
  if (worst) {
    const more = open.length > 1 ? `, and ${counted(open.length - 1, "more alert")}` : "";
    return { tone: worst.severity, text: `${worst.about ? `${worst.about}: ` : ""}${worst.text}${more}` };
  }
  if (down.length > 0) {
    const names = down.map((trunk) => trunk.name).join(", ");
    return { tone: "error", text: `${counted(down.length, "trunk")} without a working connection: ${names}` };
  }
  if (overview.draining) return { tone: "warning", text: "Draining: no new clients are let in" };
  return { tone: "good", text: "Nothing needs you" };
}

/** Payload per second of late: the mean of the last moments, so that the figure does not flicker. */
export function lately(traffic: readonly Moment[]): number {
  const last = traffic.slice(-3);
  const seconds = last.reduce((sum, moment) => sum + moment.seconds, 0);
  const bits = last.reduce((sum, moment) => sum + moment.goodput_bps * moment.seconds, 0);
  return seconds > 0 ? bits / seconds : 0;
}

/** The facts beside it. */
export function facts(overview: Overview): string[] {
  const clients = overview.listeners.reduce((sum, one) => sum + one.clients, 0);
  const said = [];
  if (overview.listeners.length > 0) said.push(counted(overview.listeners.length, "listener"));
  if (overview.trunks.length > 0) said.push(counted(overview.trunks.length, "trunk"));
  said.push(counted(clients, "client"));
  if (overview.traffic.length > 0) said.push(`${rate(lately(overview.traffic))} of payload`);
  return said;
}
