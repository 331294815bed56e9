// Calls of the HTTP API, the session, and what is followed live.

/** A refusal of the API, or a request that did not come through. */
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || "the request failed");
    this.status = status;
    this.code = problem.code || "";
    this.title = problem.title || "";
    // The title and the detail may say the same.
    const repeats = this.title && this.message.toLowerCase().startsWith(this.title.toLowerCase());
    this.more = repeats ? this.message.slice(this.title.length).replace(/^[\s:.,;]+/, "") : this.message;
    this.errors = Array.isArray(problem.errors) ? problem.errors : [];
  }
}

/** The namespace of a person who may see all of them. */
export const EVERY_NAMESPACE = "*";

/** `selected` limits such a person to one namespace; `namespaces` are those that were seen. */
export const session = { state: "unknown", actor: "", namespace: "", roles: [], authentication: "", csrf: "", selected: "", namespaces: new Set() };

export const isNamespace = (name) => /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(name);
export function selectNamespace(name) { session.selected = name; }

/** What a request says of the namespace that is selected. */
const namespaceHeaders = (path) => (session.selected && session.namespace === EVERY_NAMESPACE && !path.startsWith("/v1/session") ? { "Goalmill-Namespace": session.selected } : {});

/** Remembers the namespaces of plans, for the choice among them. */
function noteNamespaces(value) {
  if (!value || session.namespaces.size >= 500) return;
  for (const one of Array.isArray(value.items) ? value.items : [value]) if (one?.plan_id && one.counts) session.namespaces.add(one.namespace || "default");
}

/** Whether the scheduler answers and can work, or why not; screens keep what they show while it cannot. */
export const link = { isUp: true, since: 0, cause: null };

let changed = () => {};
/** Calls `listener` when the session or the connection changes. */
export function onChange(listener) { changed = listener; }

function setLink(cause) {
  if (link.cause?.message === cause?.message) return;
  if (link.isUp !== !cause) link.since = Date.now();
  Object.assign(link, { isUp: !cause, cause });
  changed();
  if (!cause) wake();
}

const DISCONNECTED = { code: "DISCONNECTED", detail: "the scheduler does not answer" };
const READY_MS = 2_000;
let isAsking = false;

/** A request may fail alone: `/readyz` knows whether all do, and why. It is asked until it is well again. */
async function askReady() {
  if (isAsking) return;
  isAsking = true;
  try {
    const response = await fetch("readyz", { cache: "no-store" });
    setLink(response.ok ? null : new Refusal(response.status, await problemOf(response)));
  } catch { setLink(new Refusal(0, DISCONNECTED)); }
  isAsking = false;
  if (link.cause?.status) setTimeout(askReady, READY_MS);
}

async function problemOf(response) {
  let value = null;
  try { value = await response.json(); } catch { /* a proxy's page */ }
  return value && typeof value === "object" ? value : { title: "The scheduler does not answer.", detail: `${location.host} says ${response.status} ${response.statusText}` };
}

/** Whether a refusal says no more than the frame does: that nothing can be had now. */
export const isOutage = (refusal) => refusal.status === 0 || (!link.isUp && refusal.status > 500);

/** What is read now and then is read now. */
function wake() { document.dispatchEvent(new Event("visibilitychange")); }

/** Answers that the scheduler gave a tag, so that it need not send them again; the newest last. */
const copies = new Map();
const COPIES_MAX = 20;

function keepCopy(key, tag, value) {
  copies.delete(key);
  copies.set(key, { tag, value });
  if (copies.size > COPIES_MAX) copies.delete(copies.keys().next().value);
}

