// An installation as processes, its API, and its commands: `goalmill dev`, or two schedulers and a worker with Redis and PostgreSQL.

import { execFile, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { startServers } from "./servers.js";

/** A debug build serves the files of the source tree; `PROGRAM` names another one, whose page is the embedded one. */
const PROGRAM = process.env.PROGRAM || fileURLToPath(new URL("../../target/debug/goalmill", import.meta.url));
const LIMIT_MS = 60_000;
/** `SERVERS=1`: every test runs on Redis and PostgreSQL. */
const ALL_ON_SERVERS = process.env.SERVERS === "1";
const running = new Set();

/** Waits until `read` gives something. */
export async function until(what, read, limitMs = LIMIT_MS) {
  const end = Date.now() + limitMs;
  let last;
  for (;;) {
    try {
      const found = await read();
      if (found) return found;
    } catch (error) { last = error; }
    if (Date.now() > end) throw new Error(`${what}: not within ${limitMs / 1000} s${last ? `; last: ${last.message}` : ""}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const environment = { ...process.env, HOME: "/nowhere", NO_COLOR: "1" };
for (const name of ["GOALMILL_SERVER", "GOALMILL_REDIS_URL", "GOALMILL_CONFIG", "GOALMILL_TOKEN", "GOALMILL_CA_FILE"]) delete environment[name];

export class Goalmill {
  /** Starts it in a directory of its own; the data survive a restart. */
  static start(...options) { return Goalmill.startWith({}, ...options); }

  /** The same with variables of the environment. */
  static async startWith(variables, ...options) {
    const own = await Goalmill.prepare(variables);
    if (ALL_ON_SERVERS) await own.addServers();
    await own.spawn(options);
    return own;
  }

  /** Two schedulers and a worker, with servers of their own for Redis and PostgreSQL. */
  static async startOnServers(variables) {
    const own = await Goalmill.prepare(variables);
    await own.addServers();
    await own.spawn();
    return own;
  }

  static async prepare(variables) {
    const own = new Goalmill();
    own.environment = { ...environment, ...variables };
    own.folder = mkdtempSync(join(tmpdir(), "goalmill-browser-"));
    writeFileSync(join(own.folder, "goalmill.toml"), "");
    mkdirSync(join(own.folder, "data"));
    own.port = 0;
    /** The name that the page is opened with: cookies of `__Host-` need `localhost`. */
    own.host = "127.0.0.1";
    running.add(own);
    return own;
  }

  async addServers() {
    this.servers = await startServers(this.folder);
    this.environment = { ...this.environment, GOALMILL_REDIS_URL: this.servers.redis, GOALMILL__ARCHIVE__STORE: "postgres", GOALMILL_ARCHIVE_URL: this.servers.postgres };
  }

  /** Writes the settings of the next start. */
  configure(text) { writeFileSync(join(this.folder, "goalmill.toml"), text); }

  /** Starts its processes, and waits until the API answers and a worker serves. */
  async spawn(options = []) {
    const config = ["--config", join(this.folder, "goalmill.toml")];
    const api = ["--listen", `127.0.0.1:${this.port}`, "--metrics", "off", ...config, ...options];
    this.processes = [];
    if (this.servers) {
      const isUp = /the api listens on http:\/\/127\.0\.0\.1:(\d+)/;
      [, this.port] = await this.launch(isUp, "scheduler", ...api);
      // The page is of the first one; the second one has its share of the plans.
      await this.launch(isUp, "scheduler", "--listen", "127.0.0.1:0", "--metrics", "off", ...config, ...options);
      await this.launch(/worker \S+ runs/, "worker", "--demo", ...config);
    } else {
      [, this.port] = await this.launch(/http:\/\/127\.0\.0\.1:(\d+)\/v1[^]*Ctrl-C stops everything/, "dev", "--data-dir", join(this.folder, "data"), ...api);
    }
  }

  get url() { return `http://${this.host}:${this.port}`; }

  /** Starts a process, and waits until its output fits; gives the match. */
  async launch(isUp, ...words) {
    const log = createWriteStream(join(this.folder, "log"), { flags: "a" });
    const process = spawn(PROGRAM, words, { env: this.environment, stdio: ["ignore", "pipe", "pipe"] });
    let text = "", end = null;
    const take = (chunk) => { text += chunk; log.write(chunk); };
    process.stdout.on("data", take);
    process.stderr.on("data", take);
    const ended = new Promise((resolve) => process.on("exit", (code, signal) => { end = signal || code; resolve(); }));
    this.processes.push({ process, ended });
    return until(`goalmill ${words[0]} starts`, () => {
      if (end !== null) throw new Error(`it ended with ${end}: ${text}`);
      return isUp.exec(text);
    });
  }

  /** As `kill -9` does. */
  async kill() {
    for (const one of this.processes) one.process.kill("SIGKILL");
    await Promise.all(this.processes.map((one) => one.ended));
  }

  async call(method, path, body) {
    const response = await fetch(this.url + path, { method, headers: { "Content-Type": "application/json", ...(this.token && { Authorization: `Bearer ${this.token}` }) }, body: body === undefined ? undefined : JSON.stringify(body) });
    const value = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(value)}`);
    return value;
  }

  get(path) { return this.call("GET", path); }

  async submit(plan) { return (await this.call("POST", "/v1/plans", plan)).plan_id; }

  async submitGoal(goal) { return (await this.call("POST", "/v1/goals", goal)).plan_id; }

  /** Waits until the plan fits; gives it. */
  awaitPlan(id, fits) {
    return until(`plan ${id} fits`, async () => {
      const plan = await this.get(`/v1/plans/${id}`);
      return fits(plan) ? plan : null;
    });
  }

  awaitStatus(id, ...statuses) { return this.awaitPlan(id, (plan) => statuses.includes(plan.status)); }

  /** The standard output of a command. */
  run(...command) {
    return new Promise((resolve, reject) => {
      execFile(PROGRAM, [...command, "--server", this.url], { env: environment, maxBuffer: 1 << 28 }, (error, stdout, stderr) => (error ? reject(new Error(`goalmill ${command.join(" ")}: ${stderr || error.message}`)) : resolve(stdout)));
    });
  }

  log() { return readFileSync(join(this.folder, "log"), "utf8"); }

  async stop() {
    running.delete(this);
    if (this.processes) await this.kill();
    if (this.servers) await this.servers.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Stops every installation that a failed test has left. */
export const stopAll = () => Promise.all([...running].map((one) => one.stop()));
