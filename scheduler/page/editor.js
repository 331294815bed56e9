// A plan whose fields, order and dependencies can be changed; it is validated while it is typed.

import { h } from "./dom.js";
import { get, post } from "./api.js";
import { draft, keep } from "./drafts.js";
import { app, button, dim, icon, issues } from "./parts.js";
import { duration, money, plural, words } from "./format.js";
import { graph, runsDown } from "./graph.js";

const WAIT_MS = 350;
const FIELDS = ["description", "agent_type", "action", "inputs", "dependencies", "timeout_ms"];

const clone = (value) => JSON.parse(JSON.stringify(value));
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/**
 * An editor over a plan document.
 *
 * - `name`: of what is typed, which is kept for this plan as it is.
 *
 * Gives `{view(), changes(), isValid(), isChanged()}`; `changes()` are those of `:edit` and `:approve`.
 */
export function editor(base, name) {
  const kept = draft(name);
  const isKept = kept && same(kept.base, base);
  const own = { draft: isKept ? kept.draft : clone(base), inputs: new Map(isKept ? kept.inputs : []), preview: null, refusal: null, isChecking: false, isOrdered: false, agents: [], round: 0, selected: null };
  const firstDependencies = new Map(base.steps.map((step) => [step.id, step.dependencies || []]));
  let timer = 0;
  // From the first key on, no answer about an earlier draft counts.
  const begin = () => {
    own.isChecking = true;
    app.render();
    return ++own.round;
  };
  const check = async () => {
    const round = begin();
    try {
      const preview = await post("/v1/plans:validate", own.draft);
      if (round === own.round) Object.assign(own, { preview, refusal: null });
    } catch (refusal) { if (round === own.round) own.refusal = refusal; }
    if (round === own.round) own.isChecking = false;
    app.render();
  };
  const changed = () => { keep(name, { base, draft: own.draft, inputs: [...own.inputs] }); clearTimeout(timer); timer = setTimeout(check, WAIT_MS); begin(); };
  const set = (step, name, value) => {
    if (value === "" || value === undefined || (Array.isArray(value) && !value.length)) delete step[name]; else step[name] = value;
    changed();
  };
  const order = () => {
    own.draft.steps.forEach((step, i) => {
      const before = own.draft.steps[i - 1];
      const first = (firstDependencies.get(step.id) || []).filter((id) => own.draft.steps.some((one) => one.id === id));
      const given = own.isOrdered && before ? [...new Set([...first.filter((id) => own.draft.steps.findIndex((one) => one.id === id) < i), before.id])] : first;
      if (given.length) step.dependencies = given; else delete step.dependencies;
    });
  };
  const move = (at, by) => {
    const steps = own.draft.steps;
    if (!steps[at + by]) return;
    [steps[at], steps[at + by]] = [steps[at + by], steps[at]];
    if (own.isOrdered) order();
    changed();
  };
  const remove = (step) => {
    own.draft.steps = own.draft.steps.filter((one) => one !== step);
    for (const one of own.draft.steps) if (one.dependencies) { one.dependencies = one.dependencies.filter((id) => id !== step.id); if (!one.dependencies.length) delete one.dependencies; }
    changed();
  };
  check();
  get("/v1/agents").then((page) => { own.agents = page.items.map((agent) => agent.agent_type); app.render(); }, () => {});
  const original = (id) => base.steps.find((step) => step.id === id);
  const fieldChanges = (step) => FIELDS.filter((name) => !same(step[name], original(step.id)?.[name]));
  const removed = () => base.steps.filter((step) => !own.draft.steps.some((one) => one.id === step.id));
  const isBroken = () => [...own.inputs.values()].some((one) => one.error);
  return {
    isValid: () => Boolean(own.preview?.valid && !own.refusal && !own.isChecking && !isBroken()),
    isChanged: () => removed().length > 0 || own.draft.steps.some((step) => fieldChanges(step).length),
    changes: () => [
      ...own.draft.steps.filter((step) => fieldChanges(step).length).map((step) => ({ set_fields: { step: step.id, fields: Object.fromEntries(fieldChanges(step).map((name) => [name, step[name] === undefined ? null : step[name]])) } })),
      ...removed().map((step) => ({ remove_step: { step: step.id } })),
    ],
    reset: () => { keep(name); own.draft = clone(base); own.inputs.clear(); own.isOrdered = false; check(); },
    view: () => editorView({ own, base, set, move, remove, changed, fieldChanges, removed, setOrdered: (isOn) => { own.isOrdered = isOn; order(); changed(); } }),
  };
}

