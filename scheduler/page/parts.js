// The parts that screens are made of.

import { h } from "./dom.js";
import { EVERY_NAMESPACE, get, isOutage, link, planPath, session } from "./api.js";
import { onForget } from "./drafts.js";
import { COUNTS, EXPLAINED, STATUSES } from "./vocabulary.js";
import { bytes, capital, exact, parseTime, relative, shortTime, words } from "./format.js";

/**
 * What screens need of the frame.
 *
 * @type {{now: number, render: () => void, announce: (message: string) => void, go: (hash: string) => void, replace: (changes: Record<string, string | null>) => void, route: any, inbox: () => any}}
 */
export const app = { now: Date.now(), render: () => {}, announce: () => {}, go: () => {}, replace: () => {}, route: null, inbox: () => null };

/** The shortest parts. */
export const dim = (...parts) => h("span", { class: "dim" }, ...parts);
export const button = (props, ...parts) => h("button", { type: "button", ...props }, ...parts);
export const cell = (...parts) => h("td", null, ...parts);
export const figure = (...parts) => h("td", { class: "num" }, ...parts);
export const rowHead = (...parts) => h("th", { scope: "row" }, ...parts);

const ICONS = {
  copy: "M6 6h7v7H6zM3 10V3h7", close: "M4 4l8 8M12 4l-8 8", search: "M7 11.5a4.5 4.5 0 1 0 0-9a4.5 4.5 0 0 0 0 9M10.3 10.3L13.5 13.5",
  plans: "M2.5 4h3v3h-3zM10.5 2.5h3v3h-3zM10.5 10h3v3h-3zM5.5 5.5h3v6h2M8.5 4h2", approvals: "M3 8.5l3 3 7-8", playground: "M3.5 13L10 6.5l-.5-.5 1-1 1.5 1.5-1 1-.5-.5L4 13.5zM4 3v3M2.5 4.5h3",
  waits: "M4.5 2.5h7M4.5 13.5h7M5.5 2.5c0 4 5 7 5 11M10.5 2.5c0 4-5 7-5 11", stored: "M3 4.5c0-2.700 10-2.700 10 0v7c0 2.700-10 2.700-10 0zM3 4.500c0 2.500 10 2.500 10 0M3 8c0 2.500 10 2.500 10 0", compare: "M3 3h4v10H3zM9 3h4v10H9z", history: "M3 8a5 5 0 1 0 1.5-3.6L3 6M3 3v3h3M8 5.5V8l2 1.5", agents: "M5 5.5h6v6H5zM8 5.5v-2.5M3 8h2M11 8h2M7 8.2v.1M9 8.2v.1", workers: "M3 3.5h10v4H3zM3 9h10v4H3zM5 5.5h.1M5 11h.1",
  queues: "M3 4h10M3 8h10M3 12h6", dead: "M4 4.5h8v7H4zM4 5l4 3.5L12 5", events: "M3 3.5h.1M6 3.5h7M3 8h.1M6 8h7M3 12.5h.1M6 12.5h7", stats: "M3 13V8.5M7 13V3.5M11 13V6.5M2 13.5h12",
  menu: "M3 4.5h10M3 8h10M3 11.5h10", sun: "M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9", moon: "M12.5 10A5.2 5.2 0 0 1 6 3.5a5.2 5.2 0 1 0 6.5 6.5", system: "M2.5 3.5h11v7h-11zM6 13h4M8 10.5V13",
  tokens: "M6.500 10.500a3 3 0 1 1 0-5a3 3 0 0 1 0 5M8.500 8h5v2M11.500 8v1.500",
  model: "M3 3h10v7.500H7.500L4.500 13v-2.500H3zM5.500 5.500h5M5.500 8h3", tool: "M13 4.500a3.200 3.200 0 0 1-4.300 3.300L4.300 12.700a1.200 1.200 0 0 1-1.700-1.700L7 6.500A3.200 3.200 0 0 1 10.700 2.500L9 4.300l1.800 1.800z",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a2.5 2.5 0 0 1 3.5 3.5L10.5 8M5.5 8L4 9.5A2.5 2.5 0 0 0 7.5 13L9 11.5", down: "M4 6l4 4 4-4", right: "M6 4l4 4-4 4",
};

export function icon(name, label) {
  return h("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": label ? undefined : "true", role: label ? "img" : undefined, "aria-label": label, focusable: "false" },
    h("path", { d: ICONS[name] || STATUSES[name]?.icon || STATUSES.pending.icon }));
}

