// What was typed and is not sent: kept when a session ends and over a reload, for the same person in the same tab.

import { session } from "./api.js";

const KEY = "goalmill.drafts";
const drafts = new Map();
export const owner = () => `${session.actor} ${session.namespace}`;

/** What was kept under a name. */
export const draft = (name) => drafts.get(name);

/** Keeps a value, or forgets it without one. */
export function keep(name, value) { if (value === undefined) drafts.delete(name); else drafts.set(name, value); }

const memories = [];
/** `forget` runs when a person leaves: for what else is kept of what was seen. */
export function onForget(forget) { memories.push(forget); }

export function forgetAll() {
  drafts.clear();
  for (const forget of memories) forget();
  try { sessionStorage.removeItem(KEY); } catch { /* storage may be off */ }
}

/** Takes back what the same person typed before the page was left; gives the address that an ended session was at. */
export function restore() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY));
    sessionStorage.removeItem(KEY);
    if (!kept || kept.owner !== owner()) return "";
    for (const [name, value] of kept.drafts) if (!drafts.has(name)) drafts.set(name, value);
    return kept.address;
  } catch { return ""; }
}

window.addEventListener("pagehide", () => {
  if (!drafts.size || !["in", "expired"].includes(session.state)) return;
  try { sessionStorage.setItem(KEY, JSON.stringify({ owner: owner(), drafts: [...drafts], address: session.state === "expired" ? location.hash : "" })); } catch { /* storage may be off or full */ }
});
