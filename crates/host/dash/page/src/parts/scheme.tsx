// Light and dark: as the system says, or as was chosen here.

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

/** What was chosen. */
export type Choice = "system" | "light" | "dark";
/** What is shown. */
type Scheme = "light" | "dark";

const KEY = "longhaul.scheme";
const SchemeContext = createContext<Scheme>("light");

/** What is shown now: canvases must be painted anew when it changes. */
export const useScheme = () => useContext(SchemeContext);
export const SchemeProvider = SchemeContext.Provider;

/** What was chosen, what that makes, and how to choose. */
export function useChoice(): [Choice, Scheme, (choice: Choice) => void] {
  const [choice, setChoice] = useState<Choice>(remembered);
  const system = useSystem();
  const scheme = choice === "system" ? system : choice;
  useEffect(() => {
    document.documentElement.dataset.scheme = scheme;
  }, [scheme]);
  const choose = (next: Choice) => {
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    setChoice(next);
  };
  // Before anything is painted, and not only after it.
  document.documentElement.dataset.scheme = scheme;
  return [choice, scheme, choose];
}

function remembered(): Choice {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

function useSystem(): Scheme {
  const [query] = useState(() => matchMedia("(prefers-color-scheme: dark)"));
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return dark ? "dark" : "light";
}