function editorView(context) {
  const { own, fieldChanges, removed } = context;
  const found = own.preview?.issues || [];
  const elsewhere = found.filter((issue) => !/^\/steps\/\d+/.test(issue.pointer));
  const marks = new Map(own.draft.steps.filter((step) => fieldChanges(step).length).map((step) => [step.id, "changed"]));
  const layout = own.preview?.layout;
  return h("div", { class: "editor" },
    h("div", { class: `check-line ${own.isChecking ? "is-checking" : ""}`, role: "status" },
      own.refusal ? h("span", { class: "failure" }, own.refusal.message) : own.preview ? (own.preview.valid ? [h("span", { class: "status tone-good" }, icon("completed"), h("span", null, "valid")), h("span", { class: "dim num" }, `${plural(own.draft.steps.length, "step")} · longest path ${duration(own.preview.critical_path_seconds * 1000)} · about ${money(own.preview.cost)}`)] : h("span", { class: "status tone-bad" }, icon("failed"), h("span", null, plural(found.length, "issue")))) : dim("Checking …"),
      h("div", { class: "spring" }),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: own.isOrdered, onchange: (event) => context.setOrdered(event.target.checked) }), " Strictly in this order")),
    issues(elsewhere),
    layout && layout.steps.length <= 150 ? graph(layout, new Map(own.draft.steps.map((step) => [step.id, { status: "pending", definition: step, attempts: [] }])), { id: "edit", selected: own.selected, changed: marks, onSelect: (id) => { own.selected = id; app.render(); document.getElementById(`edit-${id}`)?.scrollIntoView({ block: "center" }); }, isDown: runsDown(), label: "Graph of the plan as it would be" }) : null,
    h("datalist", { id: "agent-types" }, own.agents.map((name) => h("option", { value: name }))),
    h("ol", { class: "edit-steps" }, own.draft.steps.map((step, at) => stepEditor(context, step, at, found.filter((issue) => issue.pointer.split("/")[2] === String(at) && issue.pointer.startsWith("/steps/"))))),
    removed().length ? h("p", { class: "removed" }, icon("skipped"), ` Removed: ${removed().map((step) => step.id).join(", ")}`) : null);
}

