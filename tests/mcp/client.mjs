// The client of the npm package `@modelcontextprotocol/sdk` against `goalmill mcp` and `/mcp`.
// Arguments: who calls (open, red, blue, nobody), then `stdio` with the program and its words, or `http` with the address.
// `GOALMILL_TOKEN` is the caller's token, `PLAN` a plan of the namespace `red`.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [caller, kind, target, ...args] = process.argv.slice(2);
const token = process.env.GOALMILL_TOKEN;
const headers = token ? { authorization: `Bearer ${token}` } : {};
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: target, args, env: { ...process.env } })
    : new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
let asked = 0;
client.setRequestHandler(ElicitRequestSchema, async () => {
  asked += 1;
  return { action: "accept", content: { decision: "reject", reason: "no" } };
});
const call = (name, given) => client.callTool({ name, arguments: given });

async function decides() {
  assert.equal((await client.listTools()).tools.length, 12);
  const goal = { goal: "Write a report about bees", require_approval: true };
  const { plan_id: plan } = (await call("submit_goal", goal)).structuredContent;
  let status;
  for (let n = 0; n < 600; n += 1) {
    status = (await call("plan_status", { plan_id: plan })).structuredContent.plan.status;
    if (status === "awaiting_approval") break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(status, "awaiting_approval");
  assert.equal((await call("decide_approval", { plan_id: plan })).structuredContent.decision, "reject");
  assert.equal(asked, 1);
  const { contents } = await client.readResource({ uri: `goalmill://plans/${plan}` });
  assert.equal(JSON.parse(contents[0].text).plan_id, plan);
}

async function looks(isFound) {
  assert.equal((await client.listTools()).tools.length, 6);
  const uri = `goalmill://plans/${process.env.PLAN}`;
  const { isError, structuredContent } = await call("plan_status", { plan_id: process.env.PLAN });
  if (isFound) {
    assert.equal(structuredContent.plan.namespace, "red");
    assert.equal((await client.readResource({ uri })).contents.length, 1);
  } else {
    assert.deepEqual([isError, structuredContent.code], [true, "PLAN_NOT_FOUND"]);
    await assert.rejects(client.readResource({ uri }), /no plan/);
  }
}

if (caller === "nobody" && kind === "http") {
  await assert.rejects(client.connect(transport), /401|UNAUTHENTICATED|Unauthorized/);
} else {
  await client.connect(transport);
  if (caller === "open") await decides();
  else if (caller === "nobody") assert.equal((await call("list_agents", {})).structuredContent.code, "UNAUTHENTICATED");
  else await looks(caller === "red");
  await client.close();
}