/** The colour of a status; the same in graph, timeline and lists. */
export const tone = (status) => STATUSES[status]?.tone || "idle";

export function status(name, more) {
  return h("span", { class: `status tone-${tone(name)}` }, icon(name), h("span", null, words(name)), more && h("span", { class: "more" }, more));
}

/** A relative time; the exact one is its title and its machine-readable form. */
export function time(value, fallback = "–") {
  const ms = parseTime(value);
  if (!Number.isFinite(ms)) return dim(fallback);
  return h("time", { datetime: new Date(ms).toISOString(), title: exact(ms) }, relative(ms, app.now));
}

/** The time of the day, with how far it is: what reads well after `until`. */
function moment(value) {
  const ms = parseTime(value);
  return h("time", { datetime: value, title: exact(ms) }, `${shortTime(ms, app.now).split(".")[0]} (${relative(ms, app.now)})`);
}

const MARKED = /`([^`]+)`|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/g;

/** A sentence of the scheduler: `code` in its face, times as times. */
export function prose(text) {
  const parts = [];
  let at = 0;
  for (const found of String(text).matchAll(MARKED)) {
    parts.push(text.slice(at, found.index), found[1] !== undefined ? h("code", null, found[1]) : moment(found[2]));
    at = found.index + found[0].length;
  }
  return [...parts, String(text).slice(at)];
}

/** Steps by status as one bar. */
export function progress(counts) {
  const total = counts.total || 0;
  const parts = COUNTS.filter(([name]) => counts[name]);
  const text = parts.map(([name]) => `${counts[name]} ${words(name)}`).join(", ");
  return h("span", { class: "progress", role: "img", "aria-label": total ? `${counts.completed} of ${total} steps: ${text}` : "no steps yet", title: text },
    h("span", { class: "bar" }, parts.map(([name, tone]) => h("span", { key: name, class: `seg tone-${tone}`, style: { "flex-grow": String(counts[name]) } }))),
    h("span", { class: "num" }, total ? `${counts.completed}/${total}` : "–"));
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h2", null, title), text && h("p", null, text), ...more);
}

export function skeleton(rows = 6) {
  return h("div", { class: "skeleton", role: "status", "aria-busy": "true", "aria-label": "loading" }, Array.from({ length: rows }, (_, i) => h("div", { class: `bone w${i % 4}` })));
}

/** A refusal of what a screen reads; that nothing can be had now is shown by the frame instead. */
export const trouble = (refusal, retry) => (refusal && !isOutage(refusal) ? problem(refusal, retry) : null);

/** What needs a role that the person does not have. */
export const forbidden = (message) => problem({ status: 403, message });

/** A refusal with its issues. */
export function problem(refusal, retry) {
  if (!refusal) return null;
  if (refusal.status === 403) {
    return h("div", { class: "notice forbidden", role: "alert" }, h("h2", null, "Not allowed"),
      h("p", null, prose(capital(refusal.message))), h("p", { class: "dim" }, `You are signed in as ${session.actor || "nobody"} with the ${session.roles.length === 1 ? "role" : "roles"} ${session.roles.join(", ") || "none"}, in ${session.namespace === EVERY_NAMESPACE ? "all namespaces" : `the namespace ${session.namespace || "default"}`}. An administrator can give you another token.`));
  }
  const isDown = refusal.status === 0;
  return h("div", { class: `notice ${isDown ? "warn" : "bad"}`, role: "alert" },
    h("p", null, h("strong", null, isDown ? "Disconnected" : refusal.title || "Refused"), " ", isDown ? refusal.message : refusal.more, refusal.code && !isDown ? h("code", { class: "code" }, refusal.code) : null),
    issues(refusal.errors),
    retry && button({ onclick: retry }, "Try again"));
}

export function issues(list) {
  if (!list?.length) return null;
  return h("ul", { class: "issues" }, list.slice(0, 50).map((issue) => h("li", null,
    h("code", null, issue.pointer || "/"), " ", prose(issue.detail || ""), issue.hint ? dim(" – ", prose(issue.hint)) : null, " ", h("code", { class: "code" }, issue.code))));
}

/** Copies to the clipboard; on plain HTTP by a selection. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  app.announce("copied");
}

export const copyButton = (text, label = "Copy") =>
  button({ class: "quiet small", onclick: () => copy(typeof text === "function" ? text() : text), "aria-label": label }, icon("copy"), h("span", null, "Copy"));

const isLimited = () => session.selected && session.namespace === EVERY_NAMESPACE;

/** Commands that do the same. Those without a `curl` do not call the API. */
export function commands(cli, curl, open = false) {
  if (cli && curl && isLimited()) cli += ` --namespace ${session.selected}`;
  const line = (name, text) => text && h("div", { class: "command" }, dim(name), h("pre", { tabindex: "0" }, text), copyButton(text, `Copy the ${name} command`));
  return h("details", { class: "commands", open }, h("summary", null, "Same as a command"), line("CLI", cli), line("curl", curl));
}

export function curl(method, path, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const token = session.authentication && session.authentication !== "none" ? ` \\\n  -H "Authorization: Bearer $GOALMILL_TOKEN"` : "";
  const limit = isLimited() ? ` \\\n  -H 'Goalmill-Namespace: ${session.selected}'` : "";
  const data = method === "GET" || method === "DELETE" ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body === undefined ? {} : body))}`;
  return `curl -fsS${method === "GET" ? "" : ` -X ${method}`} ${quoted(location.origin + path)}${token}${limit}${data}`;
}

