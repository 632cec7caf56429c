// The page of `longhaul lab view`, over results that the real binary wrote.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { barriers, open, PAGE, picture, visit } from "./browser";
import { labView, output } from "./longhaul";

let browser: Browser;
before(async () => {
  browser = await open();
});
after(() => browser.close());

/** The simulator's result has the shape of the lab's. */
async function result(): Promise<string> {
  return output(["simulate", join(PAGE, "../../../../scenarios/field/c-uploads.toml"), "--json"]);
}

test("results appear as they are written, with their verdict, and open", async () => {
  const folder = await mkdtemp(join(tmpdir(), "longhaul-page-"));
  const lab = await labView(folder);
  const { page, wrong, close } = await visit(browser, lab.url, { height: 900 });
  try {
    await page.getByText("There is no result below this folder yet.").waitFor();
    const run = join(folder, "field/c-uploads");
    await mkdir(run, { recursive: true });
    const text = await result();
    const { scenario, cells } = JSON.parse(text) as { scenario: string; cells: { workload: string }[] };
    await writeFile(join(run, "result.json"), text);
    await mkdir(join(folder, "broken"));
    await writeFile(join(folder, "broken/result.json"), "{");
    const link = page.getByRole("link", { name: scenario });
    await link.waitFor();
    await page.getByText("is no result of the lab").waitFor();
    assert.deepEqual(await barriers(page), []);
    await picture(page, "lab-reports");
    await link.click();
    await page
      .getByRole("heading", { name: cells[0]?.workload ?? "-" })
      .first()
      .waitFor();
    await page.locator("svg.bar rect").first().waitFor();
    assert.deepEqual(await barriers(page), []);
    await picture(page, "lab-report");
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    await lab.stop();
    await rm(folder, { recursive: true });
  }
});

test("a report's own script runs, and can ask nobody", async () => {
  const folder = await mkdtemp(join(tmpdir(), "longhaul-page-"));
  await writeFile(join(folder, "result.json"), await result());
  const script = `
    document.title = "ran";
    fetch("/v1/reports").then(() => { document.title = "read"; }, () => { document.title = "kept"; });`;
  await writeFile(join(folder, "report.html"), `<!doctype html><title>-</title><script>${script}</script>`);
  const lab = await labView(folder);
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    await page.goto(`${lab.url}/v1/reports/page?id=.`);
    await page.waitForFunction(() => ["read", "kept"].includes(document.title));
    assert.equal(await page.title(), "kept");
  } finally {
    await context.close();
    await lab.stop();
    await rm(folder, { recursive: true });
  }
});
