// The frame: addresses, navigation, sign-in, theme, keyboard.

import { find, findAll, h, openDialog, patch, visible } from "./dom.js";
import { canRead, EVERY_NAMESPACE, get, isNamespace, link, loadSession, onChange, selectNamespace, session, signIn, signOut } from "./api.js";
import { closeDialog, dialog, isDialogOpen } from "./actions.js";
import { forgetAll, restore } from "./drafts.js";
import { app, button, commands, curl, dim, empty, field, icon, pageHead, skeleton } from "./parts.js";
import { capital, duration, isUtcShown, showUtc, zone } from "./format.js";
import { inbox, plansScreen } from "./plans.js";
import { planScreen } from "./plan.js";
import { approvalScreen, approvalsScreen } from "./approvals.js";
import { playgroundScreen } from "./playground.js";
import { agentsScreen, deadLettersScreen, queuesScreen, statsScreen, workersScreen } from "./installation.js";
import { historyScreen, logsScreen } from "./logs.js";
import { compareScreen } from "./compare.js";
import { storedScreen } from "./stored.js";
import { mayManage, tokensScreen } from "./tokens.js";
import { waitsScreen } from "./waits.js";

const NAVIGATION = [[
  ["plans", "Plans", "plans", "g p"], ["approvals", "Approvals", "approvals", "g a"], ["waits", "Waits", "waits", "g i"], ["playground", "Playground", "playground", "g n"], ["stored", "Stored plans", "stored", "g l"], ["compare", "Compare", "compare", "g c"], ["history", "History", "history", "g h"],
], [
  ["agents", "Agents", "agents", "g t"], ["workers", "Workers", "workers", "g w"], ["queues", "Queues", "queues", "g q"], ["dead-letters", "Dead letters", "dead", "g d"], ["events", "Events", "events", "g e"], ["stats", "Statistics", "stats", "g s"], ["tokens", "Tokens", "tokens", "g k"],
]];

const SCREENS = {
  plans: (route, kept) => (route.path[1] ? planScreen(route) : plansScreen(kept)),
  approvals: (route) => (route.path[1] ? approvalScreen(route) : approvalsScreen()),
  playground: playgroundScreen, stored: storedScreen, compare: compareScreen, history: historyScreen, agents: agentsScreen, workers: workersScreen, queues: queuesScreen, "dead-letters": deadLettersScreen, events: logsScreen, waits: waitsScreen, stats: statsScreen, tokens: tokensScreen,
};

const own = { screen: null, key: "", query: "", entry: 0, kept: new Map(), owner: "", waiting: null, isMenuOpen: false, isHelpOpen: false, message: "", prefix: "", token: "", signInRefusal: null, isSigningIn: false, provider: undefined };
let nodes = [], isScheduled = false;

function parseRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = (path || "plans").split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { path: parts, params: new URLSearchParams(query || "") };
}

/** Takes the namespace of the address, or adds the one that is selected to it, so that it can be shared. */
function followNamespace() {
  const named = app.route.params.get("namespace");
  if (session.namespace !== EVERY_NAMESPACE) { if (named) app.replace({ namespace: null }); return; }
  if (named && isNamespace(named)) limit(named);
  else if (named) app.replace({ namespace: session.selected || null });
  else if (session.selected) app.replace({ namespace: session.selected });
}

function limit(name) {
  if (name === session.selected) return;
  selectNamespace(name);
  own.kept.clear();
  if (own.waiting) { own.waiting.close(); own.waiting = inbox(() => app.render()); }
}

function changeNamespace(name) {
  if (name && !isNamespace(name)) return app.announce("a namespace has letters, digits and . _ : - only");
  limit(name);
  app.replace({ namespace: name || null });
  // What was shown may not be there in another namespace.
  if (app.route.path[1]) return app.go(`#/${app.route.path[0]}${name ? `?namespace=${encodeURIComponent(name)}` : ""}`);
  openRoute();
}

