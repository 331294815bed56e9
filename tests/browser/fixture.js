// An installation with plans in every state that screens show.

import { Goalmill, until } from "./goalmill.js";

export const PARIS = "Plan a 3-day trip to Paris in May with a $2000 budget";
/** A task that is still there when the last test looks; without a limit of its own it would be stopped after a minute. */
export const HOUR = { seconds: 3600 };
export const LONG = { timeout_ms: 7_200_000 };

export const step = (id, agent_type, dependencies = [], inputs = {}, more = {}) => ({ id, agent_type, dependencies, inputs, ...more });

/** A release: 22 steps in phases, one of which runs for an hour. */
export function release() {
  const services = ["accounts", "billing", "catalogue", "delivery", "search"];
  return {
    name: "Release 2026.11 of the shop to all regions",
    phases: [{ id: "build" }, { id: "verify" }, { id: "roll-out" }],
    steps: [
      step("checkout", "echo", [], { branch: "release/2026.11" }, { phase: "build", description: "Check the release branch out" }),
      ...services.map((name) => step(`build-${name}`, "echo", ["checkout"], { service: name }, { phase: "build", description: `Build the ${name} service` })),
      ...services.map((name) => step(`test-${name}`, name === "search" ? "flaky" : "echo", [`build-${name}`], name === "search" ? { failures: 1 } : { service: name }, { phase: "verify", description: `Test the ${name} service`, retry: { max: 3, initial_ms: 200, max_ms: 400 } })),
      step("load-test", "sleep", services.map((name) => `test-${name}`), HOUR, { phase: "verify", description: "Ten times the load of a usual day", ...LONG }),
      step("audit", "echo", ["checkout"], {}, { phase: "verify", description: "Sign off the changes of access rights", approve: {} }),
      step("canary", "echo", ["load-test", "audit"], {}, { phase: "roll-out", description: "One machine in each region" }),
      ...["eu", "us", "asia"].map((name) => step(`roll-out-${name}`, "echo", ["canary"], { region: name }, { phase: "roll-out" })),
      step("announce", "echo", ["roll-out-eu", "roll-out-us", "roll-out-asia"], {}, { phase: "roll-out" }),
    ],
  };
}

export const asks = () => ({ name: "Book a hotel", steps: [step("wishes", "echo", [], {}, { ask: { question: "How many nights?", schema: { type: "integer", minimum: 1 }, default: 3, into: "nights" } }), step("book", "echo", ["wishes"])] });

export const failing = () => ({
  name: "Nightly import of the catalogue", steps: [
    step("fetch", "echo", [], { url: "https://example.org/catalogue.csv" }),
    step("parse", "fail", ["fetch"], { code: "BAD_ROW", message: "row 17 has 4 columns, 6 were expected" }),
    step("store", "echo", ["parse"]),
  ],
});

/** Names that are as long as they may be, in a language without spaces, and without any break. */
export const LONG_ID = `step-${"x".repeat(123)}`;
export const long = () => ({
  name: `Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft${"ß".repeat(60)}`,
  steps: [step(LONG_ID, "echo", [], { [`key${"k".repeat(200)}`]: "v".repeat(3000) }, { description: "w".repeat(300) }), step("second", `agent-${"y".repeat(120)}`, [LONG_ID])],
});

/** A map over twelve cities, one of which fails. */
export const map = () => ({
  name: "Search hotels in every city", steps: [
    step("cities", "echo", [], { list: Array.from({ length: 12 }, (_, n) => ({ name: `city-${n}`, failures: n === 3 ? 1 : 0 })) }),
    { id: "search", agent_type: "flaky", dependencies: ["cities"], for_each: "{{ steps.cities.outputs.list }}", as: "city", on_item_failure: "continue", retry: { max: 0 }, inputs: { failures: "{{ city.failures }}", city: "{{ city.name }}" } },
    step("wait", "sleep", ["search"], HOUR, LONG),
  ],
});

