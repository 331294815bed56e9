// Approvals of the items of one map as one card: a row for each item with its inputs, and one action for all or for some.

import { h } from "./dom.js";
import { can, planPath, post } from "./api.js";
import { because } from "./actions.js";
import { onForget } from "./drafts.js";
import { bulkBar, bulkButtons, selectBox, selection } from "./bulk.js";
import { app, button, cell, dim, icon, json, planLink, rowHead, table } from "./parts.js";
import { number, plural } from "./format.js";
import { deadline, isSoon } from "./plans.js";

/** Items that a card shows at first, and at most. */
const ROWS = 12;
const ROWS_MAX = 500;
/** Inputs that have a column each; more of them, or nested ones, are a line. */
const COLUMNS_MAX = 4;
const PAIRS_MAX = 12;
const TEXT_MAX = 160;

/** What is selected and shown, by card. */
const cards = new Map();
const CARDS_MAX = 100;
onForget(() => cards.clear());

function stateOf(key) {
  if (!cards.has(key)) cards.set(key, { selected: selection(), shown: ROWS, opened: new Set(), hadSelection: false });
  if (cards.size > CARDS_MAX) cards.delete(cards.keys().next().value);
  return cards.get(key);
}

const verb = (name, title, text, more) => ({ title, text, noun: "item", fits: () => true, hasReason: true, send: (item, values) => post(`${planPath(item.plan)}/steps/${encodeURIComponent(item.id)}:${name}`, because(values)), ...more });
const label = (item) => h("a", { href: planLink(item.plan, `?step=${encodeURIComponent(item.id)}`) }, item.id);

/**
 * The buttons that decide on all of the members, and those of some beside them: what a button decides never changes.
 *
 * - `some`: a list, or null where none can be chosen.
 */
export function itemButtons(group, some, then) {
  if (!can("approver")) return null;
  const where = `${group.map} in ${group.parentName || group.parent}`;
  const verbs = (all, more) => [verb("approve", `Approve${all}`, "Each of these items starts.", { isPrimary: true, where, ...more }), verb("reject", `Reject${all}`, "Each of these items fails before it starts.", { isDangerous: true, where, ...more })];
  return [bulkButtons(verbs(" all", some && { isPrimary: false }), group.members, label, then), some ? bulkButtons(verbs("", { isKept: true }), some, label, then) : null];
}

/** A scalar as it is read, everything else as JSON. */
const shortText = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** The inputs of all members: their names, if each may have a column. */
function columnsOf(members) {
  const names = new Set();
  for (const { inputs } of members) {
    if (inputs === null || typeof inputs !== "object" || Array.isArray(inputs)) return null;
    for (const [name, value] of Object.entries(inputs)) {
      if (value !== null && typeof value === "object") return null;
      names.add(name);
    }
    if (names.size > COLUMNS_MAX) return null;
  }
  return [...names];
}

/** The button that shows the inputs of an item whole, or in a line again. */
const opener = (own, item, text) => button({ class: "quiet small", "aria-label": `${own.opened.has(item.id) ? "Show less" : text} of ${item.id}`, onclick: () => { if (!own.opened.delete(item.id)) own.opened.add(item.id); app.render(); } }, own.opened.has(item.id) ? "Show less" : text);

/** Inputs in a line: each with its name, and cut where it is long; whole where a person asks for it. */
function inline(own, item) {
  const { inputs } = item;
  if (own.opened.has(item.id)) return [json(inputs, `item-${item.key}`), opener(own, item)];
  const isNamed = inputs !== null && typeof inputs === "object" && !Array.isArray(inputs);
  const pairs = isNamed ? Object.entries(inputs) : [["", inputs]];
  const most = isNamed ? TEXT_MAX / 2 : TEXT_MAX;
  const texts = pairs.slice(0, PAIRS_MAX).map(([name, value]) => ({ name, value, text: shortText(value) }));
  const rest = pairs.length - texts.length;
  return [
    h("span", { class: "pairs" }, texts.map(({ name, value, text }) => h("span", { key: name }, name ? dim(`${name} `) : null, h(value !== null && typeof value === "object" ? "code" : "span", { dir: "auto" }, text.slice(0, most), text.length > most ? "…" : "")))),
    rest > 0 ? opener(own, item, `and ${number(rest)} more`) : texts.some(({ text }) => text.length > most) ? opener(own, item, "Show all") : null];
}

export function itemsCard(group, then) {
  const own = stateOf(group.key);
  const members = group.members;
  const byId = new Map(members.map((item) => [item.id, item]));
  // What was decided meanwhile is selected no more.
  for (const id of [...own.selected.items.keys()]) if (byId.has(id)) own.selected.items.set(id, byId.get(id)); else own.selected.items.delete(id);
  own.hadSelection ||= own.selected.items.size > 0;
  const listed = members.slice(0, ROWS_MAX), shown = listed.slice(0, own.shown);
  const names = columnsOf(listed);
  const hasReasons = members.some((item) => item.step.reason);
  const mayDecide = can("approver");
  const isLong = (item) => Boolean(names?.some((name) => shortText(item.inputs[name]).length > TEXT_MAX));
  const cut = (value, isOpen) => { const text = shortText(value); return text.length > TEXT_MAX && !isOpen ? `${text.slice(0, TEXT_MAX)}…` : text || dim("–"); };
  const heads = [mayDecide ? { text: "Selection", isHidden: true } : null, "Item", hasReasons ? "Asks" : null, ...(names ? names.map((name) => ({ text: name, num: listed.every((item) => typeof item.inputs[name] === "number") })) : ["Inputs"])].filter(Boolean);
  const rest = members.length - shown.length;
  return h("li", { key: group.key, class: `card-item tone-${isSoon(group.due) ? "bad" : "person"}` },
    h("div", { class: "title-line" }, h("span", { class: "status tone-person" }, icon("awaiting_approval"), h("span", null, "Items")), h("a", { href: planLink(group.plan), class: "strong", dir: "auto" }, group.name), group.parent ? h("span", { class: "dim" }, "of ", h("a", { href: planLink(group.parent, `?step=${encodeURIComponent(group.map)}`), dir: "auto" }, group.parentName || group.parent)) : null, h("div", { class: "spring" }), deadline(group)),
    h("p", { dir: "auto" }, `${plural(members.length, "item")} of ${group.map} wait for approval`, group.step.description ? `: ${group.step.description}` : ""),
    mayDecide ? bulkBar({ selected: own.selected, shown: shown.map((item) => [item.id, item]), buttons: null }) : null,
    table(`Items of ${group.map} in ${group.plan}`, heads, shown.map((item) => h("tr", { key: item.id },
      mayDecide ? h("td", { class: "select" }, selectBox(own.selected, item.id, item, item.id)) : null,
      rowHead(label(item), isLong(item) ? opener(own, item, "Show all") : null), hasReasons ? h("td", { dir: "auto" }, item.step.reason || null) : null,
      names ? names.map((name) => h("td", { dir: "auto", class: typeof item.inputs[name] === "number" ? "num" : "" }, cut(item.inputs[name], own.opened.has(item.id)))) : cell(inline(own, item)))), { class: `item-table ${mayDecide ? "selectable" : ""}` }),
    rest > 0 ? own.shown < ROWS_MAX ? button({ class: "small more", onclick: () => { own.shown = own.shown === ROWS ? 100 : ROWS_MAX; app.render(); } }, `Show more of ${plural(rest, "item")}`) : dim(`and ${number(rest)} more`) : null,
    h("div", { class: "buttons" }, itemButtons(group, own.hadSelection ? own.selected.list() : null, () => { own.selected.clear(); then(); })));
}
