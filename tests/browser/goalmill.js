// `goalmill dev` as a process, its API, and its commands.

import { execFile, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A debug build serves the files of the source tree; `PROGRAM` names another one, whose page is the embedded one. */
const PROGRAM = process.env.PROGRAM || fileURLToPath(new URL("../../target/debug/goalmill", import.meta.url));
const LIMIT_MS = 60_000;
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
    const own = new Goalmill();
    own.environment = { ...environment, ...variables };
    own.folder = mkdtempSync(join(tmpdir(), "goalmill-browser-"));
    writeFileSync(join(own.folder, "goalmill.toml"), "");
    mkdirSync(join(own.folder, "data"));
    own.address = "127.0.0.1:0";
    running.add(own);
    await own.spawn(options);
    return own;
  }

  /** Writes the settings of the next start. */
  configure(text) { writeFileSync(join(this.folder, "goalmill.toml"), text); }

  async spawn(options = []) {
    const log = createWriteStream(join(this.folder, "log"), { flags: "a" });
    const started = ["dev", "--listen", this.address, "--metrics", "off", "--data-dir", join(this.folder, "data"), "--config", join(this.folder, "goalmill.toml"), ...options];
    this.process = spawn(PROGRAM, started, { env: this.environment, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    const take = (chunk) => { text += chunk; log.write(chunk); };
    this.process.stdout.on("data", take);
    this.process.stderr.on("data", take);
    let end = null;
    this.ended = new Promise((resolve) => this.process.on("exit", (code, signal) => { end = signal || code; resolve(); }));
    await until("goalmill dev starts", () => {
      if (end !== null) throw new Error(`it ended with ${end}: ${text}`);
      return /Ctrl-C stops everything/.test(text);
    });
    this.url = /(http:\/\/127\.0\.0\.1:\d+)\/v1/.exec(text)[1];
    this.address = this.url.slice("http://".length);
  }

  /** As `kill -9` does. */
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
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
    if (this.process.exitCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Stops every installation that a failed test has left. */
export const stopAll = () => Promise.all([...running].map((one) => one.stop()));
