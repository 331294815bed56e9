// A goal becomes a plan: preview, submission, and the routing of a sentence.

import { h } from "./dom.js";
import { can, canRead, get, post } from "./api.js";
import { draft, keep } from "./drafts.js";
import { app, button, cell, commands, curl, facts, field, forbidden, issues, json, pageHead, planLink, problem, rowHead, skeleton, table } from "./parts.js";
import { awaited, duration, money, number, percent, plural, quote, words } from "./format.js";
import { graph, order, runsDown } from "./graph.js";
import { candidates } from "./step.js";

const EXAMPLES = ["Plan a 3-day trip to Paris in May with a $2000 budget", "Research the state of battery recycling and write a report", "Compare three ways to heat a greenhouse"];

/** What is typed. */
const TYPED = ["text", "planner", "model", "budget", "approval", "priority", "constraints"];

export function playgroundScreen(route) {
  const isRouting = () => app.route.params.get("tab") === "route";
  const own = {
    text: route.params.get("goal") || "", planner: "", model: "", budget: "", approval: false, priority: "5", constraints: "", preview: null, refusal: null, isBusy: "", planners: [], models: [], selected: null,
    ...draft("goal"), ...(route.params.get("goal") && { text: route.params.get("goal") }),
    sentence: route.params.get("text") || "", routed: null, routeRefusal: null, isRoutingBusy: false, previewed: "",
  };
  for (const name of canRead() ? ["planners", "models"] : []) get(`/v1/${name}`).then((page) => { own[name] = page.items; app.render(); }, () => {});
  const goal = () => {
    const planning = { ...(own.planner ? { planner: own.planner } : {}), ...(own.model ? { model: own.model } : {}), ...(own.approval ? { require_approval: true } : {}) };
    const constraints = own.constraints.trim() ? JSON.parse(own.constraints) : undefined;
    return { description: own.text, ...(Object.keys(planning).length ? { planning } : {}), ...(own.budget ? { budget: { cost: Number(own.budget) } } : {}), ...(own.priority !== "5" ? { priority: Number(own.priority) } : {}), ...(constraints ? { constraints } : {}) };
  };
  const send = async (path, name, then) => {
    own.isBusy = name;
    own.refusal = null;
    app.render();
    try { then(await post(path, goal())); } catch (refusal) { own.refusal = refusal instanceof SyntaxError ? { status: 400, title: "Constraints", message: `not JSON: ${refusal.message}`, errors: [] } : refusal; if (name === "preview") own.preview = null; }
    own.isBusy = "";
    app.render();
  };
  const act = {
    preview: () => send("/v1/plans:preview", "preview", (preview) => { own.preview = preview; own.previewed = own.text; }),
    submit: () => send("/v1/goals", "submit", (accepted) => { keep("goal"); app.go(planLink(accepted.plan_id)); }),
    route: async (event) => {
      event.preventDefault();
      own.isRoutingBusy = true;
      app.render();
      try { own.routed = await post("/v1/agents:route", { text: own.sentence }); own.routeRefusal = null; app.replace({ text: own.sentence }); } catch (refusal) { own.routeRefusal = refusal; }
      own.isRoutingBusy = false;
      app.render();
    },
  };
  return {
    title: () => "Playground",
    view: () => [
      pageHead("Playground", h("div", { class: "switch", role: "group", "aria-label": "What to try" }, [["", "A goal"], ["route", "Routing of a sentence"]].map(([name, text]) => button({ key: name, "aria-pressed": String((app.route.params.get("tab") || "") === name), onclick: () => { app.replace({ tab: name || null }); app.render(); } }, text)))),
      isRouting() ? routing(own, act) : planning(own, act, goal),
    ],
  };
}