function stepEditor(context, step, at, found) {
  const { own, base, set, move, remove, fieldChanges } = context;
  const changes = fieldChanges(step);
  const before = base.steps.find((one) => one.id === step.id) || {};
  const at_ = (name) => found.filter((issue) => issue.pointer.split("/")[3] === name);
  const rest = found.filter((issue) => !FIELDS.includes(issue.pointer.split("/")[3] || ""));
  const one = (name, label, control) => {
    const wrong = at_(name);
    const local = name === "inputs" && own.inputs.get(step.id) && own.inputs.get(step.id).error;
    return h("label", { class: `field ${wrong.length || local ? "wrong" : ""} ${changes.includes(name) ? "changed" : ""}` }, h("span", { class: "label" }, label, changes.includes(name) ? h("span", { class: "tag" }, "changed") : null), control,
      local ? h("span", { class: "issue" }, local) : null,
      wrong.map((issue) => h("span", { class: "issue" }, issue.detail, issue.hint ? ` – ${issue.hint}` : "")),
      changes.includes(name) ? h("span", { class: "was dim" }, "was: ", shown(before[name])) : null);
  };
  const text = own.inputs.get(step.id);
  const others = own.draft.steps.filter((other) => other !== step);
  return h("li", { key: step.id, id: `edit-${step.id}`, class: `edit-step ${found.length ? "wrong" : changes.length ? "changed" : ""}` },
    h("div", { class: "title-line" }, h("h3", null, step.id), dim(words(step.kind || "")), changes.length ? h("span", { class: "tag" }, plural(changes.length, "change")) : null, h("div", { class: "spring" }),
      button({ class: "quiet small", "aria-label": `Move ${step.id} up`, disabled: at === 0, onclick: () => move(at, -1) }, "↑"), button({ class: "quiet small", "aria-label": `Move ${step.id} down`, disabled: at === own.draft.steps.length - 1, onclick: () => move(at, 1) }, "↓"),
      button({ class: "danger-quiet small", "aria-label": `Remove ${step.id}`, onclick: () => remove(step) }, "Remove")),
    issues(rest),
    h("div", { class: "edit-fields" },
      one("description", "Description", h("input", { value: step.description || "", dir: "auto", oninput: (event) => set(step, "description", event.target.value) })),
      one("agent_type", "Agent", h("input", { value: step.agent_type || "", list: "agent-types", autocomplete: "off", oninput: (event) => set(step, "agent_type", event.target.value) })),
      one("action", "Action", h("input", { value: step.action || "", autocomplete: "off", oninput: (event) => set(step, "action", event.target.value) })),
      one("timeout_ms", "Time limit (ms)", h("input", { type: "number", min: 1, value: step.timeout_ms ?? "", oninput: (event) => set(step, "timeout_ms", event.target.value ? Number(event.target.value) : undefined) })),
      one("inputs", "Inputs (JSON)", h("textarea", {
        class: "code-area", rows: Math.min(8, JSON.stringify(step.inputs || {}, null, 2).split("\n").length), spellcheck: "false", value: text ? text.text : JSON.stringify(step.inputs || {}, null, 2),
        oninput: (event) => {
          const entry = { text: event.target.value, error: "" };
          try { const value = JSON.parse(entry.text || "{}"); set(step, "inputs", Object.keys(value).length ? value : undefined); } catch (error) { entry.error = `not JSON: ${error.message}`; }
          own.inputs.set(step.id, entry);
          context.changed();
        },
      })),
      h("fieldset", { class: `field deps ${at_("dependencies").length ? "wrong" : ""}` }, h("legend", { class: "label" }, "Waits for", changes.includes("dependencies") ? h("span", { class: "tag" }, "changed") : null),
        others.length > 60 ? h("input", { "aria-label": `Dependencies of ${step.id}, separated by commas`, value: (step.dependencies || []).join(", "), onchange: (event) => set(step, "dependencies", event.target.value.split(",").map((id) => id.trim()).filter(Boolean)) })
          : h("div", { class: "chips" }, others.length ? others.map((other) => h("label", { key: other.id, class: "chip" }, h("input", { type: "checkbox", checked: (step.dependencies || []).includes(other.id), onchange: (event) => set(step, "dependencies", event.target.checked ? [...(step.dependencies || []), other.id] : (step.dependencies || []).filter((id) => id !== other.id)) }), h("span", null, other.id))) : dim("no other step")),
        at_("dependencies").map((issue) => h("span", { class: "issue" }, issue.detail, issue.hint ? ` – ${issue.hint}` : "")),
        changes.includes("dependencies") ? h("span", { class: "was dim" }, "was: ", shown(before.dependencies)) : null)));
}

const shown = (value) => (value === undefined ? "empty" : Array.isArray(value) ? value.join(", ") || "empty" : typeof value === "object" ? JSON.stringify(value).slice(0, 200) : String(value).slice(0, 200));