/** A plan to be stored, whose inputs have every kind of field. */
export const trip = () => ({
  name: "trip", description: "Books a trip to a city",
  input_schema: {
    type: "object", required: ["city"],
    properties: {
      city: { type: "string", description: "Where to" }, nights: { type: "integer", minimum: 1, default: 3 }, class: { enum: ["standard", "first"], default: "standard" },
      insured: { type: "boolean", default: false }, guests: { type: "array", items: { type: "string" }, default: [] },
    },
  },
  steps: [step("book", "echo", [], { city: "{{ goal.metadata.inputs.city }}", nights: "{{ goal.metadata.inputs.nights }}" })],
});

/** A plan with three revisions by a person: the story with a scripted model belongs to `goalmill dev`. */
async function revised(goalmill) {
  const id = await goalmill.submit({ name: "A trip to Paris", steps: [step("flights", "echo", [], { total: 200 }), step("hotels", "echo", ["flights"], { total: 600 }), step("book", "echo", ["hotels"], {}, { approve: {} })] });
  await goalmill.awaitPlan(id, (plan) => plan.steps[2].status === "awaiting_approval");
  for (const name of ["one", "two"]) await goalmill.call("POST", `/v1/plans/${id}:edit`, { changes: [{ add_step: { step: step(name, "echo", ["hotels"]) } }], reason: `also ${name}` });
  await goalmill.call("POST", `/v1/plans/${id}:edit`, { changes: [{ set_fields: { step: "book", fields: { description: "Book everything" } } }] });
  await goalmill.call("POST", `/v1/plans/${id}/steps/book:approve`, {});
  await goalmill.awaitStatus(id, "completed");
  return id;
}

/** Gives the installation and the ids of its plans. */
export async function filled() {
  const goalmill = await Goalmill.start();
  // A task whose worker is killed once is a dead letter.
  goalmill.configure("[limits]\nlost_max = 1\n[scheduler]\ntask_lease_ms = 12000\n");
  await goalmill.kill();
  await goalmill.spawn();
  const ids = { lost: await goalmill.submit({ name: "Render the film", steps: [step("render", "sleep", [], HOUR, LONG)] }) };
  await goalmill.awaitPlan(ids.lost, (plan) => plan.steps[0].status === "running");
  await goalmill.kill();
  await goalmill.spawn();
  await Promise.all([goalmill.awaitStatus(ids.lost, "failed"), until("a dead letter", async () => (await goalmill.get("/v1/dead-letters")).items.length)]);
  // On a busy machine a lease may expire: with the default limit that costs an attempt, and no plan.
  await goalmill.kill();
  goalmill.configure("");
  await goalmill.spawn(goalmill.servers ? [] : ["--demo", "story", "--keep"]);
  const told = (status) => until(`a story that is ${status}`, async () => (await goalmill.get("/v1/plans?limit=50")).items.find((plan) => plan.revision === 3 && plan.status === status));
  ids.revised = goalmill.servers ? await revised(goalmill) : (await told("completed")).plan_id;
  if (!goalmill.servers) await told("failed");
  ids.waiting = await goalmill.submitGoal({ description: PARIS, planning: { planner: "rules", require_approval: true } });
  ids.release = await goalmill.submit(release());
  ids.asks = await goalmill.submit(asks());
  ids.failing = await goalmill.submit(failing());
  ids.long = await goalmill.submit(long());
  ids.map = await goalmill.submit(map());
  for (const description of ["Books a trip", "Books a trip to a city"]) await goalmill.call("POST", "/v1/stored-plans/trip/versions", { ...trip(), description });
  await Promise.all([
    goalmill.awaitStatus(ids.waiting, "awaiting_approval"), goalmill.awaitStatus(ids.failing, "failed"),
    goalmill.awaitPlan(ids.release, (plan) => plan.steps.find((one) => one.id === "load-test").status === "running"),
    goalmill.awaitPlan(ids.map, (plan) => plan.steps.find((one) => one.id === "wait").status === "running"),
    goalmill.awaitPlan(ids.asks, (plan) => plan.steps[0].status === "awaiting_approval"),
  ]);
  return { goalmill, ids };
}
