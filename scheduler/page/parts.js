// The parts that screens are made of.

import { h } from "./dom.js";
import { link, session } from "./api.js";
import { bytes, exact, parseTime, relative, shortTime, words } from "./format.js";

export const app = { now: Date.now(), render: () => {}, announce: () => {}, go: () => {}, route: null };

const ICONS = {
  pending: "M4 8h8", blocked: "M4 4l8 8M4 12a5.700 5.700 0 1 1 8-8a5.700 5.700 0 0 1-8 8", ready: "M5 3.500l7 4.500-7 4.500z",
  queued: "M3.500 4.500h9M3.500 8h9M3.500 11.500h5", running: "M8 2.500a5.500 5.500 0 1 1-5.500 5.500M8 5v3l2.200 1.600",
  retrying: "M12.500 5.500A5.200 5.200 0 1 0 13 9M12.800 2.500v3.200H9.600", awaiting_approval: "M8 7.200a2.300 2.300 0 1 0 0-4.600a2.300 2.300 0 0 0 0 4.600M3.600 13.500a4.400 4.400 0 0 1 8.800 0",
  completed: "M3.500 8.500l3 3 6-7", failed: "M4.200 4.200l7.600 7.600M11.800 4.200l-7.600 7.600", skipped: "M3.500 4l4.500 4-4.500 4M8 4l4.500 4L8 12",
  cancelled: "M4.500 4.500h7v7h-7z", revised: "M3.500 12.500l.8-3L10.700 3l2.300 2.300-6.400 6.400z", planning: "M3 12.500l6-6M10.500 2.500v2M10.500 8v2M7 5.500H5M13.800 5.500h-1.200",
  paused: "M5.500 4v8M10.500 4v8", replanning: "M3 5h8l-2-2M13 11H5l2 2", partial: "M3.500 8.500l2.300 2.300M7 10.500L12.500 4.500M10 12.500h3", rejected: "M3.500 8h9M8 2.800a5.200 5.200 0 1 0 0 10.400A5.200 5.200 0 0 0 8 2.800",
  met: "M3.500 8.500l3 3 6-7", low: "M8 3v6M8 12.200v.3", broken: "M4.200 4.200l7.600 7.600M11.800 4.200l-7.600 7.600", relaxed: "M3.500 10c2-5 3 3 9-4", not_measured: "M4 8h8",
  copy: "M6 6h7v7H6zM3 10V3h7", close: "M4 4l8 8M12 4l-8 8", search: "M7 11.500a4.500 4.500 0 1 0 0-9a4.500 4.500 0 0 0 0 9M10.300 10.300L13.500 13.500",
  plans: "M2.500 4h3v3h-3zM10.500 2.500h3v3h-3zM10.500 10h3v3h-3zM5.500 5.500h3v6h2M8.500 4h2", approvals: "M3 8.500l3 3 7-8", playground: "M3.500 13L10 6.500l-.500-.500 1-1 1.500 1.500-1 1-.500-.500L4 13.500zM4 3v3M2.500 4.500h3",
  compare: "M3 3h4v10H3zM9 3h4v10H9z", history: "M3 8a5 5 0 1 0 1.500-3.600L3 6M3 3v3h3M8 5.500V8l2 1.500", agents: "M5 5.500h6v6H5zM8 5.500v-2.500M3 8h2M11 8h2M7 8.200v.1M9 8.200v.1", workers: "M3 3.500h10v4H3zM3 9h10v4H3zM5 5.500h.1M5 11h.1",
  queues: "M3 4h10M3 8h10M3 12h6", dead: "M4 4.500h8v7H4zM4 5l4 3.500L12 5", events: "M3 3.500h.1M6 3.500h7M3 8h.1M6 8h7M3 12.500h.1M6 12.500h7", stats: "M3 13V8.500M7 13V3.500M11 13V6.500M2 13.500h12",
  menu: "M3 4.500h10M3 8h10M3 11.500h10", sun: "M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9", moon: "M12.500 10A5.200 5.200 0 0 1 6 3.500a5.200 5.200 0 1 0 6.500 6.500", system: "M2.500 3.500h11v7h-11zM6 13h4M8 10.500V13",
  link: "M6.500 9.500l3-3M7 4.500l1.500-1.500a2.500 2.500 0 0 1 3.500 3.500L10.500 8M5.500 8L4 9.500A2.500 2.500 0 0 0 7.500 13L9 11.500", down: "M4 6l4 4 4-4",
};