function planning(own, act, goal) {
  const set = (name) => (event) => { own[name] = event.target.type === "checkbox" ? event.target.checked : event.target.value; keep("goal", Object.fromEntries(TYPED.map((one) => [one, own[one]]))); app.render(); };
  let body = { description: own.text };
  try { body = goal(); } catch { /* constraints are not complete yet */ }
  const flags = `${own.planner ? ` --planner ${own.planner}` : ""}${own.model ? ` --model ${own.model}` : ""}${own.approval ? " --require-approval" : ""}`;
  return h("div", { class: "playground" },
    h("form", { class: "panel", onsubmit: (event) => { event.preventDefault(); act.preview(); } },
      field("Goal", h("textarea", { rows: 4, required: true, dir: "auto", value: own.text, oninput: set("text"), placeholder: "What should be done, in plain words" })),
      own.text ? null : h("p", { class: "examples" }, EXAMPLES.map((text) => button({ class: "link", onclick: () => { own.text = text; app.render(); } }, text))),
      h("div", { class: "form-row" },
        field("Planner", h("select", { value: own.planner, onchange: set("planner") }, h("option", { value: "" }, "In their order"), own.planners.map((one) => h("option", { key: one.planner, value: one.planner }, `${one.planner}${one.asks_models ? " (asks models)" : ""}`)))),
        own.models.length ? field("Model", h("select", { value: own.model, onchange: set("model") }, h("option", { value: "" }, "As configured"), own.models.map((one) => h("option", { key: one.model, value: one.model }, one.model)))) : null,
        field("Budget (USD)", h("input", { type: "number", min: 0, step: "any", value: own.budget, oninput: set("budget"), placeholder: "no limit" })),
        field("Priority", h("input", { type: "number", min: 1, max: 10, value: own.priority, oninput: set("priority") }))),
      h("details", null, h("summary", null, "Constraints"), field("Constraints (JSON)", h("textarea", { rows: 3, class: "code-area", spellcheck: "false", value: own.constraints, oninput: set("constraints"), placeholder: "{\"budget\": {\"amount\": 2000, \"currency\": \"USD\"}}" }))),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: own.approval, onchange: set("approval") }), " A person approves the plan before it runs"),
      problem(own.refusal),
      can("submitter") ? h("div", { class: "buttons" }, h("button", { type: "submit", disabled: !own.text.trim() || Boolean(own.isBusy) }, own.isBusy === "preview" ? "Planning …" : "Preview the plan"), button({ class: "primary", disabled: !own.text.trim() || Boolean(own.isBusy), onclick: act.submit }, own.isBusy === "submit" ? "Submitting …" : "Submit"))
        : forbidden("Previewing and submitting goals needs the role `submitter`."),
      commands(`goalmill submit ${quote(own.text || "…")}${flags} --watch`, curl("POST", "/v1/goals", body))),
    own.preview ? previewView(own) : own.isBusy === "preview" ? h("section", { class: "panel" }, skeleton(4)) : null);
}

function previewView(own) {
  const { preview } = own;
  const plan = preview.plan || { steps: [] };
  const steps = new Map(plan.steps.map((step) => [step.id, { status: "pending", definition: step, attempts: [] }]));
  const layout = preview.layout || { steps: [], edges: [], ranks: 0, width: 0 };
  return h("section", { class: "panel", "aria-labelledby": "preview-title" },
    h("div", { class: "title-line" }, h("h2", { id: "preview-title" }, "Preview"), own.previewed !== own.text ? h("span", { class: "tag" }, "of the goal before your last change") : null),
    h("p", { class: "dim" }, "Nothing runs yet."),
    facts([["Planner", preview.planner], ["Confidence", percent(preview.confidence)], ["Steps", number(plan.steps.length)], ["Longest path", duration(preview.critical_path_seconds * 1000)], ["Estimated cost", money(preview.cost)]]),
    preview.goal ? h("details", { open: true }, h("summary", null, "What a model read in the text of the goal"), json(preview.goal, "preview-goal")) : null,
    issues(preview.issues), preview.warnings?.length ? [h("h3", null, "Notes"), issues(preview.warnings)] : null,
    layout.steps.length ? graph(layout, steps, { id: "preview", selected: own.selected, onSelect: (id) => { own.selected = own.selected === id ? null : id; app.render(); }, isDown: runsDown(), label: "Graph of the previewed plan" }) : null,
    own.selected && steps.has(own.selected) ? json(steps.get(own.selected).definition, `preview-${own.selected}`) : null,
    table("Steps of the preview", ["Step", "Agent", "Action", "Waits for"], order(layout, steps).map((id) => { const step = steps.get(id).definition; return h("tr", { key: id }, rowHead(id, h("div", { class: "dim", dir: "auto" }, step.description)), cell(step.agent_type || words(step.kind)), cell(step.action || ""), cell(awaited(step).join(", "))); })),
    (preview.routes || []).map((route) => h("details", { key: route.step }, h("summary", null, `Why ${route.agent_type} for ${route.step}`), candidates(route.candidates, route.agent_type))),
    preview.planning_trace ? h("details", null, h("summary", null, "How it was planned"), json(preview.planning_trace, "planning-trace")) : null);
}

function routing(own, act) {
  return h("div", { class: "playground" },
    h("form", { class: "panel", onsubmit: act.route },
      field("A task, in words", h("input", { type: "search", required: true, dir: "auto", value: own.sentence, oninput: (event) => { own.sentence = event.target.value; app.render(); }, placeholder: "find me a quiet hotel near the river" })),
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary", disabled: !own.sentence.trim() || own.isRoutingBusy }, own.isRoutingBusy ? "Asking …" : "Which agent would take it?")),
      problem(own.routeRefusal),
      commands(`goalmill agent route ${quote(own.sentence || "…")}`, curl("POST", "/v1/agents:route", { text: own.sentence }))),
    own.routed ? h("section", { class: "panel" }, h("h2", null, own.routed.candidates.length ? (own.routed.abstains ? "No agent fits well enough" : own.routed.candidates[0].agent_type) : "No agent is known"), h("p", { class: "dim" }, `Confidence that the best one fits: ${percent(own.routed.confidence)}. ${plural(own.routed.candidates.length, "candidate")}.`), own.routed.candidates.length ? candidates(own.routed.candidates, own.routed.abstains ? "" : own.routed.candidates[0].agent_type) : null) : null);
}
