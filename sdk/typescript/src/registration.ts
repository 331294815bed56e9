// What a worker says about itself in Redis: its agents, their queues, its heartbeats.

import type { Redis } from 'ioredis';
import type { Agent } from './agent.js';
import { Fatal } from './errors.js';
import { GROUP, type Keys, LIMITS, type Limits, PROTOCOL, readLimits } from './protocol.js';

/** The registration of one worker. */
export class Registration {
  private instance: string | undefined;
  /** Those of the installation, read with each heartbeat. */
  limits: Limits = LIMITS;

  constructor(
    private readonly redis: Redis,
    private readonly keys: Keys,
    private readonly id: string,
    private readonly agents: readonly Agent[],
  ) {}

  /** Registers the agents; gives the agent of each task stream. */
  async register(): Promise<Map<string, Agent>> {
    // A request to drain a former process of this name.
    if (this.instance === undefined) await this.redis.del(this.keys.drain(this.id));
    const streams = await this.readStreams();
    for (const [stream, agent] of streams) {
      await this.redis.xgroup('CREATE', stream, GROUP, '0', 'MKSTREAM').catch((error: Error) => {
        if (!error.message.startsWith('BUSYGROUP')) throw error;
      });
      await this.redis.sadd(this.keys.queues(), agent.name);
      const [card, known] = [JSON.stringify(agent.card()), await this.redis.hget(this.keys.agents(), agent.name)];
      if (card !== known) {
        await this.redis.hset(this.keys.agents(), agent.name, card);
        await this.redis.publish(this.keys.agentsChanged(), agent.name);
      }
    }
    return streams;
  }

  /** The task streams, from what the schedulers have written about the installation. */
  async readStreams(): Promise<Map<string, Agent>> {
    const [instance, protocol, patterns, limits] = await this.redis.hmget(this.keys.meta(), 'instance', 'protocol', 'streams', 'limits');
    if (instance == null || protocol == null || patterns == null) {
      throw new Error(`\`${this.keys.meta()}\` is missing: no scheduler has started with this Redis`);
    }
    if (protocol !== PROTOCOL) throw new Fatal(`the schedulers speak protocol ${protocol}, this package protocol ${PROTOCOL}: install the version that fits`);
    if (this.instance !== undefined && this.instance !== instance) {
      throw new Error(`Redis holds another installation (${instance}) than before (${this.instance}): its data were lost; restore them, or restart this worker`);
    }
    this.instance = instance;
    this.limits = readLimits(limits);
    const streams = new Map<string, Agent>();
    for (const pattern of patterns.split(' ')) {
      if (pattern.replace('<agent_type>', '').includes('<')) {
        throw new Fatal(`the installation has task streams \`${pattern}\`, which this package cannot read: install a newer one`);
      }
      for (const agent of this.agents) streams.set(pattern.replace('<agent_type>', agent.name), agent);
    }
    return streams;
  }

  /** Sends a heartbeat, with the time of the server. */
  async beat(heartbeat: object): Promise<void> {
    const [seconds, micros] = await this.redis.time();
    await this.redis.hset(this.keys.beats(), this.id, JSON.stringify({ worker: this.id, ...heartbeat }));
    await this.redis.zadd(this.keys.workers(), Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000), this.id);
  }

  /** Whether somebody asked this worker to drain. */
  async isDrainAsked(): Promise<boolean> {
    return (await this.redis.exists(this.keys.drain(this.id))) > 0;
  }

  /** Removes the heartbeat. */
  async deregister(): Promise<void> {
    await this.redis.zrem(this.keys.workers(), this.id);
    await this.redis.hdel(this.keys.beats(), this.id);
    await this.redis.del(this.keys.drain(this.id));
  }
}
