// The real binary, and peers for it.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PAGE } from "./browser";

const BINARY = process.env["LONGHAUL_BINARY"] ?? join(PAGE, "../../../../target/debug/longhaul");
/** Nothing here takes longer, unless something is wrong. */
const PATIENCE_MS = 30_000;

/** An event of the relay, as `--json` prints it. */
type Event = { event: string } & Record<string, unknown>;

/** A process of `longhaul`, to be stopped in the end. */
export interface Longhaul {
  /** The first line that says this. */
  told: (what: (event: Event) => boolean) => Promise<Event>;
  stop: () => Promise<void>;
}

function start(args: string[]): ChildProcess {
  if (!existsSync(BINARY)) throw new Error(`no ${BINARY}: \`make build\`, or name one by LONGHAUL_BINARY`);
  return spawn(BINARY, args, { stdio: ["pipe", "pipe", "pipe"] });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((exit) => child.once("exit", exit));
  child.kill("SIGKILL");
  await ended;
}

/** A relay by this configuration; its page's address, and those of its listeners in their order. */
export async function relay(config: string): Promise<Longhaul & { url: string; listeners: string[] }> {
  const child = start(["relay", "run", "--config", "-", "--json"]);
  const events: Event[] = [];
  let heard: () => void = () => {};
  createInterface({ input: child.stdout! }).on("line", (line) => {
    events.push(JSON.parse(line) as Event);
    heard();
  });
  let complaint = "";
  child.stderr!.on("data", (text) => {
    complaint += String(text);
  });
  child.once("exit", () => heard());
  child.stdin!.end(config);
  const told = async (what: (event: Event) => boolean): Promise<Event> => {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = events.find(what);
      if (found) return found;
      if (child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`the relay did not say it: ${complaint} ${JSON.stringify(events.slice(-3))}`);
      }
      await new Promise<void>((go) => {
        heard = go;
        setTimeout(go, 1_000).unref();
      });
    }
  };
  await told(({ event }) => event === "ready");
  const admin = await told(({ event }) => event === "admin");
  const listeners = events.filter(({ event }) => event === "listening").map(({ address }) => String(address));
  return { told, stop: () => stop(child), url: `http://${String(admin["address"])}`, listeners };
}

/** `longhaul lab view` of a folder, and its page's address. */
export async function labView(folder: string): Promise<{ url: string; stop: () => Promise<void> }> {
  const child = start(["lab", "view", folder, "--listen", "127.0.0.1:0"]);
  let said = "";
  const url = await new Promise<string>((found, failed) => {
    child.stderr!.on("data", (text) => {
      said += String(text);
      const address = /http:\/\/[\d.:]+/.exec(said);
      if (address) found(address[0]);
    });
    child.once("exit", () => failed(new Error(said)));
  });
  return { url, stop: () => stop(child) };
}

/** Runs `longhaul` to its end; what it prints. */
export async function output(args: string[]): Promise<string> {
  const child = start(args);
  let printed = "";
  child.stdout!.on("data", (text) => {
    printed += String(text);
  });
  const code = await new Promise((exit) => child.once("exit", exit));
  // 1 is an assertion of a scenario that does not hold.
  if (code !== 0 && code !== 1) throw new Error(`longhaul ${args.join(" ")} ended with ${String(code)}`);
  return printed;
}

/** A service that takes what comes and says nothing, and its address. */
export async function sink(): Promise<{ address: string; stop: () => void }> {
  const open = new Set<Socket>();
  const server: Server = createServer((socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    socket.on("error", () => {});
    socket.resume();
  });
  await new Promise<void>((listening) => server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, listening));
  const { port } = server.address() as { port: number };
  return {
    address: `127.0.0.1:${port}`,
    stop: () => {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}

/** A client of a listener. */
export async function connect(address: string): Promise<Socket> {
  const at = address.lastIndexOf(":");
  const socket = createConnection({ host: address.slice(0, at), port: Number(address.slice(at + 1)) });
  socket.on("error", () => {});
  await new Promise<void>((connected, failed) => socket.once("connect", connected).once("error", failed));
  return socket;
}
