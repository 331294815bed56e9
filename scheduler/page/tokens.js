// Tokens: who may use the API, without the secrets; a new one is shown once.

import { h } from "./dom.js";
import { canShared, EVERY_NAMESPACE, poll, post, remove, session } from "./api.js";
import { ask } from "./actions.js";
import { onForget } from "./drafts.js";
import { app, button, cell, commands, copyButton, curl, dim, empty, figure, forbidden, pageHead, rowHead, searchBox, skeleton, table, time, trouble } from "./parts.js";
import { DAY_MS, number, parseTime, plural, quote } from "./format.js";

const ROLES = ["viewer", "submitter", "approver", "operator", "admin", "scaler"];
const TIMES = [["30 days", 30], ["1 day", 1], ["90 days", 90], ["1 year", 365], ["no end", 0]];
const POLL_MS = 15_000;
const ROWS_MAX = 500;

/** The new token, until a person has it or leaves the screen; it outlasts a switch of times or namespace. */
let newToken = null;
onForget(() => { newToken = null; });

/** Whether the person may see tokens, which are those of all namespaces. */
export const mayManage = () => canShared("admin");

export function tokensScreen() {
  const list = mayManage() ? poll("/v1/tokens", POLL_MS, () => app.render()) : null;
  return {
    title: () => "Tokens",
    close: () => { list?.close(); if (app.route.path[0] !== "tokens") newToken = null; },
    view: () => [pageHead("Tokens", list ? button({ class: "primary", onclick: () => ask(creation((made) => { newToken = made; list.refresh(); app.render(); })) }, "New token …") : null),
      list ? [newTokenPart(), trouble(list.refusal, list.refresh), list.value ? tokenTable(list.value.items, list.refresh) : list.refusal ? null : skeleton(5)] : forbidden("it needs the role `admin` for all namespaces")],
  };
}

/** The text of a new token: it is stored nowhere. */
function newTokenPart() {
  if (!newToken) return null;
  const { actor, token } = newToken;
  return h("section", { class: "notice warn", "aria-label": "The new token" },
    h("p", null, h("strong", { role: "status" }, `The token of ${actor} is shown this once.`), " Keep it where only its owner reads it. It stays here until you press I have it, leave this screen or load the page again."), h("pre", { class: "token", tabindex: "0" }, token),
    h("div", { class: "buttons" }, copyButton(token, "Copy the token"), button({ onclick: () => { newToken = null; app.render(); } }, "I have it")));
}

function tokenTable(items, then) {
  if (!items.length) return empty("No token yet", session.authentication === "none" ? "This API asks nobody for a token: everyone who reaches it may do everything." : "People and programs sign in with tokens.", commands("goalmill token create ann --role viewer", curl("POST", "/v1/tokens", { actor: "ann", roles: ["viewer"] })));
  const text = (app.route.params.get("q") || "").trim().toLowerCase();
  const found = items.filter((one) => !text || `${one.actor} ${one.id} ${one.namespace} ${one.roles.join(" ")}`.toLowerCase().includes(text));
  return [
    h("div", { class: "filters" }, searchBox("Name, role or namespace", app.route.params.get("q") || "", (q) => { app.replace({ q: q || null }); app.render(); }), h("span", { class: "dim num" }, plural(found.length, "token"))),
    found.length ? table("Tokens", ["Token", "Roles", "Namespace", { text: "Created", num: true }, { text: "Used", num: true }, { text: "Expires", num: true }, { text: "Actions", isHidden: true }], found.slice(0, ROWS_MAX).map((one) => h("tr", { key: one.id },
      rowHead(h("span", { class: "strong" }, one.actor), h("div", { class: "dim id" }, one.id)),
      cell(one.roles.map((role) => h("span", { key: role, class: "tag" }, role))), cell(one.namespace === EVERY_NAMESPACE ? "all" : one.namespace),
      figure(time(one.created_at)), figure(one.last_used_at ? time(one.last_used_at) : dim("never")),
      figure(one.expires_at ? (parseTime(one.expires_at) < app.now ? h("span", { class: "failure" }, "expired ", time(one.expires_at)) : time(one.expires_at)) : dim("no end")),
      cell(button({ class: "danger-quiet small", "aria-label": `Revoke the token of ${one.actor}, ${one.id} …`, onclick: () => ask(revocation(one, then)) }, "Revoke …"))))) : empty("Nothing matches"),
    found.length > ROWS_MAX ? dim(`and ${number(found.length - ROWS_MAX)} more: search for them`) : null,
    commands("goalmill token list", curl("GET", "/v1/tokens"))];
}

const tokenPath = (token) => `/v1/tokens/${encodeURIComponent(token.id)}`;

const revocation = (token, then) => ({
  title: "Revoke the token", verb: "Revoke", isDangerous: true, then, request: () => ({ method: "DELETE", path: tokenPath(token) }),
  text: `From the next request on, nobody gets in with the token ${token.id} of ${token.actor}, which has the ${token.roles.length === 1 ? "role" : "roles"} ${token.roles.join(", ")}.`, cli: () => `goalmill token revoke ${token.id}`,
  perform: () => remove(tokenPath(token)),
});

/** A form with a field for each part of a token. */
function creation(then) {
  const daysOf = (values) => Number(TIMES.find(([text]) => text === values.time)?.[1] || 0);
  const body = (values) => {
    const days = daysOf(values);
    return { actor: values.actor.trim(), roles: ROLES.filter((role) => values.roles.split(",").includes(role)), namespace: values.namespace.trim() || "default", ...(days ? { ttl_ms: days * DAY_MS } : {}) };
  };
  return {
    title: "New token", verb: "Create", text: "Its text is shown once, after this.", then,
    fields: [
      { name: "actor", label: "Name of the caller", required: true, pointer: "/actor", hint: "An id such as ann or ci:nightly; it stands in logs" },
      { name: "roles", label: "Roles", type: "checks", choices: ROLES, value: "viewer", required: true, pointer: "/roles" },
      { name: "namespace", label: "Namespace", value: session.namespace === EVERY_NAMESPACE ? session.selected || "default" : session.namespace || "default", pointer: "/namespace", hint: "* is all of them" },
      { name: "time", label: "Valid for", options: TIMES.map(([text]) => text), value: TIMES[0][0], required: true, pointer: "/ttl_ms" },
    ],
    request: (values) => ({ path: "/v1/tokens", body: body(values) }),
    cli: (values) => { const { actor, roles, namespace } = body(values), days = daysOf(values); return `goalmill token create ${quote(actor || "NAME")}${roles.map((role) => ` --role ${role}`).join("")} --scope ${quote(namespace)}${days ? ` --ttl ${days}d` : ""}`; },
    perform: (values) => post("/v1/tokens", body(values)),
  };
}
