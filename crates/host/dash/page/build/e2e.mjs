// Bundles e2e/*.test.ts and runs them by node's own test runner, in a browser that is there.
// npm test [-- NAME…]: only the files whose name contains one of these.

import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const page = new URL("../", import.meta.url).pathname;
const wanted = process.argv.slice(2);
const all = (await readdir(join(page, "e2e"))).filter((name) => name.endsWith(".test.ts"));
const tests = all.filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
if (tests.length === 0) {
  console.error(`no test is called like ${wanted.join(" or ")}: ${all.join(", ")}`);
  process.exit(2);
}
// Beside node_modules, where the browser's driver is found.
const outdir = await mkdtemp(join(page, "node_modules", ".e2e-"));
try {
  await build({
    entryPoints: tests.map((name) => join(page, "e2e", name)),
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["playwright-core"],
    loader: { ".js": "js" },
    sourcemap: "inline",
    logLevel: "warning",
  });
  const files = tests.map((name) => join(outdir, name.replace(/\.ts$/, ".mjs")));
  // One file after the other: they share two cores with the relays that they look at.
  // Each ends by itself; one that hangs is ended, and fails. The bound is on a file with all its tests: twenty of them, each
  // of them a new browser window, take three minutes beside compilers.
  const run = spawnSync(
    process.execPath,
    ["--enable-source-maps", "--test", "--test-concurrency=1", "--test-timeout=600000", ...files],
    {
      stdio: "inherit",
      env: { ...process.env, LONGHAUL_PAGE: page },
    },
  );
  process.exitCode = run.status ?? 1;
} finally {
  await rm(outdir, { recursive: true });
}
