// Writes src/schema.ts: the types of everything the page is answered, from schema.json.

import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const schema = JSON.parse(await readFile(new URL("../schema.json", import.meta.url), "utf8"));
const types = await compile(schema, "Answer", {
  additionalProperties: false,
  bannerComment: "// Made by `npm run types` from schema.json, which `longhaul schema page` prints. Not for editing.",
});
await writeFile(new URL("../src/schema.ts", import.meta.url), types);
