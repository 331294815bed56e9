// Saved views of the list of plans: filters under a name, kept by the browser for the person who is signed in. The address of
// a view has its filters and its name, so that it can be sent to somebody.

import { h } from "./dom.js";
import { Refusal } from "./api.js";
import { ask } from "./actions.js";
import { owner } from "./drafts.js";
import { app, button, copy, icon } from "./parts.js";

const KEY = "goalmill.views";
const VIEWS_MAX = 50;
const NAME_MAX = 60;
const QUERY_MAX = 2_000;
const FILTERS = ["q", "status", "failed", "agent", "since", "cost"];


/** All views of the browser: `{owner, name, query}`. */
function readAll() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(kept) ? kept.filter((one) => one && ["owner", "name", "query"].every((part) => typeof one[part] === "string")) : [];
  } catch { return []; }
}

let shown = null;
window.addEventListener("storage", (event) => { if (event.key === KEY) { shown = null; app.render(); } });

/** The views of the person. */
export function views() {
  if (shown?.owner !== owner()) shown = { owner: owner(), list: readAll().filter((one) => one.owner === owner()).slice(0, VIEWS_MAX) };
  return shown.list;
}

const refused = (detail) => new Refusal(400, { title: "Not saved", detail });

function write(change) {
  const all = readAll();
  const own = change(all.filter((one) => one.owner === owner()));
  if (own.length > VIEWS_MAX) throw refused(`There may be ${VIEWS_MAX} views; delete one first.`);
  try { localStorage.setItem(KEY, JSON.stringify([...all.filter((one) => one.owner !== owner()), ...own])); } catch { throw refused("The browser keeps nothing for this page."); }
  shown = null;
  app.render();
}

/** The filters of the address in one order, so that equal ones are equal texts. */
function filtersOf(params) {
  const given = [...FILTERS, "namespace"].map((name) => [name, (params.get(name) || "").trim()]).filter(([, value]) => value);
  return new URLSearchParams(given).toString().slice(0, QUERY_MAX);
}

const hasFilter = (params) => FILTERS.some((name) => params.get(name));
/** The name of the view of the address. */
export const viewName = () => (app.route.params.get("view") || "").trim().slice(0, NAME_MAX);
const addressOf = (view) => `#/plans?${view.query}${view.query ? "&" : ""}view=${encodeURIComponent(view.name)}`;

/** A dialog that keeps the filters of the address under a name. */
function naming(title, name, save) {
  return {
    title, verb: "Save", text: "The filters of the list are kept under this name, in this browser.", fields: [{ name: "name", label: "Name", value: name, required: true, hint: `At most ${NAME_MAX} characters` }],
    request: () => ({ path: "" }), then: () => {},
    perform: (values) => {
      const wanted = values.name.trim().slice(0, NAME_MAX);
      save(wanted);
      app.replace({ view: wanted });
      app.announce(`The view ${wanted} is saved`);
    },
  };
}

const put = (name, query) => write((own) => { const known = own.findIndex((one) => one.name === name); const view = { owner: owner(), name, query }; return known < 0 ? [...own, view] : own.with(known, view); });

function refuseKnown(name) {
  if (views().some((one) => one.name === name)) throw refused(`There is a view ${name} already.`);
}

function rename(from, to, query) {
  if (from !== to) refuseKnown(to);
  write((own) => own.map((one) => (one.name === from ? { owner: owner(), name: to, query } : one)));
}

const remove = (name) => ({
  title: "Delete the view", verb: "Delete", text: `The view ${name} is forgotten by this browser. Plans stay as they are.`, isDangerous: true, request: () => ({ path: "" }), then: () => {},
  perform: () => { write((own) => own.filter((one) => one.name !== name)); app.replace({ view: null }); },
});

/** The line of views above the filters; null while there are neither views nor filters. */
export function viewsLine() {
  const { params } = app.route;
  const list = views(), name = viewName(), query = filtersOf(params);
  if (!list.length && !hasFilter(params)) return null;
  const current = list.find((one) => one.name === name);
  const isChanged = Boolean(current && current.query !== query);
  const isForeign = Boolean(name && !current);
  return h("nav", { class: "views", "aria-label": "Saved views" },
    list.length ? h("ul", null, h("li", { key: "" }, h("a", { class: "view", href: "#/plans", "aria-current": !name && !hasFilter(params) ? "true" : undefined }, "All plans")),
      list.map((view) => h("li", { key: view.name }, h("a", { class: "view", dir: "auto", href: addressOf(view), "aria-current": view === current ? "true" : undefined }, view.name, view === current && isChanged ? " (changed)" : "")))) : null,
    isForeign ? h("span", { class: "dim" }, "The view ", h("strong", { dir: "auto" }, name), " of this address is not saved here.") : null,
    hasFilter(params) && (!current || isChanged) ? button({ class: "small", onclick: () => ask(naming("Save a view", isForeign ? name : "", (wanted) => { refuseKnown(wanted); put(wanted, query); })) }, isChanged ? "Save as another …" : "Save as a view …") : null,
    isChanged ? button({ class: "small", onclick: () => { try { put(name, query); app.announce(`The view ${name} has these filters now`); } catch (refusal) { app.announce(refusal.message); } } }, "Update the view") : null,
    current ? [button({ class: "quiet small", onclick: () => copy(new URL(addressOf({ name, query }), location.href).href) }, icon("link"), "Copy link"), button({ class: "quiet small", onclick: () => ask(naming("Rename the view", name, (wanted) => rename(name, wanted, current.query))) }, "Rename …"), button({ class: "quiet small", onclick: () => ask(remove(name)) }, "Delete …")] : null);
}
