// Two plans, forks, or revisions side by side.

import { h } from "./dom.js";
import { get, planPath, poll } from "./api.js";
import { app, button, cell, commands, curl, dim, empty, pageHead, planLink, problem, rowHead, skeleton, status, table, time } from "./parts.js";
import { duration, money, number, percent, words } from "./format.js";
import { graph, order, runsDown } from "./graph.js";

const FIELDS = ["description", "agent_type", "action", "inputs", "dependencies", "dependency_status", "when", "timeout_ms", "on_failure"];
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** `plan`, or `plan@revision`. */
function parseName(name) {
  const [plan, revision] = name.split("@");
  return { name, plan: plan.trim(), revision: revision === undefined || revision === "" ? null : Number(revision) };
}

async function loadSide(name) {
  const { plan, revision } = parseName(name);
  const base = planPath(plan);
  const at = revision === null ? "" : `?revision=${revision}`;
  const [view, document, layout] = await Promise.all([get(base), get(`${base}/graph${at}`), get(`${base}/layout${at}`)]);
  const isPast = revision !== null && revision !== view.revision;
  const states = new Map(view.steps.map((step) => [step.id, step]));
  const steps = new Map(document.steps.map((step) => [step.id, { definition: step, status: isPast ? "pending" : states.get(step.id)?.status || "pending", state: isPast ? null : states.get(step.id), attempts: [] }]));
  return { name, plan, revision, view, layout, steps, isPast };
}

export function compareScreen() {
  const own = { sides: {}, refusals: {}, loaded: {}, selected: null };
  const plans = poll("/v1/plans?limit=100", 0, () => app.render());
  const load = (side) => {
    const name = app.route.params.get(side) || "";
    if (own.loaded[side] === name) return;
    own.loaded[side] = name;
    own.sides[side] = null;
    own.refusals[side] = null;
    if (!name) return;
    loadSide(name).then((found) => { if (own.loaded[side] === name) own.sides[side] = found; app.render(); }, (refusal) => { if (own.loaded[side] === name) own.refusals[side] = refusal; app.render(); });
  };
  return {
    title: () => "Compare",
    // Its view reads the parameters.
    follow: () => {},
    close: plans.close,
    view: () => {
      load("a");
      load("b");
      const { a, b } = own.sides;
      return [
        pageHead("Compare"),
        h("div", { class: "compare-pick" }, pick("a", "First plan", plans), button({ class: "quiet", "aria-label": "Exchange the plans", onclick: () => { app.replace({ a: app.route.params.get("b"), b: app.route.params.get("a") }); app.render(); } }, "⇄"), pick("b", "Second plan", plans)),
        problem(own.refusals.a), problem(own.refusals.b),
        a && b ? comparison(own, a, b) : own.loaded.a && own.loaded.b ? (own.refusals.a || own.refusals.b ? null : skeleton(5)) : empty("Choose two plans", "Or two revisions of one plan, such as `p1-abc@0` and `p1-abc@1`. Forks compare well with the plan that they continue."),
      ];
    },
  };
}

function pick(side, label, plans) {
  const set = (event) => { app.replace({ [side]: event.target.value.trim() || null }); app.render(); };
  return h("label", { class: "field" }, h("span", { class: "label" }, label), h("input", { list: `plans-${side}`, value: app.route.params.get(side) || "", placeholder: "id, or id@revision", autocomplete: "off", spellcheck: "false", onchange: set }),
    h("datalist", { id: `plans-${side}` }, plans.value ? plans.value.items.map((plan) => h("option", { key: plan.plan_id, value: plan.plan_id }, `${plan.name} · ${words(plan.status)}`)) : null));
}

function changedFields(a, b) {
  return FIELDS.filter((name) => !same(a.definition[name], b.definition[name]));
}

function comparison(own, a, b) {
  const marks = (from, to, word) => new Map([...from.steps.keys()].map((id) => [id, to.steps.has(id) ? (changedFields(from.steps.get(id), to.steps.get(id)).length ? "changed" : "same") : word]));
  const select = (id) => { own.selected = own.selected === id ? null : id; app.render(); };
  const side = (one, changed, name) => h("section", { class: "panel", "aria-label": `${name} plan` },
    h("div", { class: "title-line" }, h("h2", null, h("a", { href: planLink(one.plan), dir: "auto" }, one.view.name || one.plan)), one.revision === null ? status(one.view.status) : h("span", { class: "tag" }, `revision ${one.revision}`)),
    h("p", { class: "dim id" }, one.plan),
    graph(one.layout, one.steps, { id: `compare-${name}`, selected: own.selected, changed, onSelect: select, isDown: runsDown(), label: `Graph of the ${name} plan` }));
  const ids = [...new Set([...order(a.layout, a.steps), ...order(b.layout, b.steps)])];
  const numbers = (one) => [["Status", status(one.view.status)], ["Planner", one.view.planner], ["Steps", number(one.steps.size)], ["Revisions", number(one.view.revision)], ["Confidence", percent(one.view.confidence)], ["Cost", money(one.view.usage.cost)], ["Tokens", number(one.view.usage.tokens)], ["Running time", duration((one.view.execution_seconds ?? NaN) * 1000)], ["Started", time(one.view.created_at)]];
  const [left, right] = [numbers(a), numbers(b)];
  const kinds = { added: "only in the second", removed: "only in the first", changed: "changed", same: "same" };
  const both = a.plan === b.plan ? `goalmill plan diff ${a.plan}` : `goalmill plan diff ${a.plan} ${b.plan}`;
  return [
    h("div", { class: "compare" }, side(a, marks(a, b, "removed"), "first"), side(b, marks(b, a, "added"), "second")),
    a.plan === b.plan ? null : table("Numbers", [{ text: "Measure", isHidden: true }, "First", "Second"], left.map(([name, value], i) => h("tr", { key: name }, rowHead(name), cell(value), cell(right[i][1])))),
    table("Steps", ["Step", "Difference", "First", "Second"], ids.map((id) => {
      const [x, y] = [a.steps.get(id), b.steps.get(id)];
      const kind = !x ? "added" : !y ? "removed" : changedFields(x, y).length ? "changed" : "same";
      const half = (one, other) => (one ? [one.state ? status(one.status) : kind === "same" ? dim("same") : null, x && y ? changedFields(x, y).map((name) => h("div", { key: name, class: other ? "now" : "was" }, dim(`${words(name)}: `), shown(one.definition[name]))) : h("div", { class: "dim", dir: "auto" }, one.definition.description || one.definition.agent_type)] : dim("–"));
      return h("tr", { key: id, class: own.selected === id ? "selected" : "" }, rowHead(button({ class: "link", onclick: () => select(id) }, id)), cell(h("span", { class: `tag change-${kind}` }, kinds[kind])), cell(half(x, false)), cell(half(y, true)));
    })),
    commands(both, curl("GET", `${planPath(a.plan)}/graph${a.revision === null ? "" : `?revision=${a.revision}`}`)),
  ];
}

const shown = (value) => (value === undefined ? "none" : Array.isArray(value) ? value.join(", ") || "none" : typeof value === "object" ? JSON.stringify(value) : String(value));
