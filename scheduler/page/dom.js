// Virtual nodes and their DOM. Text is always a text node; attributes are set, never parsed.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "open", "disabled", "selected", "indeterminate", "readOnly"]);

/** Characters that turn what stands beside them, or that nobody sees; joiners count within words of scripts that join. */
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?<![\u0600-\u{10ffff}])[\u200c\u200d]/gu;

/** A text as people see it: hidden characters as in JSON (`\u202e`), so that no name looks like another. */
export const visible = (text) => (/^[\n\t -~]*$/.test(text) ? text : text.replace(HIDDEN, (found) => [...Array(found.length)].map((_, i) => `\\u${found.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")));

/**
 * The element that fits, whatever its kind.
 *
 * @param {string} selector
 * @returns {any}
 */
export const find = (selector) => document.querySelector(selector);

/**
 * @param {string} selector
 * @returns {any[]}
 */
export const findAll = (selector) => [...document.querySelectorAll(selector)];

/** A virtual node. Children may be nodes, texts, numbers, lists, and nothing. */
export function h(tag, props, ...children) {
  const own = props || {};
  return { tag, props: own, key: own.key, children: flatten(children, []), el: null };
}

function flatten(children, into) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) flatten(child, into);
    else if (typeof child === "object") into.push(child);
    else into.push({ tag: "", text: visible(String(child)), el: null });
  }
  return into;
}

/** Shows `next` in `parent`, in place of `shown`, which is what the last call gave. The focus stays, or goes near where it was. */
export function patch(parent, shown, next) {
  const nodes = flatten([next], []);
  // A button that is disabled loses the focus before its dialog closes.
  const focused = parent.contains(document.activeElement) ? document.activeElement : document.querySelector("dialog[open]");
  const places = focused ? [focused, ...refuges(focused)] : [];
  patchChildren(parent, shown || [], nodes, parent.namespaceURI === SVG);
  if (places.length && focused !== document.activeElement && !document.querySelector("dialog[open]")) {
    const to = [...places, document.getElementById("title")].find((el) => el?.isConnected && (el === focused || !el.matches(":disabled")));
    to?.focus({ preventScroll: to === focused });
  }
  return nodes;
}

const openers = new WeakMap();

/** Opens a dialog over the page; the focus goes back to where it was, however the dialog is closed. */
export function openDialog(el) {
  if (el.open) return;
  const opener = document.activeElement;
  openers.set(el, [opener, ...refuges(opener)]);
  el.showModal();
  // A form begins at its first field, not at the button that closes it.
  el.querySelector("form input, form select, form textarea")?.focus();
}

/** Where the focus goes when an element is taken away: to what opened its dialog, or to the rows beside it. */
function refuges(el) {
  const dialog = el?.closest("dialog"), row = el?.closest("tr, li");
  if (dialog) return openers.get(dialog) || [];
  return [row?.nextElementSibling, row?.previousElementSibling].map((one) => one?.querySelector("a, button, input, summary"));
}

/**
 * The node that `make` gave for the same `values`; `patch` passes over it.
 *
 * - `cache`: a Map of who shows it; `key`: of the node among its siblings, which it must have.
 */
export function memo(cache, key, values, make) {
  const known = cache.get(key);
  if (known && known.values.length === values.length && known.values.every((value, i) => Object.is(value, values[i]))) return known.node;
  const node = make();
  cache.set(key, { values, node });
  return node;
}

function create(node, isSvg) {
  if (node.tag === "") {
    node.el = document.createTextNode(node.text);
    return node.el;
  }
  const svg = isSvg || node.tag === "svg";
  const el = svg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  node.el = el;
  patchChildren(el, [], node.children, svg && node.tag !== "foreignObject");
  for (const name in node.props) setProperty(el, name, undefined, node.props[name]);
  if (node.props.ref) node.props.ref(el);
  return el;
}

function update(old, node, isSvg) {
  node.el = old.el;
  if (old === node) return;
  if (node.tag === "") {
    if (old.text !== node.text) node.el.data = node.text;
    return;
  }
  const svg = isSvg || node.tag === "svg";
  patchChildren(node.el, old.children, node.children, svg && node.tag !== "foreignObject");
  for (const name in old.props) if (!(name in node.props)) setProperty(node.el, name, old.props[name], undefined);
  for (const name in node.props) setProperty(node.el, name, old.props[name], node.props[name]);
}

function patchChildren(parent, old, next, isSvg) {
  const keyed = new Map();
  const loose = [];
  for (const node of old) {
    if (node.key !== undefined) keyed.set(node.key, node);
    else loose.push(node);
  }
  let at = 0;
  const taken = new Set();
  let cursor = parent.firstChild;
  for (const node of next) {
    let match;
    if (node.key !== undefined) {
      match = keyed.get(node.key);
      if (match && (match.tag !== node.tag || taken.has(match))) match = undefined;
    } else {
      if (at < loose.length && loose[at].tag === node.tag) match = loose[at];
      at += 1;
    }
    if (match) {
      taken.add(match);
      update(match, node, isSvg);
    } else create(node, isSvg);
    if (cursor === node.el) cursor = cursor.nextSibling;
    else parent.insertBefore(node.el, cursor);
  }
  for (const node of old) if (!taken.has(node) && node.el.parentNode === parent) parent.removeChild(node.el);
}

function setProperty(el, name, old, value) {
  if (name === "key" || name === "ref") return;
  if (name.startsWith("on")) {
    if (old !== value) el[name] = value || null;
    return;
  }
  if (name === "style") {
    for (const part in old || {}) if (!value || !(part in value)) el.style.removeProperty(part);
    for (const part in value || {}) if (!old || old[part] !== value[part]) el.style.setProperty(part, value[part]);
    return;
  }
  if (PROPERTIES.has(name)) {
    if (name === "value" && old === value && el === document.activeElement && /^(INPUT|TEXTAREA)$/.test(el.tagName)) return; // Somebody is writing in it.
    if (name === "open" ? old !== value : el[name] !== value) el[name] = value === undefined ? (name === "value" ? "" : false) : value;
    return;
  }
  if (old === value) return;
  if (value === undefined || value === null || value === false) el.removeAttribute(name);
  else el.setAttribute(name, value === true ? "" : /^(title|alt|aria-|placeholder)/.test(name) ? visible(String(value)) : String(value));
}
