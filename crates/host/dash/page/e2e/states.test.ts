// Every state of the page, looked at: pictures, and what a machine can tell of their readability.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { barriers, open, picture, visit } from "./browser";
import { ALERTS, type Answers, connections, history, overview, pretend, TRUNKS } from "./pretend";

let browser: Browser;
before(async () => {
  browser = await open();
});
after(() => browser.close());

const busy: Answers = (path, query) => {
  if (path === "/v1/overview") return overview();
  if (path === "/v1/connections") return connections(2_000, query);
  return history(Number(path.split("/").at(-1)));
};
const troubled: Answers = (path) =>
  path === "/v1/overview" ? overview({ alerts: ALERTS, trunks: TRUNKS }) : undefined;
const empty: Answers = (path, query) => {
  if (path === "/v1/overview")
    return overview({
      listeners: overview()
        .listeners.slice(0, 1)
        .map((one) => ({ ...one, clients: 0 })),
      traffic: [],
    });
  return connections(0, query);
};

const STATES: [string, Answers, string, string][] = [
  ["overview", busy, "", "Traffic"],
  ["connections", busy, "#/connections", "1 to 100 of 2000"],
  ["connection", busy, "#/connections/7", "Time by what held it back"],
  ["trouble", troubled, "", "target-gone"],
  ["trunks", troubled, "#/trunks", "fra-sin"],
  ["empty", empty, "#/connections", "Nobody is connected"],
];

for (const [name, answers, hash, text] of STATES) {
  for (const scheme of ["light", "dark"] as const) {
    for (const width of [1600, 390]) {
      test(`${name}, ${scheme}, ${width} pixels wide, has no barriers and fits`, async () => {
        const server = await pretend(answers);
        const { page, wrong, close } = await visit(browser, `${server.url}/${hash}`, { width, height: 900, scheme });
        try {
          await page.getByText(text).first().waitFor();
          await picture(page, `${name}-${scheme}-${width}`);
          assert.deepEqual(await barriers(page), []);
          const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          assert.ok(wider <= 0, `${wider} pixels do not fit`);
          const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
          assert.equal(paper, scheme === "light" ? "rgb(255, 255, 255)" : "rgb(18, 23, 29)");
          assert.deepEqual(wrong, []);
        } finally {
          await close();
          await server.stop();
        }
      });
    }
  }
}

test("a process that is silent is said to be so, with the age of what is shown, and its return is seen", async () => {
  let silent = false;
  const server = await pretend((path, query) => (silent ? null : busy(path, query)));
  const { page, wrong, close } = await visit(browser, server.url, { height: 900 });
  try {
    await page.getByText("Nothing needs you").waitFor();
    silent = true;
    const alarm = page.getByRole("alert");
    await alarm.waitFor();
    assert.match((await alarm.textContent()) ?? "", /No answer\..*What is shown is from \d\d:\d\d:\d\d, \d+ s ago/);
    await page.getByRole("heading", { name: "Traffic" }).waitFor();
    assert.match(await page.title(), /^✗ /);
    await picture(page, "silent-light-1280");
    assert.deepEqual(await barriers(page), []);
    silent = false;
    await alarm.waitFor({ state: "detached" });
    await page.getByText("Nothing needs you").waitFor();
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    await server.stop();
  }
});

test("the colours that were chosen here are kept, whatever the system has", async () => {
  const server = await pretend(busy);
  const { page, close } = await visit(browser, server.url, { scheme: "dark" });
  try {
    await page.getByLabel("Colours").selectOption("light");
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await paper(), "rgb(255, 255, 255)");
    await page.reload();
    await page.getByText("Nothing needs you").waitFor();
    assert.equal(await paper(), "rgb(255, 255, 255)");
  } finally {
    await close();
    await server.stop();
  }
});
