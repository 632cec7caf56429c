// Builds ../assets from src, and notes in ../assets/sources.sha256 what it was built from and what came out.
// A test of the crate compares these digests, so that it needs no npm to see a bundle that is behind.

import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const page = new URL("../", import.meta.url);
const assets = new URL("../../assets/", import.meta.url);

await build({
  entryPoints: { page: new URL("src/main.tsx", page).pathname },
  outdir: assets.pathname,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome109", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  await writeFile(new URL(name, assets), await readFile(new URL(`src/${name}`, page)));
}

const digest = async (url) =>
  createHash("sha256")
    .update(await readFile(url))
    .digest("hex");
const sources = ["package.json", "package-lock.json", "schema.json", "tsconfig.json", "build/build.mjs"];
for (const entry of await readdir(new URL("src/", page), { recursive: true, withFileTypes: true })) {
  if (entry.isFile()) {
    sources.push(`${entry.parentPath.slice(page.pathname.length)}/${entry.name}`.replace("//", "/"));
  }
}
const lines = [];
for (const source of sources.sort()) {
  lines.push(`${await digest(new URL(source, page))}  page/${source}`);
}
for (const built of ["icon.svg", "index.html", "page.css", "page.js"]) {
  lines.push(`${await digest(new URL(built, assets))}  assets/${built}`);
}
await writeFile(new URL("sources.sha256", assets), `${lines.join("\n")}\n`);
