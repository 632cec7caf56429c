// Which view is shown: it stands in the address, so that it can be sent to a colleague.

import { useEffect, useState } from "preact/hooks";

/** A view of the page. */
export type Route =
  | { view: "overview" }
  | { view: "connections" }
  | { view: "connection"; id: string }
  | { view: "trunks" }
  | { view: "reports" }
  | { view: "report"; id: string };

/** Reads the part of an address after `#`. */
export function parse(hash: string): Route | null {
  const [view = "", ...rest] = hash.replace(/^#?\/?/, "").split("/");
  const id = decode(rest.join("/"));
  switch (view) {
    case "":
      return null;
    case "overview":
    case "trunks":
      return { view };
    case "connections":
      return id ? { view: "connection", id } : { view };
    case "reports":
      return id ? { view: "report", id } : { view };
    default:
      return null;
  }
}

/** The address of a view. */
export function to(route: Route): string {
  switch (route.view) {
    case "connection":
      return `#/connections/${encodeURIComponent(route.id)}`;
    case "report":
      return `#/reports/${encodeURIComponent(route.id)}`;
    default:
      return `#/${route.view}`;
  }
}

/** The view that the address names, now; `null` where it names none. */
export function useRoute(): Route | null {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parse(location.hash));
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