/** For people of all namespaces: which one is shown. */
function namespaces() {
  if (session.namespace !== EVERY_NAMESPACE) return null;
  const names = [...new Set([...session.namespaces, session.selected].filter(Boolean))].sort();
  if (session.authentication === "none" && !session.selected && names.every((name) => name === "default")) return null;
  return h("label", { class: "namespaces" }, dim("Namespace"),
    h("input", { list: "namespaces", value: session.selected, placeholder: "all", autocomplete: "off", spellcheck: "false", onchange: (event) => { const name = event.target.value.trim(); if (name !== session.selected) changeNamespace(name); event.target.value = session.selected; } }),
    h("datalist", { id: "namespaces" }, names.map((name) => h("option", { key: name, value: name }))));
}

/** The address of the screen that is shown; that of the window may be ahead. */
function address() {
  const query = app.route.params.toString();
  return `#/${app.route.path.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

/** Runs after what was rendered is drawn. */
const afterDrawing = (run) => requestAnimationFrame(() => requestAnimationFrame(run));

/** Notes where the screen was left, for the way back. */
function keepPlace() {
  own.kept.set(own.entry, { scroll: window.scrollY, focus: document.activeElement?.getAttribute?.("href"), data: own.screen?.keep?.() });
  if (own.kept.size > 20) own.kept.delete(own.kept.keys().next().value);
}

/** The place where an entry of the browser's history was left; a new entry has none. */
function placeOfEntry() {
  if (!history.state?.entry) history.replaceState({ entry: Date.now() + Math.random() }, "", location.href);
  const { entry } = history.state;
  if (entry === own.entry) return undefined;
  if (own.screen) keepPlace();
  own.entry = entry;
  return own.kept.get(entry);
}

/** Shows the screen as it was left. */
function restorePlace({ scroll, focus }) {
  window.scrollTo(0, scroll);
  const row = focus && findAll("main a").find((one) => one.getAttribute("href") === focus);
  (row || document.getElementById("title"))?.focus({ preventScroll: true });
}

function openRoute() {
  const place = placeOfEntry();
  const query = own.query;
  app.route = parseRoute();
  if (session.state === "in") followNamespace();
  const key = `${session.selected} ${app.route.path.join("/")}`;
  const isOther = key !== own.key;
  own.query = app.route.params.toString();
  // A screen that does not follow its parameters begins again.
  if (session.state === "in" && !isOther && own.query !== query && own.screen.follow) {
    own.screen.follow(place?.data);
    if (place) afterDrawing(() => restorePlace(place));
  } else if (session.state === "in" && (isOther || own.query !== query)) {
    if (own.screen?.close) own.screen.close();
    if (isOther) closeDialog();
    own.key = key;
    const make = SCREENS[app.route.path[0]];
    own.screen = make ? make(app.route, place?.data) : { title: () => "Not found", view: () => [pageHead("Not found"), empty("There is nothing here", "The address is not one of this page.", h("a", { class: "button", href: "#/plans" }, "All plans"))] };
    own.isMenuOpen = false;
    window.scrollTo(0, 0);
    afterDrawing(() => restorePlace(place || { scroll: 0 }));
  }
  app.render();
}

Object.assign(app, {
  render: () => {
    if (isScheduled) return;
    isScheduled = true;
    const run = () => { if (!isScheduled) return; isScheduled = false; app.now = Date.now(); draw(); };
    if (document.hidden) setTimeout(run, 50); else requestAnimationFrame(run);
  },
  announce: (message) => { own.message = message; app.render(); setTimeout(() => { if (own.message === message) { own.message = ""; app.render(); } }, 4_000); },
  go: (hash) => { location.hash = hash; },
  /** Changes parameters of the address without a new screen; `null` takes one away. */
  replace: (changes) => {
    for (const [name, value] of Object.entries(changes)) { if (value === null || value === "") app.route.params.delete(name); else app.route.params.set(name, value); }
    own.query = app.route.params.toString();
    history.replaceState(history.state, "", address());
  },
});

function draw() {
  document.title = visible(`${own.waiting?.count() ? `(${own.waiting.count()}) ` : ""}${session.state === "in" && own.screen && own.screen.title ? own.screen.title() : "Sign in"} · Goalmill`);
  nodes = patch(document.getElementById("app"), nodes, frame());
}

function frame() {
  if (session.state === "unknown") return h("main", { class: "alone" }, h("h1", { class: "visually-hidden" }, "Goalmill"), skeleton(4));
  if (session.state === "unreachable") return unreachable(session.refusal);
  if (session.state !== "in") return signInView();
  return h("div", { class: "frame" },
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("main").focus(); } }, "Skip to content"),
    navigation(),
    h("main", { id: "main", tabindex: "-1", "data-address": address() }, disconnected(), own.screen ? own.screen.view() : null),
    dialog(), help(),
    h("div", { role: "status", "aria-live": "polite", class: own.message ? "toast" : "visually-hidden" }, own.message));
}

/** The detail of a refusal, without the title that it may begin with. */
const reason = ({ title, message }) => (message.toLowerCase().startsWith(`${title.toLowerCase()}: `) ? message.slice(title.length + 2) : message);

/** Why the page cannot begin: nobody answers, or the scheduler says what is wrong. */
function unreachable(refusal) {
  const isSilent = refusal.status === 0;
  return h("main", { class: "alone", id: "main" }, h("div", { class: "card" }, brand(), h("h1", { id: "title", tabindex: "-1" }, isSilent ? "The scheduler does not answer" : refusal.title || "The scheduler cannot work now"),
    h("p", null, isSilent ? `Nothing listens at ${location.origin}.` : capital(reason(refusal))), h("p", { class: "dim" }, "This page connects by itself when that is over."), h("pre", null, isSilent ? "goalmill dev" : "goalmill doctor")));
}

const brand = () => h("span", { class: "brand" }, h("img", { src: "page/icon.svg", alt: "", width: 24, height: 24 }), "Goalmill");

/** Only administrators manage tokens. */
const isOffered = ([name]) => name !== "tokens" || mayManage();

function navigation() {
  const count = own.waiting ? own.waiting.count() : 0;
  const entry = (one) => {
    const [name, text, sign] = one;
    const isHere = app.route.path[0] === name;
    return h("li", { key: name }, h("a", { href: `#/${name}`, "aria-current": isHere ? "page" : undefined }, icon(sign), h("span", null, text), name === "approvals" && count ? h("span", { class: "count", title: `${count} wait for a person` }, count) : null));
  };
  return h("nav", { class: `side ${own.isMenuOpen ? "is-open" : ""}`, "aria-label": "Main" },
    h("div", { class: "side-head" }, h("a", { href: "#/plans", class: "home" }, brand()),
      button({ class: "quiet menu", "aria-expanded": String(own.isMenuOpen), "aria-controls": "menu", onclick: () => { own.isMenuOpen = !own.isMenuOpen; app.render(); } }, icon("menu"), h("span", null, "Menu"), count ? h("span", { class: "count" }, count) : null)),
    h("div", { class: "side-body", id: "menu" }, NAVIGATION.map((group) => h("ul", null, group.filter(isOffered).map(entry))), h("div", { class: "spring" }), footer()));
}

