// Limits as a chip, as a band over time, and as a key to both.

import { age, percent, span } from "../format";
import { MEANING, present } from "../limits";
import type { LimitName, Stretch } from "../schema";

/** A limit by name, with its colour beside it. */
export function LimitChip({ limit }: { limit: LimitName | null | undefined }) {
  if (limit == null) return <span class="quiet">–</span>;
  return (
    <span class="limit" title={MEANING[limit]}>
      <i class={`swatch limit-${limit}`} aria-hidden="true" />
      {limit}
    </span>
  );
}

/** What a band covers, from its right end. */
export const BAND_S = 120;

/** What held a direction back, newest at the right end. */
export function Band({ stretches, label }: { stretches: readonly Stretch[]; label: string }) {
  let right = BAND_S;
  const parts = stretches.toReversed().flatMap(({ limit, seconds }) => {
    const width = Math.min(seconds, right);
    right -= width;
    return width > 0 ? [<rect key={right} x={right} width={width} y="0" height="10" class={`limit-${limit}`} />] : [];
  });
  const spoken = summary(stretches);
  return (
    <svg
      class="band"
      viewBox={`0 0 ${BAND_S} 10`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}: ${spoken}`}
    >
      <title>{spoken}</title>
      {parts}
    </svg>
  );
}

function summary(stretches: readonly Stretch[]): string {
  const all: Partial<Record<LimitName, number>> = {};
  for (const { limit, seconds } of stretches) all[limit] = (all[limit] ?? 0) + seconds;
  const parts = present(all).sort(([, one], [, other]) => other - one);
  return parts.length === 0 ? "nothing read yet" : parts.map(([name, seconds]) => `${name} ${age(seconds)}`).join(", ");
}

/** Time per limit with the share of each: what a picture shows, in words. */
export function LimitTable({ limits_s, caption }: { limits_s: Partial<Record<LimitName, number>>; caption: string }) {
  const parts = present(limits_s).sort(([, one], [, other]) => other - one);
  const all = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (parts.length === 0) return <p class="quiet">Nothing read yet.</p>;
  return (
    <table class="limits">
      <caption>{caption}</caption>
      <tbody>
        {parts.map(([name, seconds]) => (
          <tr key={name}>
            <th scope="row">
              <LimitChip limit={name} />
            </th>
            <td class="number">{span(seconds)}</td>
            <td class="number">{percent(seconds / all)}</td>
            <td class="quiet">{MEANING[name]}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** One bar of time per limit. */
export function LimitBar({
  limits_s,
  whole_s,
  label,
}: {
  limits_s: Partial<Record<LimitName, number>>;
  whole_s: number;
  label: string;
}) {
  let from = 0;
  const parts = present(limits_s);
  const spoken = parts.map(([name, seconds]) => `${name} ${span(seconds)}`).join(", ");
  return (
    <svg class="band bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={`${label}: ${spoken}`}>
      <title>{spoken}</title>
      {parts.map(([name, seconds]) => {
        const width = whole_s > 0 ? (seconds / whole_s) * 100 : 0;
        const x = from;
        from += width;
        return <rect key={name} x={x} width={width} y="0" height="10" class={`limit-${name}`} />;
      })}
    </svg>
  );
}
