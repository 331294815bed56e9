// Stored plans: a list, one plan with its versions, and a form that runs one.

import { h } from "./dom.js";
import { can, get } from "./api.js";
import { actionButtons, because, reasonFlag } from "./actions.js";
import { app, button, cell, commands, curl, dim, empty, facts, figure, json, pageHead, planLink, prose, rowHead, searchBox, skeleton, table, time, trouble } from "./parts.js";
import { readSchema, schemaFields } from "./forms.js";
import { storedRuns } from "./trends.js";
import { number, plural, quote } from "./format.js";

const storedLink = (name, version) => `#/stored/${encodeURIComponent(name)}${version ? `?version=${version}` : ""}`;
const storedPath = (reference) => `/v1/stored-plans/${encodeURIComponent(reference)}`;

export function storedScreen(route) {
  return route.path[1] ? versionScreen(route.path[1]) : listScreen();
}

function listScreen() {
  const own = { items: null, refusal: null };
  const read = () => get("/v1/stored-plans").then((page) => Object.assign(own, { items: page.items, refusal: null }), (refusal) => { own.refusal = refusal; }).then(() => app.render());
  read();
  return {
    title: () => "Stored plans",
    view: () => [pageHead("Stored plans"), trouble(own.refusal, read), own.items ? list(own.items) : own.refusal ? null : skeleton(5)],
  };
}

function list(items) {
  if (!items.length) return empty("No plan is stored yet", "A stored plan has a name and numbered versions; it runs with its inputs, from here, from a program, or as a step of another plan.", commands("goalmill plan put trip.yaml", "", true));
  const text = (app.route.params.get("q") || "").trim().toLowerCase();
  const found = items.filter((one) => !text || `${one.name} ${one.description || ""}`.toLowerCase().includes(text));
  return [
    h("div", { class: "filters" }, searchBox("Name or description", app.route.params.get("q") || "", (q) => { app.replace({ q: q || null }); app.render(); })),
    found.length ? table("Stored plans", ["Plan", { text: "Version", num: true }, { text: "Steps", num: true }, "Inputs", "Stored", "By"], found.map((one) => h("tr", { key: one.name },
      rowHead(h("a", { href: storedLink(one.name) }, one.name), " ", one.retired ? h("span", { class: "tag" }, "retired") : null, h("div", { class: "dim", dir: "auto" }, one.description)),
      figure(number(one.version)), figure(number(one.steps)), cell(Object.keys(one.input_schema?.properties || {}).join(", ") || dim("–")), cell(time(one.stored_at)), cell(one.actor)))) : empty("Nothing matches"),
    commands("goalmill plan list --stored", curl("GET", "/v1/stored-plans"))];
}

function versionScreen(name) {
  const own = { versions: null, shown: null, refusal: null };
  const read = async () => {
    try {
      const versions = (await get(`${storedPath(name)}/versions`)).items;
      const asked = Number(app.route.params.get("version")) || Math.max(...versions.map((one) => one.version));
      const shown = await get(storedPath(`${name}@${asked}`));
      Object.assign(own, { versions, shown, refusal: null });
    } catch (refusal) { own.refusal = refusal; }
    app.render();
  };
  const runs = storedRuns(name);
  const show = (version) => { app.replace({ version: String(version) }); read(); };
  read();
  return {
    title: () => name,
    close: runs.close,
    view: () => [pageHead(name), h("p", { class: "crumbs" }, h("a", { href: "#/stored" }, "Stored plans")), trouble(own.refusal, read), own.shown ? version(own, show, read, runs) : own.refusal ? null : skeleton(6)],
  };
}

function version(own, show, read, runs) {
  const { shown, versions } = own;
  const reference = `${shown.name}@${shown.version}`;
  const actions = shown.retired ? [] : [can("submitter") && run(shown, reference), can("operator") && retire(reference, read)].filter(Boolean);
  return [
    h("section", { class: "panel" },
      h("div", { class: "title-line" }, h("h2", null, `Version ${shown.version}`), shown.retired ? h("span", { class: "tag" }, "retired") : null, h("div", { class: "spring" }), actionButtons(actions)),
      shown.description ? h("p", { dir: "auto" }, shown.description) : null,
      shown.retired ? h("p", { class: "dim" }, `No new plan begins from it: retired by ${shown.retired.actor}`, shown.retired.reason ? `, ${shown.retired.reason}` : "", " ", time(shown.retired.at)) : can("submitter") ? null : h("p", { class: "dim" }, "Running it needs the role submitter."),
      facts([["Steps", number(shown.steps)], ["Stored", time(shown.stored_at)], ["By", shown.actor]]),
      inputsTable(shown.input_schema),
      h("h3", null, "Document"), json(shown.document, `stored-${reference}`),
      commands(`goalmill run ${reference}`, curl("POST", `${storedPath(reference)}:run`, { inputs: {} }))),
    runs.view(),
    h("section", { class: "panel" }, h("h2", null, "Versions"),
      table("Versions", [{ text: "Version", num: true }, "Stored", "By", "Description"], [...versions].sort((a, b) => b.version - a.version).map((one) => h("tr", { key: one.version, class: one.version === shown.version ? "selected" : "" },
        figure(button({ class: "link", onclick: () => show(one.version), "aria-label": `Show version ${one.version}` }, one.version)), cell(time(one.stored_at)), cell(one.actor), cell(one.retired ? h("span", { class: "tag" }, "retired") : null, " ", one.description || "")))))];
}

function inputsTable(schema) {
  const properties = Object.entries(schema?.properties || {});
  if (!properties.length) return h("p", { class: "dim" }, "It takes no inputs.");
  const required = schema.required || [];
  return [h("h3", null, "Inputs"), table("Inputs", ["Name", "Type", "Default", "Description"], properties.map(([name, one]) => h("tr", { key: name }, rowHead(name, " ", required.includes(name) ? h("span", { class: "tag" }, "required") : null), cell(one.enum ? one.enum.map((value) => JSON.stringify(value)).join(" | ") : one.type || "anything"), cell(one.default === undefined ? dim("–") : h("code", null, JSON.stringify(one.default))), cell(prose(one.description || "")))))];
}

/** A form with a field for each input; what is left empty has its default. */
function run(shown, reference) {
  const schema = { type: "object", ...shown.input_schema };
  const names = Object.keys(schema.properties || {});
  const inputs = (values) => (names.length ? readSchema(schema, "inputs", values) : {});
  const flags = (values) => { try { return Object.entries(inputs(values)).map(([name, value]) => ` --input ${quote(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)}`).join(""); } catch { return " …"; } };
  return {
    title: `Run ${reference}`, verb: "Run", text: names.length ? `A new plan begins with these ${plural(names.length, "input")}.` : "A new plan begins; it takes no inputs.", key: "run", isPrimary: true,
    fields: names.length ? schemaFields(schema, { name: "inputs", pointer: "/inputs" }) : [],
    request: (values) => ({ path: `${storedPath(reference)}:run`, body: { inputs: inputs(values) } }),
    cli: (values) => `goalmill run ${reference}${flags(values)}`,
    then: (answer) => { if (answer?.plan_id) app.go(planLink(answer.plan_id)); },
  };
}

const retire = (reference, then) => ({
  title: "Retire", text: "No new plan begins from this version; plans that run go on.", key: "retire", isDangerous: true, then, fields: [{ name: "reason", label: "Reason", hint: "Kept with the version; may be empty" }],
  request: (values) => ({ path: `${storedPath(reference)}:retire`, body: because(values) }),
  cli: (values) => `goalmill plan retire ${reference}${reasonFlag(values)}`,
});
