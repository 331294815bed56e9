// The graph of a plan. The scheduler lays it out; here it is multiplied by the size of a box.

import { h, memo } from "./dom.js";
import { icon, tone } from "./parts.js";
import { allowedStatus, awaited, words } from "./format.js";
import { doneOf } from "./items.js";
import { isFinal, shownStatus } from "./replay.js";

/** Above this, and with more steps beside each other than that, boxes show only ids. */
export const COMPACT_ABOVE = 150;
const BESIDE_MAX = 30;
/** Above this, the graph is drawn when asked. */
export const ASK_ABOVE = 500;

/** How small a graph is drawn before its frame scrolls. */
const LEAST = 0.7;

const SIZES = {
  wide: { least: 150, width: 184, height: 50, across: 16, along: 52, most: 280, around: 46 },
  compact: { least: 110, width: 132, height: 24, across: 7, along: 44, most: 220, around: 38 },
};

/** Steps beside each other from which edges are steep. */
const FAN = 8;

const isDense = (layout) => layout.steps.length > COMPACT_ABOVE || layout.width > BESIDE_MAX;

const prefixes = new WeakMap();

/** What all ids begin with, up to a separator; empty for less than three steps. */
function sharedPrefix(layout) {
  if (!prefixes.has(layout)) {
    const ids = layout.steps.map((place) => place.id);
    let end = ids.length < 3 ? 0 : Math.min(...ids.map((id) => id.length - 1));
    while (end > 0 && !(/[._:-]/.test(ids[0][end - 1]) && ids.every((id) => id.startsWith(ids[0].slice(0, end))))) end -= 1;
    prefixes.set(layout, ids.length ? ids[0].slice(0, end) : "");
  }
  return prefixes.get(layout);
}

/** As much of an id as fits; what it shares with all others goes first. */
export function fitId(id, layout, font, width) {
  const prefix = layout ? sharedPrefix(layout) : "";
  return prefix.length > 3 && measure(id, font) > width ? fit(`…${id.slice(prefix.length)}`, font, width, true) : fit(id, font, width, true);
}

const widths = new WeakMap();

/** The width of the longest id, in pixels. */
export function longestId(layout) {
  if (!widths.has(layout)) widths.set(layout, Math.ceil(layout.steps.reduce((most, place) => Math.max(most, measure(place.id, isDense(layout) ? "small" : "id")), 0)));
  return widths.get(layout);
}

/** How wide a box must be for the longest id, within limits. */
const boxWidth = (layout, size) => Math.min(size.most, Math.max(size.least, longestId(layout) + size.around));

/** The width of the screen beside the navigation. */
const screenRoom = () => window.innerWidth - 320;

function geometry(layout, isDown, isCompact, room = screenRoom()) {
  const kind = isCompact ? SIZES.compact : SIZES.wide;
  // Boxes are as wide as their ids, where the whole graph fits then.
  const wanted = boxWidth(layout, kind), many = Math.max(isDown ? layout.width : layout.ranks, 1);
  const size = { ...kind, width: Math.max(Math.min(kind.width, wanted), Math.min(wanted, (room - 28) / many - (isDown ? kind.across : kind.along))) };
  const across = isDown ? size.width + size.across : size.height + size.across;
  // Edges are shorter where the room is short; where many steps fan out, they get what is left of it.
  const spare = (room - 28 - many * (size.width + size.along)) / Math.max(many - 1, 1);
  const gap = size.along + Math.max(-0.35 * size.along, Math.min(layout.width > FAN ? 120 : 0, spare));
  const along = isDown ? size.height + size.along * 0.7 : size.width + gap;
  const pad = 14, top = layout.phases?.length ? 34 : pad;
  const place = (rank, position) => (isDown ? [pad + position * across, top + rank * along] : [pad + rank * along, top + position * across]);
  const extent = Math.max(layout.width, 1), ranks = Math.max(layout.ranks, 1);
  const width = isDown ? 2 * pad + (extent - 1) * across + size.width : 2 * pad + (ranks - 1) * along + size.width;
  const height = isDown ? top + pad + (ranks - 1) * along + size.height : top + pad + (extent - 1) * across + size.height;
  return { size, place, width, height, along, across, top, pad };
}

