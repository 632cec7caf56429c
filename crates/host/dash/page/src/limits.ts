// The common vocabulary of limits: order, words, and which of them somebody could do something about.

import type { LimitName } from "./schema";

/** From what should be seen first to what is no limit at all; bands are stacked in this order, upwards. */
export const LIMITS: readonly LimitName[] = [
  "loss-recovery",
  "loss-limited",
  "policer",
  "receive-window",
  "send-buffer",
  "nagle-delayed-ack",
  "congestion-avoidance",
  "slow-start",
  "bottleneck",
  "tls-handshake",
  "handshake",
  "propagation",
  "closing",
  "application",
  "unknown",
];

/** What a limit means, in the words of the lab's reports. */
export const MEANING: Record<LimitName, string> = {
  handshake: "TCP connection set-up",
  closing: "the exchange of FIN or RST",
  "tls-handshake": "TLS set-up",
  "loss-recovery": "lost segments are repaired",
  "receive-window": "the receiver's window is full",
  policer: "a policer drops what exceeds its rate",
  bottleneck: "the path's capacity is used",
  "slow-start": "the congestion window still grows from its start",
  "loss-limited": "losses keep the congestion window small",
  "congestion-avoidance": "the congestion window grows linearly",
  "send-buffer": "the sender's socket buffer is full",
  "nagle-delayed-ack": "a short segment waits for a delayed ACK",
  propagation: "all data is on its way",
  application: "nothing to send",
  unknown: "the kernel does not tell",
};

/** Whether a limit means that nothing holds the transfer back. */
export function isIdle(limit: LimitName): boolean {
  return limit === "application" || limit === "closing";
}

/** The limits that are there, in stacking order. */
export function present(limits: Partial<Record<LimitName, number>>): [LimitName, number][] {
  return LIMITS.flatMap((name) => {
    const seconds = limits[name] ?? 0;
    return seconds > 0 ? [[name, seconds] as [LimitName, number]] : [];
  });
}

/** The colour of a limit, as the style sheet has it for the present scheme. */
export function colourOf(limit: LimitName, element: Element): string {
  return getComputedStyle(element).getPropertyValue(`--limit-${limit}`).trim();
}
