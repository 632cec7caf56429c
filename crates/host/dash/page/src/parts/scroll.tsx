// A wide table on a narrow screen scrolls by itself, and not the page around it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const [wide, setWide] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const measured = new ResizeObserver(() => setWide(element.scrollWidth > element.clientWidth));
    measured.observe(element);
    for (const child of element.children) measured.observe(child);
    return () => measured.disconnect();
  }, []);
  // What scrolls must be reached by the keyboard; what does not would be a stop for nothing.
  const reach = wide ? { tabIndex: 0, role: "region" as const, "aria-label": label } : {};
  return (
    <div ref={place} class="scroll" {...reach}>
      {children}
    </div>
  );
}
