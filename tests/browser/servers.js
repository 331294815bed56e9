// Redis and PostgreSQL as processes of a test: own ports of loopback, own directory.

import { execFileSync, spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";

/** The user `nobody`: PostgreSQL refuses to run as root. */
const NOBODY = 65_534;
const PASSWORD = "open-sesame";

const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().on("error", reject);
  server.listen(0, "127.0.0.1", () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

/** Waits until something listens on a port. */
async function listening(port) {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const isUp = await new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => { socket.destroy(); resolve(true); }).on("error", () => resolve(false));
    });
    if (isUp) return;
  }
  throw new Error(`no server listens on port ${port}`);
}

/** Where PostgreSQL's programs are: on the path, or where Debian puts them. */
function programs() {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).map((version) => join(debian, version, "bin")) : [];
  const found = [...process.env.PATH.split(":"), ...versions].find((place) => existsSync(join(place, "initdb")) && existsSync(join(place, "postgres")));
  if (!found) throw new Error("PostgreSQL is not installed; bash tests/run installs it");
  return found;
}

/** Starts both in `folder`; gives their addresses and a function that stops them. */
export async function startServers(folder) {
  const [redisPort, postgresPort] = [await freePort(), await freePort()];
  const redisFolder = join(folder, "redis"), postgresFolder = join(folder, "postgresql");
  mkdirSync(redisFolder);
  mkdirSync(postgresFolder);
  const startRedis = () => spawn(process.env.REDIS_SERVER || "redis-server", ["--port", redisPort, "--bind", "127.0.0.1", "--dir", redisFolder, "--appendonly", "yes", "--appendfsync", "always", "--save", ""], { stdio: "ignore" });
  let redis = startRedis();
  const owner = process.getuid() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const password = join(postgresFolder, "password"), data = join(postgresFolder, "data"), bin = programs();
  writeFileSync(password, PASSWORD);
  if (owner.uid) {
    chmodSync(folder, 0o711);
    for (const place of [postgresFolder, password]) chownSync(place, NOBODY, NOBODY);
  }
  execFileSync(join(bin, "initdb"), ["--username=goalmill", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", `--pwfile=${password}`, "-D", data], { ...owner, cwd: "/", stdio: "ignore" });
  const postgres = spawn(join(bin, "postgres"), ["-D", data, "-k", postgresFolder, "-h", "127.0.0.1", "-p", postgresPort, "-c", "fsync=off"], { ...owner, cwd: "/", stdio: "ignore" });
  const stop = (one) => new Promise((resolve) => {
    if (one.exitCode !== null || one.signalCode !== null) { resolve(); return; }
    one.on("exit", resolve);
    one.kill("SIGKILL");
  });
  await Promise.all([listening(redisPort), listening(postgresPort)]);
  return {
    redis: `redis://127.0.0.1:${redisPort}`,
    postgres: `postgres://goalmill:${PASSWORD}@127.0.0.1:${postgresPort}/postgres`,
    stopRedis: () => stop(redis),
    startRedis: async () => { redis = startRedis(); await listening(redisPort); },
    stop: () => Promise.all([redis, postgres].map(stop)),
  };
}