const TEXT_MAX = 2_000;
const ITEMS_MAX = 100;

const isStored = (value) => typeof value.$blob === "string" && Number.isFinite(value.bytes);

/** The bytes of the large values that are stored apart from this one. */
const storedBytes = (value) => (value === null || typeof value !== "object" ? 0 : isStored(value) ? value.bytes : Object.values(value).reduce((sum, part) => sum + storedBytes(part), 0));

/** What stands for a large value: it is read when somebody wants to see it. */
function storedPart(value, load, opened) {
  const { isLoading, refusal, content } = opened.get("whole") || {};
  return [dim(`${bytes(value.bytes)}, stored apart`), " ", content !== undefined ? dim("It does not fit into one answer: ", h("code", null, "goalmill plan results --whole"), " has it, until it expires.") : load ? button({ class: "quiet small", disabled: isLoading, onclick: () => loadWhole(load, opened) }, isLoading ? "Loading …" : `Load ${bytes(value.bytes)}`) : null, refusal ? problem(refusal) : null];
}

async function loadWhole(load, opened) {
  opened.set("whole", { isLoading: true });
  app.render();
  try { opened.set("whole", { content: (await load()) ?? null }); } catch (refusal) { opened.set("whole", { refusal }); }
  app.render();
}

/** Reads the outputs of a step, or with `""` the result of a plan, with all that is stored apart. */
export const wholeOf = (plan, step) => async () => (step ? (await get(`${planPath(plan)}/steps/${encodeURIComponent(step)}?whole=true`)).outputs : (await get(`${planPath(plan)}/results?whole=true`)).final_output);

function jsonNode(value, name, depth, path, opened) {
  const label = name === undefined ? null : h("span", { class: "json-key" }, `${name}: `);
  if (value !== null && typeof value === "object") {
    if (isStored(value)) return h("div", { class: "json-leaf" }, label, storedPart(value, opened.load, opened));
    const keys = Object.keys(value);
    const isList = Array.isArray(value);
    const count = `${isList ? "[" : "{"}${keys.length}${isList ? "]" : "}"}`;
    if (!keys.length) return h("div", { class: "json-leaf" }, label, dim(isList ? "[]" : "{}"));
    const isOpen = opened.has(path) ? opened.get(path) : depth < 2 && keys.length <= 20;
    return h("details", { open: isOpen, ontoggle: (event) => { if (event.target.open !== isOpen) { opened.set(path, event.target.open); app.render(); } } },
      h("summary", null, label, dim(count)),
      isOpen && h("div", { class: "json-in" }, keys.slice(0, ITEMS_MAX).map((key) => jsonNode(value[key], isList ? Number(key) : key, depth + 1, `${path}/${key}`, opened)),
        keys.length > ITEMS_MAX && h("div", { class: "dim" }, `… ${keys.length - ITEMS_MAX} more; copy or download to see all`)));
  }
  return h("div", { class: "json-leaf" }, label, scalar(value, path, opened));
}