function footer() {
  return h("div", { class: "side-foot" },
    h("span", { class: `live live-${link.isUp ? "live" : "reconnecting"}` }, h("span", { class: "dot", "aria-hidden": "true" }), link.isUp ? "connected" : link.cause.status ? "out of order" : "disconnected"),
    session.actor && session.authentication !== "none" ? h("div", { class: "who" }, h("span", { class: "cut", title: session.roles.join(", ") }, session.actor), session.namespace && session.namespace !== EVERY_NAMESPACE ? dim(session.namespace) : null, button({ class: "quiet small", onclick: () => signOut().catch((refusal) => app.announce(refusal.message)) }, "Sign out")) : null,
    namespaces(),
    themes(),
    button({ class: "quiet small", "aria-pressed": String(isUtcShown()), title: isUtcShown() ? "Times are those of UTC; press for those of this place" : "Times are those of this place; press for UTC", onclick: () => { showUtc(!isUtcShown()); own.key = ""; openRoute(); } }, `Times: ${zone(app.now)}`),
    button({ class: "quiet small", onclick: () => { own.isHelpOpen = true; app.render(); } }, "Keys", h("kbd", null, "?")));
}

const theme = () => document.documentElement.dataset.theme || "system";

function themes() {
  const set = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
    try { localStorage.setItem("goalmill.theme", name); } catch { /* storage may be off */ }
    app.render();
  };
  return h("div", { class: "themes", role: "group", "aria-label": "Theme" }, [["system", "system"], ["light", "sun"], ["dark", "moon"]].map(([name, sign]) => button({ key: name, class: "quiet icon-button", "aria-pressed": String(theme() === name), "aria-label": `${name} theme`, title: `${name} theme`, onclick: () => set(name) }, icon(sign))));
}

