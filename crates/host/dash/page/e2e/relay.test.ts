// The page of a real relay, with real connections.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { open, picture, visit } from "./browser";
import { connect, relay, sink } from "./longhaul";

let browser: Browser;
before(async () => {
  browser = await open(["--host-resolver-rules=MAP evil.example 127.0.0.1"]);
});
after(() => browser.close());

const ADMIN = '[admin]\nlisten = "127.0.0.1:0"\n';

function tcp(target: string, more = ""): string {
  return `[[tcp]]\nlisten = "127.0.0.1:0"\ntarget = "${target}"\n${more}`;
}

async function rows(page: Page): Promise<number> {
  return page.locator("table.connections tbody tr").count();
}

test("a connection appears, tells what holds it back, and is among the ended ones when it is over", async () => {
  const service = await sink();
  const running = await relay(ADMIN + tcp(service.address));
  const { page, wrong, close } = await visit(browser, running.url);
  let sending: NodeJS.Timeout | undefined;
  try {
    const listener = running.listeners[0] ?? "";
    await page.getByRole("row", { name: listener }).waitFor();
    await page.getByText("Nothing needs you").waitFor();

    const client = await connect(listener);
    const own = `127.0.0.1:${client.localPort}`;
    sending = setInterval(() => client.write(Buffer.alloc(20_000)), 50);
    await page.getByRole("link", { name: "Connections" }).click();
    const row = page.getByRole("row", { name: own });
    await row.waitFor();
    await row.locator("svg.band rect").first().waitFor();
    await row.getByRole("link").click();

    const up = page.getByRole("article", { name: "Up, towards the target" });
    await up.locator("canvas").first().waitFor();
    assert.equal(await up.locator("canvas").count(), 4);
    await up.locator("table.limits").getByText("application").waitFor();
    await up
      .getByText(/^\d+(\.\d+)? [kM]bit\/s$/)
      .first()
      .waitFor();
    await picture(page, "real-connection");

    clearInterval(sending);
    client.end();
    await page.getByText("completed", { exact: false }).first().waitFor();
    await page.getByRole("link", { name: "← Connections" }).click();
    await page.getByText("Nobody is connected.").waitFor();
    await page.getByRole("button", { name: "Ended" }).click();
    await page.getByRole("row", { name: own }).getByText("completed").waitFor();
    assert.deepEqual(wrong, []);
  } finally {
    clearInterval(sending);
    await close();
    await running.stop();
    service.stop();
  }
});

test("everything is reached without a mouse", async () => {
  const service = await sink();
  const running = await relay(ADMIN + tcp(service.address));
  const clients: Socket[] = [];
  const { page, wrong, close } = await visit(browser, running.url);
  const address = () => page.evaluate(() => location.hash);
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");
  try {
    for (let client = 0; client < 3; client += 1) clients.push(await connect(running.listeners[0] ?? ""));
    await page.getByText("3 clients").waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "To the content");
    await page.keyboard.press("2");
    assert.equal(await address(), "#/connections");
    await page.locator("table.connections tbody tr").nth(2).waitFor();

    await page.keyboard.press("j");
    const first = await focused();
    await page.keyboard.press("ArrowDown");
    const second = await focused();
    assert.notEqual(first, second);
    await page.keyboard.press("k");
    assert.equal(await focused(), first, "rows stay where they are while they are walked");
    await page.keyboard.press("Enter");
    await page.locator("#connection").waitFor();
    assert.match(await address(), /^#\/connections\/\d+$/);
    await page.keyboard.press("Escape");
    assert.equal(await address(), "#/connections");

    await page.keyboard.press("/");
    await page.keyboard.type(`127.0.0.1:${clients[1]?.localPort}`);
    await page.getByText("1 connection", { exact: true }).waitFor();
    assert.equal(await rows(page), 1);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("p");
    await page.getByText(/^paused at/).waitFor();
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    for (const client of clients) client.destroy();
    await running.stop();
    service.stop();
  }
});