/** Relative to the page, which may be served below a path. */
const fetchPath = (path) => path.replace(/^\//, "");

async function send(method, path, body, headers) {
  const own = { Accept: "application/json", ...namespaceHeaders(path), ...headers };
  if (body !== undefined && !own["Content-Type"]) own["Content-Type"] = "application/json";
  if (method !== "GET" && session.csrf) own["X-CSRF-Token"] = session.csrf;
  const key = method === "GET" ? `${session.selected} ${path}` : "";
  const copy = copies.get(key);
  if (copy) own["If-None-Match"] = copy.tag;
  let response;
  try {
    response = await fetch(fetchPath(path), {
      method, headers: own, cache: "no-store", credentials: "same-origin",
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
  } catch {
    setLink(new Refusal(0, DISCONNECTED));
    throw link.cause;
  }
  if (link.cause?.status === 0) setLink(null);
  if (response.status === 304 && copy) {
    keepCopy(key, copy.tag, copy.value);
    return copy.value;
  }
  if (response.ok) {
    const text = await response.text();
    const value = text ? JSON.parse(text) : null;
    noteNamespaces(value);
    if (key && response.headers.get("ETag")) keepCopy(key, response.headers.get("ETag"), value);
    return value;
  }
  if (response.status > 501) await askReady();
  if (response.status === 401 && !path.startsWith("/v1/session")) expire();
  throw new Refusal(response.status, await problemOf(response));
}

/** The session has ended by itself; what was typed is kept for the one that signs in again. */
function expire() {
  if (session.state !== "in") return;
  session.state = "expired";
  changed();
}

/** The address of a plan. */
export const planPath = (plan) => `/v1/plans/${encodeURIComponent(plan)}`;

export const get = (path) => send("GET", path);
export const post = (path, body, headers) => send("POST", path, body === undefined ? {} : body, headers);

export const remove = (path) => send("DELETE", path);

const ALL_ROLES = ["viewer", "submitter", "approver", "operator", "admin"];

function takeSession(answer) {
  copies.clear();
  Object.assign(session, { state: "in", csrf: "", authentication: "", namespace: "", actor: "", namespaces: new Set() }, answer);
  if (session.namespace !== EVERY_NAMESPACE) session.selected = "";
  session.roles = Array.isArray(answer.roles) ? answer.roles.map(String) : ALL_ROLES;
}

/** Asks who is signed in. An API without sign-in gives everybody all roles. */
export async function loadSession() {
  try {
    takeSession(await send("GET", "/v1/session"));
  } catch (refusal) {
    if (refusal.status === 404) takeSession({ roles: ALL_ROLES, authentication: "none" });
    else if (refusal.status === 401) session.state = "out";
    else session.state = "unreachable";
    session.refusal = refusal;
  }
  changed();
}

export async function signIn(token) {
  takeSession(await send("POST", "/v1/session", { token }));
  changed();
  wake();
}

export async function signOut() {
  await send("DELETE", "/v1/session");
  Object.assign(session, { state: "out", csrf: "", actor: "", roles: [], selected: "" });
  changed();
}

/** Whether the signed-in person has one of these roles. */
export const can = (...roles) => session.roles.includes("admin") || roles.some((role) => session.roles.includes(role));

/** The same for what all namespaces share, which only people of all of them may change. */
export const canShared = (role) => can(role) && session.namespace === EVERY_NAMESPACE;

/** Whether the signed-in person may read plans. */
export const canRead = () => can("viewer", "submitter", "approver", "operator");

/** After so long without a hand on the page, what does not change is read less often. */
const IDLE_MS = 60_000;
const IDLE_TIMES = 4;
let touchedMs = Date.now();
for (const type of ["pointermove", "pointerdown", "keydown", "wheel"]) document.addEventListener(type, () => { if (Date.now() - touchedMs > IDLE_MS) wake(); touchedMs = Date.now(); }, { passive: true, capture: true });

/**
 * Reads `path` now and then while the tab is visible.
 *
 * - `path`: or a function that gives the path, or a promise of the value; `ms`: or a function; 0 reads once.
 *
 * Gives `{value, refusal, isLoading, refresh, close}`; an old value stays when a later read fails. What is forbidden is not
 * asked for again.
 */
export function poll(path, ms, onUpdate) {
  const state = { value: null, refusal: null, isLoading: true, text: "" };
  let timer = 0, isClosed = false, round = 0, changedMs = 0;
  const read = async () => {
    clearTimeout(timer);
    const own = ++round;
    const asked = typeof path === "function" ? path() : path;
    try {
      const value = await (typeof asked === "string" ? get(asked) : asked);
      if (isClosed || own !== round) return;
      const text = JSON.stringify(value);
      const isSame = text === state.text && !state.refusal && !state.isLoading;
      Object.assign(state, { value: isSame ? state.value : value, refusal: null, isLoading: false, text });
      if (!isSame) changedMs = Date.now();
      if (!isSame) onUpdate();
    } catch (refusal) {
      if (isClosed || own !== round) return;
      Object.assign(state, { refusal, isLoading: false });
      onUpdate();
    }
    schedule();
  };
  const schedule = () => {
    const isIdle = Date.now() - Math.max(touchedMs, changedMs) > IDLE_MS;
    const wait = (typeof ms === "function" ? ms() : ms) * (isIdle ? IDLE_TIMES : 1);
    if (mayRead() && wait) timer = setTimeout(read, link.isUp ? wait : Math.min(10_000, wait * 2));
  };
  const mayRead = () => !isClosed && !document.hidden && session.state === "in" && state.refusal?.status !== 403;
  const onWake = () => { if (mayRead()) read(); };
  document.addEventListener("visibilitychange", onWake);
  read();
  state.refresh = read;
  state.close = () => {
    isClosed = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onWake);
  };
  return state;
}

/** Follows the log of a plan from event `after` on; resumes where it stopped, also after the scheduler restarts. */
export function follow(plan, after, onEvents, onState) {
  const state = { after, connection: "connecting", isClosed: false };
  let abort = null, waitMs = 500, timer = 0;
  const setConnection = (connection) => {
    if (state.connection === connection) return;
    state.connection = connection;
    onState(connection);
  };
  const run = async () => {
    abort = new AbortController();
    try {
      const response = await fetch(fetchPath(`${planPath(plan)}/events`), {
        headers: { Accept: "text/event-stream", "Last-Event-ID": String(state.after), ...namespaceHeaders("") },
        cache: "no-store", credentials: "same-origin", signal: abort.signal,
      });
      if (link.cause?.status === 0) setLink(null);
      if (response.status === 204) return setConnection("ended");
      if (response.status === 401) { setConnection("paused"); return expire(); }
      if ([403, 404].includes(response.status)) return setConnection("refused");
      if (!response.ok) throw new Error(String(response.status));
      setConnection("live");
      waitMs = 500;
      await readStream(response.body, (event) => {
        if (event.seq <= state.after) return;
        state.after = event.seq;
        onEvents(event);
      });
      if (!state.isClosed) throw new Error("the stream has ended");
    } catch (error) {
      if (state.isClosed || error.name === "AbortError") return;
      if (error instanceof TypeError) setLink(new Refusal(0, DISCONNECTED));
      setConnection("reconnecting");
      timer = setTimeout(run, waitMs * (0.75 + Math.random() / 2));
      waitMs = Math.min(waitMs * 2, 8_000);
    }
  };
  const stop = () => { clearTimeout(timer); if (abort) abort.abort(); };
  const onVisibility = () => {
    if (state.isClosed || ["ended", "refused"].includes(state.connection)) return;
    if (document.hidden) { stop(); setConnection("paused"); }
    else if (state.connection === "paused") { setConnection("connecting"); run(); }
  };
  document.addEventListener("visibilitychange", onVisibility);
  run();
  state.pause = () => { stop(); setConnection("held"); };
  state.resume = () => { if (state.connection === "held") { setConnection("connecting"); run(); } };
  state.close = () => {
    state.isClosed = true;
    stop();
    document.removeEventListener("visibilitychange", onVisibility);
  };
  return state;
}

async function readStream(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const lines = rest.slice(0, end).split("\n");
      rest = rest.slice(end + 2);
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, "")).join("\n");
      if (data) onEvent(JSON.parse(data));
    }
  }
}

/** All events of a plan, page by page. */
export async function loadEvents(plan, after, onPage) {
  for (;;) {
    const page = await get(`${planPath(plan)}/events?limit=1000&after=${after}`);
    onPage(page.items);
    if (!page.next) return;
    after = Number(page.next);
  }
}