function disconnected() {
  if (link.isUp) return null;
  return h("div", { class: "notice warn banner", role: "status" }, icon("retrying"), h("p", null, h("strong", null, link.cause.status ? link.cause.title : "Disconnected."), link.cause.status ? ` ${capital(reason(link.cause))}, for ${duration(app.now - link.since)} so far.` : ` The scheduler has not answered for ${duration(app.now - link.since)}.`, " What you see is from before; it goes on by itself when that is over."));
}

/** Why signing in at the provider failed, by the word in the address. */
const SIGN_IN_FAILURES = {
  denied: "The provider did not let you in.",
  expired: "This sign-in was begun elsewhere, or too long ago. Begin again.",
  invalid: "What the provider answered does not count here. An administrator finds the reason in the scheduler's log.",
  no_role: "You are known, but have no role here. Ask an administrator for one.",
  unavailable: "The provider does not answer. Try again later.",
  limited: "Too many sign-ins from your address failed. Wait a minute.",
};

/** Asks once how people may sign in. */
function loadProvider() {
  if (own.provider !== undefined) return;
  own.provider = null;
  get("/v1/session/methods").then((methods) => { own.provider = methods?.provider || null; app.render(); }).catch(() => { own.provider = undefined; });
}

function providerView() {
  if (!own.provider) return null;
  const failure = app.route && app.route.path[0] === "sign-in" ? SIGN_IN_FAILURES[app.route.params.get("failure")] : null;
  return h("div", { class: "provider" }, failure ? h("div", { class: "notice bad", role: "alert" }, h("p", null, failure)) : null,
    h("a", { class: "button primary", href: "v1/session/oidc/start" }, `Sign in with ${own.provider.name}`));
}

function signInView() {
  const submit = async (event) => {
    event.preventDefault();
    own.isSigningIn = true;
    own.signInRefusal = null;
    app.render();
    try { await signIn(own.token.trim()); own.token = ""; if (app.route.path[0] === "sign-in") app.go("#/plans"); openRoute(); } catch (refusal) { own.signInRefusal = refusal; }
    own.isSigningIn = false;
    app.render();
  };
  return h("main", { class: "alone", id: "main" }, h("form", { class: "card", onsubmit: submit }, brand(), h("h1", { id: "title", tabindex: "-1" }, "Sign in"), session.state === "expired" ? h("div", { class: "notice", role: "status" }, h("p", null, `The session of ${session.actor} has ended. What you typed is kept: sign in again to go on.`)) : null, providerView(), h("p", { class: "dim" }, own.provider ? "Or paste a token that an administrator made for you. It stays in a cookie that scripts cannot read." : "Paste the token that an administrator made for you. It stays in a cookie that scripts cannot read."),
    field("Token", h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, value: own.token, oninput: (event) => { own.token = event.target.value; } })),
    own.signInRefusal ? h("div", { class: "notice bad", role: "alert" }, h("p", null, own.signInRefusal.status === 401 ? "The token is not valid, or has expired." : own.signInRefusal.message)) : null,
    h("button", { type: "submit", class: own.provider ? "" : "primary", disabled: own.isSigningIn }, own.isSigningIn ? "Signing in …" : own.provider ? "Sign in with a token" : "Sign in"),
    commands("", curl("POST", "/v1/session", { token: "…" }))));
}

