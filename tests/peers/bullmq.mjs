// W1 on BullMQ: 20,000 independent jobs that do nothing. `node bullmq.mjs PORT worker` works, `node bullmq.mjs PORT` submits and waits.
import { Queue, Worker } from 'bullmq';

const jobs = 20_000;
const connection = { host: '127.0.0.1', port: Number(process.argv[2] ?? 6379), maxRetriesPerRequest: null };

if (process.argv[3] === 'worker') {
  new Worker('w1', async () => {}, { connection, concurrency: 100 });
} else {
  const queue = new Queue('w1', { connection });
  await queue.waitUntilReady();
  const begun = performance.now();
  for (let i = 0; i < jobs; i += 1000) {
    const job = (_, j) => ({ name: 'noop', data: { i: i + j }, opts: { removeOnComplete: true } });
    await queue.addBulk(Array.from({ length: 1000 }, job));
  }
  for (let left = jobs; left > 0; ) {
    const counts = await queue.getJobCounts('wait', 'active');
    left = counts.wait + counts.active;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  console.log(`bullmq ${Math.round((jobs / (performance.now() - begun)) * 1000)} jobs/s`);
  process.exit(0);
}