/** A smooth line from box to box through the bends. */
function line(from, to, rank, bends, grid, isDown) {
  const { size, place } = grid;
  const [fx, fy] = place(from.rank, from.position), [tx, ty] = place(to.rank, to.position);
  const out = isDown ? [fx + size.width / 2, fy + size.height] : [fx + size.width, fy + size.height / 2];
  const into = isDown ? [tx + size.width / 2, ty] : [tx, ty + size.height / 2];
  const points = [out];
  (bends || []).forEach((position, i) => {
    const [x, y] = place(rank + 1 + i, position);
    if (isDown) points.push([x + size.width / 2, y], [x + size.width / 2, y + size.height]);
    else points.push([x, y + size.height / 2], [x + size.width, y + size.height / 2]);
  });
  points.push(into);
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = points[i - 1], [bx, by] = points[i];
    if (isDown ? ax === bx : ay === by) path += `L${bx} ${by}`;
    else if (isDown) path += `C${ax} ${(ay + by) / 2} ${bx} ${(ay + by) / 2} ${bx} ${by}`;
    else path += `C${(ax + bx) / 2} ${ay} ${(ax + bx) / 2} ${by} ${bx} ${by}`;
  }
  return path;
}

const FONTS = { id: "600 13px", small: "600 11px", agent: "400 11.5px", phase: "560 12px", row: "400 12.5px" };
const fitted = new Map();
let pen = null;

