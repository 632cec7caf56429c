// A real browser without a window, and pictures of what it shows.

import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";

/** The folder of the page's sources, as `npm test` says. */
export const PAGE = process.env["LONGHAUL_PAGE"] ?? process.cwd();
/** Where pictures go: artefacts, not sources. */
export const PICTURES = process.env["LONGHAUL_PICTURES"] ?? join(PAGE, "../../../../out/page");

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Starts the browser. One that is not there is an error, never a test that passes. */
export async function open(more: string[] = []): Promise<Browser> {
  const named = process.env["LONGHAUL_CHROMIUM"];
  const executablePath = named ?? PLACES.find((place) => existsSync(place));
  if (!executablePath || !existsSync(executablePath)) {
    throw new Error("no Chromium: install Debian's `chromium`, or name one by LONGHAUL_CHROMIUM");
  }
  // Chromium has no sandbox for root.
  const args = process.getuid?.() === 0 ? ["--no-sandbox", ...more] : more;
  return chromium.launch({ executablePath, args });
}

/** A page on which nothing may go wrong: no error in its console, nothing refused by its policy, no other host asked. */
export async function visit(
  browser: Browser,
  url: string,
  options: { width?: number; height?: number; scheme?: "light" | "dark" } = {},
) {
  const { width = 1280, height = 800, scheme = "light" } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  const wrong: string[] = [];
  page.on("console", (message) => {
    // A process that is gone is what some tests are about; the browser reports it beside the page.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) wrong.push(`asks ${request.url()}`);
  });
  await page.goto(url);
  return { page, wrong, close: () => context.close() };
}

/** A picture of the whole page below `out/page`. */
export async function picture(page: Page, name: string, fullPage = true): Promise<void> {
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage, animations: "disabled" });
}

/** What axe-core finds wrong with a page for people who cannot see, or use no mouse: WCAG 2.2 A and AA. */
export async function barriers(page: Page): Promise<string[]> {
  const source = await readFile(createRequire(join(PAGE, "package.json")).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(source);
  return page.evaluate(async () => {
    interface Found {
      violations: { id: string; help: string; nodes: { html: string; any: { message: string }[] }[] }[];
    }
    const { axe } = globalThis as unknown as { axe: { run: (on: Document, options: object) => Promise<Found> } };
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
    const { violations } = await axe.run(document, { runOnly: tags });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ html, any }) => `${id}: ${help}: ${html} ${any.map(({ message }) => message).join()}`),
    );
  });
}
