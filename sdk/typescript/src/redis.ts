// Connections to Redis: addresses as Goalmill writes them, endless reconnection.

import { Redis, type RedisOptions } from 'ioredis';

/** Milliseconds without an answer after which a connection is given up; longer than any blocking read. */
const ANSWER_MS = 10_000;
/** Answers of a server that is not, or not yet, the primary: the connection is made again and the command repeated. */
const NOT_PRIMARY = /^(READONLY|LOADING|MASTERDOWN|UNBLOCKED)/;

/** Waits between reconnections: up to 2 s, doubled with each failure, with jitter. */
export function backoffMs(failures: number): number {
  return Math.ceil((0.5 + Math.random() / 2) * Math.min(50 * 2 ** Math.min(failures, 10), 2_000));
}

/** Opens a connection that reconnects for ever and repeats what had no answer. */
export function openRedis(url: string, name: string, onError: (error: Error) => void): Redis {
  const redis = new Redis({
    ...parseAddress(url),
    connectionName: name,
    disableClientInfo: true,
    enableReadyCheck: false,
    maxRetriesPerRequest: null,
    autoResubscribe: false,
    keepAlive: 10_000,
    connectTimeout: 5_000,
    socketTimeout: ANSWER_MS,
    retryStrategy: backoffMs,
    sentinelRetryStrategy: backoffMs,
    reconnectOnError: (error) => (NOT_PRIMARY.test(error.message) ? 2 : false),
    protocol: 2,
  });
  redis.on('error', onError);
  return redis;
}

/** The options for `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://` and `rediss+sentinel://`. */
export function parseAddress(url: string): RedisOptions {
  const found = /^(rediss?)(\+unix|\+sentinel)?:\/\/(?:([^@/]*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/.exec(url);
  if (found === null) throw new TypeError(`\`${hidden(url)}\` is no address of Redis, such as redis://127.0.0.1:6379`);
  const [, scheme, kind, user, hosts = '', path = '', query = ''] = found;
  const [username = '', password = ''] = (user ?? '').split(/:(.*)/s).map(decodeURIComponent);
  const parameters = new URLSearchParams(query);
  const known = kind === '+sentinel' ? ['db', 'sentinel_username', 'sentinel_password'] : ['db'];
  for (const name of parameters.keys()) {
    if (!known.includes(name)) throw new TypeError(`\`${name}\` is none of the parameters \`${known.join('`, `')}\``);
  }
  const tls = scheme === 'rediss' ? { tls: {} } : {};
  const options: RedisOptions = { ...(username && { username }), ...(password && { password }), ...tls };
  if (kind === '+unix') return { ...options, path: decodeURIComponent(path), db: database(parameters.get('db')) };
  const parts = path.split('/').slice(1).map(decodeURIComponent);
  if (kind === undefined) {
    const { host, port } = parseHost(hosts, 6379);
    return { ...options, host, port, db: database(parameters.get('db') ?? parts[0]) };
  }
  const [service, db] = parts;
  if (!service) throw new TypeError("the service's name is missing: redis+sentinel://HOST,HOST/SERVICE");
  return {
    ...options,
    sentinels: hosts.split(',').map((host) => parseHost(host, 26379)),
    name: service,
    db: database(parameters.get('db') ?? db),
    failoverDetector: true,
    ...(scheme === 'rediss' && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
    ...(parameters.has('sentinel_username') && { sentinelUsername: parameters.get('sentinel_username')! }),
    ...(parameters.has('sentinel_password') && { sentinelPassword: parameters.get('sentinel_password')! }),
  };
}

function parseHost(text: string, port: number): { host: string; port: number } {
  const found = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text);
  if (found === null) throw new TypeError(`\`${text}\` is no host with a port`);
  return { host: found[1] || found[2] || '127.0.0.1', port: found[3] === undefined ? port : Number(found[3]) };
}

function database(text: string | null | undefined): number {
  if (text === null || text === undefined || text === '') return 0;
  if (!/^\d{1,5}$/.test(text)) throw new TypeError(`\`${text}\` is no number of a database`);
  return Number(text);
}

/** The address without its password. */
function hidden(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//***@');
}
