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
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
