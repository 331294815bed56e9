// Waits with an end.

/** Waits; ends early if `signal` aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}

/** Waits for `promise`, at most so long. */
export async function within(promise: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<void> {
  const over = new AbortController();
  const end = () => over.abort();
  signal?.addEventListener('abort', end);
  if (signal?.aborted === true) end();
  await Promise.race([promise.catch(() => {}), sleep(ms, over.signal)]);
  signal?.removeEventListener('abort', end);
  end();
}

/** Settles when `signal` aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/** A condition that others wait for. */
export class Change {
  private waiters: (() => void)[] = [];

  /** Waits until the condition may hold. */
  wait(): Promise<void> {
    return new Promise((resolve) => this.waiters.push(resolve));
  }

  /** Waits until it holds; it is looked at after each `wake`. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.wait();
  }

  wake(): void {
    for (const resolve of this.waiters.splice(0)) resolve();
  }
}