test("two thousand connections are counted, shown in pages, found and sorted", async () => {
  const service = await sink();
  const running = await relay(ADMIN + tcp(service.address));
  const clients: Socket[] = [];
  const { page, wrong, close } = await visit(browser, `${running.url}/#/connections`, { height: 900 });
  try {
    const listener = running.listeners[0] ?? "";
    while (clients.length < 2_000) {
      clients.push(...(await Promise.all(Array.from({ length: 100 }, () => connect(listener)))));
    }
    for (const client of clients.slice(0, 400)) client.write(Buffer.alloc(100_000));
    await page.getByText("1 to 100 of 2000").waitFor();
    assert.equal(await rows(page), 100);
    // So far: the largest first.
    await page.getByRole("button", { name: "So far" }).click();
    const top = page.locator("table.connections tbody tr").first();
    await top.getByText("100 kB").waitFor();
    await picture(page, "two-thousand", false);
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("101 to 200 of 2000").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type(`:${clients[1_234]?.localPort}`);
    await page.getByRole("row", { name: `127.0.0.1:${clients[1_234]?.localPort}` }).waitFor();
    assert.equal(await rows(page), 1);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    for (const client of clients) client.destroy();
    await running.stop();
    service.stop();
  }
});

test("a target that is gone is an alert, and so is a relay that is gone", async () => {
  const service = await sink();
  const gone = await sink();
  gone.stop();
  const balance = `[tcp.balance]\nalso = ["${gone.address}"]\ncheck-every = "200ms"\nfall = 1\n`;
  const running = await relay(ADMIN + tcp(service.address, balance));
  const { page, wrong, close } = await visit(browser, running.url, { scheme: "dark" });
  try {
    await page.getByText("target-gone").waitFor();
    await page.getByText(`${gone.address} is gone`).waitFor();
    assert.match(await page.title(), /^✗ /);
    await picture(page, "real-alert");
    assert.deepEqual(wrong, []);
    await running.stop();
    await page.getByRole("alert").getByText("No answer.").waitFor();
  } finally {
    await close();
    await running.stop();
    service.stop();
  }
});

test("hot pools are shown beside the clients of an HTTP relay", async () => {
  const { createServer } = await import("node:http");
  const origin = createServer((request, response) => {
    request.resume().on("end", () => response.end("ok"));
  });
  await new Promise<void>((listening) => origin.listen(0, "127.0.0.1", listening));
  const { port } = origin.address() as { port: number };
  const http = `[[http]]\nlisten = "127.0.0.1:0"\ntarget = "127.0.0.1:${port}"\n[http.pool]\nmin-idle = 2\n`;
  const running = await relay(ADMIN + http);
  const { page, wrong, close } = await visit(browser, `${running.url}/#/connections`);
  try {
    await page
      .getByRole("row", { name: `pool 127.0.0.1:${port}` })
      .first()
      .waitFor();
    const client = await connect(running.listeners[0] ?? "");
    client.write("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    await page.getByRole("row", { name: `127.0.0.1:${client.localPort} hot pool` }).waitFor();
    await page.keyboard.press("1");
    await page.getByRole("row", { name: "http" }).getByText(/^1, /).waitFor();
    client.destroy();
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    await running.stop();
    origin.closeAllConnections();
    origin.close();
  }
});

test("a name of somebody else that points here reads nothing", async () => {
  const service = await sink();
  const running = await relay(ADMIN + tcp(service.address));
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const { port } = new URL(running.url);
    const answer = await page.goto(`http://evil.example:${port}/v1/overview`);
    assert.equal(answer?.status(), 403);
    // And what a page of another origin asks for is kept from it.
    const elsewhere = await sink();
    await page.goto("about:blank");
    const read = await page.evaluate(
      (url) =>
        fetch(`${url}/v1/overview`).then(
          () => "read",
          () => "kept",
        ),
      running.url,
    );
    assert.equal(read, "kept");
    elsewhere.stop();
  } finally {
    await context.close();
    await running.stop();
    service.stop();
  }
});