function measure(text, font) {
  if (!pen) pen = document.createElement("canvas").getContext("2d");
  pen.font = `${FONTS[font]} ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** As much of a text as fits in `width` pixels. Of ids the end is kept, too: it often tells them apart. */
function fit(text, font, width, keepsEnd = false) {
  const name = `${font} ${Math.round(width)} ${keepsEnd} ${text}`;
  if (fitted.has(name)) return fitted.get(name);
  const letters = [...String(text).slice(0, 200)];
  const shown = (count) => {
    if (count >= letters.length) return letters.join("");
    const end = keepsEnd ? Math.floor(count * 0.55) : 0;
    return `${letters.slice(0, count - end).join("")}…${end ? letters.slice(-end).join("") : ""}`;
  };
  // A text that is cut has a sign more, so the whole one comes first.
  let least = measure(letters.join(""), font) <= width ? letters.length : 0, most = least || letters.length - 1;
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (measure(shown(middle), font) <= width) least = middle; else most = middle - 1;
  }
  if (fitted.size > 4_000) fitted.clear();
  fitted.set(name, shown(least));
  return shown(least);
}

/**
 * The graph as a picture whose boxes are buttons.
 *
 * - `steps`: Map of id to `{status, definition, attempts}`; `options.selected`, `options.onSelect(id)`, `options.changed`: ids to mark;
 *   `options.maps`: Map of id to what is known of a map's items;
 *   `options.cache`: a Map that keeps what was drawn, where `onSelect` stays the same and steps count their versions;
 *   `options.room`: the width that it has, in pixels, if not the whole screen.
 */
export function graph(layout, steps, options) {
  const isCompact = isDense(layout);
  const isDown = options.isDown;
  const grid = geometry(layout, isDown, isCompact, options.room);
  const places = new Map(layout.steps.map((place) => [place.id, place]));
  const { selected } = options;
  const kept = (key, values, make) => (options.cache ? memo(options.cache, key, [layout, isDown, grid.size.width, grid.along, ...values], make) : make());
  const edges = layout.edges.map((edge) => {
    const from = places.get(edge.from), to = places.get(edge.to);
    if (!from || !to) return null;
    const isNear = selected === edge.from || selected === edge.to;
    const source = steps.get(edge.from);
    const isDone = source && ["completed", "skipped"].includes(source.status);
    const key = `${edge.from}>${edge.to}`;
    const target = steps.get(edge.to);
    const status = allowedStatus(target?.definition || {}, edge.from);
    return kept(key, [isNear, isDone, status], () => {
      const path = h("path", { key, class: `edge ${isNear ? "near" : ""} ${isDone ? "done" : ""}`, d: line(from, to, from.rank, edge.bends, grid, isDown), "marker-end": `url(#${options.id}-arrow${isNear ? "-near" : ""})` });
      if (!status) return path;
      const [x, y] = grid.place(to.rank, to.position);
      const at = isDown ? { x: x + grid.size.width / 2 + 6, y: y - 8, "text-anchor": "start" } : { x: x - 10, y: y + grid.size.height / 2 - 6, "text-anchor": "end" };
      return h("g", { key }, path, h("text", { class: "edge-status", ...at }, status));
    });
  });
  const bands = (layout.phases || []).map((phase, n) => {
    const gap = (isDown ? grid.along - grid.size.height : grid.along - grid.size.width) / 2;
    const [x, y] = grid.place(phase.first, 0);
    const length = (phase.last - phase.first) * grid.along;
    const box = isDown ? { x: 2, y: y - gap, width: grid.width - 4, height: length + grid.size.height + 2 * gap } : { x: x - gap, y: 2, width: length + grid.size.width + 2 * gap, height: grid.height - 4 };
    return h("g", { key: `phase-${phase.id}`, class: `band band-${n % 2}` }, h("rect", { ...box, rx: 8 }), h("text", { x: Math.max(0, box.x) + 10, y: box.y + 18 }, fit(phase.id, "phase", box.width - 20)));
  });
  const entry = places.has(selected) ? selected : firstOf(layout);
  const boxes = layout.steps.map((place) => {
    const step = steps.get(place.id);
    const done = doneOf(options.maps?.get(place.id));
    return kept(place.id, [step, step?.version, selected === place.id, place.id === entry, options.changed, done && `${done.good} ${done.bad} ${done.total}`], () => box(place, step, grid, isCompact, { ...options, layout, done }, place.id === entry));
  });
  return h("div", { class: "graph-frame", key: `graph-${options.id}-${isDown ? "down" : "across"}`, tabindex: "-1", ref: (el) => requestAnimationFrame(() => reveal(el)) },
    h("svg", { class: `graph ${isCompact ? "compact" : ""}`, viewBox: `0 0 ${grid.width} ${grid.height}`, style: { width: `clamp(${Math.round(grid.width * (isDown ? 0.85 : LEAST))}px, 100%, ${grid.width}px)` }, role: "group", "aria-label": options.label || "Graph of the steps", onkeydown: (event) => move(event, layout, places, options, isDown) },
      h("defs", null, ["", "-near"].map((name) => h("marker", { id: `${options.id}-arrow${name}`, class: `arrow${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, h("path", { d: "M1 1l6 3-6 3z" })))),
      h("g", { "aria-hidden": "true" }, bands),
      h("g", { "aria-hidden": "true" }, edges),
      h("g", null, boxes)));
}

function box(place, step, grid, isCompact, options, isEntry) {
  const [x, y] = grid.place(place.rank, place.position);
  const { width, height } = grid.size;
  const definition = step?.definition || {};
  const status = step ? shownStatus(step) : "pending";
  const agent = definition.agent_type || words(definition.kind || "engine");
  const attempts = step ? step.attempts.length : 0;
  const isSelected = options.selected === place.id;
  const change = options.changed?.get(place.id);
  const after = awaited(definition).join(", ");
  const { done } = options;
  const count = isCompact ? "" : done ? done.text : counted(step, attempts);
  const id = isCompact ? fitId(place.id, options.layout, "small", width - 32) : fitId(place.id, options.layout, "id", width - 42);
  const who = isCompact ? "" : fit(change && change !== "same" ? `${change} · ${agent}` : agent, "agent", width - (count ? 52 + Math.ceil(measure(count, "agent")) : 42));
  // The name of the button begins with what is seen of it.
  const label = `${[id, who, count].filter(Boolean).join(" ")}: ${id === place.id ? "" : `step ${place.id}, `}${definition.description || definition.action || "step"}, ${words(status)}${change ? `, ${change}` : ""}${after ? `, waits for ${after}` : ""}`;
  return h("g", {
    key: place.id, class: `node tone-${tone(status)} status-${status} ${isFinal(status) && tone(status) === "idle" ? "is-over" : ""} ${isSelected ? "selected" : ""} ${change ? `change-${change}` : ""}`, transform: `translate(${x} ${y})`,
    role: "button", tabindex: isEntry ? "0" : "-1", "aria-pressed": String(isSelected), "aria-label": label, "data-step": place.id,
    onclick: () => options.onSelect(place.id),
  },
  h("rect", { class: "box", width, height, rx: isCompact ? 5 : 8 }),
  done ? [["done-part", 0, done.good], ["failed-part", done.good, done.bad]].filter(([, , many]) => many).map(([name, from, many]) => h("rect", { key: name, class: name, x: (width * from) / done.total, width: (width * many) / done.total, height: 3, y: height - 3 })) : step?.progress && status === "running" ? h("rect", { class: "done-part", width: Math.max(2, width * Math.min(1, step.progress)), height: 3, y: height - 3, rx: 1.5 }) : null,
  isCompact
    ? [h("g", { class: "mark", transform: "translate(6 5.500) scale(.8)" }, icon(status).children), h("text", { class: "id", x: 24, y: 16 }, id)]
    : [
      h("g", { class: "mark", transform: "translate(10 8)" }, icon(status).children),
      h("text", { class: "id", x: 32, y: 21 }, id), " ",
      h("text", { class: "agent", x: 32, y: 38 }, who), " ",
      count ? h("text", { class: "attempts", x: width - 10, y: 38, "text-anchor": "end" }, count) : null,
    ],
  h("title", null, label));
}

/** What a box counts: the items of a map, the iterations of a loop, or attempts. */
function counted(step, attempts) {
  if (step && Number.isFinite(step.items)) return `${step.items} ${step.items === 1 ? "item" : "items"}`;
  if (step?.iterations) return `iteration ${step.iterations + 1}`;
  return attempts > 1 ? `×${attempts}` : "";
}

/** The box that the Tab key reaches when none is selected. */
function firstOf(layout) {
  let first = null;
  for (const place of layout.steps) if (!first || place.rank < first.rank || (place.rank === first.rank && place.position < first.position)) first = place;
  return first?.id;
}

/** Arrow keys follow edges and ranks. */
function move(event, layout, places, options, isDown) {
  const id = event.target.dataset?.step;
  if (!id) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return options.onSelect(id); }
  const keys = isDown ? { ArrowDown: "next", ArrowUp: "back", ArrowLeft: "before", ArrowRight: "after" } : { ArrowRight: "next", ArrowLeft: "back", ArrowUp: "before", ArrowDown: "after" };
  const way = keys[event.key];
  if (!way) return;
  event.preventDefault();
  const here = places.get(id);
  const nearest = (ids) => ids.map((one) => places.get(one)).filter(Boolean).sort((a, b) => Math.abs(a.position - here.position) - Math.abs(b.position - here.position))[0];
  const inRank = layout.steps.filter((place) => place.rank === here.rank).sort((a, b) => a.position - b.position);
  const at = inRank.findIndex((place) => place.id === id);
  const to = way === "next" ? nearest(layout.edges.filter((edge) => edge.from === id).map((edge) => edge.to))
    : way === "back" ? nearest(layout.edges.filter((edge) => edge.to === id).map((edge) => edge.from))
      : inRank[at + (way === "before" ? -1 : 1)];
  if (!to) return;
  const el = [...event.currentTarget.querySelectorAll("[data-step]")].find((node) => node.dataset.step === to.id);
  if (el) { el.focus(); el.scrollIntoView({ block: "nearest", inline: "nearest" }); }
}

/** The steps in the order of the graph: by rank, then by position. */
export function order(layout, steps) {
  const places = new Map(layout.steps.map((place) => [place.id, place]));
  const key = (id) => places.get(id) || { rank: Infinity, position: 0 };
  return [...steps.keys()].sort((a, b) => key(a).rank - key(b).rank || key(a).position - key(b).position);
}

/** Whether the graph runs from top to bottom: on narrow screens, and where only that fits; `share` of the window is for it. */
export function runsDown(layout, share = 1) {
  if (window.innerWidth < 640) return true;
  if (!layout || isDense(layout)) return false;
  const room = (window.innerWidth - 320) * (window.innerWidth < 1500 ? 1 : share);
  return geometry(layout, false, false).width * LEAST > room && geometry(layout, true, false).width * 0.85 <= room;
}

/** Shows what happens now, or the first step, in a frame that is smaller than the graph. */
function reveal(frame) {
  const box = frame.querySelector(".node.selected") || frame.querySelector(".node:is(.tone-busy, .tone-person, .tone-bad, .tone-warn)") || frame.querySelector('.node[tabindex="0"]');
  if (!box) return;
  const outer = frame.getBoundingClientRect(), inner = box.getBoundingClientRect();
  if (inner.right > outer.right || inner.left < outer.left) frame.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  frame.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
}