function scalar(value, path, opened) {
  if (typeof value !== "string") return h("span", { class: `json-${value === null ? "null" : typeof value}` }, String(value));
  if (value.length <= TEXT_MAX || opened.get(path) === "all") return h("span", { class: "json-string" }, value);
  return h("span", { class: "json-string" }, value.slice(0, TEXT_MAX), "… ",
    button({ class: "quiet small", onclick: () => { opened.set(path, "all"); app.render(); } }, `show all ${bytes(value.length)}`));
}

const openedByName = new Map();
onForget(() => openedByName.clear());

/**
 * Any JSON as a tree of texts, with copy and download.
 *
 * - `load`: reads it with the parts that are stored apart.
 */
export function json(given, name, load) {
  if (given === undefined) return h("p", { class: "dim" }, "none");
  const opened = openedByName.get(name) || openedByName.set(name, new Map()).get(name);
  if (openedByName.size > 200) openedByName.delete(openedByName.keys().next().value);
  opened.load = load;
  const value = opened.get("whole")?.content ?? given;
  const text = () => JSON.stringify(value, null, 2);
  const apart = storedBytes(value);
  return h("div", { class: "json" },
    h("div", { class: "json-tools" }, h("span", { class: "dim num" }, bytes(jsonSize(value)), apart ? ` and ${bytes(apart)} stored apart` : ""), copyButton(text), button({ class: "quiet small", onclick: () => download(`${name.replace(/[^A-Za-z0-9_-]+/g, "-")}.json`, text()) }, "Download")),
    h("div", { class: "json-tree", dir: "auto" }, jsonNode(value, undefined, 0, "", opened)));
}

const sizes = new WeakMap();
/** Characters of a value as JSON. */
export function jsonSize(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value).length;
  if (!sizes.has(value)) sizes.set(value, JSON.stringify(value).length);
  return sizes.get(value);
}

export function download(name, text, type = "application/json") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

/** Whether a code is one of ours; `HTTP_503` is explained as `HTTP_NNN`. */
const isOurs = (code) => EXPLAINED.some((known) => known === code || (/_N+$/.test(known) && code.startsWith(known.replace(/N+$/, "")) && /_\d+$/.test(code)));
/** The command that explains a code; agents send codes of their own, of which it knows nothing. */
export const explainCommand = (code) => (isOurs(code) ? `goalmill explain ${code}` : "");

export const field = (label, control, hint, wrong) => h("label", { class: `field ${wrong ? "wrong" : ""}` }, h("span", { class: "label" }, label), control,
  wrong ? h("span", { class: "issue" }, wrong) : hint && h("span", { class: "hint" }, hint));

export const planLink = (id, params = "") => `#/plans/${encodeURIComponent(id)}${params}`;
export const pageHead = (title, ...more) => h("header", { class: "page-head" }, h("h1", { tabindex: "-1", id: "title" }, title), h("div", { class: "page-tools" }, ...more));
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter((pair) => pair && pair[1] !== undefined && pair[1] !== null && pair[1] !== "").map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
export const isStale = () => !link.isUp;
/** Whether what is shown is of now. */
export const upToDate = (text = "live") => h("span", { class: "dim num" }, isStale() ? "from before" : text);
export const searchBox = (label, value, oninput) => h("label", { class: "search" }, h("span", { class: "visually-hidden" }, label), icon("search"), h("input", { type: "search", placeholder: label, value, maxlength: 200, dir: "auto", oninput: (event) => oninput(event.target.value) }));

/** Columns whose cells need no label where the table is a list. */
const PLAIN = new Set(["Status", "Steps", "Details", "Event", "Plan", "Can do", "State", "Difference", "Met", "#"]);

/** A table that scrolls inside its frame; on narrow screens it is a list, whose cells have their column as a label. */
export function table(caption, heads, rows, options = {}) {
  // A number says nothing without its column.
  const labels = heads.map((head) => (head.isHidden || (PLAIN.has(head.text ?? head) && (!head.num || head.text === "#")) ? "" : head.text ?? head));
  for (const row of rows.flat()) row?.children.forEach((cell, i) => { if (cell.tag === "td" && labels[i] && !labels[i].startsWith("Time (")) cell.props["data-label"] = labels[i]; });
  return h("div", { class: "table-frame", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { class: options.class || "" }, h("caption", { class: "visually-hidden" }, caption),
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col", class: head.num ? "num" : "" }, head.isHidden ? h("span", { class: "visually-hidden" }, head.text) : head.text ?? head)))),
      h("tbody", null, rows)));
}
