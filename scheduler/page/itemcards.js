// Approvals of the items of one map as one card: a row for each item with its inputs, and one action for all or for some.

import { h } from "./dom.js";
import { can, planPath, post } from "./api.js";
import { because } from "./actions.js";
import { bulkBar, bulkButtons, selectBox, selection } from "./bulk.js";
import { app, button, cell, dim, icon, planLink, rowHead, table } from "./parts.js";
import { number, plural } from "./format.js";
import { deadline, isSoon } from "./plans.js";

/** Items that a card shows at first, and at most. */
const ROWS = 12;
const ROWS_MAX = 500;
/** Inputs that have a column each; more of them, or nested ones, are a line. */
const COLUMNS_MAX = 4;
const TEXT_MAX = 160;

/** What is selected and shown, by card. */
const cards = new Map();
const CARDS_MAX = 100;

function stateOf(key) {
  if (!cards.has(key)) cards.set(key, { selected: selection(), shown: ROWS });
  if (cards.size > CARDS_MAX) cards.delete(cards.keys().next().value);
  return cards.get(key);
}

const verb = (name, title, text, more) => ({ title, text, noun: "item", fits: () => true, hasReason: true, send: (item, values) => post(`${planPath(item.plan)}/steps/${encodeURIComponent(item.id)}:${name}`, because(values)), ...more });
const label = (item) => h("a", { href: planLink(item.plan, `?step=${encodeURIComponent(item.id)}`) }, item.id);

/** The buttons that decide on some of the members, or without any on all. */
export function itemButtons(group, some, then) {
  if (!can("approver")) return null;
  const all = some.length ? "" : " all";
  return bulkButtons([verb("approve", `Approve${all}`, "Each of these items starts.", { isPrimary: true }), verb("reject", `Reject${all}`, "Each of these items fails before it starts.", { isDangerous: true })], some.length ? some : group.members, label, then);
}

/** A scalar as it is read, everything else as JSON. */
const shortText = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** The inputs of all members: their names, if each may have a column. */
function columnsOf(members) {
  const names = new Set();
  for (const { inputs } of members.slice(0, ROWS_MAX)) {
    if (inputs === null || typeof inputs !== "object" || Array.isArray(inputs)) return null;
    for (const [name, value] of Object.entries(inputs)) {
      if (value !== null && typeof value === "object") return null;
      names.add(name);
    }
    if (names.size > COLUMNS_MAX) return null;
  }
  return [...names];
}

/** Inputs in a line: each with its name, and cut where it is long. */
function inline(inputs) {
  if (inputs === null || typeof inputs !== "object" || Array.isArray(inputs)) return h("code", null, shortText(inputs).slice(0, TEXT_MAX));
  return h("span", { class: "pairs" }, Object.entries(inputs).slice(0, 3 * COLUMNS_MAX).map(([name, value]) => { const text = shortText(value); return h("span", { key: name }, dim(`${name} `), h(value !== null && typeof value === "object" ? "code" : "span", { dir: "auto", title: text.length > TEXT_MAX / 2 ? text.slice(0, 2_000) : undefined }, text.slice(0, TEXT_MAX / 2), text.length > TEXT_MAX / 2 ? "…" : "")); }));
}

export function itemsCard(group, then) {
  const own = stateOf(group.key);
  const members = group.members;
  const byId = new Map(members.map((item) => [item.id, item]));
  // What was decided meanwhile is selected no more.
  for (const id of [...own.selected.items.keys()]) if (byId.has(id)) own.selected.items.set(id, byId.get(id)); else own.selected.items.delete(id);
  const shown = members.slice(0, Math.min(own.shown, ROWS_MAX));
  const names = columnsOf(members);
  const hasReasons = members.some((item) => item.step.reason);
  const mayDecide = can("approver");
  const cut = (value) => { const text = shortText(value); return text.length > TEXT_MAX ? h("span", { title: text.slice(0, 2_000) }, `${text.slice(0, TEXT_MAX)}…`) : text || dim("–"); };
  const heads = [mayDecide ? { text: "Selection", isHidden: true } : null, "Item", hasReasons ? "Asks" : null, ...(names ? names.map((name) => ({ text: name, num: members.every((item) => typeof item.inputs[name] === "number") })) : ["Inputs"])].filter(Boolean);
  const rest = members.length - shown.length;
  return h("li", { key: group.key, class: `card-item tone-${isSoon(group.due) ? "bad" : "person"}` },
    h("div", { class: "title-line" }, h("span", { class: "status tone-person" }, icon("awaiting_approval"), h("span", null, "Items")), h("a", { href: planLink(group.plan), class: "strong", dir: "auto" }, group.name), group.parent ? h("span", { class: "dim" }, "of ", h("a", { href: planLink(group.parent, `?step=${encodeURIComponent(group.map)}`), dir: "auto" }, group.parentName || group.parent)) : null, h("div", { class: "spring" }), deadline(group)),
    h("p", { dir: "auto" }, `${plural(members.length, "item")} of ${group.map} wait for approval`, group.step.description ? `: ${group.step.description}` : ""),
    mayDecide ? bulkBar({ selected: own.selected, shown: shown.map((item) => [item.id, item]), buttons: null }) : null,
    table(`Items of ${group.map} in ${group.plan}`, heads, shown.map((item) => h("tr", { key: item.id },
      mayDecide ? h("td", { class: "select" }, selectBox(own.selected, item.id, item, item.id)) : null,
      rowHead(label(item)), hasReasons ? h("td", { dir: "auto" }, item.step.reason || null) : null,
      names ? names.map((name) => h("td", { dir: "auto", class: typeof item.inputs[name] === "number" ? "num" : "" }, cut(item.inputs[name]))) : cell(inline(item.inputs)))), { class: `item-table ${mayDecide ? "selectable" : ""}` }),
    rest > 0 ? own.shown < ROWS_MAX ? button({ class: "small more", onclick: () => { own.shown = own.shown === ROWS ? 100 : ROWS_MAX; app.render(); } }, `Show more of ${plural(rest, "item")}`) : dim(`and ${number(rest)} more`) : null,
    h("div", { class: "buttons" }, itemButtons(group, own.selected.list(), () => { own.selected.clear(); then(); })));
}
