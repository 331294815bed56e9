// The client of the npm package `@modelcontextprotocol/sdk` against `goalmill mcp`. Arguments: the program and its words.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
let asked = 0;
client.setRequestHandler(ElicitRequestSchema, async () => {
  asked += 1;
  return { action: "accept", content: { decision: "reject", reason: "no" } };
});
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env } }));
const call = async (name, given) => (await client.callTool({ name, arguments: given })).structuredContent;

const { tools } = await client.listTools();
assert.equal(tools.length, 10);
const { plan_id: plan } = await call("submit_goal", { goal: "Write a report about bees", require_approval: true });
let status;
for (let n = 0; n < 600; n += 1) {
  status = (await call("plan_status", { plan_id: plan })).plan.status;
  if (status === "awaiting_approval") break;
  await new Promise((resolve) => setTimeout(resolve, 100));
}
assert.equal(status, "awaiting_approval");
assert.equal((await call("decide_approval", { plan_id: plan })).decision, "reject");
assert.equal(asked, 1);
const { contents } = await client.readResource({ uri: `goalmill://plans/${plan}` });
assert.equal(JSON.parse(contents[0].text).plan_id, plan);
await client.close();