export function icon(name, label) {
  return h("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": label ? undefined : "true", role: label ? "img" : undefined, "aria-label": label, focusable: "false" },
    h("path", { d: ICONS[name] || ICONS.pending }));
}

const TONES = {
  completed: "good", met: "good", failed: "bad", broken: "bad", rejected: "bad", partial: "warn", retrying: "warn", low: "warn", paused: "warn", blocked: "warn", relaxed: "warn",
  awaiting_approval: "person", running: "busy", planning: "busy", replanning: "busy", queued: "next", ready: "next",
};
/** The colour of a status; the same in graph, timeline and lists. */
export const tone = (status) => TONES[status] || "idle";

export function status(name, more) {
  return h("span", { class: `status tone-${tone(name)}` }, icon(name), h("span", null, words(name)), more && h("span", { class: "more" }, more));
}

/** A relative time; the exact one is its title and its machine-readable form. */
export function time(value, fallback = "–") {
  const ms = parseTime(value);
  if (!Number.isFinite(ms)) return h("span", { class: "dim" }, fallback);
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
  const part = (name, tone) => (counts[name] ? h("span", { class: `seg tone-${tone}`, style: { "flex-grow": String(counts[name]) } }) : null);
  const text = ["completed", "failed", "skipped", "in_progress", "pending"].filter((name) => counts[name]).map((name) => `${counts[name]} ${words(name)}`).join(", ");
  return h("span", { class: "progress", role: "img", "aria-label": total ? `${counts.completed} of ${total} steps: ${text}` : "no steps yet", title: text },
    h("span", { class: "bar" }, part("completed", "good"), part("failed", "bad"), part("skipped", "idle"), part("in_progress", "busy"), part("pending", "none")),
    h("span", { class: "num" }, total ? `${counts.completed}/${total}` : "–"));
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h2", null, title), text && h("p", null, text), ...more);
}

export function skeleton(rows = 6) {
  return h("div", { class: "skeleton", role: "status", "aria-busy": "true", "aria-label": "loading" }, Array.from({ length: rows }, (_, i) => h("div", { class: `bone w${i % 4}` })));
}

/** A refusal with its issues; a lost connection is shown by the frame instead. */
export function problem(refusal, retry) {
  if (!refusal) return null;
  if (refusal.status === 403) {
    return h("div", { class: "notice forbidden", role: "alert" }, h("h2", null, "Not allowed"),
      h("p", null, refusal.message), h("p", { class: "dim" }, `You are signed in as ${session.actor || "nobody"} with the roles: ${session.roles.join(", ") || "none"}. An administrator can give you another token.`));
  }
  const isDown = refusal.status === 0;
  return h("div", { class: `notice ${isDown ? "warn" : "bad"}`, role: "alert" },
    h("p", null, h("strong", null, isDown ? "Disconnected" : refusal.title || "Refused"), " ", refusal.message, refusal.code && !isDown ? h("code", { class: "code" }, refusal.code) : null),
    issues(refusal.errors),
    retry && h("button", { type: "button", onclick: retry }, "Try again"));
}