const KEYS = [["g then p a i n l c h", "Plans, approvals, waits, new, stored plans, compare, history"], ["g then t w q d e s k", "Agents, workers, queues, dead letters, events, statistics, tokens"], ["/", "Search or filter"], ["j k", "Next and previous row or step"], ["Enter", "Open"], ["Esc", "Close"], ["f", "Plan: first failure"], ["t", "Plan: between graph and timeline"], ["p", "Plan: pause live updates"], ["[ ]", "Plan: one event back, forth"], ["arrows", "Graph: follow edges"], ["?", "This list"]];

const areKeysOn = () => { try { return localStorage.getItem("goalmill.keys") !== "off"; } catch { return true; } };

function help() {
  if (!own.isHelpOpen) return null;
  const close = (event) => { if (event) event.preventDefault(); own.isHelpOpen = false; app.render(); };
  return h("dialog", { class: "dialog", key: "help", "aria-labelledby": "help-title", oncancel: close, ref: (el) => queueMicrotask(() => openDialog(el)) },
    h("header", null, h("h2", { id: "help-title" }, "Keys"), button({ class: "quiet icon-button", "aria-label": "Close", onclick: () => close() }, icon("close"))),
    h("dl", { class: "keys" }, KEYS.map(([key, text]) => h("div", { key }, h("dt", null, h("kbd", null, key)), h("dd", null, text)))),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: areKeysOn(), onchange: (event) => { try { localStorage.setItem("goalmill.keys", event.target.checked ? "on" : "off"); } catch { /* storage may be off */ } app.render(); } }), " Single-letter keys"));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isDialogOpen() || own.isHelpOpen || session.state !== "in") return;
  const target = event.target;
  const isTyping = target.closest?.("input:not([type=range]), textarea, select, [contenteditable]");
  if (isTyping) { if (event.key === "Escape") target.blur(); return; }
  if (event.key.length === 1 && !areKeysOn() && event.key !== "?") return;
  if (own.prefix === "g") {
    own.prefix = "";
    const found = NAVIGATION.flat().filter(isOffered).find((one) => one[3] === `g ${event.key}`);
    if (found) { event.preventDefault(); app.go(`#/${found[0]}`); }
    return;
  }
  if (event.key === "g") { own.prefix = "g"; setTimeout(() => { own.prefix = ""; }, 1_500); return; }
  if (event.key === "?") { event.preventDefault(); own.isHelpOpen = true; return app.render(); }
  if (event.key === "/") { event.preventDefault(); return focusSearch(); }
  if (own.screen?.keys?.(event)) { if (event.key !== "Enter") event.preventDefault(); return; }
  if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
}

/** The focus goes to the search of the screen, which a screen may have to show first. */
function focusSearch() {
  own.screen?.showSearch?.();
  app.render();
  afterDrawing(() => find("main input[type=search], main textarea")?.focus());
}

/** Forgets what a person saw and typed. */
function leave() {
  if (own.waiting) own.waiting.close();
  if (own.screen?.close) own.screen.close();
  if (own.owner) forgetAll();
  closeDialog();
  own.kept.clear();
  Object.assign(own, { waiting: null, screen: null, key: "", query: "", owner: "" });
}

/** Moves the focus among the rows of the screen's list. */
function moveRow(by) {
  const rows = findAll("main tbody th a, main tbody th button, main .cards > li a");
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + by))].focus();
}

window.addEventListener("hashchange", openRoute);
document.addEventListener("keydown", onKey);
window.addEventListener("resize", () => app.render());
onChange(() => {
  if (session.state === "in") {
    const owner = `${session.actor} ${session.namespace} ${session.roles}`;
    if (own.owner && own.owner !== owner) leave();
    if (!own.owner) { const address = restore(); if (address) app.go(address); }
    own.owner = owner;
    if (!own.waiting && canRead()) own.waiting = inbox(() => app.render());
    if (!own.screen) openRoute();
  } else if (session.state !== "unreachable") {
    loadProvider();
    if (session.state === "out") leave();
  }
  app.render();
});
app.inbox = () => own.waiting;
setInterval(() => { if (!document.hidden) app.render(); }, 10_000);
setInterval(() => { if (session.state === "unreachable" && !document.hidden) loadSession(); }, 2_000);
app.route = parseRoute();
app.render();
loadSession();