export function issues(list) {
  if (!list || !list.length) return null;
  return h("ul", { class: "issues" }, list.slice(0, 50).map((issue) => h("li", null,
    h("code", null, issue.pointer || "/"), " ", prose(issue.detail || ""), issue.hint ? h("span", { class: "dim" }, " – ", prose(issue.hint)) : null, " ", h("code", { class: "code" }, issue.code))));
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
  h("button", { type: "button", class: "quiet small", onclick: () => copy(typeof text === "function" ? text() : text), "aria-label": label }, icon("copy"), h("span", null, "Copy"));

/** Commands that do the same. */
export function commands(cli, curl, open = false) {
  const line = (name, text) => text && h("div", { class: "command" }, h("span", { class: "dim" }, name), h("pre", { tabindex: "0" }, text), copyButton(text, `Copy the ${name} command`));
  return h("details", { class: "commands", open }, h("summary", null, "Same as a command"), line("CLI", cli), line("curl", curl));
}

export function curl(method, path, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const token = session.authentication && session.authentication !== "none" ? ` \\\n  -H "Authorization: Bearer $GOALMILL_TOKEN"` : "";
  const data = method === "GET" ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body === undefined ? {} : body))}`;
  return `curl -fsS${method === "GET" ? "" : ` -X ${method}`} ${quoted(location.origin + path)}${token}${data}`;
}

const TEXT_MAX = 2_000;
const ITEMS_MAX = 100;

function jsonNode(value, name, depth, path, opened) {
  const label = name === undefined ? null : h("span", { class: "json-key" }, `${name}: `);
  if (value !== null && typeof value === "object") {
    const keys = Object.keys(value);
    const isList = Array.isArray(value);
    const count = `${isList ? "[" : "{"}${keys.length}${isList ? "]" : "}"}`;
    if (!keys.length) return h("div", { class: "json-leaf" }, label, h("span", { class: "dim" }, isList ? "[]" : "{}"));
    const isOpen = opened.has(path) ? opened.get(path) : depth < 2 && keys.length <= 20;
    return h("details", { open: isOpen, ontoggle: (event) => { if (event.target.open !== isOpen) { opened.set(path, event.target.open); app.render(); } } },
      h("summary", null, label, h("span", { class: "dim" }, count)),
      isOpen && h("div", { class: "json-in" }, keys.slice(0, ITEMS_MAX).map((key) => jsonNode(value[key], isList ? Number(key) : key, depth + 1, `${path}/${key}`, opened)),
        keys.length > ITEMS_MAX && h("div", { class: "dim" }, `… ${keys.length - ITEMS_MAX} more; copy or download to see all`)));
  }
  return h("div", { class: "json-leaf" }, label, scalar(value, path, opened));
}

function scalar(value, path, opened) {
  if (typeof value !== "string") return h("span", { class: `json-${value === null ? "null" : typeof value}` }, String(value));
  if (value.length <= TEXT_MAX || opened.get(path) === "all") return h("span", { class: "json-string" }, value);
  return h("span", { class: "json-string" }, value.slice(0, TEXT_MAX), "… ",
    h("button", { type: "button", class: "quiet small", onclick: () => { opened.set(path, "all"); app.render(); } }, `show all ${bytes(value.length)}`));
}

const openedByName = new Map();

/** Any JSON as a tree of texts, with copy and download. */
export function json(value, name) {
  if (value === undefined) return h("p", { class: "dim" }, "none");
  const opened = openedByName.get(name) || openedByName.set(name, new Map()).get(name);
  if (openedByName.size > 200) openedByName.delete(openedByName.keys().next().value);
  const text = () => JSON.stringify(value, null, 2);
  const size = jsonSize(value);
  return h("div", { class: "json" },
    h("div", { class: "json-tools" }, h("span", { class: "dim num" }, bytes(size)), copyButton(text), h("button", { type: "button", class: "quiet small", onclick: () => download(`${name.replace(/[^A-Za-z0-9_-]+/g, "-")}.json`, text()) }, "Download")),
    h("div", { class: "json-tree", dir: "auto" }, jsonNode(value, undefined, 0, "", opened)));
}

const sizes = new WeakMap();
function jsonSize(value) {
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

export const field = (label, control, hint, wrong) => h("label", { class: `field ${wrong ? "wrong" : ""}` }, h("span", { class: "label" }, label), control,
  wrong ? h("span", { class: "issue" }, wrong) : hint && h("span", { class: "hint" }, hint));

export const planLink = (id, params = "") => `#/plans/${encodeURIComponent(id)}${params}`;
export const pageHead = (title, ...more) => h("header", { class: "page-head" }, h("h1", { tabindex: "-1", id: "title" }, title), h("div", { class: "page-tools" }, ...more));
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter((pair) => pair && pair[1] !== undefined && pair[1] !== null && pair[1] !== "").map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
export const isStale = () => !link.isUp;

/** A table that scrolls inside its frame on narrow screens. */
export function table(caption, heads, rows, options = {}) {
  return h("div", { class: "table-frame", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", { class: options.class || "" }, h("caption", { class: "visually-hidden" }, caption),
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col", class: head.num ? "num" : "" }, head.isHidden ? h("span", { class: "visually-hidden" }, head.text) : head.text ?? head)))),
      h("tbody", null, rows)));
}
